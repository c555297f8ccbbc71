"""Custom operators: functions of tensors with a schema, under ``torch.ops``.

A call is a `functrace.torch.autograd.Function`: its forward runs the kernel, through the dispatch
modes if there are any, and its backward is the registered one. Without one, the backward pass
raises.

Layer: 9.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast, final

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.torch._library.infer_schema import infer_schema
from functrace.torch._ops import REGISTERED, Argument, OpOverload
from functrace.torch.autograd.function import Function
from functrace.torch.autograd.grad_mode import MODES, no_grad
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.dispatch.overloads import fits, ops
from functrace.torch.tensors.tensor import UNVERSIONED, Tensor
from functrace.tracing import Tracer

_ALIASING = (
    "The output of this custom operator (1) must not also be an input to this custom operator and "
    "(2) may not alias any inputs to this custom operator or other returns. The most common way to "
    "trigger this error is if we have y = custom_op(x) and y and x are the same Tensor. Please "
    "instead return a clone of the offending output tensor(s) (e.g. return x.clone()) or refactor "
    "the custom operator to not return y."
)
_WHOLE = re.compile(r"(=-?[0-9]+)\.0(?=[,)])")
"""Defaults that PyTorch's schemas show without the zero: ``scale=1.``."""
Kernel = Callable[..., Any]


def split_name(name: str) -> tuple[str, str]:
    """Return the namespace and the name of ``"mylib::add"``.

    Raises:
        ValueError: without a namespace.
    """
    namespace, _, plain = name.partition("::")
    if not plain:
        raise ValueError(f"the name of an operator has a namespace, mylib::{name}; got {name!r}")
    return namespace, plain.partition(".")[0]


@final
class Operator:
    """An operator: its schema, and the functions that were registered for it.

    Args:
        text: the schema with its name.
        records_inside: True if the kernel's own operations are recorded (`Library`), False for a
            kernel that nothing looks into (`custom_op`).
    """

    def __init__(self, text: str, *, records_inside: bool) -> None:
        self.text = _WHOLE.sub(r"\1.", text)
        self.records_inside = records_inside
        self.kernel: Kernel | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup: Callable[..., Any] | None = None
        self.namespace, self.name = split_name(text.partition("(")[0])

    @property
    def overload(self) -> OpOverload:
        """The operator as ``torch.ops`` has it."""
        return getattr(getattr(getattr(ops, self.namespace), self.name), "default")  # noqa: B009

    def register(self) -> None:
        """Register it under ``torch.ops``, in place of one of the same name."""
        known = REGISTERED.setdefault(self.namespace, {})
        vars(getattr(ops, self.namespace)).pop(self.name, None)
        known[self.name] = self

    def remove(self) -> None:
        """Remove it from ``torch.ops``."""
        if REGISTERED.get(self.namespace, {}).get(self.name) is self:
            del REGISTERED[self.namespace][self.name]
            vars(getattr(ops, self.namespace)).pop(self.name, None)

    # -- calls -------------------------------------------------------------------------------------

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        overload = self.overload
        arguments = overload._schema.arguments
        positional, named = self._completed(arguments, args, kwargs)
        if self.records_inside and self.backward is None:
            return self._run(positional, named)
        tensors = [x for x in _leaves([*positional, *named.values()]) if isinstance(x, Tensor)]
        writes = [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]
        if writes:
            return self._written(overload, arguments, positional, named, writes)
        if not MODES.recording or not any(
            x.requires_grad or isinstance(x._array, Tracer) or DUALS.level is not None
            for x in tensors
        ):
            return self._forwarded(overload, positional, named)
        return self._recorded(overload, positional, named)

    def _completed(
        self, arguments: Sequence[Argument], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional arguments and those by keyword, with defaults.

        Raises:
            RuntimeError: if they do not fit the schema.
        """
        called = f"{self.namespace}::{self.name}()"
        ending = f"Declaration: {self.text}"
        places = [a for a in arguments if not a.kwarg_only]
        if len(args) > len(places):
            raise RuntimeError(
                f"{called} takes {len(places)} positional argument(s) but {len(args)} was/were "
                f"given.  {ending}"
            )
        given = {a.name: x for a, x in zip(places, args, strict=False)} | kwargs
        for k, a in enumerate(arguments):
            if a.name not in given:
                if not a.has_default:
                    raise RuntimeError(
                        f"{called} is missing value for argument '{a.name}'. {ending}"
                    )
                given[a.name] = a.default_value
            elif not fits((a,), (), {a.name: given[a.name]}, strict=True):
                raise RuntimeError(
                    f"{called} Expected a value of type '{_shown(a.type)}' for argument '{a.name}' "
                    f"but instead found type '{type(given[a.name]).__name__}'.\nPosition: {k}\n"
                    f"Value: {given[a.name]!r}\n{ending}"
                )
        unknown = [name for name in given if name not in {a.name for a in arguments}]
        if unknown:
            raise RuntimeError(f"{called} Unknown keyword argument '{unknown[0]}'. {ending}")
        return (
            [given[a.name] for a in places],
            {a.name: given[a.name] for a in arguments if a.kwarg_only},
        )

    def _forwarded(
        self, overload: OpOverload, positional: Sequence[Any], named: dict[str, Any]
    ) -> Any:
        """Run the kernel, through the dispatch modes."""
        run = lambda: self._run(positional, named)  # noqa: E731
        if MODES.dispatch is None:
            return run()
        arguments = overload._schema.arguments
        places = [a for a in arguments if not a.kwarg_only]
        shown = list(positional)
        while shown and _is_default(places[len(shown) - 1], shown[-1]):
            shown.pop()
        defaults = {a.name: a for a in arguments if a.kwarg_only}
        rest = {name: x for name, x in named.items() if not _is_default(defaults[name], x)}
        return MODES.dispatch.call_custom(overload, tuple(shown), rest, run)

    def _run(self, positional: Sequence[Any], named: dict[str, Any]) -> Any:
        """Run the kernel, and check what it returns.

        Raises:
            RuntimeError: for a result that shares memory with an argument.
            NotImplementedError: without a kernel.
        """
        kernel = self.kernel
        if kernel is None:
            raise NotImplementedError(
                f"Could not run '{self.namespace}::{self.name}' with arguments from the 'CPU' "
                "backend: no kernel is registered for it"
            )
        result = kernel(*positional, **named)
        if self.records_inside:
            return result
        results = _leaves([result])
        made = [x for x in results if isinstance(x, Tensor)]
        expected = self.overload._schema.returns
        if len(expected) == 1 and expected[0].type == "Tensor" and not isinstance(result, Tensor):
            raise RuntimeError(f"Unable to cast {result} to Tensor")
        inputs = [x for x in _leaves([*positional, *named.values()]) if isinstance(x, Tensor)]
        for k, one in enumerate(made):
            if any(_share_memory(one, other) for other in (*inputs, *made[:k])):
                place = inspect.getmodule(kernel)
                raise RuntimeError(f"{self.name} (with implementation in {place}): {_ALIASING}")
        return result

    def _written(
        self,
        overload: OpOverload,
        arguments: Sequence[Argument],
        positional: Sequence[Any],
        named: dict[str, Any],
        writes: Sequence[str],
    ) -> Any:
        """Run an operator that overwrites tensors, and count the writes."""
        given = dict(zip([a.name for a in arguments if not a.kwarg_only], positional, strict=True))
        written = [x for x in _leaves([(given | named)[w] for w in writes]) if x is not None]
        if MODES.recording and any(x.requires_grad for x in written):
            raise UnsupportedFunctionError(
                f"{self.text} overwrites a tensor that requires grad, and its derivative is unknown",
                fix="return the result in a new tensor, and register_autograd; or call it in no_grad",
            )
        with no_grad():
            result = self._forwarded(overload, positional, named)
        for x in written:
            if x._counter is not UNVERSIONED:
                x._counter[0] += 1
        return result

    def _recorded(
        self, overload: OpOverload, positional: Sequence[Any], named: dict[str, Any]
    ) -> Any:
        """Run the operator as a `Function`."""
        operator, formula, setup = self, self.backward, self.setup
        lengths = [len(x) if isinstance(x, (tuple, list)) else None for x in positional]

        def grouped(flat: Sequence[Any]) -> list[Any]:
            values = iter(flat)
            return [
                next(values) if n is None else [next(values) for _ in range(n)] for n in lengths
            ]

        class Base(Function):
            @staticmethod
            def forward(*flat: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
                return operator._forwarded(overload, grouped(flat), named)

            @staticmethod
            def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
                if setup is None:
                    return
                given: dict[str, Any] = {"ctx": ctx, "inputs": tuple(grouped(inputs))}
                if named:
                    given["keyword_only_inputs"] = named
                setup(**given, output=output)

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                if formula is None:
                    raise RuntimeError(
                        f"Trying to backward through {overload} but no autograd formula was "
                        "registered. Please use register_autograd to add one."
                    )
                found = formula(ctx, *gradients)
                each = list(found) if isinstance(found, tuple) else [found]
                if len(lengths) == 1 and isinstance(lengths[0], int) and isinstance(found, list):
                    each = [found]
                if len(each) != len(lengths):
                    raise RuntimeError(
                        f"the backward of {overload} returned {len(each)} gradients for "
                        f"{len(lengths)} arguments"
                    )
                flat: list[Any] = []
                for n, x in zip(lengths, each, strict=True):
                    flat += [x] if n is None else [None] * n if x is None else list(x)
                return tuple(flat)

        # The node is named after the class when that is made.
        name = f"GeneratedBackwardFor_{self.namespace}_{self.name}_default"
        kind: Any = type(Base)
        generated: Any = kind(name, (Base,), {})
        flat: list[Any] = []
        for n, x in zip(lengths, positional, strict=True):
            flat += [x] if n is None else list(x)
        return generated.apply(*flat)


def _leaves(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for x in values:
        found += _leaves(x) if isinstance(x, (tuple, list)) else [x]
    return found


def _is_default(argument: Argument, value: object) -> bool:
    if not argument.has_default or isinstance(value, Tensor):
        return False
    return type(value) is type(argument.default_value) and value == argument.default_value


def _share_memory(a: Tensor, b: Tensor) -> bool:
    x, y = a._array, b._array
    if a is b or x is y:
        return True
    return isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and np.may_share_memory(x, y)


def _shown(kind: str) -> str:
    return kind.replace("number", "Scalar")


# -- the decorator ---------------------------------------------------------------------------------


@final
class CustomOpDef:
    """A custom operator; call it, or ``torch.ops.mylib.name``."""

    def __init__(self, operator: Operator, function: Kernel) -> None:
        self._operator, self._init_fn = operator, function
        self._namespace, self._name = operator.namespace, operator.name
        self._qualname = f"{self._namespace}::{self._name}"
        self._schema = operator.text.removeprefix(self._qualname)

    @property
    def _opoverload(self) -> OpOverload:
        return self._operator.overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        return self._operator.overload(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """Set the derivative: ``backward(ctx, *gradients)`` returns one gradient per positional
        argument; ``setup_context(ctx, inputs, output)`` saves what it needs.

        Raises:
            RuntimeError: for an operator that overwrites its arguments.
        """
        schema = self._opoverload._schema
        if schema.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{schema}. Please create a functional operator and register an autograd formula for "
                "that."
            )
        self._operator.backward, self._operator.setup = backward, setup_context

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Kernel | None = None, /
    ) -> Any:
        """Set the kernel of devices; those of other devices than the CPU are never called."""

        def register(fn: Kernel) -> Kernel:
            places = [device_types] if isinstance(device_types, str) else device_types
            if places is None or "cpu" in places:
                self._operator.kernel = fn
            return fn

        return register if fn is None else register(fn)

    def register_fake(self, fn: Kernel, /) -> Kernel:
        """Return the function: nothing computes without values here."""
        return fn

    def register_vmap(self, func: Kernel | None = None, /) -> Any:
        """Refuse: the kernel's own operations are mapped.

        Raises:
            UnsupportedFunctionError: always.
        """
        raise UnsupportedFunctionError(
            "functrace.torch has no register_vmap for custom operators",
            fix="write the kernel with tensor operations: vmap maps them",
        )


def custom_op(
    name: str,
    fn: Kernel | None = None,
    /,
    *,
    mutates_args: Any,
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: object = None,
) -> Any:
    """Return a decorator that makes a function an operator, ``torch.ops.mylib.name``.

    Args:
        name: ``"mylib::name"``.
        fn: the function, in place of a decorator.
        mutates_args: names of the arguments that it overwrites.
        device_types: ``"cpu"`` or None for a kernel that is called here.
        schema: the schema without a name; by default that of the annotations.
        tags: ignored.

    Example:
        >>> import functrace.torch as torch
        >>> @torch.library.custom_op("docs::cube", mutates_args=())
        ... def cube(x: torch.Tensor) -> torch.Tensor:
        ...     return x**3
        >>> cube.register_autograd(
        ...     lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2,
        ...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
        ... )
        >>> x = torch.tensor(2.0, requires_grad=True)
        >>> torch.autograd.grad(torch.ops.docs.cube(x), x)
        (tensor(12.),)
    """

    def define(function: Kernel) -> CustomOpDef:
        split_name(name)
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        operator = Operator(f"{name}{text}", records_inside=False)
        made = CustomOpDef(operator, function)
        made.register_kernel(device_types, function)
        operator.register()
        return made

    return define if fn is None else define(fn)


def registered(op: Any) -> Operator:
    """Return an operator by its name, its definition or its overload.

    Raises:
        RuntimeError: if there is none.
    """
    if isinstance(op, CustomOpDef):
        return op._operator
    name = op if isinstance(op, str) else op.name()
    namespace, plain = split_name(name)
    found = REGISTERED.get(namespace, {}).get(plain)
    if found is None:
        raise RuntimeError(f"operator {name} does not exist")
    return cast(Operator, found)


# -- libraries -------------------------------------------------------------------------------------

_KEYS = {"", "CPU", "cpu", "default", "CompositeImplicitAutograd", "CompositeExplicitAutograd"}
_UNUSED = {"Meta", "CUDA", "cuda", "XPU", "MPS", "mps"}


@final
class Library:
    """A namespace of operators that are defined by schemas.

    Args:
        ns: the namespace.
        kind: ``"DEF"``, ``"FRAGMENT"`` or ``"IMPL"``.
        dispatch_key: of the kernels, by default.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("prim", "aten"):
            raise UnsupportedFunctionError(
                f"operators of {ns} cannot be replaced here", fix="use another namespace"
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._made: list[Operator] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: object = ()) -> str:
        """Define an operator by ``"name(Tensor x) -> Tensor"``; returns its name.

        Raises:
            RuntimeError: if there is one of this name.
        """
        name = schema.partition("(")[0].partition("::")[2] or schema.partition("(")[0]
        if "." in name:
            raise UnsupportedFunctionError(
                "functrace.torch has no overloads of custom operators", fix="use another name"
            )
        if name in REGISTERED.get(self.ns, {}):
            raise RuntimeError(
                f"Tried to register an operator ({self.ns}::{schema}) with the same name and overload "
                "name multiple times. Each overload's schema should only be registered with a single "
                "call to def()."
            )
        text = f"{self.ns}::{name}({schema.partition('(')[2]}"
        made = Operator(text, records_inside=True)
        made.register()
        self._made.append(made)
        return name

    def impl(
        self, op_name: Any, fn: Kernel, dispatch_key: str = "", *, with_keyset: bool = False
    ) -> None:
        """Set a kernel; those for other devices than the CPU are never called.

        Raises:
            UnsupportedFunctionError: for other dispatch keys.
        """
        key = dispatch_key or self.dispatch_key
        if key in _UNUSED:
            return
        if key not in _KEYS or with_keyset:
            raise UnsupportedFunctionError(
                f"functrace.torch has no dispatch key {key}",
                fix="register the kernel for CPU, and its derivative with register_autograd",
            )
        name = op_name if isinstance(op_name, str) else op_name.name()
        registered(name if "::" in name else f"{self.ns}::{name}").kernel = fn

    def _destroy(self) -> None:
        """Remove the operators that were defined."""
        for operator in self._made:
            operator.remove()
        self._made.clear()


@contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """Context with a library that is removed at the end."""
    made = Library(*args, **kwargs)
    try:
        yield made
    finally:
        made._destroy()
