"""Tests of `functrace.torch`."""
