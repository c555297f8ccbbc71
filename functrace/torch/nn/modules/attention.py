"""`MultiheadAttention`, and the function that it calls.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

from functrace.torch import namespace as torch
from functrace.torch.nn import init
from functrace.torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F
from functrace.torch.nn.parameter import Parameter
from functrace.torch.tensors.device import DeviceLike
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.tensor import Tensor


def additive_mask(mask: Any, name: str, dtype: Dtype) -> Any:
    """Return a mask as numbers that are added to scores: ``-inf`` where a boolean one is True.

    Args:
        mask: the mask, or None.
        name: its name.
        dtype: the result's element type.

    Raises:
        AssertionError: for a mask that is neither boolean nor floating.
    """
    if mask is None or torch.is_floating_point(mask):
        return mask
    if mask.dtype != torch.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return torch.zeros(mask.shape, dtype=dtype).masked_fill_(mask, float("-inf"))


class MultiheadAttention(Module):
    """Attention of several heads: queries read values, weighted by their products with keys.

    Args:
        embed_dim: size of the queries and of the output; each head has ``embed_dim / num_heads``.
        num_heads: number of heads.
        dropout: probability with which a weight is zero in training.
        bias: whether projections have biases.
        add_bias_kv: whether a learned key and value are appended.
        add_zero_attn: whether a key and value of zeros are appended.
        kdim: size of the keys.
        vdim: size of the values.
        batch_first: whether the first axis of inputs and output is the batch; the second otherwise.
        device: the CPU.
        dtype: element type of the parameters.

    Example:
        >>> import functrace.torch as torch
        >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        >>> attention.in_proj_weight.shape, attention.out_proj
        (torch.Size([24, 8]), NonDynamicallyQuantizableLinear(in_features=8, out_features=8, bias=True))
    """

    __constants__ = ("batch_first",)
    bias_k: Any
    bias_v: Any
    in_proj_weight: Any
    in_proj_bias: Any
    q_proj_weight: Any
    k_proj_weight: Any
    v_proj_weight: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def made(*sizes: int) -> Parameter:
            return Parameter(torch.empty(sizes, device=device, dtype=dtype))

        one = self._qkv_same_embed_dim
        for name, rows, columns, wanted in (
            ("q", embed_dim, embed_dim, not one),
            ("k", embed_dim, self.kdim, not one),
            ("v", embed_dim, self.vdim, not one),
            ("in", 3 * embed_dim, embed_dim, one),
        ):
            self.register_parameter(f"{name}_proj_weight", made(rows, columns) if wanted else None)
        if bias:
            self.in_proj_bias = made(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.bias_k = made(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = made(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output, and the weights.

        Args:
            query: (targets, batch, embed_dim), or (batch, targets, embed_dim) if ``batch_first``;
                without the batch for one sequence.
            key: (sources, batch, kdim).
            value: (sources, batch, vdim).
            key_padding_mask: (batch, sources): True for keys that are not read.
            need_weights: False for None in the place of weights.
            attn_mask: (targets, sources), or one for each (batch · heads): True, or ``-inf``,
                where a query does not read a key.
            average_attn_weights: whether weights are averaged over heads.
            is_causal: whether ``attn_mask`` is the causal one.
        """
        batched = query.dim() == 3
        if self.batch_first and batched:
            same_key, same_value = key is query, value is key
            query = query.transpose(1, 0)
            key = query if same_key else key.transpose(1, 0)
            value = key if same_value else value.transpose(1, 0)
        separate: dict[str, Any] = (
            {}
            if self._qkv_same_embed_dim
            else {
                "use_separate_proj_weight": True,
                "q_proj_weight": self.q_proj_weight,
                "k_proj_weight": self.k_proj_weight,
                "v_proj_weight": self.v_proj_weight,
            }
        )
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=additive_mask(key_padding_mask, "key_padding_mask", query.dtype),
            need_weights=need_weights,
            attn_mask=additive_mask(attn_mask, "attn_mask", query.dtype),
            average_attn_weights=average_attn_weights, is_causal=is_causal, **separate,
        )  # fmt: skip
        if self.batch_first and batched:
            output = output.transpose(1, 0)
        return output, weights
