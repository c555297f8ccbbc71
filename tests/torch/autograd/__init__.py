"""Tests of `functrace.torch.autograd`."""
