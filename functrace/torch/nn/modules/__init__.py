"""``torch.nn.modules``: `Module`, and the layers, a file per kind; each is imported at first use.

Layer: 9.
"""

import importlib
from typing import Any

from functrace.torch.nn.modules import _functions as _functions

FILES: dict[str, str] = {
    "activation": (
        "ReLU SELU SiLU Mish Hardsigmoid Hardswish ELU CELU LeakyReLU RReLU Hardtanh ReLU6 "
        "Threshold Sigmoid Tanh LogSigmoid Softsign Tanhshrink GELU GLU Softplus Hardshrink "
        "Softshrink PReLU Softmin Softmax LogSoftmax Softmax2d"
    ),
    "adaptive": "AdaptiveLogSoftmaxWithLoss",
    "attention": "MultiheadAttention",
    "batchnorm": (
        "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm LazyBatchNorm1d LazyBatchNorm2d "
        "LazyBatchNorm3d"
    ),
    "channelshuffle": "ChannelShuffle",
    "container": "Container Sequential ModuleList ModuleDict ParameterList ParameterDict",
    "conv": (
        "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d "
        "LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"
    ),
    "distance": "PairwiseDistance CosineSimilarity",
    "dropout": "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout",
    "flatten": "Flatten Unflatten",
    "fold": "Unfold Fold",
    "hooking": "",
    "instancenorm": (
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
        "LazyInstanceNorm3d"
    ),
    "lazy": "",
    "linear": "Identity Linear Bilinear LazyLinear",
    "loss": (
        "L1Loss MSELoss SmoothL1Loss HuberLoss CrossEntropyLoss NLLLoss NLLLoss2d "
        "PoissonNLLLoss GaussianNLLLoss KLDivLoss BCELoss BCEWithLogitsLoss "
        "HingeEmbeddingLoss CosineEmbeddingLoss MarginRankingLoss MultiLabelMarginLoss "
        "MultiLabelSoftMarginLoss MultiMarginLoss SoftMarginLoss TripletMarginLoss "
        "TripletMarginWithDistanceLoss CTCLoss LinearCrossEntropyLoss"
    ),
    "module": "Module",
    "normalization": "LocalResponseNorm CrossMapLRN2d LayerNorm RMSNorm GroupNorm",
    "padding": (
        "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
        "ZeroPad1d ZeroPad2d ZeroPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d "
        "ReplicationPad1d ReplicationPad2d ReplicationPad3d"
    ),
    "pixelshuffle": "PixelShuffle PixelUnshuffle",
    "plain": "",
    "pooling": (
        "MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d AvgPool1d "
        "AvgPool2d AvgPool3d FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d "
        "LPPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
        "AdaptiveMaxPool2d AdaptiveMaxPool3d"
    ),
    "rnn": "RNNBase RNN GRU LSTM RNNCellBase RNNCell GRUCell LSTMCell",
    "utils": "",
    "sparse": "Embedding EmbeddingBag",
    "state": "",
    "transformer": (
        "TransformerEncoderLayer TransformerDecoderLayer TransformerEncoder "
        "TransformerDecoder Transformer"
    ),
    "upsampling": "Upsample UpsamplingNearest2d UpsamplingBilinear2d",
}
"""The files of this package, and the classes of each."""

_PLACES = {name: file for file, names in FILES.items() for name in names.split()}
__all__ = sorted(_PLACES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a class, or a file, on first access."""
    if name in FILES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _PLACES:
        module = importlib.import_module(f"{__name__}.{_PLACES[name]}")
        return globals().setdefault(name, getattr(module, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The files and the classes."""
    return sorted([*FILES, *_PLACES])
