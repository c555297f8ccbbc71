"""Optimizers as pure pairs of functions over pytrees, with optax's names and shape.

``tx = optim.adam(1e-3)`` is a pair ``(init, update)``: ``state = tx.init(params)``, and
``updates, state = tx.update(grads, state, params)``, after which ``optim.apply_updates(params,
updates)`` returns the new parameters. Everything is plain NumPy: a whole step of training is
recorded, jitted, mapped and differentiated, by hyperparameters too. No argument is changed in place,
and leaves keep their dtypes. Of complex parameters, pass ``np.conj`` of what `functrace.grad` returns,
as in optax: the gradient is not conjugated, and the steepest ascent is.

* rules.py: `sgd`, `adam`, `adamw`, `lion`, `rmsprop`
* quasi_newton.py, linesearch.py: `lbfgs`, and its line search
* moments.py, scaling.py, clipping.py: the parts that rules are made of
* transformations.py: `chain`, `masked`, `apply_updates`
* schedules.py: learning rates by the number of the step

Layer: 8 (api).
"""

from typing import TYPE_CHECKING

from functrace.lazy import homes_of, lazy_attributes
from functrace.optim.clipping import (
    clip,
    clip_by_block_rms,
    clip_by_global_norm,
    clip_by_norm,
    global_norm,
)
from functrace.optim.moments import (
    scale_by_adam,
    scale_by_lion,
    scale_by_rms,
    scale_by_stddev,
    trace,
)
from functrace.optim.rules import adam, adamw, lion, rmsprop, sgd
from functrace.optim.scaling import (
    add_decayed_weights,
    scale,
    scale_by_learning_rate,
    scale_by_schedule,
)
from functrace.optim.schedules import (
    constant_schedule,
    cosine_decay_schedule,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant_schedule,
    polynomial_schedule,
    warmup_cosine_decay_schedule,
)
from functrace.optim.transformations import (
    GradientTransformation,
    apply_updates,
    chain,
    identity,
    masked,
)

__all__ = [
    "GradientTransformation", "adam", "adamw", "add_decayed_weights", "apply_updates", "chain", "clip",
    "clip_by_block_rms", "clip_by_global_norm", "clip_by_norm", "constant_schedule",
    "cosine_decay_schedule", "exponential_decay", "global_norm", "identity", "join_schedules", "lbfgs",
    "linear_schedule", "lion", "masked", "piecewise_constant_schedule", "polynomial_schedule",
    "rmsprop", "scale", "scale_by_adam", "scale_by_lbfgs", "scale_by_learning_rate", "scale_by_lion",
    "scale_by_rms", "scale_by_schedule", "scale_by_stddev", "scale_by_zoom_linesearch", "sgd", "trace",
    "value_and_grad_from_state", "warmup_cosine_decay_schedule",
]  # fmt: skip

_FILES = {
    "quasi_newton": "lbfgs scale_by_lbfgs",
    "linesearch": "scale_by_zoom_linesearch value_and_grad_from_state",
}

if TYPE_CHECKING:  # so that type checkers report a misspelt name
    from functrace.optim.linesearch import scale_by_zoom_linesearch as scale_by_zoom_linesearch
    from functrace.optim.linesearch import value_and_grad_from_state as value_and_grad_from_state
    from functrace.optim.quasi_newton import lbfgs as lbfgs
    from functrace.optim.quasi_newton import scale_by_lbfgs as scale_by_lbfgs
else:
    __getattr__, __dir__ = lazy_attributes(__name__, __all__, homes_of(_FILES))
