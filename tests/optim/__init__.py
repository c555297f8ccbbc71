"""Tests of `functrace.optim`."""
