"""``torch.__future__``: switches of `Module` conversions.

Layer: 9.
"""

_overwrite = [False]
_swap = [False]


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Set whether conversions of a module replace its parameters, rather than their memory."""
    _overwrite[0] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return whether conversions of a module replace its parameters."""
    return _overwrite[0]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Set whether conversions of a module, and ``load_state_dict``, swap its parameters with the
    new ones (`functrace.torch.utils.swap_tensors`), rather than copy into them.
    """
    _swap[0] = value


def get_swap_module_params_on_conversion() -> bool:
    """Return whether conversions of a module swap its parameters."""
    return _swap[0]
