"""`functrace.save` and `functrace.load`: values to the bit, structures."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, TreeError

FORMATS = ["npz", "safetensors"]


@pytest.fixture(params=FORMATS)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of each format."""
    if request.param == "safetensors":
        pytest.importorskip("safetensors")
    return tmp_path / f"tree.{request.param}"


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any = None
    name: str = ft.tree.static(default="dense")


@ft.tree.register
@dataclasses.dataclass(frozen=True)
class Pair:
    one: Any
    other: Any


def same(one: Any, other: Any) -> None:
    """Assert that two pytrees are equal to the bit, types included."""
    assert type(one) is type(other), (one, other)
    if isinstance(one, dict):
        assert [*one] == [*other]
        for k in one:
            same(one[k], other[k])
    elif isinstance(one, list | tuple | deque):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, np.ndarray | np.generic):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert one.tobytes() == other.tobytes()
        assert not isinstance(other, np.ndarray) or other.flags.writeable
    elif isinstance(one, float):
        assert np.float64(one).tobytes() == np.float64(other).tobytes()
    else:
        assert one == other


def everything() -> dict[Any, Any]:
    rng = np.random.default_rng(0)
    return {
        "w": rng.normal(size=(3, 4)),
        "layers": [{"w": np.arange(5, dtype=np.int16)}, (np.float32(2.5), np.bool_(True))],
        "numbers": [True, False, 0, -(10**30), 1.5, float("inf"), -0.0, 3 + 1j, None, "text\n\u2207", b"\x00x"],
        "empty": [np.zeros((0, 3)), {}, [], (), np.float64(0.0)],
        "zero dimensions": np.array(3.5, np.float32),
        "kinds": [np.array(["a", "bcd"]), np.array([b"x"]), np.array(["2020-01-01"], "M8[D]"),
                  np.array([3], "m8[s]"), np.array([1 + 2j], np.complex64), np.array([True])],
        "order": [np.asfortranarray(rng.normal(size=(2, 3))), np.arange(6.0)[::2], np.arange(3, dtype=">i4")],
        "key": ft.random.key(7),
        "keys": ft.random.split(ft.random.key(7), 3),
        "../../escape": np.ones(1),
        "a/b\x00c": np.ones(2),
        "x" * 300: np.ones(1),
        "functrace.json": np.ones(3),
        "__metadata__": np.ones(3),
        3: np.ones(1), (1, "a"): np.ones(1), None: 1, True: 2, 2.5: 4,
        "ordered": OrderedDict([("z", 1), ("a", np.ones(1))]),
        "queue": deque([1, np.ones(1)], maxlen=4),
    }  # fmt: skip


def test_values_come_back_to_the_bit(file: Path) -> None:
    wanted = everything()
    del wanted[True]  # (optree compares keys of a dict, and does not order these)
    for k in (3, (1, "a"), None, 2.5):
        del wanted[k]
    ft.save(file, wanted)
    same(wanted, ft.load(file))
    same(wanted, ft.load(file, like=wanted))
    content = file.read_bytes()
    ft.save(file, wanted)
    assert file.read_bytes() == content and [p.name for p in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("key", [3, (1, "a"), None, True, 2.5, b"x", ""])
def test_keys_of_dicts(file: Path, key: Any) -> None:
    wanted = {key: np.ones(2)}
    ft.save(file, wanted)
    found = ft.load(file)
    same(wanted, found)
    assert type(next(iter(found))) is type(key)


@pytest.mark.parametrize("tree", [None, 1, 2.5, "x", np.ones(2), np.int8(3), [], {}])
def test_a_leaf_or_an_empty_container_is_a_pytree(file: Path, tree: Any) -> None:
    ft.save(file, tree)
    same(tree, ft.load(file))


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 0), (1, 2, 3)])
@pytest.mark.parametrize(
    "dtype", ["u1", "i1", "?", "u2", ">i8", "f2", "f4", ">f8", "c8", "c16", "S3", "U2", "M8[ns]"]
)
def test_every_dtype_in_every_shape(file: Path, dtype: str, shape: tuple[int, ...]) -> None:
    kind = np.dtype(dtype)
    count = int(np.prod(shape)) * kind.itemsize
    x = np.frombuffer(bytes([k % 2 for k in range(count)]), kind).reshape(shape)
    wanted = {
        "x": x,
        "turned": x.T,
        "fortran": np.asfortranarray(x),
        "strided": x[..., ::2] if shape else x,
    }
    ft.save(file, wanted)
    found = ft.load(file)
    for name, y in wanted.items():
        assert found[name].dtype == kind and found[name].shape == y.shape
        assert found[name].tobytes() == y.tobytes()


def test_strings_and_integers_that_json_does_not_have(file: Path) -> None:
    pair = "\ud83d\ude00"
    wanted = {
        "text": [pair, pair[0], "\U0001f600", "a\0"],
        "number": [10**5000, -(3**9999)],
        "keys": {pair: 1, "\U0001f600": 2},
    }
    ft.save(file, wanted)
    assert ft.load(file) == wanted
    for x in (np.str_("a\0"), np.bytes_(b"a\0")):
        with pytest.raises(ArgumentError, match="ends in zeros"):
            ft.save(file, [x])


@pytest.mark.parametrize("digits", [0, 640])
def test_long_integers_under_every_limit_of_digits(file: Path, digits: int) -> None:
    wanted = {"n": [10**k for k in (500, 700, 3000, 5000)], "keys": {10**5000: 1, 10**700: 2}}
    before = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(digits)
        ft.save(file, wanted)
        assert ft.load(file) == wanted and ft.load(file, like=wanted) == wanted
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("key", [float("nan"), (1, (float("nan"), 2)), -0.0, True, 1.0])
def test_like_has_keys_that_are_equal_by_their_text(file: Path, key: Any) -> None:
    """NaN does not equal NaN, and ``True == 1``."""
    ft.save(file, {key: np.ones(1)})
    same(
        list(ft.load(file, like={pickle.loads(pickle.dumps(key)): np.zeros(1)}).values()),
        [np.ones(1)],
    )
    with pytest.raises(ArgumentError, match="in like"):
        ft.load(file, like={1: np.ones(1)})


def test_equal_keys_of_nan(file: Path) -> None:
    wanted = {float("nan"): np.ones(1), float("nan"): np.zeros(1)}
    ft.save(file, wanted)
    for found in (ft.load(file), ft.load(file, like=wanted)):
        same(list(found.values()), list(wanted.values()))


@pytest.mark.parametrize("depth", [20, 300, 600, 950])
def test_deep_pytrees_are_saved_and_loaded_or_refused(file: Path, depth: int) -> None:
    tree: Any = np.ones(2)
    for k in range(depth):
        tree = [tree] if k % 2 else {"a": tree}
    try:
        ft.save(file, tree)
    except TreeError as error:
        assert depth > 300 and "nested" in str(error) and not file.exists()
        return
    same(ft.load(file), tree)
    same(ft.load(file, like=tree), tree)


def test_static_values_of_registered_classes(file: Path) -> None:
    @ft.tree.register
    class Activation:
        def __init__(self, x: Any, kind: Any) -> None:
            self.x, self.kind = x, kind

        def tree_flatten(self) -> Any:
            return (self.x,), self.kind

        @classmethod
        def tree_unflatten(cls, static: Any, children: Any) -> Any:
            return cls(children[0], static)

    for kind in ("relu", ("gelu", 2.0), None, print):  # (functions have no form in a file)
        ft.save(file, [Activation(np.ones(2), kind)])
        [found] = ft.load(file, like=[Activation(np.zeros(2), kind)])
        assert found.kind == kind and np.all(found.x == 1.0)
        if kind in ("relu", ("gelu", 2.0)):
            with pytest.raises(ArgumentError, match="static"):
                ft.load(file, like=[Activation(np.zeros(2), "tanh")])


def test_a_class_that_does_not_accept_its_saved_parts(file: Path) -> None:
    @ft.tree.register
    class Positive:
        def __init__(self, x: Any) -> None:
            if type(x) is np.ndarray and np.any(x < 0):
                raise ValueError("x is negative")
            self.x = x

        def tree_flatten(self) -> Any:
            return (self.x,), None

        @classmethod
        def tree_unflatten(cls, static: Any, children: Any) -> Any:
            return cls(*children)

    made = Positive(np.ones(2))
    made.x[0] = -1.0
    ft.save(file, made)
    with pytest.raises(ArgumentError, match=r"Positive.*x is negative"):
        ft.load(file, like=Positive(np.ones(2)))


def test_many_leaves_whose_names_are_equal(file: Path) -> None:
    """The number of look-ups for unique names is proportional to that of leaves."""
    from functrace.saving import trees

    names = trees._unique_names(["\u00e9"] * 100_000)
    assert len(set(names)) == 100_000
    wanted = {"\u00e9" * k: np.full(1, k) for k in range(1, 50)}
    ft.save(file, wanted)
    same(ft.load(file), wanted)


def test_text_that_is_longer_than_a_header_of_safetensors(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    with pytest.raises(ArgumentError, match="header"):
        ft.save(tmp_path / "x.safetensors", bytes(51_000_000))
    assert not list(tmp_path.iterdir())


def test_all_bits_of_nan(file: Path) -> None:
    odd = np.array([0x7FF8000000000123, 0xFFF0000000000001], np.uint64).view(np.float64)
    wanted = [odd, float(odd[0]), complex(float(odd[0]), 1.0)]
    ft.save(file, wanted)
    found = ft.load(file)
    same(wanted[:2], found[:2])
    assert np.complex128(wanted[2]).tobytes() == np.complex128(found[2]).tobytes()


def test_classes_need_like(file: Path) -> None:
    wanted = {
        "point": Point(np.ones(2), 3),
        "layer": Layer(np.ones((2, 2)), None, "first"),
        "pair": Pair([1.0], np.float32(2.0)),
        "default": defaultdict(list, a=np.ones(1)),
    }
    ft.save(file, wanted)
    with pytest.raises(ArgumentError, match="is a Point"):
        ft.load(file)
    zeros = {
        "point": Point(np.zeros(2), 0),
        "layer": Layer(np.zeros((2, 2)), None, "first"),
        "pair": Pair([0.0], np.float32(0.0)),
        "default": defaultdict(list, a=np.zeros(1)),
    }
    found = ft.load(file, like=zeros)
    same(wanted, found)
    assert found["default"].default_factory is list
    with pytest.raises(ArgumentError, match="static"):
        ft.load(file, like={**zeros, "layer": Layer(np.zeros((2, 2)), None, "second")})
    with pytest.raises(ArgumentError, match="point"):
        ft.load(file, like={**zeros, "point": Pair(np.zeros(2), 0)})


def test_states_of_optimizers(file: Path) -> None:
    params = {"w": np.ones((2, 3), np.float32), "b": np.zeros(3)}
    tx = ft.optim.chain(
        ft.optim.clip_by_global_norm(1.0), ft.optim.adamw(1e-3, mask={"w": True, "b": False})
    )
    for rule in (tx, ft.optim.lbfgs(), ft.optim.sgd(0.1, 0.9)):
        state = rule.init(params)
        ft.save(file, (params, state))
        same((params, state), ft.load(file, like=(params, state)))
        shapes = ft.tree.map(
            lambda x: ft.ShapeDtype(np.shape(x), np.asarray(x).dtype), (params, state)
        )
        same((params, state), ft.load(file, like=shapes))


def test_dtypes_that_numpy_does_not_have(file: Path) -> None:
    """All of ml_dtypes, of which float8_e5m2 has the kind and the size of no float of NumPy."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kinds = [
        x for x in vars(ml_dtypes).values() if isinstance(x, type) and issubclass(x, np.generic)
    ]
    assert ml_dtypes.bfloat16 in kinds and ml_dtypes.float8_e5m2 in kinds
    for kind in kinds:
        x = np.ones((2, 3)).astype(kind)
        wanted = [x, x.T, x[:0], x[0, 0], x[0]]
        ft.save(file, wanted)
        same(wanted, ft.load(file))
        same(wanted, ft.load(file, like=wanted))


def test_other_libraries_read_the_files(tmp_path: Path) -> None:
    w = np.random.default_rng(0).normal(size=(2, 3))
    tree = {"layers": [{"w": w}], "n": 3}
    ft.save(tmp_path / "a.npz", tree)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        same(found["layers.0.w"], w)
    safetensors = pytest.importorskip("safetensors.numpy")
    ft.save(tmp_path / "a.safetensors", tree)
    np.testing.assert_array_equal(
        safetensors.load_file(tmp_path / "a.safetensors")["layers.0.w"], w
    )


def test_arrays_of_jax_are_arrays(file: Path) -> None:
    jax = pytest.importorskip("jax")
    ft.save(file, {"x": jax.numpy.arange(3.0)})
    same(ft.load(file), {"x": np.arange(3.0, dtype=jax.numpy.arange(3.0).dtype)})
    with pytest.raises(ArgumentError, match="key_data"):
        ft.save(file, jax.random.key(0))


class Unknown:
    pass


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "object": (lambda: {"a": [Unknown()]}, r"\['a'\]\[0\] is a Unknown"),
    "function": (lambda: {"f": print}, "builtin_function"),
    "objects": (lambda: np.array([{}, None]), "dtype object"),
    "structured": (lambda: np.zeros(2, [("a", float)]), "dtype"),
    "masked": (lambda: np.ma.masked_array([1.0], [True]), "MaskedArray"),
    "key": (lambda: {frozenset(): 1}, "frozenset"),
    "set": (lambda: {1, 2}, "set"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_saved_is_refused(file: Path, name: str) -> None:
    make, words = REFUSED[name]
    ft.save(file, 1)
    with pytest.raises(ArgumentError, match=words) as raised:
        ft.save(file, make())
    assert "fix:" in str(raised.value)
    assert ft.load(file) == 1 and [p.name for p in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("path", [{"w": 1}, 3, b"x.npz", None])
def test_arguments_in_the_wrong_order_are_refused(path: Any) -> None:
    for f in (lambda: ft.save(path, "x.npz"), lambda: ft.load(path)):
        with pytest.raises(ArgumentError, match="the path is a") as raised:
            f()
        assert "fix:" in str(raised.value)


def test_traced_values_and_cycles_are_refused(file: Path) -> None:
    with pytest.raises(ArgumentError, match="leaf"):
        ft.jit(lambda x: ft.save(file, x))(np.ones(2))
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(TreeError):
        ft.save(file, cycle)
    assert not list(file.parent.iterdir())


LIKES: dict[str, tuple[Any, str]] = {
    "shape": ({"w": np.ones((3, 2)), "b": [1, 2.0]}, r"\['w'\] is float64\[2, 3\]"),
    "dtype": ({"w": np.ones((2, 3), "f4"), "b": [1, 2.0]}, "float32"),
    "leaf": ({"w": None, "b": [1, 2.0]}, r"\['w'\]"),
    "missing": ({"w": np.ones((2, 3))}, "has"),
    "more": ({"w": np.ones((2, 3)), "b": [1, 2.0], "c": 1}, "has"),
    "length": ({"w": np.ones((2, 3)), "b": [1]}, r"\['b'\] has 2, but has 1"),
    "sequence": ({"w": np.ones((2, 3)), "b": (1, 2.0)}, "tuple"),
    "number": ({"w": np.ones((2, 3)), "b": [1, 2]}, r"\['b'\]\[1\] is a float, but is a int"),
    "root": ([1], "is a dict, but is a list"),
}


@pytest.mark.parametrize("name", LIKES)
def test_another_structure_is_refused(file: Path, name: str) -> None:
    like, words = LIKES[name]
    ft.save(file, {"w": np.ones((2, 3)), "b": [1, 2.0]})
    with pytest.raises(ArgumentError, match=words) as raised:
        ft.load(file, like=like)
    assert "fix:" in str(raised.value)
