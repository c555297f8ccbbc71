"""Parallel execution: the thread pool, and kernels that divide large operations among its threads.

Layer: 7.
"""
