"""``functional_call``: call a module with other parameters and buffers; ``stack_module_state``:
stack those of several.

A module has the interface of PyTorch's ``nn.Module``: it can be called, keeps tensors by name in
``_parameters`` and ``_buffers``, other modules as attributes, and lists them by
``named_parameters`` and ``named_buffers``.

Layer: 9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias, cast, final

import numpy as np

from functrace.torch import errors
from functrace.torch.func.calls import arrays_of, call_on_arrays
from functrace.torch.functions.shaping import stack
from functrace.torch.tensors.tensor import Tensor
from functrace.tracing import Tracer
from functrace.tree import flatten
from functrace.typing import PyTree

State: TypeAlias = dict[str, Tensor]
"""Tensors by name; a name leads through modules: ``"encoder.linear.weight"``."""


class Module(Protocol):
    """Interface of a module."""

    training: bool
    _parameters: Any
    _buffers: Any

    def named_parameters(self, *, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Return parameters with their names, those of inner modules too; duplicates under every
        name unless removed.
        """
        ...

    def named_buffers(self, *, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Return buffers, likewise."""
        ...

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the module."""
        ...


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: State | Sequence[State],
    args: object = None,
    kwargs: Mapping[str, object] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers, which are restored
    afterwards.

    Values that the module assigns to its buffers are in the dict afterwards (in a single one, not
    in several); writes into buffers go to the given tensors.

    Under functrace's transforms, values may be arrays, traced or not; results are arrays then.

    Args:
        module: the module: an object with ``named_parameters()`` and ``named_buffers()``.
        parameter_and_buffer_dicts: tensors by name, in one dict, or in several that have no name in
            common. Names that the module does not have become attributes during the call.
        args: a tuple of positional arguments, or a single one.
        kwargs: keyword arguments.
        tie_weights: True to replace a tensor that the module has under several names under all of
            them.
        strict: True to raise for unknown and for missing names.

    Returns:
        the result of the module.

    Raises:
        ValueError: if dicts have names in common, are no dicts, or tied names are given different
            tensors.
        RuntimeError: with ``strict``, for unknown and for missing names.
        AttributeError: if a name leads through a module that does not exist.
        TypeError: if a given or a replaced object is no tensor.

    Example:
        >>> import functrace.torch as torch
        >>> class Scale:
        ...     training = True
        ...     def __init__(self): self._parameters, self._buffers = {"w": torch.tensor(3.0)}, {}
        ...     def named_parameters(self, *, remove_duplicate=True): return self._parameters.items()
        ...     def named_buffers(self, *, remove_duplicate=True): return self._buffers.items()
        ...     def __call__(self, x): return self._parameters["w"] * x
        >>> scale, x = Scale(), torch.tensor(2.0)
        >>> torch.func.functional_call(scale, {"w": torch.tensor(10.0)}, x), scale(x)
        (tensor(20.), tensor(6.))
        >>> torch.func.grad(lambda state: torch.func.functional_call(scale, state, x))({"w": torch.tensor(10.0)})
        {'w': tensor(2.)}
    """
    state = _together(parameter_and_buffer_dicts)
    given = () if args is None else args if isinstance(args, tuple) else (args,)
    if any(isinstance(x, (Tracer, np.ndarray)) for x in state.values()):
        run = lambda *leaves: functional_call(  # noqa: E731
            module, *leaves, tie_weights=tie_weights, strict=strict
        )
        return _on_arrays(run, (state, given, dict(kwargs or {})))
    with replacing(module, state, tie_weights=tie_weights, strict=strict):
        return module(*given, **(kwargs or {}))


def _on_arrays(run: Callable[..., Any], args: tuple[PyTree, ...]) -> Any:
    """Call a function with tensors in place of arrays, traced or not; returns arrays."""
    leaves, _ = flatten((args, {}))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, (Tracer, np.ndarray))]
    return arrays_of(call_on_arrays(run, places, args, {}))


def _together(dicts: State | Sequence[State]) -> State:
    """Return the tensors of several dicts in one; a single dict is returned itself."""
    if isinstance(dicts, dict):
        return cast("State", dicts)
    if not isinstance(dicts, Sequence):
        raise ValueError(errors.state_type(type(dicts)))
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError(errors.STATE_DICTS)
    counts = Counter(name for d in dicts for name in d)
    repeated = [name for name, n in counts.items() if n > 1]
    if repeated:
        raise ValueError(errors.repeated_names(repeated))
    return {name: tensor for d in dicts for name, tensor in d.items()}


@contextmanager
def replacing(module: Module, state: State, *, tie_weights: bool, strict: bool) -> Generator[None]:
    """Replace a module's tensors; on exit, restore them, and put the tensors that the module has
    set into the dict.
    """
    given = untied(module, state) if tie_weights else state
    if strict:
        names = {name for name, _ in _named(module)}
        unexpected, missing = sorted(given.keys() - names), sorted(names - given.keys())
        if unexpected or missing:
            raise RuntimeError(errors.state_names(_called(module), unexpected, missing))
    members = _Members(module)
    before = members.swapped(given)
    try:
        yield
    finally:
        after = members.swapped(before)
        state.update({name: cast("Tensor", after[name]) for name in state if name in after})


def _named(module: Module) -> Iterable[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _called(module: object) -> str:
    return type(module).__name__


def untied(module: Module, state: State) -> State:
    """Return tensors by name, with all names of those that the module has under several.

    Raises:
        ValueError: if these names have different tensors.
    """
    names: dict[Tensor, set[str]] = {}
    for name, tensor in dict(_named(module)).items():
        names.setdefault(tensor, set()).add(name)
    tied = {name: together for together in names.values() if len(together) > 1 for name in together}
    found = dict(state)
    for name in [name for name in state if name in tied]:
        together = tied[name]
        if len(together & state.keys()) > 1 and len({state[other] for other in together}) > 1:
            raise ValueError(errors.tied_values(sorted(together)))
        found.update(dict.fromkeys(together, state[name]))
    return found


@final
class _Missing:
    """Marker of a missing tensor."""


_MISSING = _Missing()
Held: TypeAlias = Tensor | _Missing | None


@final
class _Members:
    """The tensors of a module and of its submodules, by name."""

    def __init__(self, module: Module) -> None:
        self._modules: dict[str, Module] = {"": module}

    def swapped(self, state: Mapping[str, Held]) -> dict[str, Held]:
        """Replace tensors; returns the former ones. If one cannot be replaced, all are restored."""
        before: dict[str, Held] = {}
        try:
            for name, tensor in state.items():
                before[name] = self._swap(name, tensor)
        except BaseException:
            for name, tensor in before.items():
                self._swap(name, tensor)
            raise
        return before

    def _swap(self, path: str, tensor: Held) -> Held:
        """Replace or remove a tensor; returns the former one."""
        prefix, _, name = path.rpartition(".")
        owner = self._module(prefix)
        if not isinstance(tensor, Held):
            raise TypeError(errors.not_an_instance(tensor, "Tensor"))
        if not name:
            raise KeyError('tensor name can\'t be empty string ""')
        for place in (owner._parameters, owner._buffers):
            if name in place:
                before = place[name]
                if isinstance(tensor, _Missing):
                    del place[name]
                else:
                    place[name] = tensor
                return before
        before = getattr(owner, name, _MISSING)
        if not isinstance(before, Held):
            raise TypeError(f"attribute `{name}`: {errors.not_an_instance(before, 'Tensor')}")
        if not isinstance(tensor, _Missing):
            setattr(owner, name, tensor)
        elif not isinstance(before, _Missing):
            delattr(owner, name)
        return before

    def _module(self, path: str) -> Module:
        """Return the module at a path."""
        if path in self._modules:
            found = self._modules[path]
        else:
            prefix, _, name = path.rpartition(".")
            owner = self._module(prefix)
            try:
                found = getattr(owner, name)
            except AttributeError as error:
                raise AttributeError(errors.no_attribute(_called(owner), name)) from error
        if not (hasattr(found, "_parameters") and hasattr(found, "_buffers")):
            shown = errors.not_an_instance(found, "nn.Module")
            raise TypeError(f"submodule `{path}`: {shown}" if path else shown)
        self._modules[path] = found
        return found


def stack_module_state(models: Sequence[Module]) -> tuple[State, State]:
    """Stack the parameters and the buffers of modules of one class, for ``vmap`` over
    `functional_call`.

    The stacked parameters are leaves, which require grad if those of the modules do.

    Args:
        models: modules of the same class.

    Returns:
        a dict of parameters and a dict of buffers, by name.

    Raises:
        RuntimeError: if there are none, or they differ in class, in mode, or in which parameters
            require grad.

    Example:
        >>> import functrace.torch as torch
        >>> class Scale:
        ...     training = True
        ...     def __init__(self, w): self._parameters, self._buffers = {"w": torch.tensor(w)}, {}
        ...     def named_parameters(self): return self._parameters.items()
        ...     def named_buffers(self): return self._buffers.items()
        >>> torch.func.stack_module_state([Scale(1.0), Scale(2.0)])
        ({'w': tensor([1., 2.])}, {})
    """
    if not len(models):
        raise RuntimeError(errors.NO_MODELS)
    if len({bool(model.training) for model in models}) > 1:
        raise RuntimeError(errors.MODELS_MODE)
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError(errors.MODELS_CLASS)
    parameters = _stacked([dict(model.named_parameters()) for model in models])
    return parameters, _stacked([dict(model.named_buffers()) for model in models])


def _stacked(states: Sequence[State]) -> State:
    found: State = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        wanted = {x.requires_grad for x in tensors}
        if len(wanted) > 1:
            raise RuntimeError(errors.models_requires_grad(name))
        stacked = stack(tensors)
        found[name] = stacked.detach().requires_grad_() if True in wanted else stacked
    return found
