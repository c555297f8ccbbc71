# ruff: noqa: E501 - broken where the message allows it, not at a column
"""Messages about operations, dispatch modes and modules.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence

# -- operations and dispatch modes -----------------------------------------------------------------


def no_overload(packet: str, overload: str) -> str:
    """Return the message for an overload that a name does not have."""
    return f"The underlying op of '{packet}' has no overload name '{overload}'"


def not_dispatched(overload: object, mode: object) -> str:
    """Return the message for an operation that no mode handled."""
    return (
        f"Multiple dispatch failed for 'torch._ops.{overload}'; all __torch_dispatch__ handlers "
        "returned NotImplemented:\n\n"
        f"  - mode object {mode!r}\n\nFor more information, try re-running with "
        "TORCH_LOGS=not_implemented"
    )


def dispatched_otherwise(node: str, aval: object, made: object) -> str:
    """Return the message for a mode's result that does not fit the operation's derivative."""
    return (
        f"{node}: a dispatch mode returned {made} where the operation has {aval}, so its "
        "derivative would not fit. Return that shape "
        "and dtype, or run the operation under torch.no_grad()."
    )


def no_fitting_overload(packet: str, overloads: object) -> str:
    """Return the message for arguments that fit no overload."""
    return f"{packet}: no overload takes these arguments; there are {overloads}"


def no_out_overload(name: str) -> str:
    """Return the message for ``out=`` under a mode, for a function that PyTorch composes of
    others.
    """
    return f"{name}(out=) within a dispatch mode: there is no operation of that name that writes into a tensor; use copy_"


def no_such_operation(overload: str) -> str:
    """Return the message for calling an operation that exists only by name."""
    return (
        f"{overload} is named here but cannot be called with these arguments: functrace.torch has "
        "no function for it. Within a "
        "dispatch mode it runs with the arguments that the mode was given."
    )


MODE_AMONG_TRACED = (
    "a TorchDispatchMode does not see what functrace's transforms trace: enter the mode around the "
    "transform's result, not inside, "
    "or give functrace.checkpoint a residual policy"
)


# -- modules ---------------------------------------------------------------------------------------


def hook_not_kept(hook: object) -> str:
    """Return the warning for a hook of a pickled tensor."""
    return (
        f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can "
        "decorate the function with "
        "@torch.utils.hooks.unserializable_hook to suppress this warning"
    )


def module_hook_count(hook: str, what: str, got: int, wanted: int) -> str:
    """Return the message for a module's hook that returns another number of gradients."""
    return f"{hook} returned an invalid number of {what}, got {got}, but expected {wanted}"


MODULE_HOOK_WITHOUT_INPUTS = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since "
    "no inputs require gradients. "
    "See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.register_full_backward_hook for more "
    "details."
)
MODULE_HOOK_RETURNED = "Backward hook for Modules where no input requires gradient should always return None or None for all gradients."
NO_MODELS = "stack_module_state: Expected at least one model, got 0."
MODELS_MODE = "stack_module_state: Expected all models to have the same training/eval mode."
MODELS_CLASS = "stack_module_state: Expected all models to be of the same class."


def models_requires_grad(name: str) -> str:
    """Return the message for models whose parameters differ in ``requires_grad``."""
    return f"Expected {name} from each model to have the same .requires_grad"


STATE_DICTS = "Expected all elements of parameter_and_buffer_dicts to be dictionaries"


def repeated_names(names: Sequence[str]) -> str:
    """Return the message for names that are in several dicts."""
    return (
        f"{list(names)} appeared in multiple dictionaries; behavior of functional call is ambiguous"
    )


def state_type(given: type) -> str:
    """Return the message for a module's state that is no dict."""
    return f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {given}"


def tied_values(names: Sequence[str]) -> str:
    """Return the message for tied names with different tensors."""
    return f"functional_call got multiple values for keys {list(names)}, which are tied. Consider using tie_weights=False"


def state_names(module: str, unexpected: Sequence[str], missing: Sequence[str]) -> str:
    """Return the message for unknown and for missing names."""
    parts = [("Unexpected", unexpected), ("Missing", missing)]
    lines = [f"{what} key(s): {', '.join(map(repr, names))}." for what, names in parts if names]
    return f"Error(s) in reparametrizing for {module}:\n\t" + "\n\t".join(lines)


def no_attribute(module: str, name: str) -> str:
    """Return the message for a module that does not exist."""
    return f"{module} has no attribute `{name}`"


def not_an_instance(what: object, kind: str) -> str:
    """Return the message for an object other than a module, or a tensor."""
    return f"{what} is not an instance of torch.{kind}"
