"""``torch.amp.GradScaler``: scaled losses, whose gradients do not underflow in half precision.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.errors.warnings import warn
from functrace.torch.tensors.tensor import Tensor, wrap

__all__ = ["GradScaler"]

_READY, _UNSCALED, _STEPPED = "ready", "unscaled", "stepped"


class GradScaler:
    """Scale losses, skip steps whose gradients are not finite, and adapt the scale.

    Args:
        device: kind of device; for an absent one the scaler is disabled.
        init_scale: the scale of the first losses.
        growth_factor: factor of the scale after ``growth_interval`` finite steps.
        backoff_factor: factor of the scale after a step that was skipped.
        growth_interval: number of finite steps until the scale grows.
        enabled: False for a scaler that does nothing but call ``optimizer.step()``.

    Example:
        >>> import functrace.torch as torch
        >>> scaler = torch.amp.GradScaler("cpu")
        >>> scaler.scale(torch.ones(1))
        tensor([65536.])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda":
            warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: float | None = None
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._optimizers: dict[int, dict[str, Any]] = {}

    def _known_scale(self, name: str) -> float:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """Return a tensor, or tensors in lists and tuples, times the scale.

        Raises:
            ValueError: for anything else.
        """
        if not self._enabled:
            return outputs
        scale = self._scale = self._init_scale if self._scale is None else self._scale
        return self._scaled(outputs, scale)

    def _scaled(self, outputs: Any, scale: float) -> Any:
        if isinstance(outputs, Tensor):
            return outputs * wrap(np.asarray(scale, np.float32))
        if isinstance(outputs, Iterable):
            made = (self._scaled(x, scale) for x in outputs)
            return type(outputs)(made) if isinstance(outputs, (list, tuple)) else made  # type: ignore[call-arg]
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _state_of(self, optimizer: Any) -> dict[str, Any]:
        made = {"stage": _READY, "is_finite": None}
        return self._optimizers.setdefault(id(optimizer), made)

    @no_grad()
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer by the scale, in place.

        Raises:
            RuntimeError: if this was done already, since the last `update`.
        """
        if not self._enabled:
            return
        scale = self._known_scale("unscale_")
        state = self._state_of(optimizer)
        if state["stage"] is _UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = wrap(np.asarray(np.float32(1.0 / np.float64(scale))))
        for gradient in _gradients(optimizer):
            if gradient._array.dtype == np.float16:
                raise ValueError("Attempting to unscale FP16 gradients.")
            finite = bool(np.isfinite(gradient._array).all())
            state["is_finite"] = finite and state["is_finite"] is not False
            gradient.mul_(inverse)
        state["stage"] = _UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Call ``optimizer.step`` with unscaled gradients, unless some are not finite.

        Args:
            optimizer: the optimizer.
            args: arguments of its ``step``.
            kwargs: keyword arguments of its ``step``.

        Returns:
            the result of ``step``; None if it was skipped.

        Raises:
            RuntimeError: with a closure, or if this was done already since the last `update`.
            AssertionError: if no parameter has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._known_scale("step")
        state = self._state_of(optimizer)
        if state["stage"] is _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is _READY:
            self.unscale_(optimizer)
        if state["is_finite"] is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        state["stage"] = _STEPPED
        return optimizer.step(*args, **kwargs) if state["is_finite"] else None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale after the steps of an iteration.

        Args:
            new_scale: the scale to use from now on.

        Raises:
            AssertionError: if nothing was scaled, or no gradients were examined.
        """
        if not self._enabled:
            return
        scale = self._known_scale("update")
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            found = [
                s["is_finite"] for s in self._optimizers.values() if s["is_finite"] is not None
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(scale, all(found))
        self._optimizers = {}

    def _adapt(self, scale: float, is_finite: bool) -> None:
        if not is_finite:
            self._scale, self._growth_tracker = float(np.float32(scale * self._backoff_factor)), 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = float(np.float32(scale * self._growth_factor))
            self._scale = grown if np.isfinite(grown) else scale
            self._growth_tracker = 0

    def get_scale(self) -> float:
        """Return the scale; 1 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale

    def get_growth_factor(self) -> float:
        """Return the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of finite steps until the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of finite steps until the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Return True if the scaler has an effect."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the state, for `load_state_dict`; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned.

        Raises:
            RuntimeError: for an empty one.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale = self._init_scale
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]


def _gradients(optimizer: Any) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                yield parameter.grad
