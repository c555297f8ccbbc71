"""Scripts that run on the real PyTorch and on `functrace.torch`, and must log the same lines."""
