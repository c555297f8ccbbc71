"""Tests of `functrace.save` and `functrace.load`."""
