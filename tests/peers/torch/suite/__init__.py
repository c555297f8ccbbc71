"""PyTorch's own test files, run on functrace.torch and on PyTorch: see `__main__`."""
