"""Parallel execution: kernels that divide large operations among the threads of `functrace.threads`.

Layer: 7.
"""
