"""``torch.nn.utils.prune``: parameters with a mask of zeros.

A pruned parameter ``weight`` is ``weight_orig`` times the buffer ``weight_mask``; a hook computes it
before each call.

Layer: 9.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from functrace.torch import namespace as torch
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.utils.convert_parameters import parameters_to_vector
from functrace.torch.tensors.tensor import Tensor


class BasePruningMethod(ABC):
    """A way to choose what becomes zero; subclasses define ``compute_mask``."""

    PRUNING_TYPE: str = ""
    _tensor_name: str

    def __call__(self, module: Module, inputs: object) -> None:
        """Compute the pruned parameter."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of a tensor of scores: 0 for what becomes zero.

        Args:
            t: the scores.
            default_mask: the mask so far.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """Return the pruned parameter."""
        mask = getattr(module, f"{self._tensor_name}_mask")
        original = getattr(module, f"{self._tensor_name}_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prune a parameter, and register the hook that computes it; returns the hook.

        Args:
            module: the module, which is changed.
            name: name of the parameter.
            args: arguments of the method.
            importance_scores: scores in the place of the values.
            kwargs: keyword arguments of the method.
        """
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        before = None
        for number, hook in list(module._forward_pre_hooks.items()):
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
                before = hook
                del module._forward_pre_hooks[number]
        value = getattr(module, name)
        if importance_scores is None:
            importance_scores = value
        elif importance_scores.shape != value.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        if before is None:
            module.register_parameter(f"{name}_orig", value)
            del module._parameters[name]
            mask = torch.ones_like(value)
        else:
            container = before if isinstance(before, PruningContainer) else PruningContainer(before)
            container.add_pruning_method(method)
            method = container
            mask = getattr(module, f"{name}_mask").detach().clone()
        try:
            found = method.compute_mask(importance_scores.detach(), mask.detach())
            module.register_buffer(f"{name}_mask", found)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if before is None:
                module.register_parameter(name, module._parameters.pop(f"{name}_orig"))
            raise
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Any = None
    ) -> Tensor:
        """Return a pruned tensor.

        Args:
            t: the tensor.
            default_mask: the mask so far.
            importance_scores: scores in the place of the values.
        """
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        mask = torch.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask)

    def remove(self, module: Any) -> None:
        """Make the pruned values those of a parameter again."""
        name = self._tensor_name
        value = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        original.data = value.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods, one after the other.

    Args:
        args: the methods.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method.

        Raises:
            TypeError: if it is none.
            ValueError: if it prunes another parameter.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods = (*self._pruning_methods, method)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after the newest method, which sees what is not zero yet."""
        method: Any = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype).clone()
        n = mask.dim()
        place: Any = tuple([slice(None)] * n)
        if method.PRUNING_TYPE == "unstructured":
            place = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim + n if method.dim < 0 else method.dim
            if not 0 <= dim < n:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {n}")
            kept = default_mask.sum(dim=[k for k in range(n) if k != dim]) != 0
            place = (slice(None),) * dim + (kept,)
        elif method.PRUNING_TYPE != "global":
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        part = method.compute_mask(t[place], default_mask=default_mask[place])
        mask[place] = part.to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prune nothing."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask."""
        return default_mask


class _Amount(BasePruningMethod):
    """A method that prunes a number, or a share, of what there is.

    Args:
        amount: the number, or the share.
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, size: int) -> int:
        """Return how many of a number are pruned."""
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        return count


def _validate_pruning_amount_init(amount: object) -> None:
    """Refuse an amount that is neither a number of elements nor a share.

    Raises:
        TypeError: for an amount that is no number.
        ValueError: for a negative one, and for a share of more than one.
    """
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    value: Any = amount
    if value < 0 or (not isinstance(amount, numbers.Integral) and value > 1):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _validate_pruning_amount(amount: float, tensor_size: int) -> None:
    """Refuse a number of elements that is greater than all of them.

    Raises:
        ValueError: for such a number.
    """
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}"
        )


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """Return how many elements an amount is, which is their number or their share."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _validate_structured_pruning(t: Tensor) -> None:
    """Refuse a tensor of fewer than two axes, which has no slices.

    Raises:
        ValueError: for such a tensor.
    """
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor "
            f"of shape {t.shape} with {t.dim()} dims"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    """Refuse an axis that a tensor does not have.

    Raises:
        IndexError: for such an axis.
    """
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """Return the norm of each slice along an axis.

    Args:
        t: the tensor.
        n: order of the norm.
        dim: the axis.
    """
    axis = dim % t.dim()
    return torch.norm(t, n, [k for k in range(t.dim()) if k != axis])


class RandomUnstructured(_Amount):
    """Prune elements at random."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask."""
        count = self._count(t.numel())
        mask = default_mask.clone()
        if count:
            mask.view(-1)[torch.topk(torch.rand_like(t).view(-1), count).indices] = 0
        return mask


class L1Unstructured(_Amount):
    """Prune the elements of the least magnitude."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask."""
        count = self._count(t.numel())
        mask = default_mask.clone()
        if count:
            least = torch.topk(torch.abs(t).view(-1), count, largest=False)
            mask.view(-1)[least.indices] = 0
        return mask


class _Structured(_Amount):
    """A method that prunes whole slices along an axis."""

    PRUNING_TYPE = "structured"
    dim: int

    def _sizes(self, t: Tensor) -> tuple[int, int]:
        """Return the number of slices, and how many are pruned."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        n = t.shape[self.dim]
        return n, self._count(n)

    def _keep(self, kept: Tensor, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of slices."""
        sizes = [1] * t.dim()
        sizes[self.dim] = t.shape[self.dim]
        return kept.to(dtype=default_mask.dtype).reshape(sizes).expand(t.shape) * default_mask


class RandomStructured(_Structured):
    """Prune slices at random.

    Args:
        amount: the number, or the share, of slices.
        dim: the axis of which they are slices.
    """

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask."""
        n, count = self._sizes(t)
        if not count:
            return default_mask
        drawn = torch.rand(n)
        return self._keep(drawn > drawn.sort().values[count - 1], t, default_mask)


class LnStructured(_Structured):
    """Prune the slices of the least norm.

    Args:
        amount: the number, or the share, of slices.
        n: order of the norm.
        dim: the axis of which they are slices.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask."""
        size, count = self._sizes(t)
        if not count:
            return default_mask
        norms = _compute_norm(t, self.n, self.dim)
        kept = torch.zeros(size)
        kept[torch.topk(norms, size - count).indices] = 1
        return self._keep(kept, t, default_mask)


class CustomFromMask(BasePruningMethod):
    """Prune by a mask.

    Args:
        mask: the mask.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError("mask should have the same shape as the parameter")
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Any, name: str) -> Any:
    """Prune nothing, but prepare a parameter; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune a number, or a share, of the elements at random; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Any, name: str, amount: float, importance_scores: Tensor | None = None
) -> Any:
    """Prune a number, or a share, of the elements of least magnitude; returns the module."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune a number, or a share, of the slices along an axis at random; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any,
    name: str,
    amount: float,
    n: float,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Any:
    """Prune a number, or a share, of the slices of least norm along an axis; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune by a mask; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any,
    pruning_method: type[BasePruningMethod],
    importance_scores: Any = None,
    **kwargs: Any,
) -> None:
    """Prune the elements of several parameters together.

    Args:
        parameters: pairs of a module and a name.
        pruning_method: a class of methods of elements.
        importance_scores: scores in the place of the values, by pair.
        kwargs: arguments of the method.

    Raises:
        TypeError: if ``parameters`` is no iterable, or the method is not one of elements.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs: Any = list(parameters)
    given = importance_scores or {}
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    scores = [given.get(pair, getattr(*pair)) for pair in pairs]
    masks = [
        getattr(module, f"{name}_mask", torch.ones_like(getattr(module, name)))
        for module, name in pairs
    ]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    found = PruningContainer(method).compute_mask(
        parameters_to_vector(scores).detach(), parameters_to_vector(masks)
    )
    first = 0
    for module, name in pairs:
        value = getattr(module, name)
        last = first + value.numel()
        custom_from_mask(module, name, found[first:last].view_as(value))
        first = last


def remove(module: Any, name: str) -> Any:
    """Make the pruned values those of a parameter again; returns the module.

    Raises:
        ValueError: if the parameter is not pruned.
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Return True if a module, or one inside of it, has a pruned parameter."""
    return any(
        isinstance(hook, BasePruningMethod)
        for inner in module.modules()
        for hook in inner._forward_pre_hooks.values()
    )
