"""Derivatives under HIPS autograd's names, against functrace's own, differences and values known in
closed form.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.compat.autograd.numpy as anp
from functrace.compat import autograd
from functrace.compat.autograd import core, differential_operators, extend, test_util, tracer
from functrace.compat.autograd.misc import flatten, optimizers
from functrace.compat.autograd.misc.fixed_points import fixed_point
from functrace.compat.autograd.numpy.numpy_boxes import ArrayBox
from functrace.compat.autograd.numpy.numpy_vjps import unbroadcast_f
from functrace.errors import (
    ArgumentError,
    ConcretizationError,
    DtypeError,
    NotDifferentiableError,
    ShapeError,
)
from functrace.errors import UnsupportedFunctionError as Unsupported

X = np.array([0.3, -0.8, 1.1])
A = np.arange(6.0).reshape(2, 3) / 4 - 0.4


# -- operators -------------------------------------------------------------------------------------


def f(x: Any) -> Any:
    return anp.sum(anp.sin(x) * x**2)


def test_operators_are_functraces() -> None:
    vector = lambda x: anp.cumsum(anp.tanh(x))
    hessian, jacobian = ft.hessian(f)(X), ft.jacrev(vector)(X)
    v = np.array([0.2, 1.0, -0.5])
    rows = {
        "grad": (autograd.grad(f)(X), ft.grad(f)(X)),
        "elementwise_grad": (autograd.elementwise_grad(anp.sin)(X), np.cos(X)),
        "elementwise_grad of no elementwise function": (
            autograd.elementwise_grad(vector)(X),
            np.ones(3) @ jacobian,
        ),
        "jacobian": (autograd.jacobian(vector)(X), jacobian),
        "jacobian of a number": (autograd.jacobian(f)(X), ft.grad(f)(X)),
        "hessian": (autograd.hessian(f)(X), hessian),
        "hessian_vector_product": (autograd.hessian_vector_product(f)(X, v), hessian @ v),
        "hessian_tensor_product": (autograd.hessian_tensor_product(f)(X, v), hessian @ v),
        "vector_jacobian_product": (autograd.vector_jacobian_product(vector)(X, v), v @ jacobian),
        "make_hvp": (autograd.make_hvp(f)(X)[0](v), hessian @ v),
        "make_hvp's gradient": (autograd.make_hvp(f)(X)[1], ft.grad(f)(X)),
        "make_vjp": (autograd.make_vjp(vector)(X)[0](v), v @ jacobian),
        "make_vjp of one number for all": (
            autograd.make_vjp(vector)(X)[0](1),
            np.ones(3) @ jacobian,
        ),
        "make_jvp": (autograd.make_jvp(vector)(X)(v)[1], jacobian @ v),
        "make_jvp_reversemode": (
            differential_operators.make_jvp_reversemode(vector)(X)(v),
            jacobian @ v,
        ),
        "make_ggnvp": (autograd.make_ggnvp(vector)(X)(v), jacobian.T @ jacobian @ v),
        "deriv": (autograd.deriv(vector)(X), jacobian @ np.ones(3)),
        "core.make_vjp": (core.make_vjp(vector, X)[0](v), v @ jacobian),
        "core.make_jvp": (core.make_jvp(vector, X)(v)[1], jacobian @ v),
        "checkpoint": (autograd.grad(autograd.checkpoint(f))(X), ft.grad(f)(X)),
        "holomorphic_grad": (
            autograd.holomorphic_grad(lambda z: z**3)(2.0 + 1j),
            3 * (2.0 + 1j) ** 2,
        ),
        "grad of |z|^2": (autograd.grad(lambda z: anp.abs(z) ** 2)(2.0 + 1j), 2 * (2.0 - 1j)),
        "grad_and_aux": (autograd.grad_and_aux(lambda x: (f(x), "aux"))(X)[0], ft.grad(f)(X)),
        "const_graph": (
            autograd.grad(flatten_module().const_graph(lambda x, y: f(x) * y, y=2.0))(X),
            2 * ft.grad(f)(X),
        ),
    }
    for name, (found, expected) in rows.items():
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=name)
        assert np.shape(found) == np.shape(expected), name


def flatten_module() -> Any:
    from functrace.compat.autograd import misc

    return misc


def test_argnum_is_a_position_or_several() -> None:
    product = lambda x, y, scale=1.0: x * y * scale
    assert autograd.grad(product)(2.0, 3.0) == 3.0
    assert autograd.grad(product, 1)(2.0, 3.0, scale=10.0) == 20.0
    assert autograd.grad(product, argnum=-1)(2.0, 3.0) == 2.0
    assert autograd.grad(product, [0, 1])(2.0, 3.0) == (3.0, 2.0)
    assert autograd.value_and_grad(product, (1, 0))(2.0, 3.0) == (6.0, (2.0, 3.0))
    assert autograd.make_jvp(product, (0, 1))(2.0, 3.0)((1.0, 1.0)) == (6.0, 5.0)
    assert autograd.grad_named(product, "y")(2.0, 3.0) == 2.0
    assert autograd.multigrad_dict(product)(2.0, 3.0) == {"x": 3.0, "y": 2.0, "scale": 6.0}
    assert autograd.hessian(lambda a, x: a * x**3, 1)(2.0, 3.0) == 36.0
    for call in (
        lambda: autograd.grad(product, "y"),
        lambda: autograd.grad(product, 5)(1.0),
        lambda: autograd.deriv(product)(),
    ):
        with pytest.raises(ArgumentError):
            call()


def test_a_result_with_one_element_is_a_number_and_keeps_its_shape() -> None:
    gradient = autograd.value_and_grad(lambda x: x**3)
    for at, shape in [
        (np.array([2.0]), (1,)),
        (np.array([[2.0]]), (1, 1)),
        (np.float64(2.0), ()),
        (np.array([2.0]), (1,)),
    ]:
        value, found = gradient(at)
        assert np.shape(value) == np.shape(found) == shape
        assert np.sum(value) == 8.0 and np.sum(found) == 12.0
    assert autograd.grad(lambda x: x**3)(np.array([2.0])).shape == (1,)
    assert autograd.hessian(lambda x: x**3)(np.array([2.0])).shape == (1, 1, 1)


def test_container_types_are_preserved() -> None:
    params = {"w": np.ones(2), "b": [1.0, (2.0,)]}
    found = autograd.grad(lambda p: anp.sum(p["w"] ** 2) * p["b"][0] + p["b"][1][0] ** 2)(params)
    assert (
        list(found) == ["w", "b"]
        and found["b"] == [2.0, (4.0,)]
        and found["w"].tolist() == [2.0, 2.0]
    )
    vector, unflatten = flatten(params)
    assert vector.tolist() == [1.0, 2.0, 1.0, 1.0]
    assert unflatten(np.arange(4.0))["b"] == [0.0, (1.0,)] and unflatten(np.arange(4.0))[
        "w"
    ].tolist() == [2.0, 3.0]
    assert flatten([])[0].size == 0 and flatten(2.0)[1](np.array([3.0])) == 3.0
    of_vector = autograd.grad(lambda v: anp.sum(unflatten(v)["w"] ** 2))(np.arange(4.0))
    assert of_vector.tolist() == [0.0, 0.0, 4.0, 6.0]
    assert autograd.grad(lambda p: anp.sum(flatten(p)[0] ** 2))(params)["b"] == [2.0, (4.0,)]


def test_calls_that_autograd_refuses_raise_with_a_fix() -> None:
    refused = [
        lambda: autograd.grad(lambda x: x**2)(3),
        lambda: autograd.grad(lambda x: anp.sum(x))(np.arange(3)),
        lambda: autograd.grad(lambda x: x)(X),
        lambda: autograd.grad(lambda x: (x, x))(1.0),
        lambda: autograd.grad(lambda x: None)(1.0),
        lambda: autograd.grad(lambda x: x * 1j)(1.0),
        lambda: autograd.value_and_grad(lambda x: x)(X),
        lambda: autograd.jacobian(lambda x: x * 1j)(X),
        lambda: autograd.jacobian(lambda x: [x[0], x[1]])(X),
        lambda: autograd.elementwise_grad(lambda x: x * 1j)(X),
        lambda: autograd.grad(lambda x: anp.sum(x > 0))(X),
    ]
    for call in refused:
        with pytest.raises(TypeError, match="fix: "):
            call()


def test_a_result_that_is_constant_warns_and_has_gradient_zero() -> None:
    for operator in (autograd.grad, autograd.elementwise_grad, autograd.value_and_grad):
        with pytest.warns(UserWarning, match="independent of input"):
            found = operator(lambda x: 3.0)(X)
        np.testing.assert_array_equal(
            found[1] if operator is autograd.value_and_grad else found, np.zeros(3)
        )
    with pytest.warns(UserWarning, match="independent of input"):
        assert not autograd.jacobian(lambda x: np.ones(2))(X).any()
    with pytest.warns(UserWarning, match="not complex"):
        assert autograd.holomorphic_grad(lambda x: x**2)(3.0) == 6.0


def test_values_and_classes_of_traced_values() -> None:
    seen: list[Any] = []

    def g(x: Any, params: Any) -> Any:
        seen.append(tracer.isbox(x) and isinstance(x, ArrayBox) and isinstance(x, extend.Box))
        seen.append(autograd.isinstance(x, np.ndarray) and autograd.type(x) is np.ndarray)
        seen.append(autograd.type(x[0]) is np.float64 and not autograd.isinstance(x, list))
        seen.append(
            isinstance(params, autograd.builtins.DictBox)
            and not isinstance({}, autograd.builtins.DictBox)
        )
        seen.append(
            isinstance([x], autograd.builtins.SequenceBox) and autograd.isinstance(params, dict)
        )
        return anp.sum(x * tracer.getval(x)) * params["a"]

    np.testing.assert_allclose(autograd.grad(g, (0, 1))(X, {"a": 2.0})[0], 2 * X)
    assert all(seen) and len(seen) == 5
    assert not tracer.isbox(X) and tracer.getval(X) is X


def test_vector_spaces() -> None:
    space = extend.vspace(A)
    assert (space.shape, space.size, space.ndim, space.dtype, space.iscomplex) == (
        (2, 3),
        6,
        2,
        np.float64,
        False,
    )
    assert space == extend.vspace(np.ones((2, 3))) != extend.vspace(X)
    assert (
        len(list(space.standard_basis())) == 6
        and np.sum(space.ones()) == 6
        and not space.zeros().any()
    )
    nest = extend.vspace({"a": X, "b": 1j})
    assert nest.size == 5 and nest.iscomplex and nest.ones()["b"] == 1 + 1j
    x = nest.randn()
    np.testing.assert_allclose(nest.inner_prod(x, x), np.sum(x["a"] ** 2) + abs(x["b"]) ** 2)
    np.testing.assert_allclose(nest.add(x, nest.scalar_mul(x, 2.0))["a"], 3 * x["a"])
    assert nest.covector(x)["b"] == np.conj(x["b"]) and nest.mut_add(None, x) is x
    assert [np.sum(np.abs(e["a"])) + abs(e["b"]) for e in nest.standard_basis()] == [1.0] * 5
    for wrong in (3, "text", {"a": 1}):
        with pytest.raises(DtypeError):
            extend.vspace(wrong)
    with pytest.raises(Unsupported, match="pytree"):
        extend.VSpace.register(int)


# -- primitives ------------------------------------------------------------------------------------


def plain(*arrays: Any) -> None:
    assert all(type(a) in (np.ndarray, np.float64, float) for a in arrays), arrays


@autograd.primitive
def matvec(a: Any, x: Any) -> Any:
    plain(a, x)
    return np.frombuffer((a @ x).tobytes())


@autograd.primitive
def outer(a: Any, b: Any) -> Any:
    plain(a, b)
    return np.outer(a, b)


# Rules that call primitives on the cotangent, as those of linear operators do.
extend.defvjp(
    matvec, lambda ans, a, x: lambda g: outer(g, x), lambda ans, a, x: lambda g: matvec(a.T, g)
)
extend.defvjp(
    outer, lambda ans, a, b: lambda g: matvec(g, b), lambda ans, a, b: lambda g: matvec(g.T, a)
)


def through(a: Any, x: Any) -> Any:
    return anp.sum(anp.sin(matvec(a, x)) ** 2)


def written(a: Any, x: Any) -> Any:
    return np.sum(np.sin(a @ x) ** 2)


def test_primitives_are_differentiated_to_any_order_and_in_both_modes() -> None:
    v = np.array([0.5, -1.0, 0.25])
    jacobian = autograd.jacobian
    for k in (0, 1):
        np.testing.assert_allclose(
            autograd.grad(through, k)(A, X), ft.grad(written, k)(A, X), rtol=1e-13
        )
    np.testing.assert_allclose(
        autograd.hessian(through, 1)(A, X), ft.hessian(written, 1)(A, X), rtol=1e-12
    )
    for orders in ((1, 0), (0, 0), (1, 1, 0)):
        found, expected = through, written
        for k in orders:
            found, expected = jacobian(found, k), ft.jacrev(expected, k)
        np.testing.assert_allclose(found(A, X), expected(A, X), rtol=1e-12, err_msg=str(orders))
    forward = autograd.make_jvp(through, 1)(A, X)(v)
    np.testing.assert_allclose(forward, ft.jvp(lambda x: written(A, x), (X,), (v,)), rtol=1e-13)
    np.testing.assert_allclose(
        autograd.hessian_vector_product(through, 1)(A, X, v), ft.hessian(written, 1)(A, X) @ v
    )
    np.testing.assert_allclose(
        ft.vmap(ft.grad(lambda w: through(A, X) * w))(X), [through(A, X)] * 3
    )
    assert through(A, X) == written(A, X)


def cube_rules() -> dict[str, Any]:
    """One function, with its rules given in every way."""
    made: dict[str, Any] = {}

    def cube(name: str) -> Any:
        made[name] = autograd.primitive(lambda scale, x: scale * x**3)
        return made[name]

    extend.defvjp(
        cube("defvjp"),
        lambda ans, s, x: lambda g: np.sum(g * x**3),
        lambda ans, s, x: unbroadcast_f(x, lambda g: g * 3 * s * x**2),
    )
    extend.defjvp(
        cube("defjvp"), lambda g, ans, s, x: g * x**3, lambda g, ans, s, x: 3 * s * x**2 * g
    )
    rules = [lambda g, ans, s, x: np.sum(g * x**3), lambda g, ans, s, x: g * s * 3 * x**2]
    extend.defvjp_argnum(
        cube("defvjp_argnum"), lambda k, ans, args, kwargs: lambda g: rules[k](g, ans, *args)
    )
    extend.defvjp_argnums(
        cube("defvjp_argnums"),
        lambda ks, ans, args, kwargs: lambda g: [rules[k](g, ans, *args) for k in ks],
    )
    push = [lambda g, s, x: g * x**3, lambda g, s, x: g * s * 3 * x**2]
    extend.defjvp_argnum(cube("defjvp_argnum"), lambda k, g, ans, args, kwargs: push[k](g, *args))
    extend.defjvp_argnums(
        cube("defjvp_argnums"),
        lambda ks, gs, ans, args, kwargs: sum([push[k](g, *args) for k, g in zip(ks, gs)]),
    )
    extend.defvjp(cube("one of each"), lambda ans, s, x: lambda g: np.sum(g * x**3))
    extend.defjvp(made["one of each"], lambda g, ans, s, x: g * s * 3 * x**2, argnums=[1])
    return made


def test_rules_can_be_defined_in_every_way() -> None:
    cubed = lambda s, x: s * x**3
    for name, rule in cube_rules().items():
        for k in (0, 1):
            total, expected = (
                (lambda s, x: anp.sum(rule(s, x))),
                (lambda s, x: anp.sum(cubed(s, x))),
            )
            np.testing.assert_allclose(
                autograd.grad(total, k)(2.0, X), ft.grad(expected, k)(2.0, X), err_msg=name
            )
            np.testing.assert_allclose(
                autograd.jacobian(rule, k)(2.0, X), ft.jacrev(cubed, k)(2.0, X), err_msg=name
            )
            direction = [0.5, X[::-1]][k]
            found = autograd.make_jvp(rule, k)(2.0, X)(direction)[1]
            np.testing.assert_allclose(
                found, autograd.make_jvp(cubed, k)(2.0, X)(direction)[1], err_msg=name
            )
            np.testing.assert_allclose(
                autograd.hessian(total, k)(2.0, X),
                ft.hessian(expected, k)(2.0, X),
                atol=1e-12,
                err_msg=name,
            )


def test_rules_receive_keywords_containers_and_several_results() -> None:
    @autograd.primitive
    def power(x: Any, *, p: int, name: str = "") -> Any:
        return x**p

    extend.defvjp(power, lambda ans, x, p, name="": lambda g: g * p * x ** (p - 1))
    np.testing.assert_allclose(
        autograd.grad(lambda x: anp.sum(power(x, p=3, name="a")))(X), 3 * X**2
    )
    np.testing.assert_allclose(autograd.grad(lambda x: anp.sum(power(x, p=2)))(X), 2 * X)

    @autograd.primitive
    def parts(xs: Any) -> Any:
        return xs["a"] * 2.0, xs["b"] ** 2, 3

    extend.defvjp(parts, lambda ans, xs: lambda g: {"a": 2.0 * g[0], "b": 2.0 * xs["b"] * g[1]})
    found = autograd.grad(lambda xs: parts(xs)[0] * parts(xs)[1] * parts(xs)[2])(
        {"a": 1.5, "b": 2.0}
    )
    assert found == {"a": 24.0, "b": 36.0}


def test_a_missing_rule_raises_where_a_derivative_needs_it_and_only_there() -> None:
    @autograd.primitive
    def product(x: Any, y: Any, z: Any = 1.0) -> Any:
        return x * y * z

    with pytest.raises(
        NotDifferentiableError, match="product has no rule for its derivative by argument 0"
    ):
        autograd.grad(product)(2.0, 3.0)
    extend.defvjp(product, lambda ans, x, y, z=1.0: lambda g: g * y * z, None)
    assert autograd.grad(product)(2.0, 3.0) == 3.0
    assert autograd.grad(product, 1)(2.0, 3.0) == 0.0
    assert (
        ft.grad(lambda x: ft.grad(lambda w: product(x, 3.0, tracer.getval(w)) * w)(1.0))(2.0) == 3.0
    )
    for call in (
        lambda z: product(2.0, 3.0, z),
        lambda z: product(z, 3.0, z),
        lambda z: product(z, 3.0, z=z),
    ):
        with pytest.raises(NotDifferentiableError):
            autograd.grad(call)(1.0)
    assert (
        autograd.grad(lambda z: product(2.0, 3.0, z=z))(1.0) == 6.0
    )  # traced keywords alone: NumPy code, as in autograd


def test_a_linear_primitive_without_a_reverse_mode_rule_raises() -> None:
    double = autograd.primitive(lambda x: 2.0 * x)
    for given in (
        extend.def_linear,
        lambda f: extend.defjvp(f, "same"),
        lambda f: extend.defjvp(f, lambda g, ans, x: f(g)),
    ):
        given(double)
        assert autograd.make_jvp(double)(3.0)(1.0) == (6.0, 2.0)
        with pytest.raises(NotDifferentiableError, match="defvjp"):
            autograd.grad(double)(3.0)
    extend.defvjp(double, lambda ans, x: lambda g: 2.0 * g)
    assert autograd.grad(double)(3.0) == 2.0


def test_results_of_rules_are_checked() -> None:
    @autograd.primitive
    def scaled(x: Any, y: Any) -> Any:
        return x * y

    extend.defvjp(scaled, lambda ans, x, y: lambda g: g * y, lambda ans, x, y: lambda g: g * x * 1j)
    with pytest.raises(
        ShapeError, match=r"the vjp of scaled returned f64\[3\], but argument 0 is f64\[\]"
    ):
        autograd.grad(lambda x: anp.sum(scaled(x, X)))(2.0)
    with pytest.raises(DtypeError, match=r"np\.real"):
        autograd.grad(lambda y: anp.sum(scaled(2.0, y)))(X)
    extend.defvjp(scaled, lambda ans, x, y: lambda g: (g, g))
    with pytest.raises(ArgumentError, match="2 arrays"):
        autograd.grad(lambda x: scaled(x, 1.0))(2.0)


def test_functions_without_a_counterpart_raise() -> None:
    for call in (
        lambda: extend.defvjp(anp.sqrt, lambda ans, x: lambda g: g),
        lambda: extend.defjvp(np.sin, None),
        lambda: matvec.defvjp(lambda g, ans, vs, gvs, a, x: g),
        lambda: matvec.defgrad(lambda ans, a, x: lambda g: g),
        lambda: extend.SparseObject(1, 2),
        lambda: extend.VJPNode(),
        lambda: extend.register_notrace(extend.VJPNode, matvec),
    ):
        with pytest.raises(Unsupported, match="fix: "):
            call()
    with pytest.raises(AttributeError, match=r"functrace\.trace"):
        tracer.new_box
    with pytest.raises(ArgumentError, match="no rule"):
        extend.defvjp(outer, 3)
    with pytest.raises(ConcretizationError, match=r"functrace\.primitive"):
        ft.jit(through)(A, X)


def test_functions_of_scipy_that_autograd_has_no_rule_for_keep_functraces() -> None:
    from functrace.compat.autograd.scipy.linalg import expm

    with pytest.warns(UserWarning, match="functrace differentiates expm itself"):
        extend.defvjp(expm, lambda ans, x: lambda g: g)
    np.testing.assert_allclose(
        autograd.grad(lambda a: anp.sum(expm(a * np.eye(2))))(0.5), 2 * np.exp(0.5)
    )


# -- misc ------------------------------------------------------------------------------------------


def test_fixed_points() -> None:
    root = lambda a: fixed_point(
        lambda a: lambda x: 0.5 * (x + a / x), a, 1.0, lambda x, y: abs(x - y), 1e-13
    )
    np.testing.assert_allclose(autograd.grad(root)(2.0), 0.5 / np.sqrt(2.0), rtol=1e-12)
    np.testing.assert_allclose(
        autograd.grad(autograd.grad(root))(2.0), -0.25 * 2.0**-1.5, rtol=1e-10
    )


def test_optimizers_minimize_over_a_pytree() -> None:
    target = {"a": X, "b": (2.0,)}
    loss = lambda p, i: anp.sum((p["a"] - target["a"]) ** 2) + (p["b"][0] - 2.0) ** 2
    start = {"a": np.zeros(3), "b": (0.0,)}
    for optimize, options in (
        (optimizers.adam, {"num_iters": 400, "step_size": 0.05}),
        (optimizers.sgd, {"num_iters": 200}),
        (optimizers.rmsprop, {"num_iters": 400, "step_size": 0.02}),
    ):
        steps: list[int] = []
        found = optimize(
            autograd.grad(loss), start, lambda p, i, g, steps=steps: steps.append(i), **options
        )
        np.testing.assert_allclose(found["a"], X, atol=0.03)
        np.testing.assert_allclose(found["b"][0], 2.0, atol=0.03)
        assert len(steps) == options["num_iters"]


def test_checks_of_gradients() -> None:
    test_util.check_grads(f)(X)
    test_util.check_grads(through, 1, modes=["rev"], order=1)(A, X)
    test_util.combo_check(lambda x, y, k=1: anp.sin(x) * y * k, [0, 1], order=1)(
        [0.5, X], [2.0], k=[1, 2]
    )
    test_util.check_equivalent(X, X + 1e-9)
    test_util.check_vjp(f, X)
    test_util.check_jvp(f, X)
    v = np.ones(3)
    np.testing.assert_allclose(test_util.make_numerical_jvp(f, X)(v), ft.grad(f)(X) @ v, rtol=1e-6)

    @autograd.primitive
    def wrong(x: Any) -> Any:
        return np.sin(x)

    extend.defvjp(wrong, lambda ans, x: lambda g: g * np.sin(x))
    for call in (
        lambda: test_util.check_grads(wrong)(0.3),
        lambda: test_util.check_equivalent(X, X + 1.0),
    ):
        with pytest.raises(AssertionError):
            call()


# -- names -----------------------------------------------------------------------------------------


def test_modules_have_the_names_of_numpy_and_scipy() -> None:
    from functrace.compat.autograd.numpy import fft, linalg, random
    from functrace.compat.autograd.scipy import integrate, signal, special, stats
    from functrace.compat.autograd.scipy.stats import multivariate_normal, norm

    assert (
        anp.ndarray is np.ndarray
        and anp.pi == np.pi
        and anp.float64 is np.float64
        and anp.trapz is anp.trapezoid
    )
    assert anp.sum is ft.numpy.sum and linalg.inv is ft.numpy.linalg.inv and anp.random is random
    assert random.normal is np.random.normal and set(anp.__all__) <= {*dir(np)}
    space: dict[str, Any] = {}
    exec("from functrace.compat.autograd.numpy import *", space)
    assert space["tanh"] is anp.tanh and "linalg" in space

    def g(x: Any) -> Any:
        y = anp.array([x[0], 1.0, x[1]]) + anp.concatenate([x[k : k + 1] for k in range(3)])
        z = anp.stack(anp.sin(part) for part in (x, y))
        return (
            anp.sum(anp.vstack([z, x[None]])) + linalg.norm(x) + anp.sum(anp.abs(fft.fft(x)) ** 2)
        )

    def decay(x: Any) -> Any:
        return anp.sum(
            integrate.odeint(lambda y, t: -y * x[0], x[1:], np.linspace(0.0, 1.0, 3))[-1]
        )

    h = lambda x: (
        special.logsumexp(x) + anp.sum(special.gammaln(x**2 + 1.0)) + norm.logpdf(x[0], x[1],
        x[2] ** 2)
        + multivariate_normal.logpdf(x, np.zeros(3), np.eye(3)) + anp.sum(signal.convolve(x,
        x[:2]) ** 3)
        + stats.gamma.logpdf(x[2] ** 2, 2.0) + decay(x)
    )  # fmt: skip
    for function in (g, h):
        test_util.check_grads(function, order=1)(X)
    for missing in (
        lambda: anp.no_such,
        lambda: linalg.no_such,
        lambda: norm.no_such,
        lambda: stats.no_such,
    ):
        with pytest.raises(AttributeError, match="no_such"):
            missing()


def test_convolution_of_axes() -> None:
    from functrace.compat.autograd.scipy.signal import convolve

    rng = np.random.default_rng(0)
    for n, m in ((5, 3), (3, 5), (4, 4), (4, 1)):
        a, b = rng.normal(size=n), rng.normal(size=m)
        for mode in ("full", "valid"):
            np.testing.assert_allclose(
                convolve(a, b, mode=mode), np.convolve(a, b, mode), atol=1e-14
            )
        same = np.convolve(a, b)[(m - 1) // 2 :][:n]
        np.testing.assert_allclose(convolve(a, b, mode="same"), same, atol=1e-14)
    images, kernels = rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(3, 4, 3, 2))
    found = convolve(images, kernels, axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode="valid")
    expected = np.zeros((2, 4, 4, 4))
    for i, j in np.ndindex(3, 2):
        expected += np.einsum(
            "nchw,cd->ndhw", images[:, :, 2 - i : 6 - i, 1 - j : 5 - j], kernels[:, :, i, j]
        )
    np.testing.assert_allclose(found, expected, atol=1e-13)
    with pytest.raises(ArgumentError):
        convolve(images, kernels, mode="wrap")
    with pytest.raises(ShapeError):
        convolve(np.ones((2, 5)), np.ones((3, 3)), mode="valid")


REPLACED = """
import sys, types
real = types.ModuleType("autograd"); real.numpy = types.ModuleType("autograd.numpy")
sys.modules["autograd"], sys.modules["autograd.numpy"] = real, real.numpy
held = types.ModuleType("held"); held.anp = real.numpy; sys.modules["held.inner"] = held
from functrace.compat.autograd import replace_autograd
import functrace as ft
try:
    with replace_autograd("held"):
        raise SystemExit("held is on the other autograd")
except ImportError as error:
    print("held.inner" in str(error))
before = {name for name in sys.modules if name.partition(".")[0] == "autograd"}
with replace_autograd("absent"):
    import autograd, autograd.numpy as anp
    from autograd import grad, numpy
    from autograd.scipy.stats import norm
    from autograd.misc.optimizers import adam
    import autograd.extend
    try:
        import autograd.no_such
    except ImportError:
        print("missing")
    ours = ft.compat.autograd
    print(anp is ours.numpy is numpy, grad is ours.grad, autograd.extend is ours.extend)
print(sys.modules["autograd"] is real, {name for name in sys.modules if name.partition(".")[0] == "autograd"} == before)
try:
    with replace_autograd():
        raise KeyError
except KeyError:
    print(sys.modules["autograd"] is real)
"""


def test_autograd_is_replaced_while_a_block_runs() -> None:
    found = subprocess.run(
        [sys.executable, "-c", REPLACED], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [
        "True",
        "missing",
        "True",
        "True",
        "True",
        "True",
        "True",
        "True",
    ]


def test_modules_are_imported_lazily() -> None:
    code = (
        "import sys, functrace as ft; before = 'functrace.compat' in sys.modules; ft.compat.autograd; "
        "print(before, 'scipy' in sys.modules, 'functrace.compat.autograd' in sys.modules, dir(ft.compat))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False False True ['autograd', 'autoray', 'pot', 'tensorly']\n"
