"""``torch.nn.modules``: `Module`, and the layers, a file per kind; each is imported at first use.

Layer: 9.
"""

from functrace.lazy import homes_of, lazy_attributes
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

__all__ = sorted(" ".join(FILES.values()).split())  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = lazy_attributes(__name__, __all__, homes_of(FILES))
