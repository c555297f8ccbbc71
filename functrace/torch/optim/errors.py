"""Messages of optimizers and schedulers.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

# -- optimizers ------------------------------------------------------------------------------------

LR_ELEMENTS = "Tensor lr must be 1-element"
NO_PARAMS = "optimizer got an empty parameter list"
LOADED_GROUPS = "loaded state dict has a different number of parameter groups"
LOADED_PARAMS = (
    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
)
PARAMS_SET = (
    "optimizer parameters need to be organized in ordered collections, but the ordering of tensors "
    "in sets will change between runs. Please use a list instead."
)
PARAM_NAMES = "all optimizer params should be with/without names. Some param names are missing"
PARAM_NON_LEAF = "can't optimize a non-leaf Tensor"
DUPLICATE_PARAMS = (
    "optimizer contains a parameter group with duplicate parameters; "
    "in future, this will cause an error; "
    "see github.com/pytorch/pytorch/issues/40967 for more information"
)
PARAM_IN_TWO_GROUPS = "some parameters appear in more than one parameter group"
FUSED_DIFFERENTIABLE = "`fused` does not support `differentiable`"
FUSED_FOREACH = "`fused` and `foreach` cannot be `True` together."
NESTEROV = "Nesterov momentum requires a momentum and zero dampening"
BETAS_KINDS = "betas must be either both floats or both Tensors"
TENSOR_LR_FOREACH = "lr as a Tensor is not supported for capturable=False and foreach=True"
STEP_REQUIRES_GRAD = "`requires_grad` is not supported for `step` in differentiable mode"
FUSED_DTYPE = (
    "`fused=True` requires all the params to be floating point Tensors of supported devices: "
    "['mps', 'cuda', 'xpu', 'hpu', 'cpu', 'mtia', 'privateuseone'] but {} and cpu"
)
LBFGS_GROUPS = "LBFGS doesn't support per-parameter options (parameter groups)"
LBFGS_SEARCH = "only 'strong_wolfe' is supported"
ADAFACTOR_COMPLEX = "Adafactor does not support complex parameters"
MUON_COMPLEX = "Muon does not support complex parameters"
SPARSE_ADAM_DENSE = "SparseAdam does not support dense gradients, please consider Adam instead"


def params_type(kind: str) -> str:
    """Return the message for a tensor in place of parameters."""
    return (
        "params argument given to the optimizer should be an iterable of Tensors or dicts, but "
        f"got {kind}"
    )


def param_type(kind: str) -> str:
    """Return the message for a parameter that is no tensor."""
    return f"optimizer can only optimize Tensors, but one of the params is {kind}"


def required_setting(name: str) -> str:
    """Return the message for a group without a setting that has no default."""
    return f"parameter group didn't specify a value of required optimization parameter {name}"


def group_names(named: bool) -> str:
    """Return the message for a group with names beside groups without, or the reverse."""
    kind = "with names" if named else "without names"
    return (
        "all optimizer param groups should be with/without names. "
        f"cannot add param group {kind} to the optimizer"
    )


def step_hook_result(function: Any, result: Any) -> str:
    """Return the message for the result of a hook before a step."""
    return f"{function} must return None or a tuple of (new_args, new_kwargs), but got {result}."


def capturable(tensors: str, *, xla: bool) -> str:
    """Return the message for ``capturable=True`` on a CPU."""
    supported = ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if xla else [])]
    return f"If capturable=True, {tensors} must be on supported devices: {supported}."


def muon_size(shape: Any) -> str:
    """Return the message for a parameter of Muon that is no matrix."""
    return f"Muon only supports 2D parameters whereas we found a parameter with size: {shape}"


# -- schedulers ------------------------------------------------------------------------------------

EPOCH = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, where "
    "available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
LAST_LR = "To get the last learning rate computed by the scheduler, please use `get_last_lr()`."
STEP_OVERRIDDEN = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
    "initialization. Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. "
    "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)
STEP_ORDER = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. "
    "In PyTorch 1.1.0 and later, you should call them in the opposite order: "
    "`optimizer.step()` before `lr_scheduler.step()`.  Failure to do this "
    "will result in PyTorch skipping the first value of the learning rate schedule. "
    "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)
CONSTANT_FACTOR = "Constant multiplicative factor expected to be between 0 and 1."
START_FACTOR = (
    "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
)
END_FACTOR = "Ending multiplicative factor expected to be between 0 and 1."
CYCLE_MODE = "mode is invalid and scale_fn is None"
CYCLE_MOMENTUM = "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
CYCLE_STEPS = "You must define either total_steps OR (epochs AND steps_per_epoch)"
PLATEAU_FACTOR = "Factor should be < 1.0."
AVERAGE_FUNCTIONS = "Only one of avg_fn and multi_avg_fn should be provided"


def initial_lr(group: int) -> str:
    """Return the message for a group that has no first learning rate to go on from."""
    return (
        f"param 'initial_lr' is not specified in param_groups[{group}] when resuming scheduler with last_epoch >= 0.\n"
        "This typically happens when:\n"
        "1. You're trying to resume training from a checkpoint but haven't properly loaded the optimizer state\n"
        "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
    )


def setting_length(name: str, given: int, groups: int) -> str:
    """Return the message for a list that has not one value for each group."""
    return (
        f"{name} must have the same length as optimizer.param_groups. "
        f"{name} has {given} values, param_groups has {groups}."
    )


def no_schedulers(kind: str, *, chained: bool) -> str:
    """Return the message for an empty list of schedulers."""
    return f"{kind} expects at least one scheduler{' to be chained' if chained else ''}, but got no scheduler."


def scheduler_without_optimizer(kind: str, k: int) -> str:
    """Return the message for something that is no scheduler."""
    return f"{kind} at index {k} should have `optimizer` as its attribute."


def plateau_combined(kind: str, k: int) -> str:
    """Return the message for `ReduceLROnPlateau` in a list of schedulers."""
    return (
        f"{kind} does not support `ReduceLROnPlateau` scheduler as it "
        "requires additional kwargs to be specified when calling `step`, "
        f"but got one at index {k} in the given schedulers sequence."
    )


def other_optimizer(kind: str, scheduler: str, k: int, theirs: Any, optimizer: str) -> str:
    """Return the message for schedulers of several optimizers."""
    return (
        f"{kind} expects all schedulers to belong to the same optimizer, but "
        f"got scheduler {scheduler} at index {k} has {theirs}, "
        f"which is different from {optimizer}."
    )


def milestones(schedulers: int, given: int) -> str:
    """Return the message for a wrong number of milestones."""
    return (
        "Sequential Schedulers expects number of schedulers provided to be one more "
        f"than the number of milestone points, but got number of schedulers {schedulers} and the "
        f"number of milestones to be equal to {given}"
    )


def plateau_groups(now: int, before: int) -> str:
    """Return the message for a group that was added to an optimizer on a plateau."""
    return (
        f"The number of param groups in the `optimizer` ({now}) differs "
        f"from when `ReduceLROnPlateau` was initialized ({before}), usually due to a new "
        "param group being added to the optimizer. Please "
        "modify the `min_lrs` field to match the length of the `optimizer` param groups."
    )
