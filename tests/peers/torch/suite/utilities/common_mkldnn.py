"""Precisions of oneDNN: tests run in one."""

from .decorators import unchanged

bf32_on_and_off = reduced_f32_on_and_off = unchanged
