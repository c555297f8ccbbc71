"""Recurrent layers: the fast loop against cells, derivatives against differences, transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from tests.torch.functions.slopes import check_slopes

RNG = np.random.default_rng(9)
T, N, FEATURES, SIZE = 4, 3, 2, 5
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def t(x: Any) -> Any:
    return torch.from_numpy(np.array(x))


def parameters(kind: str, layers: int = 1, directions: int = 1) -> list[Any]:
    rows = GATES[kind] * SIZE
    made = []
    for layer in range(layers):
        for _ in range(directions):
            read = SIZE * directions if layer else FEATURES
            made += [RNG.uniform(-1, 1, s) for s in ((rows, read), (rows, SIZE), rows, rows)]
    return made


def by_cells(kind: str, x: Any, h: Any, c: Any, params: list[Any], reverse: bool = False) -> Any:
    """Return the states at all steps."""
    cell = getattr(torch, f"{kind}_cell")
    found = [None] * len(x)
    for k in range(len(x) - 1, -1, -1) if reverse else range(len(x)):
        if kind == "lstm":
            h, c = cell(x[k], (h, c), *params)
        else:
            h = cell(x[k], h, *params)
        found[k] = h
    return torch.stack(found)


@pytest.mark.parametrize("kind", GATES)
def test_layers_are_their_cells(kind: str) -> None:
    x, h, c = (
        RNG.uniform(-1, 1, (T, N, FEATURES)),
        RNG.uniform(-1, 1, (4, N, SIZE)),
        RNG.uniform(-1, 1, (4, N, SIZE)),
    )
    params = [t(p) for p in parameters(kind, 2, 2)]
    state = (t(h), t(c)) if kind == "lstm" else t(h)
    run = getattr(torch, kind)
    out, last, *_ = run(t(x), state, params, True, 2, 0.0, False, True, False)
    given = t(x)
    for layer in range(2):
        sides = []
        for d in range(2):
            k = 2 * layer + d
            sides.append(by_cells(kind, given, t(h[k]), t(c[k]), params[4 * k : 4 * k + 4], d == 1))
            np.testing.assert_allclose(last[k].numpy(), sides[d][-1 if d == 0 else 0].numpy())
        given = torch.cat(sides, 2)
    np.testing.assert_allclose(out.numpy(), given.numpy())
    turned, *_ = run(t(x).transpose(0, 1), state, params, True, 2, 0.0, False, True, True)
    np.testing.assert_allclose(turned.transpose(0, 1).numpy(), out.numpy())


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("reverse", [False, True])
def test_slopes(kind: str, reverse: bool) -> None:
    x, h = RNG.uniform(-1, 1, (T, N, FEATURES)), RNG.uniform(-1, 1, (1 + reverse, N, SIZE))

    def run(x: Any, h: Any, c: Any, *params: Any) -> Any:
        state = (h, c) if kind == "lstm" else h
        return getattr(torch, kind)(x, state, list(params), True, 1, 0.0, True, reverse, False)

    operands = [x, h, h * 0.5, *parameters(kind, 1, 1 + reverse)]
    if kind == "lstm":
        check_slopes(run, operands)
    else:
        check_slopes(
            lambda x, h, *rest: run(x, h, h, *rest), [operands[0], operands[1], *operands[3:]]
        )


@pytest.mark.parametrize("kind", GATES)
def test_packed_sequences_are_sequences_of_their_lengths(kind: str) -> None:
    lengths, sizes = [4, 2, 1], [3, 2, 1, 1]
    rows = [RNG.uniform(-1, 1, (n, FEATURES)) for n in lengths]
    data = np.concatenate([[row[k] for row in rows if k < len(row)] for k in range(4)])
    h = RNG.uniform(-1, 1, (2, 3, SIZE))
    params = [t(p) for p in parameters(kind, 1, 2)]
    run = getattr(torch, kind)
    state = (t(h), t(h)) if kind == "lstm" else t(h)
    out, last, *_ = run(t(data), t(sizes), state, params, True, 1, 0.0, False, True)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for k, row in enumerate(rows):
        own = t(h[:, k : k + 1])
        single, end, *_ = run(
            t(row[:, None]),
            (own, own) if kind == "lstm" else own,
            params,
            True,
            1,
            0.0,
            False,
            True,
            False,
        )
        places = [starts[s] + k for s in range(len(row))]
        np.testing.assert_allclose(out.numpy()[places], single[:, 0].numpy())
        np.testing.assert_allclose(last.numpy()[:, k], end[:, 0].numpy())

    def packed(data: Any, h: Any) -> Any:
        state = (h, h) if kind == "lstm" else h
        return run(data, t(sizes), state, params, True, 1, 0.0, False, True)

    check_slopes(packed, [data, h])


def test_inputs_and_gradients_are_not_overwritten() -> None:
    x, h = (
        t(RNG.uniform(-1, 1, (T, 1, FEATURES))).requires_grad_(),
        t(RNG.uniform(-1, 1, (1, 1, SIZE))),
    )
    params = [t(p) for p in parameters("lstm")]
    before = h.clone()
    out, hn, cn = torch.lstm(x, (h, h), params, True, 1, 0.0, True, False, False)
    grads = [torch.ones_like(y) for y in (out, hn, cn)]
    first = torch.autograd.grad((out, hn, cn), x, grads, retain_graph=True)[0]
    again = torch.autograd.grad((out, hn, cn), x, grads)[0]
    assert (first == again).all() and (h == before).all() and all((g == 1).all() for g in grads)


def test_functional_transforms_go_through_a_layer() -> None:
    x, h = t(RNG.uniform(-1, 1, (T, N, FEATURES))), t(RNG.uniform(-1, 1, (1, N, SIZE)))
    params = [t(p) for p in parameters("gru")]

    def loss(x: Any) -> Any:
        return (torch.gru(x, h, params, True, 1, 0.0, False, False, False)[0] ** 2).sum()

    leaf = x.clone().requires_grad_()
    expected = torch.autograd.grad(loss(leaf), leaf)[0]
    np.testing.assert_allclose(torch.func.grad(loss)(x).numpy(), expected.numpy())
    stacked = torch.stack([x, 2 * x])
    found = torch.func.vmap(torch.func.grad(loss))(stacked)
    np.testing.assert_allclose(found[0].numpy(), expected.numpy())


def test_dispatch_modes_get_the_operations_of_cells() -> None:
    from functrace.torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    x, h = t(RNG.uniform(-1, 1, (T, N, FEATURES))), t(RNG.uniform(-1, 1, (1, N, SIZE)))
    for kind in ("lstm", "gru"):
        params = [t(p) for p in parameters(kind)]
        state = (h, h) if kind == "lstm" else h
        for given in ((x, state), (x.flatten(0, 1)[:6], t([3, 2, 1]), state)):
            run = getattr(torch, kind)
            rest = (params, True, 1, 0.0, False, False) + ((False,) if len(given) == 2 else ())
            expected = run(*given, *rest)
            with Names():
                found = run(*given, *rest)
            for a, b in zip(expected, found, strict=True):
                np.testing.assert_allclose(b.numpy(), a.numpy())
    assert "aten.addmm.default" in names and "aten.tanh.default" in names


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_sequence_has_a_step(kind: str) -> None:
    layer = getattr(torch.nn, kind)(3, 4)
    for shape in ((0, 2, 3), (0, 3)):
        with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0"):
            layer(torch.ones(shape))
    assert layer(torch.ones(3, 0, 3))[0].shape == (3, 0, 4)
