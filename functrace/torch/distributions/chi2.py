"""`Chi2`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.distributions import constraints
from functrace.torch.distributions.gamma import Gamma
from functrace.torch.distributions.kinds import Parameter
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The chi-squared distribution.

    Args:
        df: degrees of freedom.
    """

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Parameter, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2
