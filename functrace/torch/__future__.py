"""``torch.__future__``: switches of `Module` conversions.

Layer: 9.
"""

from functrace.errors import UnsupportedFunctionError

_overwrite = [False]


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Set whether conversions of a module replace its parameters, rather than their memory."""
    _overwrite[0] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return whether conversions of a module replace its parameters."""
    return _overwrite[0]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Refuse True: tensors cannot be swapped.

    Raises:
        UnsupportedFunctionError: for True.
    """
    if value:
        raise UnsupportedFunctionError(
            "functrace.torch cannot swap tensors",
            fix="use torch.__future__.set_overwrite_module_params_on_conversion",
        )


def get_swap_module_params_on_conversion() -> bool:
    """Return False."""
    return False
