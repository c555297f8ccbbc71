"""Every layer of ``torch.nn``, beside PyTorch's: parameters drawn from one seed, names of the state,
text, outputs, gradients of inputs and parameters, second order, and refusals.

The samples are PyTorch's own (``module_db``), and ours for layers without any.

    python -m tests.peers.torch.test_nn_modules [NAME ...]    # all samples, and what differs
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import unittest
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the layers are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
TOLERANCE = {"float64": 1e-9, "float32": 3e-5}
"""Relative to the largest element: sums have another order, and there is no fused multiply-add."""

LOOSE = {"Hardsigmoid": 1e-7}
"""PyTorch's gradient has a sixth of single precision."""

OTHER_GRADIENTS = {"CTCLoss"}
"""PyTorch's gradient by the logs of probabilities is that by what ``log_softmax`` makes them of;
here it is the gradient. Through ``log_softmax`` both are equal.
"""

OWN: dict[str, list[str]] = {
    "AdaptiveLogSoftmaxWithLoss": [
        "nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10, 15], 2.0) | x(7, 8), k(20, 7)",
        "nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5], 2.0, True) | x(8), k(20)",
    ],
    "AlphaDropout": ["nn.AlphaDropout(0.3) | x(5, 6)"],
    "BatchNorm1d": ["nn.BatchNorm1d(3, momentum=None, bias=False) | x(5, 3)"],
    "ChannelShuffle": ["nn.ChannelShuffle(2) | x(2, 4, 3, 3)"],
    "ConvTranspose2d": [
        "nn.ConvTranspose2d(3, 4, 3, stride=2) | x(2, 3, 4, 4), output_size=(10, 10)"
    ],
    "CosineSimilarity": ["nn.CosineSimilarity() | x(4, 5), x(4, 5)"],
    "CrossMapLRN2d": ["nn.CrossMapLRN2d(3) | x(2, 2, 3, 3) * 0"],
    "Dropout": ["nn.Dropout(0.3) | x(5, 6)", "nn.Dropout(0.0) | x(5, 6)"],
    "Dropout1d": ["nn.Dropout1d() | x(3, 4, 5)"],
    "Dropout2d": ["nn.Dropout2d() | x(3, 4, 5, 5)"],
    "Dropout3d": ["nn.Dropout3d() | x(3, 4, 2, 2, 2)"],
    "EmbeddingBag": [
        "nn.EmbeddingBag(10, 3, mode='sum') | k(10, 4, 5)",
        "nn.EmbeddingBag(10, 3) | k(10, 7), torch.tensor([0, 3, 3])",
        "nn.EmbeddingBag(10, 3, mode='max') | k(10, 4, 5)",
        "nn.EmbeddingBag(10, 3, padding_idx=2) | k(10, 4, 5)",
    ],
    "Embedding": [
        "nn.Embedding(10, 3, padding_idx=1) | k(10, 4, 5)",
        "nn.Embedding(10, 3, max_norm=0.5) | k(10, 4)",
        "nn.Embedding(10, 3, scale_grad_by_freq=True) | k(3, 8)",
    ],
    "FeatureAlphaDropout": ["nn.FeatureAlphaDropout() | x(3, 4, 5)"],
    "Flatten": ["nn.Flatten() | x(2, 3, 4)", "nn.Flatten(0, 1) | x(2, 3, 4)"],
    "Fold": ["nn.Fold((4, 5), (2, 2)) | x(2, 12, 12)"],
    "GRU": ["nn.GRU(3, 4, 2, dropout=0.3) | x(5, 2, 3)"],
    "Hardsigmoid": ["nn.Hardsigmoid() | x(4, 5)"],
    "Identity": ["nn.Identity() | x(3)"],
    "LazyBatchNorm1d": ["nn.LazyBatchNorm1d() | x(4, 3)"],
    "LazyBatchNorm2d": ["nn.LazyBatchNorm2d(affine=False) | x(4, 3, 2, 2)"],
    "LazyBatchNorm3d": ["nn.LazyBatchNorm3d() | x(4, 3, 2, 2, 2)"],
    "LazyInstanceNorm1d": ["nn.LazyInstanceNorm1d() | x(4, 3, 5)"],
    "LazyInstanceNorm2d": ["nn.LazyInstanceNorm2d() | x(4, 3, 5, 5)"],
    "LazyInstanceNorm3d": ["nn.LazyInstanceNorm3d() | x(4, 3, 2, 2, 2)"],
    "LazyLinear": ["nn.LazyLinear(4) | x(2, 3)", "nn.LazyLinear(4, bias=False) | x(2, 3)"],
    "LSTM": [
        "nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2) | x(5, 2, 3)",
        "nn.LSTM(3, 4, 2, batch_first=True, dropout=0.5) | x(2, 5, 3)",
        "nn.LSTM(3, 4) | packed(x(5, 3, 3), [5, 2, 1])",
        "nn.LSTM(3, 4, bidirectional=True) | packed(x(5, 3, 3), [2, 5, 1])",
    ],
    "MaxUnpool1d": ["nn.MaxUnpool1d(2) | x(1, 2, 3), torch.tensor([[[0, 3, 4], [1, 2, 5]]])"],
    "MaxUnpool2d": ["nn.MaxUnpool2d(2) | x(1, 1, 1, 2), torch.tensor([[[[1, 6]]]])"],
    "MaxUnpool3d": [
        "nn.MaxUnpool3d(2) | x(1, 1, 1, 1, 2), torch.tensor([[[[[1, 10]]]]]), (2, 2, 4)"
    ],
    "PairwiseDistance": [
        "nn.PairwiseDistance() | x(4, 5), x(4, 5)",
        "nn.PairwiseDistance(1, keepdim=True) | x(4, 5), x(4, 5)",
    ],
    "PixelShuffle": ["nn.PixelShuffle(2) | x(2, 8, 3, 3)"],
    "PixelUnshuffle": ["nn.PixelUnshuffle(2) | x(2, 2, 4, 6)"],
    "RReLU": ["nn.RReLU() | x(4, 5)"],
    "RNN": ["nn.RNN(3, 4) | packed(x(5, 3, 3), [5, 2, 1])"],
    "Sequential": [
        "nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2))) | x(5, 3)"
    ],
    "TransformerDecoder": [
        "nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, 0.1), 2) | x(3, 2, 4), x(5, 2, 4)"
    ],
    "TransformerEncoder": [
        (
            "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2,"
            " nn.LayerNorm(4)) | x(2, 3, 4)"
        ),
        (
            "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.3, 'gelu', norm_first=True), 1)"
            " | x(3, 2, 4), mask=torch.triu(torch.ones(3, 3), 1) > 0, is_causal=True"
        ),
    ],
    "TripletMarginLoss": [
        "nn.TripletMarginLoss() | x(4, 5), x(4, 5), x(4, 5)",
        "nn.TripletMarginLoss(2.0, 1, swap=True, reduction='none') | x(4, 5), x(4, 5), x(4, 5)",
    ],
    "TripletMarginWithDistanceLoss": [
        "nn.TripletMarginWithDistanceLoss(swap=True) | x(4, 5), x(4, 5), x(4, 5)",
        (
            "nn.TripletMarginWithDistanceLoss(distance_function=nn.CosineSimilarity())"
            " | x(4, 5), x(4, 5), x(4, 5)"
        ),
    ],
    "Unflatten": ["nn.Unflatten(1, (2, 3)) | x(2, 6, 2)", "nn.Unflatten(-1, [2, -1]) | x(2, 6)"],
    "Unfold": ["nn.Unfold((2, 3), padding=1, stride=(1, 2)) | x(2, 3, 4, 6)"],
    "Upsample": [
        "nn.Upsample(scale_factor=2) | x(2, 3, 4)",
        "nn.Upsample((5, 6), mode='bilinear', align_corners=True) | x(2, 3, 4, 4)",
        "nn.Upsample(scale_factor=1.5, mode='bicubic') | x(2, 3, 4, 4)",
        "nn.Upsample(scale_factor=2, mode='trilinear') | x(1, 2, 2, 3, 2)",
    ],
    "UpsamplingBilinear2d": ["nn.UpsamplingBilinear2d(scale_factor=2) | x(2, 3, 4, 4)"],
    "UpsamplingNearest2d": ["nn.UpsamplingNearest2d(7) | x(2, 3, 4, 4)"],
}
"""Layers, and their arguments: ``x`` draws numbers, ``k`` integers below its first argument."""

INTERVALS = {"LinearCrossEntropyLoss": 150, "CrossEntropyLoss": 15, "MultiheadAttention": 16}
"""Interval of the samples that a run takes, of layers with many."""
LEAST = 7
"""Interval of other layers."""
CHUNKED = "options=LinearCrossEntropyOptions: chunks are a matter of memory, which there is enough"


@functools.cache
def samples() -> dict[str, Any]:
    """PyTorch's descriptions of layers, by name."""
    if (
        "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None
    ):  # its tests import it; none uses it here
        sys.modules["expecttest"] = stub = ModuleType("expecttest")
        stub.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    common = importlib.import_module("torch.testing._internal.common_modules")
    return {info.module_cls.__name__: info for info in common.module_db}


class Sample:
    """A layer, to be made on both libraries, and the arguments of its call."""

    def __init__(
        self, name: str, make: Callable[[ModuleType], Any], args: Any, kwargs: Any, text: str
    ) -> None:
        self.name, self.make, self.text = name, make, text
        self.args, self.kwargs = args, kwargs


def of_pytorch(name: str, dtype: str, training: bool) -> Iterator[Sample]:
    """Yield PyTorch's samples of a layer."""
    info = samples().get(name)
    if info is None:
        return
    torch.manual_seed(3)
    kind = getattr(torch, dtype)
    for given in info.module_inputs_func(
        info, device="cpu", dtype=kind, requires_grad=True, training=training
    ):
        args, kwargs = given.constructor_input.args, given.constructor_input.kwargs
        if kwargs.get("options") is not None or given.forward_input is None:
            continue

        def make(library: ModuleType, args: Any = args, kwargs: Any = kwargs) -> Any:
            made = converted(args, library), converted(kwargs, library)
            return getattr(library.nn, name)(*made[0], **made[1])

        call = given.forward_input
        yield Sample(name, make, call.args, call.kwargs, f"{name}({args}, {kwargs})"[:200])


def of_ours(name: str, dtype: str) -> Iterator[Sample]:
    """Yield our samples of a layer."""
    for text in OWN.get(name, ()):
        made, _, call = text.partition(" | ")
        rng = np.random.default_rng(len(text))

        def x(*shape: int, rng: Any = rng) -> Any:
            return torch.from_numpy(np.asarray(rng.normal(size=shape), dtype)).requires_grad_()

        def k(n: int, *shape: int, rng: Any = rng) -> Any:
            return torch.from_numpy(np.asarray(rng.integers(n, size=shape)))

        def gather(*args: Any, **kwargs: Any) -> Any:
            return args, kwargs

        names = {"x": x, "k": k, "torch": torch, "gather": gather, "packed": Packed}
        args, kwargs = eval(f"gather({call})", names)
        yield Sample(
            name,
            lambda library, made=made: eval(made, {"nn": library.nn, "torch": library}),
            args,
            kwargs,
            text,
        )


class Packed:
    """Padded sequences and their lengths."""

    def __init__(self, padded: Any, lengths: list[int]) -> None:
        self.padded, self.lengths = padded, lengths


def converted(value: Any, library: ModuleType, leaves: list[Any] | None = None) -> Any:
    """Return arguments with their tensors, modules and functions in a library.

    Args:
        value: the arguments.
        library: the library.
        leaves: takes the tensors that require gradients.
    """
    if isinstance(value, torch.Tensor):
        made = library.from_numpy(value.detach().numpy().copy())
        if value.requires_grad:
            made.requires_grad_()
            if leaves is not None:
                leaves.append(made)
        return made
    if isinstance(value, Packed):
        padded = converted(value.padded, library, leaves)
        return library.nn.utils.rnn.pack_padded_sequence(
            padded, value.lengths, enforce_sorted=False
        )
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)([converted(v, library, leaves) for v in value])
    if isinstance(value, dict):
        return {k: converted(v, library, leaves) for k, v in value.items()}
    if isinstance(value, torch.dtype):
        return getattr(library, str(value).removeprefix("torch."))
    if isinstance(value, torch.nn.TransformerEncoderLayer):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return library.nn.TransformerEncoderLayer(
                value.self_attn.embed_dim, value.self_attn.num_heads, value.linear1.out_features,
                value.dropout.p, "relu", value.norm1.eps, value.self_attn.batch_first,
                value.norm_first, value.linear1.bias is not None,
                dtype=converted(value.linear1.weight.dtype, library),
            )  # fmt: skip
    if callable(value) and getattr(value, "__module__", "").startswith("torch"):
        return getattr(library, value.__name__, None) or getattr(
            library.nn.functional, value.__name__
        )
    return value


def tensors(value: Any) -> list[Any]:
    """Return the tensors of a result in order."""
    if value is None:
        return []
    if hasattr(value, "detach"):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    return [x for v in value for x in tensors(v)] if hasattr(value, "__iter__") else []


class Run:
    """One library's results for a sample."""

    def __init__(
        self, sample: Sample, library: ModuleType, dtype: str, training: bool, state: Any = None
    ) -> None:
        self.library = library
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.manual_seed(11)
            self.module = sample.make(library)
            self.module.to(getattr(library, dtype))
            self.module.train(training)
            self.text = repr(self.module)
            leaves: list[Any] = []
            args = converted(sample.args, library, leaves)
            kwargs = converted(sample.kwargs, library, leaves)
            self.drawn = self._state()
            library.manual_seed(12)
            self.outputs = tensors(self.module(*args, **kwargs))
            self.after = self._state()
            self.inputs = leaves + [p for p in self.module.parameters() if p.requires_grad]

    def _state(self) -> dict[str, Any]:
        lazy = self.library.nn.parameter.is_lazy
        state = self.module.state_dict()
        return {k: None if lazy(v) else v.detach().numpy().copy() for k, v in state.items()}

    def gradients(self) -> tuple[list[Any], list[Any] | None]:
        """Return the gradients of a weighted sum of the outputs, and those of a sum of these; None
        for derivatives that the library has not.
        """
        library = self.library
        total = self._weighted(self.outputs)
        if total is None or not total.requires_grad:
            return [], []
        try:
            first = library.autograd.grad(total, self.inputs, create_graph=True, allow_unused=True)
        except RuntimeError as error:  # CrossMapLRN2d
            if "don't support automatic" not in str(error):
                raise
            return list(library.autograd.grad(total, self.inputs, allow_unused=True)), None
        again = self._weighted([g for g in first if g is not None])
        if again is None or not again.requires_grad:
            return list(first), [None] * len(first)
        try:
            second = library.autograd.grad(again, self.inputs, allow_unused=True)
        except RuntimeError as error:
            if "is not implemented" in str(error):
                return list(first), None
            raise
        return list(first), list(second)

    def _weighted(self, values: list[Any]) -> Any:
        total = None
        for number, x in enumerate(values):
            if not x.requires_grad:
                continue
            rng = np.random.default_rng(number)
            weights = np.asarray(rng.uniform(0.5, 1.5, tuple(x.shape)), x.detach().numpy().dtype)
            part = (x * self.library.from_numpy(weights)).sum()
            total = part if total is None else total + part
        return total


def difference(expected: Any, found: Any, tolerance: float) -> str:
    """Return how arrays, or None, differ; empty if they do not."""
    a, b = (x.detach().clone().numpy() if hasattr(x, "detach") else x for x in (expected, found))
    if a is None or b is None:
        given = [x for x in (a, b) if x is not None]
        return "" if not given or not given[0].any() else f"{a} and {b}"
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{a.shape} and {b.dtype}{b.shape}"
    scale = max(float(np.max(np.abs(np.where(np.isfinite(a), a, 0)), initial=0.0)), 0.1)
    if np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
        return ""
    with np.errstate(invalid="ignore"):
        return f"by {np.nanmax(np.abs(a - b)):.2g} of {scale:.2g}"


def compared(sample: Sample, dtype: str, training: bool) -> list[str]:
    """Return what differs between both libraries."""
    tolerance = max(TOLERANCE[dtype], LOOSE.get(sample.name, 0.0))
    expected = Run(sample, torch, dtype, training)
    try:
        found = Run(sample, SHIM, dtype, training)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    report = []
    if found.text != expected.text:
        report.append(f"text {expected.text!r} and {found.text!r}")
    for when in ("drawn", "after"):
        first, second = getattr(expected, when), getattr(found, when)
        if list(first) != list(second):
            report.append(f"{when}: {list(first)} and {list(second)}")
            continue
        for name in first:
            told = difference(first[name], second[name], tolerance)
            if told:
                report.append(f"{when} {name} differs {told}")
    results = [("output", expected.outputs, found.outputs)]
    if not report and sample.name not in OTHER_GRADIENTS:
        pairs = zip(("gradient", "second"), expected.gradients(), found.gradients())
        results += [(kind, first, second) for kind, first, second in pairs]
    for kind, first, second in results:
        if first is None:
            continue  # PyTorch has no second derivative
        if second is None or len(first) != len(second):
            report.append(f"{kind}: {len(first)} tensors, and {second and len(second)}")
            continue
        for place, (a, b) in enumerate(zip(first, second)):
            told = difference(a, b, tolerance * (10 if kind == "second" else 1))
            if told:
                report.append(f"{kind} {place} differs {told}")
    return report


NAMES = sorted(
    name
    for name in SHIM.nn.modules.__all__
    if name not in {"Container", "Module", "NLLLoss2d", "RNNBase", "RNNCellBase", "SyncBatchNorm"}
    and not name.startswith(("ModuleDict", "ModuleList", "Parameter"))
)


def all_samples(name: str, dtype: str, training: bool) -> list[Sample]:
    return [*of_pytorch(name, dtype, training), *of_ours(name, dtype)]


def some(given: list[Sample], name: str) -> list[Sample]:
    """Return one in several, and all of ours."""
    interval = INTERVALS.get(name, LEAST)
    ours = len(OWN.get(name, ()))
    rest = given[: len(given) - ours]
    return rest[::interval] + given[len(given) - ours :]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_layers_are_those_of_pytorch(name: str) -> None:
    given = all_samples(name, "float64", True)
    assert given, f"{name} has no sample: add one to OWN"
    for sample in some(given, name):
        report = compared(sample, "float64", True)
        assert not report, "\n".join([sample.text, *report])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", NAMES)
def test_layers_in_float32_when_not_training(name: str) -> None:
    for sample in some(all_samples(name, "float32", False), name):
        report = compared(sample, "float32", False)
        assert not report, "\n".join([sample.text, *report])


def test_every_layer_of_pytorch_is_there() -> None:
    missing = set(torch.nn.modules.__all__) - set(SHIM.nn.modules.__all__)
    assert missing == {"LinearCrossEntropyOptions"}, CHUNKED


@functools.cache
def refusals() -> dict[str, list[Any]]:
    """PyTorch's samples of layers that raise, by name."""
    found: dict[str, list[Any]] = {}
    for name, info in samples().items():
        if info.module_error_inputs_func is not None:
            found[name] = list(
                info.module_error_inputs_func(
                    info, device="cpu", dtype=torch.float64, requires_grad=False, training=True
                )
            )
    return found


def test_refusals_are_those_of_pytorch() -> None:
    report = []
    for name, cases in refusals().items():
        for case in cases:
            given = case.module_error_input
            told = []
            for library in (torch, SHIM):
                try:
                    make = given.constructor_input
                    args, kwargs = converted(make.args, library), converted(make.kwargs, library)
                    module = getattr(library.nn, name)(*args, **kwargs).to(library.float64)
                    call = given.forward_input
                    assert call is not None, "made"
                    module(*converted(call.args, library), **converted(call.kwargs, library))
                except Exception as error:
                    told.append(f"{type(error).__name__}: {error}".replace("functrace.", ""))
                else:
                    told.append("no error")
            if told[0] != told[1] and "negative dimension" not in told[0]:
                report.append(f"{name}: PyTorch {told[0]}\n     functrace {told[1]}")
    assert not report, "\n".join(report)


def main(names: list[str]) -> None:
    """Compare all samples of layers, and print what differs."""
    count = different = 0
    for name in names or NAMES:
        for dtype, training in (("float64", True), ("float32", False)):
            for sample in all_samples(name, dtype, training):
                count += 1
                try:
                    report = compared(sample, dtype, training)
                except Exception as error:
                    report = [f"stopped: {type(error).__name__}: {error}"]
                if report:
                    different += 1
                    print(f"{sample.text} {dtype}\n    " + "\n    ".join(report[:4]), flush=True)
    print(f"{count} samples, {different} of them different")


if __name__ == "__main__":
    main(sys.argv[1:])
