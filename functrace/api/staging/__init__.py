"""Staging: record a function once per signature, compile it, and look it up at later calls.

* jitted.py: `jit`
* disabling.py: `disable_jit`

Layer: 8.
"""
