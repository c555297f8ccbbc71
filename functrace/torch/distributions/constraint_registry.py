"""`biject_to` and `transform_to`: transforms from all numbers to a set.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from functrace.torch.distributions import constraints, transforms
from functrace.torch.distributions.kinds import Parameter, Set

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], transforms.Transform]


@final
class ConstraintRegistry:
    """Transforms by the class of the set that they lead to.

    Example:
        >>> biject_to(constraints.unit_interval)
        SigmoidTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type[Any], Factory] = {}

    def register(self, constraint: Set, factory: Factory | None = None) -> Any:
        """Register the function that makes the transform to sets of a class.

        Args:
            constraint: the class, or a set of it.
            factory: the function, of the set; without it, a decorator.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: constraints.Constraint) -> transforms.Transform:
        """Return the transform to a set.

        Raises:
            NotImplementedError: if there is none.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _in_both(*kinds: Parameter) -> Callable[[Factory], Factory]:
    def register(factory: Factory) -> Factory:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


@_in_both(constraints.real)
def _real(constraint: Set) -> transforms.Transform:
    return transforms.identity_transform


@biject_to.register(constraints.independent)
def _independent_bijection(constraint: Set) -> transforms.Transform:
    base = biject_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.independent)
def _independent_transform(constraint: Set) -> transforms.Transform:
    base = transform_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@_in_both(constraints.greater_than, constraints.greater_than_eq)
def _greater_than(constraint: Set) -> transforms.Transform:
    parts = [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    return transforms.ComposeTransform(parts)


@_in_both(constraints.less_than)
def _less_than(constraint: Set) -> transforms.Transform:
    parts = [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    return transforms.ComposeTransform(parts)


@_in_both(constraints.interval, constraints.half_open_interval)
def _interval(constraint: Set) -> transforms.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if all(isinstance(x, (int, float)) for x in (low, high)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    parts = [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    return transforms.ComposeTransform(parts)


@biject_to.register(constraints.simplex)
def _simplex_bijection(constraint: Set) -> transforms.Transform:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _simplex_transform(constraint: Set) -> transforms.Transform:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _lower_cholesky(constraint: Set) -> transforms.Transform:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
def _positive_definite(constraint: Set) -> transforms.Transform:
    return transforms.PositiveDefiniteTransform()


@_in_both(constraints.corr_cholesky)
def _corr_cholesky(constraint: Set) -> transforms.Transform:
    return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.cat)
def _cat_bijection(constraint: Set) -> transforms.Transform:
    parts = [biject_to(c) for c in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


@transform_to.register(constraints.cat)
def _cat_transform(constraint: Set) -> transforms.Transform:
    parts = [transform_to(c) for c in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


@biject_to.register(constraints.stack)
def _stack_bijection(constraint: Set) -> transforms.Transform:
    return transforms.StackTransform([biject_to(c) for c in constraint.cseq], constraint.dim)


@transform_to.register(constraints.stack)
def _stack_transform(constraint: Set) -> transforms.Transform:
    return transforms.StackTransform([transform_to(c) for c in constraint.cseq], constraint.dim)
