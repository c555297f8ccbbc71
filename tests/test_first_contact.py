"""First contact: tracebacks, names from other libraries, mistakes in calling transforms, reprs and
docstrings.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import pickle
import traceback
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import functrace as ft
import functrace.torch as torch
from functrace.errors import (
    ArgumentError,
    ConcretizationError,
    FunctraceError,
    LostGradientError,
    ShapeError,
)
from functrace.names import ELSEWHERE

W, X = np.ones(5), np.ones((4, 3))
OWN = os.path.dirname(os.path.abspath(ft.__file__)) + os.sep


def loss(w: Any, x: Any) -> Any:
    return np.sum(x @ w)


@ft.jit
def decorated(x: Any) -> Any:
    return x * 2.0


# -- tracebacks ------------------------------------------------------------------------------------


def frames(run: Callable[[], Any]) -> tuple[BaseException, list[traceback.FrameSummary]]:
    """The error that ``run`` raises, and the frames of its traceback below this function's."""
    try:
        run()
    except Exception as error:
        return error, list(traceback.extract_tb(error.__traceback__))[1:]
    raise AssertionError("nothing was raised")


FAILING: dict[str, Callable[[], Any]] = {
    "grad": lambda: ft.grad(loss)(W, X),
    "value_and_grad": lambda: ft.value_and_grad(loss)(W, X),
    "vjp": lambda: ft.vjp(loss, W, X),
    "jvp": lambda: ft.jvp(loss, (W, X), (W, X)),
    "linearize": lambda: ft.linearize(loss, W, X),
    "jit": lambda: ft.jit(loss)(W, X),
    "vmap": lambda: ft.vmap(loss, in_axes=(None, 0))(W, X),
    "trace": lambda: ft.trace(loss)(W, X),
    "jacfwd": lambda: ft.jacfwd(loss)(W, X),
    "hessian": lambda: ft.hessian(loss)(W, X),
    "checkpoint": lambda: ft.grad(lambda w: ft.checkpoint(loss)(w, X))(W),
    "jit of grad of vmap": lambda: ft.jit(
        ft.grad(lambda w: np.sum(ft.vmap(lambda row: loss(w, row))(X)))
    )(W),
    "scan": lambda: ft.grad(
        lambda x: ft.scan(lambda c, _: (c + loss(W * c, X), None), x, None, 2)[0]
    )(0.0),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_traceback_ends_in_the_users_line(case: str) -> None:
    error, found = frames(FAILING[case])
    assert isinstance(error, ShapeError)
    assert found[-1].name == "loss" and found[-1].filename == __file__
    own = [frame for frame in found if frame.filename.startswith(OWN)]
    assert len(own) <= 3, own  # those between the call of a transform and the user's function
    if case == "jit of grad of vmap":
        assert [frame.name for frame in found] == ["<lambda>", "<lambda>", "<lambda>", "loss"]


@pytest.mark.parametrize("run", [ft.jit(np.linalg.inv), lambda x: ft.vjp(np.linalg.inv, x)])
def test_errors_of_values_show_no_frames_of_ours_below_the_call(run: Any) -> None:
    for _ in range(3):
        error, found = frames(lambda: run(np.zeros((2, 2))))
        assert isinstance(error, np.linalg.LinAlgError)
        assert sum(frame.filename.startswith((OWN, "<functrace")) for frame in found) <= 1


def test_full_tracebacks_show_all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = len(frames(FAILING["jit of grad of vmap"])[1])
    monkeypatch.setenv("FUNCTRACE_TRACEBACKS", "full")
    assert len(frames(FAILING["jit of grad of vmap"])[1]) > hidden + 8


def test_causes_and_chained_errors_keep_their_users_frames() -> None:
    def f(x: Any) -> Any:
        try:
            return loss(x, X)
        except ShapeError as error:
            raise RuntimeError("mine") from error

    error, found = frames(lambda: ft.grad(f)(W))
    assert str(error) == "mine" and found[-1].name == "f"
    cause = traceback.extract_tb(error.__cause__.__traceback__)  # type: ignore[union-attr]
    assert cause[-1].name == "loss" and not any(frame.filename.startswith(OWN) for frame in cause)


def test_errors_that_users_hide_are_theirs_to_read() -> None:
    def f(x: Any) -> Any:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second") from None

    for run in (ft.grad(f), ft.jit(f), ft.grad(ft.checkpoint(f)), ft.vmap(f)):
        with pytest.raises(ValueError, match="second") as caught:
            run(np.ones(2))
        error = caught.value
        assert (
            type(error.__context__) is KeyError
            and error.__suppress_context__
            and error.__cause__ is None
        )


def test_errors_inside_a_library_name_the_users_line() -> None:
    for f in (
        lambda x: scipy.special.logsumexp(x * np.ones(2)),
        lambda x: scipy.linalg.solve(x * np.eye(2), np.ones(2)),
    ):
        with pytest.raises(FunctraceError) as caught:
            ft.grad(f)(1.0)
        assert "test_first_contact.py" in str(caught.value) and "scipy." in str(caught.value)


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "what", "fix"),
    [
        (
            lambda: ft.grad(loss, 5)(W, X),
            "argnums=5",
            r"by position what argnums names \(positions are 0 to 1\)",
        ),
        (lambda: ft.grad(loss, "w"), "argnums is 'w'", "argnums=0"),
        (lambda: ft.grad(loss, W), "argnums is a ndarray", r"call grad\(f\)\(x\)"),
        (
            lambda: ft.value_and_grad(loss, W),
            "value_and_grad: argnums is a ndarray",
            "value_and_grad",
        ),
        (lambda: ft.jacrev(loss, W), "jacrev: argnums is a ndarray", "jacrev"),
        (lambda: ft.grad(W), "grad takes a function, not a ndarray", r"call grad\(f\)\(x\)"),
        (lambda: ft.vmap(3.0), "vmap takes a function, not a float", r"vmap\(f\)\(x\)"),
        (lambda: ft.jit(None, maxsize=3)(W), "jit takes a function", r"jit\(f\)"),
        (lambda: ft.checkpoint(W), "checkpoint takes a function", r"checkpoint\(f\)"),
        (lambda: ft.hessian(W), "takes a function", "returns a function"),
        (lambda: ft.vjp(W, np.sin), "vjp takes a function, not a ndarray", r"vjp\(f, x\)"),
        (lambda: ft.jvp(W, (W,), (W,)), "jvp takes a function", r"jvp\(f, x\)"),
        (
            lambda: ft.jvp(np.sin, W, W),
            "primals is a ndarray, not a tuple",
            r"jvp\(f, \(x,\), \(x_dot,\)\)",
        ),
        (
            lambda: ft.jvp(np.sin, (W,), W),
            "tangents is a ndarray, not a tuple",
            r"jvp\(f, \(x,\), \(x_dot,\)\)",
        ),
    ],
)
def test_wrong_calls_of_transforms_suggest_the_right_one(run: Any, what: str, fix: str) -> None:
    with pytest.raises(
        ArgumentError, match=rf"{what}(.|\n)*test_first_contact\.py(.|\n)*fix: (.|\n)*{fix}"
    ):
        run()


def test_jit_recommends_static_arguments_only_where_they_help() -> None:
    with pytest.raises(ConcretizationError) as caught:
        ft.jit(lambda x: x if x > 0 else -x)(1.0)
    assert "np.where" in str(caught.value) and "static" not in str(caught.value)
    with pytest.raises(ConcretizationError, match="static_argnums"):
        ft.jit(lambda x, n: sum(x for _ in range(n)))(W, 3)
    with pytest.raises(ConcretizationError, match="static_argnums"):
        ft.jit(lambda x, flag: x if flag else -x)(W, True)


def test_functions_of_scipy_and_pytorch_are_called_by_their_names() -> None:
    with pytest.raises(
        TypeError,
        match=r"scipy\.special\.mathieu_a has no derivative here(.|\n)*functrace\.primitive",
    ):
        ft.grad(lambda x: scipy.special.mathieu_a(1, x))(1.0)
    for make in (torch.tensor, lambda x: torch.tensor([x[0], 1.0])):
        with pytest.raises(
            LostGradientError, match=r"a tensor of a traced value(.|\n)*torch\.as_tensor"
        ):
            ft.grad(lambda x, make=make: make(x))(W)


PLACES: dict[str, Any] = {
    "functrace": ft, "functrace.random": ft.random, "functrace.tree": ft.tree,
    "functrace.policies": ft.policies,
    "functrace.nn": ft.nn, "functrace.optim": ft.optim, "functrace.debug": ft.debug, "functrace.testing": ft.testing,
    "functrace.torch": torch,
    "functrace.config": ft.config,
}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "name"), [(place, name) for place, names in ELSEWHERE.items() for name in names]
)
def test_names_of_other_libraries_suggest_the_name_here(place: str, name: str) -> None:
    with pytest.raises(AttributeError, match=f"{place}' has no attribute '{name}'; here it is "):
        getattr(PLACES[place], name)
    said = ELSEWHERE[place][name]
    for word in (
        said.replace(",", " ").replace(";", " ").replace(":", " ").replace("(", " ").split()
    ):
        if word.startswith("functrace."):
            found: Any = ft
            for part in word.removesuffix(".").split(".")[1:]:
                found = getattr(found, part)


@pytest.mark.parametrize("place", PLACES)
def test_misspelt_names_suggest_the_right_one(place: str) -> None:
    names = [
        name for name in getattr(PLACES[place], "__all__", ["threads", "block"]) if len(name) > 3
    ]
    for name in names[:60]:
        for wrong in (name[0] + name[2] + name[1] + name[3:], name[:-1]):
            if not hasattr(PLACES[place], wrong) and wrong not in ELSEWHERE.get(place, {}):
                with pytest.raises(AttributeError, match=r"Did you mean '\w+'\?$") as caught:
                    getattr(PLACES[place], wrong)
                assert caught.value.name == wrong
    with pytest.raises(
        AttributeError, match=r"has no attribute 'no_such_thing'(; docs/torch_coverage\.md .*)?$"
    ):
        PLACES[place].no_such_thing
    assert not hasattr(PLACES[place], "jax") and not hasattr(PLACES[place], "__wrapped__")


def test_some_first_typos() -> None:
    for wrong, right in {
        "vmpa": "vmap",
        "gard": "grad",
        "jti": "jit",
        "value_and_gard": "value_and_grad",
    }.items():
        with pytest.raises(
            AttributeError, match=f"'functrace' has no attribute '{wrong}'. Did you mean '{right}'"
        ):
            getattr(ft, wrong)


# -- what things say they are ----------------------------------------------------------------------


def test_repr_of_transformed_functions() -> None:
    shown = {
        repr(ft.grad(loss)): "<functrace grad(loss)>",
        repr(ft.value_and_grad(loss)): "<functrace value_and_grad(loss)>",
        repr(ft.jit(ft.vmap(ft.grad(loss)))): "<functrace jit(vmap(grad(loss)))>",
        repr(ft.hessian(loss)): "<functrace hessian(loss)>",
        repr(ft.jacfwd(loss)): "<functrace jacfwd(loss)>",
        repr(ft.checkpoint(loss)): "<functrace checkpoint(loss)>",
        repr(ft.elementwise_grad(np.sin)): "<functrace elementwise_grad(sin)>",
        repr(ft.custom_vjp(loss)): "<functrace custom_vjp(loss)>",
        repr(ft.trace(loss)): "<functrace trace(loss)>",
    }
    assert list(shown) == list(shown.values())
    assert ft.grad(loss).__name__ == "loss" and ft.grad(loss).__module__ == __name__


TRANSFORMS: list[Callable[..., Any]] = [
    ft.grad, ft.value_and_grad, ft.jit, ft.vmap, ft.trace, ft.checkpoint, ft.jacfwd, ft.jacrev,
    ft.hessian,
    ft.elementwise_grad, ft.custom_vjp, ft.custom_jvp, ft.custom_vmap, ft.primitive,
    ft.debug.profile, ft.debug.passes,
]  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda transform: transform.__name__)
def test_transformed_functions_have_the_signature_of_their_function(
    transform: Callable[..., Any],
) -> None:
    def f(x: float, y: int = 2, *rest: Any, k: int = 3, **more: Any) -> float:
        return x

    assert inspect.signature(transform(f)) == inspect.signature(f)
    assert inspect.getfullargspec(transform(f)) == inspect.getfullargspec(f)
    assert inspect.getfullargspec(ft.jit(transform(f))) == inspect.getfullargspec(f)
    given = functools.partial(f, 1.0)
    assert inspect.getfullargspec(transform(given)) == inspect.getfullargspec(given)
    assert not hasattr(type(transform(f)), "__signature__") and not hasattr(
        transform(max), "__signature__"
    )


def test_transformed_functions_bind_as_methods_and_are_copied_and_pickled() -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = 3.0

        @ft.grad
        def of_self(self) -> Any:
            raise AssertionError

        def energy(self, x: Any) -> Any:
            return self.scale * np.sum(x * x)

        slope = ft.grad(energy, argnums=1)

    model = Model()
    np.testing.assert_array_equal(model.slope(W), 6.0 * W)
    assert isinstance(model.slope, types.MethodType) and Model.slope is Model.__dict__["slope"]
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    gradient = ft.grad(loss)
    assert copy.copy(gradient) is gradient and copy.deepcopy([gradient])[0] is gradient
    with pytest.raises(
        TypeError, match=r"grad\(loss\) cannot be pickled(.|\n)*transform it where it is loaded"
    ):
        pickle.dumps(gradient)


def test_modules_list_their_public_names_only() -> None:
    assert set(ft.__all__) <= set(dir(ft)) and not any(
        name.startswith("_") and name != "__version__" for name in dir(ft)
    )
    for module in (ft, ft.tree, ft.policies):
        for name in dir(module):
            found = getattr(module, name)
            assert (
                name == "__version__"
                or not isinstance(found, types.ModuleType)
                or found.__name__.startswith("functrace")
            )
    assert "np" not in dir(ft.policies) and "optree" not in dir(ft.tree)
