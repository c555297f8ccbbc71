"""Tests of `functrace.torch.utils`."""
