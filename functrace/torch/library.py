"""``torch.library``: custom operators of PyTorch's dispatcher, which are refused.

Layer: 9.
"""

from __future__ import annotations

from typing import NoReturn

from functrace.errors import UnsupportedFunctionError

__all__ = ["Library", "custom_op", "register_autograd", "register_fake", "triton_op"]


def _refuse(name: str) -> NoReturn:
    raise UnsupportedFunctionError(
        f"functrace.torch has no torch.library.{name}: there is no dispatcher to register with",
        fix="write a torch.autograd.Function, or use functrace.primitive",
    )


class Library:
    """A namespace of operators: refused."""

    def __new__(cls, *_arguments: object, **_options: object) -> NoReturn:
        """Raise."""
        _refuse("Library")


def custom_op(name: str, *_arguments: object, **_options: object) -> NoReturn:
    """Raise."""
    _refuse("custom_op")


def triton_op(name: str, *_arguments: object, **_options: object) -> NoReturn:
    """Raise."""
    _refuse("triton_op")


def register_autograd(op: object, *_arguments: object, **_options: object) -> NoReturn:
    """Raise."""
    _refuse("register_autograd")


def register_fake(op: object, *_arguments: object, **_options: object) -> NoReturn:
    """Raise."""
    _refuse("register_fake")
