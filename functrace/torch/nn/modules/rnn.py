"""Recurrent layers and cells.

Layer: 9.
"""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any, ClassVar

from functrace.torch import namespace as torch
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.nn import init
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.parameter import Parameter
from functrace.torch.nn.utils.rnn import PackedSequence
from functrace.torch.tensors.device import DeviceLike
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.tensor import Tensor

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
RUN: Any = torch
"""The namespace of the functions that run layers and cells."""


class RNNBase(Module):
    """The parameters and arguments of a recurrent layer.

    Args:
        mode: ``"LSTM"``, ``"GRU"``, ``"RNN_TANH"`` or ``"RNN_RELU"``.
        input_size: size of the input at a step.
        hidden_size: size of the state.
        num_layers: number of layers; each reads the outputs of the one before.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are (batch, steps, size); (steps, batch, size)
            otherwise.
        dropout: probability with which outputs between layers are zero in training.
        bidirectional: whether each layer has a second one, from the last step to the first.
        proj_size: size to which an LSTM projects its state; 0 for none.
        device: the CPU.
        dtype: element type of the parameters.
    """

    __constants__ = (
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
        "bidirectional", "proj_size",
    )  # fmt: skip

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__()
        _check_dropout(dropout, num_layers)
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if not isinstance(size, int):
                raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
        for name, flag in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
        for name, size in (
            ("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers),
        ):  # fmt: skip
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional = float(dropout), bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        rows, output = GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            read = output * self._directions if layer else input_size
            for reverse in ("", "_reverse")[: self._directions]:
                sizes = {"weight_ih": (rows, read), "weight_hh": (rows, output)}
                if bias:
                    sizes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    sizes["weight_hr"] = (proj_size, hidden_size)
                names = [f"{name}_l{layer}{reverse}" for name in sizes]
                for name, size in zip(names, sizes.values()):
                    setattr(self, name, Parameter(torch.empty(size, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters, a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing: parameters have their own memory."""

    def reset_parameters(self) -> None:
        """Draw the parameters uniformly from ±1/√hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Return the arguments that are not the usual ones."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
            ("dropout", 0), ("bidirectional", False),
        ):  # fmt: skip
            value = getattr(self, name)
            if value != usual:
                text += f", {name}={value}"
        return text

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Refuse an input of another dtype or size."""
        wanted = self._flat_weights[0].dtype
        if input.dtype != wanted and MODES.autocast is None:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({wanted}). Convert "
                f"input: input.to({wanted}), or convert model: model.to({input.dtype})"
            )
        axes = 3 if batch_sizes is None else 2
        if input.dim() != axes:
            raise RuntimeError(f"input must have {axes} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.size(-1)}"
            )

    def _state_size(self, batch: int, size: int) -> tuple[int, int, int]:
        return self.num_layers * self._directions, batch, size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Refuse a state of another size."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def _zeros(self, batch: int, input: Tensor) -> Any:
        """Return the first state."""
        size = self._state_size(batch, self.proj_size or self.hidden_size)
        return torch.zeros(size, dtype=input.dtype)

    def _check_axes(self, hx: Any, axes: int) -> None:
        kind = "batched 3-D" if axes == 3 else "unbatched 2-D"
        if hx.dim() != axes:
            raise RuntimeError(
                f"For {kind} input, hx should also be {axes}-D but got {hx.dim()}-D tensor"
            )

    def _check_state(self, hx: Any, batch: int) -> None:
        self.check_hidden_size(hx, self._state_size(batch, self.proj_size or self.hidden_size))

    def _mapped(self, function: Any, state: Any) -> Any:
        """Return a state, of which LSTM has two, after a function."""
        return function(state)

    def permute_hidden(self, hx: object, permutation: Tensor | None) -> Any:
        """Return a state with its batch in another order."""
        if permutation is None:
            return hx
        return self._mapped(lambda x: x.index_select(1, permutation), hx)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Return the outputs of the last layer at every step, and the last state of every layer.

        Args:
            input: (steps, batch, input_size); without the batch for one sequence; or packed
                sequences.
            hx: (layers · directions, batch, hidden_size), the first state; zeros by default. For
                an LSTM a pair of them.
        """
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            output, hidden = self._run(data, batch_sizes, int(batch_sizes[0]), hx, order)
            made = PackedSequence(output, batch_sizes, order, back)
            return made, self.permute_hidden(hidden, back)
        if input.dim() not in (2, 3):
            tensor = " tensor" if self.mode.startswith("RNN") else ""
            raise ValueError(
                f"{_short(self.mode)}: Expected input to be 2D or 3D, got "
                f"{input.dim()}D{tensor} instead"
            )
        batched = input.dim() == 3
        axis = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(axis)
        if hx is not None:
            self._check_axes(hx, 3 if batched else 2)
            if not batched:
                hx = self._mapped(lambda x: x.unsqueeze(1), hx)
        output, hidden = self._run(input, None, input.size(axis), hx, None)
        if not batched:
            output, hidden = output.squeeze(axis), self._mapped(lambda x: x.squeeze(1), hidden)
        return output, hidden

    def _run(
        self,
        input: Tensor,
        batch_sizes: Tensor | None,
        batch: int,
        hx: object,
        order: Tensor | None,
    ) -> tuple[Tensor, Any]:
        """Check the arguments, and run all layers."""
        hx = self._zeros(batch, input) if hx is None else self.permute_hidden(hx, order)
        self.check_input(input, batch_sizes)
        self._check_state(hx, batch)
        settings = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        run = getattr(RUN, self.mode.lower())
        if batch_sizes is None:
            found = run(input, hx, self._flat_weights, *settings, self.batch_first)
        else:
            found = run(input, batch_sizes, hx, self._flat_weights, *settings)
        output, *hidden = found
        return output, self._state_of(hidden)

    def _state_of(self, hidden: list[Tensor]) -> Any:
        return hidden[0]


def _check_dropout(dropout: Any, num_layers: int) -> None:
    is_number = isinstance(dropout, numbers.Real) and not isinstance(dropout, bool)
    if not is_number or not 0 <= float(dropout) <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element "
            "being zeroed"
        )
    if float(dropout) > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
            stacklevel=4,
        )


def _short(mode: str) -> str:
    return mode.partition("_")[0]


class RNN(RNNBase):
    """Recurrent layers: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    Args:
        args: ``input_size, hidden_size, num_layers=1, nonlinearity="tanh"``, and the further
            arguments of `RNNBase`.
        kwargs: the same as keywords.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """Recurrent layers with gated states.

    Args:
        args: ``input_size, hidden_size``, and the further arguments of `RNNBase`.
        kwargs: the same as keywords.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Recurrent layers with gated states and a second state, the cells.

    Args:
        args: ``input_size, hidden_size``, and the further arguments of `RNNBase`.
        kwargs: the same as keywords.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _zeros(self, batch: int, input: Tensor) -> Any:
        cells = torch.zeros(self._state_size(batch, self.hidden_size), dtype=input.dtype)
        return super()._zeros(batch, input), cells

    def _check_axes(self, hx: Any, axes: int) -> None:
        kind = "batched 3-D" if axes == 3 else "unbatched 2-D"
        if hx[0].dim() != axes or hx[1].dim() != axes:
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {axes}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )

    def _check_state(self, hx: Any, batch: int) -> None:
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)
        for k in range(2):
            self.check_hidden_size(
                hx[k],
                self._state_size(batch, sizes[k]),
                f"Expected hidden[{k}] size {{}}, got {{}}",
            )

    def _mapped(self, function: Any, state: Any) -> Any:
        return function(state[0]), function(state[1])

    def _state_of(self, hidden: list[Tensor]) -> Any:
        return tuple(hidden)


class RNNCellBase(Module):
    """The parameters of a recurrent cell: one step.

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: whether there are biases.
        num_chunks: number of gates.
        device: the CPU.
        dtype: element type of the parameters.
    """

    __constants__ = ("input_size", "hidden_size", "bias")
    _gates: ClassVar[int] = 1
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        for name, size in (
            ("weight_ih", (rows, input_size)), ("weight_hh", (rows, hidden_size)),
            ("bias_ih", (rows,)), ("bias_hh", (rows,)),
        ):  # fmt: skip
            made = None
            if bias or name.startswith("weight"):
                made = Parameter(torch.empty(size, device=device, dtype=dtype))
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters uniformly from ±1/√hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Return the arguments that are not the usual ones."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _check(self, name: str, x: Tensor) -> None:
        if x.dim() not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: Expected {name} to be 1D or 2D, got {x.dim()}D instead"
            )

    def _check_sizes(self, input: Tensor, *states: Tensor) -> None:
        """Refuse sizes that differ from those of the cell, or of the batch."""
        if input.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.size(1)} expected {self.input_size}"
            )
        for k, state in enumerate(states):
            if input.size(0) != state.size(0):
                raise RuntimeError(
                    f"Input batch size {input.size(0)} doesn't match hidden{k} batch size "
                    f"{state.size(0)}"
                )
            if state.size(1) != self.hidden_size:
                raise RuntimeError(
                    f"hidden{k} has inconsistent hidden_size: got {state.size(1)}, expected "
                    f"{self.hidden_size}"
                )

    def _step(self, run: Any, input: Tensor, hx: Any) -> Any:
        """Return the next state, for one example or a batch."""
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return run(input, hx, *weights)

    def _next(self, run: object, input: Tensor, hx: Tensor | None) -> Tensor:
        """Return the next state of a cell that has one."""
        self._check("input", input)
        if hx is not None:
            self._check("hidden", hx)
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            state = torch.zeros((x.size(0), self.hidden_size), dtype=x.dtype)
        else:
            state = hx if batched else hx.unsqueeze(0)
        self._check_sizes(x, state)
        found = self._step(run, x, state)
        return found if batched else found.squeeze(0)


class RNNCell(RNNCellBase):
    """One step: ``tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: whether there are biases.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        device: the CPU.
        dtype: element type of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state."""
        if self.nonlinearity not in ("tanh", "relu"):
            self._check("input", input)
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        run = RUN.rnn_tanh_cell if self.nonlinearity == "tanh" else RUN.rnn_relu_cell
        return self._next(run, input, hx)


class GRUCell(RNNCellBase):
    """One step of a `GRU`.

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: whether there are biases.
        device: the CPU.
        dtype: element type of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state."""
        return self._next(RUN.gru_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of an `LSTM`.

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: whether there are biases.
        device: the CPU.
        dtype: element type of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the next state and the next cells."""
        self._check("input", input)
        for k, state in enumerate(hx or ()):
            self._check(f"hx[{k}]", state)
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            zeros = torch.zeros((x.size(0), self.hidden_size), dtype=x.dtype)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        self._check_sizes(x, *hx)
        hidden, cells = self._step(RUN.lstm_cell, x, hx)
        return (hidden, cells) if batched else (hidden.squeeze(0), cells.squeeze(0))
