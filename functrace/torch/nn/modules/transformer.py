"""Transformers: layers of attention and products.

Layer: 9.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

from functrace.torch import namespace as torch
from functrace.torch.nn import init
from functrace.torch.nn.modules.attention import MultiheadAttention, additive_mask
from functrace.torch.nn.modules.container import ModuleList
from functrace.torch.nn.modules.dropout import Dropout
from functrace.torch.nn.modules.linear import Linear
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.normalization import LayerNorm
from functrace.torch.nn.modules.plain import F
from functrace.torch.tensors.device import DeviceLike
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]


def _function(activation: Activation) -> Any:
    """Return the function of a name."""
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


def _copies(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _is_causal(mask: Any, is_causal: bool | None, size: int | None) -> bool:
    """Return whether a mask is the causal one, if that is not said."""
    if is_causal is not None or mask is None:
        return bool(is_causal)
    n = mask.size(-2) if size is None else size
    causal = Transformer.generate_square_subsequent_mask(n, dtype=mask.dtype)
    return mask.shape == causal.shape and bool((mask == causal).all())


class _Layer(Module):
    """The arguments and the part of products that encoder and decoder layers share."""

    linear1: Linear
    linear2: Linear
    activation: Any

    def _set_products(
        self, d_model: int, dim_feedforward: int, dropout: float, bias: bool, factory: Any
    ) -> None:
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory)

    def _products(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, then two linear layers, each added to its input.

    Args:
        d_model: size of the elements.
        nhead: number of heads.
        dim_feedforward: size between the linear layers.
        dropout: probability of zeros in training.
        activation: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: added to variances.
        batch_first: whether the first axis of inputs and outputs is the batch.
        norm_first: whether inputs of parts, not sums, are normalized.
        bias: whether there are biases.
        device: the CPU.
        dtype: element type of the parameters.
    """

    __constants__ = ("norm_first",)

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__()
        factory: Any = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **factory
        )
        self._set_products(d_model, dim_feedforward, dropout, bias, factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _function(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the sequence after the layer.

        Args:
            src: (steps, batch, d_model), or (batch, steps, d_model) if ``batch_first``.
            src_mask: (steps, steps): True, or ``-inf``, where a step does not read another.
            src_key_padding_mask: (batch, steps): True for steps that are not read.
            is_causal: whether ``src_mask`` is the causal one.
        """
        padding = additive_mask(src_key_padding_mask, "key_padding_mask", src.dtype)
        mask = additive_mask(src_mask, "attn_mask", src.dtype)

        def attend(x: Tensor) -> Tensor:
            found, _ = self.self_attn(
                x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False,
                is_causal=is_causal,
            )  # fmt: skip
            return self.dropout1(found)

        x = src
        if self.norm_first:
            x = x + attend(self.norm1(x))
            return x + self.dropout2(self._products(self.norm2(x)))
        x = self.norm1(x + attend(x))
        return self.norm2(x + self.dropout2(self._products(x)))


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself, to the encoder's outputs, then two linear layers.

    Args:
        d_model: size of the elements.
        nhead: number of heads.
        dim_feedforward: size between the linear layers.
        dropout: probability of zeros in training.
        activation: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: added to variances.
        batch_first: whether the first axis of inputs and outputs is the batch.
        norm_first: whether inputs of parts, not sums, are normalized.
        bias: whether there are biases.
        device: the CPU.
        dtype: element type of the parameters.
    """

    __constants__ = ("norm_first",)

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__()
        factory: Any = {"device": device, "dtype": dtype}
        for name in ("self_attn", "multihead_attn"):
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **factory
            )
            setattr(self, name, attention)
        self._set_products(d_model, dim_feedforward, dropout, bias, factory)
        self.norm_first = norm_first
        for k in (1, 2, 3):
            setattr(self, f"norm{k}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory))
        for k in (1, 2, 3):
            setattr(self, f"dropout{k}", Dropout(dropout))
        self.activation = _function(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the sequence after the layer.

        Args:
            tgt: (steps, batch, d_model), or (batch, steps, d_model) if ``batch_first``.
            memory: the encoder's outputs, likewise.
            tgt_mask: (steps, steps): True, or ``-inf``, where a step does not read another.
            memory_mask: the same for the encoder's outputs.
            tgt_key_padding_mask: (batch, steps): True for steps that are not read.
            memory_key_padding_mask: the same for the encoder's outputs.
            tgt_is_causal: whether ``tgt_mask`` is the causal one.
            memory_is_causal: whether ``memory_mask`` is the causal one.
        """

        def attend(x: Tensor) -> Tensor:
            found, _ = self.self_attn(
                x, x, x, attn_mask=tgt_mask, key_padding_mask=tgt_key_padding_mask,
                is_causal=tgt_is_causal, need_weights=False,
            )  # fmt: skip
            return self.dropout1(found)

        def read(x: Tensor) -> Tensor:
            found, _ = self.multihead_attn(
                x, memory, memory, attn_mask=memory_mask,
                key_padding_mask=memory_key_padding_mask, is_causal=memory_is_causal,
                need_weights=False,
            )  # fmt: skip
            return self.dropout2(found)

        x = tgt
        if self.norm_first:
            x = x + attend(self.norm1(x))
            x = x + read(self.norm2(x))
            return x + self.dropout3(self._products(self.norm3(x)))
        x = self.norm1(x + attend(x))
        x = self.norm2(x + read(x))
        return self.norm3(x + self.dropout3(self._products(x)))


class TransformerEncoder(Module):
    """Several encoder layers.

    Args:
        encoder_layer: the layer, which is copied.
        num_layers: number of copies.
        norm: a normalization of the output.
        enable_nested_tensor: whether nested tensors may be used; there are none here.
        mask_check: the same.
    """

    __constants__ = ("norm",)

    def __init__(
        self,
        encoder_layer: Any,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = False
        reason = _not_nested(encoder_layer) if enable_nested_tensor else ""
        if reason:
            warnings.warn(
                "enable_nested_tensor is True, but self.use_nested_tensor is False because "
                f"{reason}",
                stacklevel=2,
            )

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return the sequence after all layers; see `TransformerEncoderLayer`.

        Args:
            src: the sequence.
            mask: (steps, steps): True, or ``-inf``, where a step does not read another.
            src_key_padding_mask: (batch, steps): True for steps that are not read.
            is_causal: whether ``mask`` is the causal one; found out by default.
        """
        padding = additive_mask(src_key_padding_mask, "src_key_padding_mask", src.dtype)
        mask = additive_mask(mask, "mask", src.dtype)
        causal = _is_causal(mask, is_causal, None)
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        return output if self.norm is None else self.norm(output)


def _not_nested(layer: object) -> str:
    """Return the reason for which PyTorch would not use nested tensors; empty if it might."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    if layer.norm_first:
        return "encoder_layer.norm_first was True"
    if not layer.self_attn.batch_first:
        return (
            "encoder_layer.self_attn.batch_first was not True(use batch_first for better inference "
            "performance)"
        )
    if layer.self_attn.in_proj_bias is None:
        return "encoder_layer.self_attn was passed bias=False"
    if layer.activation not in (F.relu, F.gelu):
        return "encoder_layer.activation_relu_or_gelu was not True"
    if layer.norm1.eps != layer.norm2.eps:
        return "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps"
    if layer.self_attn.num_heads % 2:
        return "encoder_layer.self_attn.num_heads is odd"
    return ""


class TransformerDecoder(Module):
    """Several decoder layers.

    Args:
        decoder_layer: the layer, which is copied.
        num_layers: number of copies.
        norm: a normalization of the output.
    """

    __constants__ = ("norm",)

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the sequence after all layers; see `TransformerDecoderLayer`.

        Args:
            tgt: the sequence.
            memory: the encoder's outputs.
            tgt_mask: (steps, steps): True, or ``-inf``, where a step does not read another.
            memory_mask: the same for the encoder's outputs.
            tgt_key_padding_mask: (batch, steps): True for steps that are not read.
            memory_key_padding_mask: the same for the encoder's outputs.
            tgt_is_causal: whether ``tgt_mask`` is the causal one; found out by default.
            memory_is_causal: whether ``memory_mask`` is the causal one.
        """
        causal = _is_causal(tgt_mask, tgt_is_causal, None)
        output = tgt
        for layer in self.layers:
            output = layer(
                output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        d_model: size of the elements.
        nhead: number of heads.
        num_encoder_layers: number of encoder layers.
        num_decoder_layers: number of decoder layers.
        dim_feedforward: size between the linear layers.
        dropout: probability of zeros in training.
        activation: ``"relu"``, ``"gelu"`` or a function.
        custom_encoder: another encoder.
        custom_decoder: another decoder.
        layer_norm_eps: added to variances.
        batch_first: whether the first axis of inputs and outputs is the batch.
        norm_first: whether inputs of parts, not sums, are normalized.
        bias: whether there are biases.
        device: the CPU.
        dtype: element type of the parameters.
    """

    encoder: Any
    decoder: Any

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__()
        factory: Any = {"device": device, "dtype": dtype}
        given: Any = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)

        self.encoder = custom_encoder
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*given)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*given)
            self.decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoder's output for two sequences.

        Args:
            src: the sequence that the encoder reads: (steps, batch, d_model), or (batch, steps,
                d_model) if ``batch_first``.
            tgt: the sequence that the decoder reads, likewise.
            src_mask: (steps, steps): True, or ``-inf``, where a step does not read another.
            tgt_mask: the same for ``tgt``.
            memory_mask: the same for the encoder's outputs.
            src_key_padding_mask: (batch, steps): True for steps that are not read.
            tgt_key_padding_mask: the same for ``tgt``.
            memory_key_padding_mask: the same for the encoder's outputs.
            src_is_causal: whether ``src_mask`` is the causal one; found out by default.
            tgt_is_causal: whether ``tgt_mask`` is the causal one; found out by default.
            memory_is_causal: whether ``memory_mask`` is the causal one.
        """
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: DeviceLike | None = None, dtype: Dtype | None = None
    ) -> Tensor:
        """Return the causal mask: ``-inf`` above the diagonal.

        Args:
            sz: number of steps.
            device: the CPU.
            dtype: element type.
        """
        return torch.triu(
            torch.full((sz, sz), float("-inf"), device=device, dtype=dtype), diagonal=1
        )
