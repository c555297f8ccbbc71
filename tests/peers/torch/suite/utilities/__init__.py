"""Test utilities in place of ``torch.testing._internal``, for both sides of `tests.peers.torch.suite`.

They know one device, the CPU; decorators that choose devices and builds leave tests unchanged.
"""
