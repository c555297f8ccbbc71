"""Code generation of the NumPy backend: a plan becomes Python source over bound NumPy functions.

Start at `functrace.executor.codegen.numpy_source`.

Layer: 7.
"""
