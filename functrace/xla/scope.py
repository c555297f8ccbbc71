"""Arrays of NumPy and JAX, on one device and on several.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from functrace.errors import ArgumentError

Operand: TypeAlias = Any
"""An array of NumPy or JAX, or a number."""
Placement: TypeAlias = Any
"""A sharding, a partition spec, a layout, or None. (JAX has no type for them all.)"""


def seen_once(x: Operand) -> Any:
    """Return a value for JAX; a view of an array of NumPy.

    Note [JAX remembers converted arrays]
        JAX 0.10 converts arrays of NumPy to the scope's precision, and remembers the result by the
        array's identity as long as something refers to it. So an array that was placed outside of
        our scope of 64 bits, and then inside, says float64 and holds float32; after our call the
        user's own ``jax.device_put`` of that array says float32 and holds float64. A program that
        reads such an array crashes the process. Nobody else has our view.
    """
    return x.view() if isinstance(x, np.ndarray) else x


def replicated(shardings: Iterable[Any]) -> NamedSharding | None:
    """Return the sharding of an array that all devices have whole.

    Args:
        shardings: some of which name the devices.

    Returns:
        the sharding; ``None`` if none of them is a mesh of several devices.
    """
    for x in shardings:
        if isinstance(x, NamedSharding) and x.num_devices > 1:
            return NamedSharding(x.mesh, PartitionSpec())
    return None


def on_devices(x: Operand, sharding: Sharding | None) -> jax.Array:
    """Return an array, which every process has whole, as one on devices.

    Args:
        x: an array of NumPy.
        sharding: its sharding; ``None`` for the default device.
    """
    with jax.enable_x64(True):
        if sharding is None:
            return jax.device_put(seen_once(x))
        array = np.asarray(x)
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def is_divided_by_process(sharding: Placement) -> bool:
    """Return True for a sharding that gives processes different parts of an array."""
    return isinstance(sharding, Sharding) and not (
        sharding.is_fully_addressable or sharding.is_fully_replicated
    )


def on_host_array(x: jax.Array) -> Any:
    """Return an array of NumPy, a copy.

    Raises:
        ArgumentError: if other processes have parts of it.
    """
    if is_divided_by_process(x.sharding):
        raise ArgumentError(
            f"a result of shape {x.shape} has parts in other processes: {x.sharding}",
            fix="keep_on_device=True, or out_shardings= with PartitionSpec() for all of it in each "
            "process",
        )
    return np.array(x)[()]


def from_local_data(local: np.ndarray[Any, Any], sharding: Sharding) -> jax.Array:
    """Return an array on all devices, from the part that this process has.

    Args:
        local: an array of NumPy.
        sharding: sharding of the whole array.

    Raises:
        ValueError: if the part does not fit.
        AssertionError: if all processes have the whole array, but not the same one.
    """
    with jax.enable_x64(True):
        if sharding.is_fully_addressable:
            return on_devices(local, sharding)
        if sharding.is_fully_replicated:
            from jax.experimental import multihost_utils

            multihost_utils.assert_equal(local, "the processes pass different values")
            return on_devices(local, sharding)
        return jax.make_array_from_process_local_data(sharding, local.view())


def from_callback(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    sharding: Sharding,
    read: Callable[[Sequence[slice]], np.ndarray[Any, Any]],
) -> jax.Array:
    """Return an array on devices, of parts.

    Args:
        shape, dtype: of the array.
        sharding: its sharding.
        read: returns the part at an index.
    """
    with jax.enable_x64(True):
        return jax.make_array_from_callback(shape, sharding, lambda index: read(index), dtype)
