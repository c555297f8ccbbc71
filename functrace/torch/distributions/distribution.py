"""`Distribution`, the base class of distributions.

Layer: 9.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.distributions import constraints
from functrace.torch.distributions.kinds import Instance, Sizes, Values
from functrace.torch.distributions.utils import lazy_property
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Distribution"]
_HERE = __name__.rpartition(".")[0]


class Distribution:
    """A distribution, or a batch of independent ones.

    Args:
        batch_shape: shape of the batch.
        event_shape: shape of one sample.
        validate_args: False to skip checks of parameters and values.

    Attributes:
        arg_constraints: the set of each parameter.
        support: the set of samples.
        has_rsample: True if samples have gradients.
        parameters: names of the tensors that `expand` broadcasts, and number of axes of one value.
    """

    has_rsample: Any = False
    has_enumerate_support = False
    _validate_args = True
    arg_constraints: Any
    support: Any
    parameters: ClassVar[dict[str, int]] = {}

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether parameters and values are checked by default."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sizes = (),
        event_shape: Sizes = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        """Check that parameters are in their sets.

        Raises:
            ValueError: otherwise.
        """
        try:
            sets = self.arg_constraints
        except (AttributeError, NotImplementedError):
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set "
                "`arg_constraints = {}` or initialize the distribution with "
                "`validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        for name, constraint in sets.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in vars(self) and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Sizes, _instance: Instance = None) -> Any:
        """Return the distribution with its batch broadcast to another shape.

        Args:
            batch_shape: the shape.
            _instance: for subclasses: the instance to fill.
        """
        own = next(c for c in type(self).__mro__ if c.__module__.startswith(_HERE))
        made = self._get_checked_instance(own, _instance)
        shape = Size(batch_shape)
        for name, axes in self.parameters.items():
            if name in vars(self):
                value = vars(self)[name]
                event = tuple(value.shape[len(value.shape) - axes :]) if axes else ()
                vars(made)[name] = value.expand((*shape, *event))
        self._expand_rest(made, shape)
        Distribution.__init__(made, shape, self.event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def _expand_rest(self, made: Instance, shape: Size) -> None:
        """Fill the rest of an instance that `expand` makes."""

    @property
    def batch_shape(self) -> Size:
        """Shape of the batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one sample."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The mode."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples without gradients.

        Args:
            sample_shape: their shape, in front of that of the batch.
        """
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples with gradients by the parameters.

        Args:
            sample_shape: their shape, in front of that of the batch.
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Return samples without gradients (deprecated: use `sample`)."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample((n,))

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the density or probability at some values."""
        raise NotImplementedError

    def cdf(self, value: Values) -> Tensor:
        """Return the cumulative distribution function at some values."""
        raise NotImplementedError

    def icdf(self, value: Values) -> Tensor:
        """Return the inverse of the cumulative distribution function."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution, along a new first axis.

        Args:
            expand: False for a batch of shape 1.
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return torch.exp(self.entropy())

    def _extended_shape(self, sample_shape: Sizes = ()) -> Size:
        """Return the shape of samples: theirs, that of the batch, and that of one."""
        return Size((*Size(sample_shape), *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Values) -> None:
        """Check the argument of `log_prob` and the like.

        Raises:
            ValueError: if it is no tensor, has another shape, or is not in the support.
        """
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = len(value.shape) - len(self._event_shape)
        if tuple(value.shape[max(start, 0) :]) != tuple(self._event_shape):
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.shape} vs {self._event_shape}."
            )
        expected = Size((*self._batch_shape, *self._event_shape))
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i not in (1, j) and j != 1:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.shape} vs {expected}."
                )
        try:
            support = self.support
        except (AttributeError, NotImplementedError):
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to "
                f"be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def _checked(self, value: Values) -> Any:
        """Return the argument of `log_prob` and the like, after its check."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _get_checked_instance(self, cls: Instance, _instance: Instance = None) -> Any:
        """Return an empty instance for `expand` to fill.

        Raises:
            NotImplementedError: for subclasses with a constructor and no ``expand``.
        """
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return object.__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in vars(self)]
        shown = []
        for name in names:
            value = vars(self)[name]
            shown.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{self.__class__.__name__}({', '.join(shown)})"
