"""Meshes of devices, processes of one computation, and arrays that they share.

Layer: 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.errors import ArgumentError
from functrace.tree import broadcast
from functrace.tree import map as map_tree
from functrace.typing import PyTree

if TYPE_CHECKING:
    from jax import Device
    from jax.sharding import Mesh, Sharding


def mesh(
    shape: int | Sequence[int] | None = None,
    names: str | Sequence[str] = "data",
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """Make a mesh of devices, whose axes XLA partitions by itself.

    ``jax.make_mesh`` makes *explicit* axes by default, with which each product of matrices over a
    divided axis has to state its sharding; programs of NumPy's functions do not.

    Args:
        shape: number of devices along each axis; by default all devices along one axis.
        names: names of the axes, for ``jax.sharding.PartitionSpec``.
        devices: the devices, of all processes; by default ``jax.devices()``.

    Returns:
        a ``jax.sharding.Mesh``.

    Raises:
        ArgumentError: if there are fewer or more names than axes, or if the number of devices is
            not the product of ``shape``.
        UnsupportedFunctionError: if JAX is not installed.

    Example:
        >>> import functrace as ft
        >>> dict(ft.distributed.mesh(1, "data").shape)
        {'data': 1}
    """
    jax = _jax()
    labels = (names,) if isinstance(names, str) else tuple(names)
    found = jax.devices() if devices is None else list(devices)
    sizes = (len(found),) if shape is None else shape
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if len(sizes) != len(labels):
        raise ArgumentError(
            f"mesh: {len(sizes)} axes, {sizes}, but {len(labels)} names, {labels}",
            fix='give one name per axis: mesh((2, 4), ("data", "model"))',
        )
    if math.prod(sizes) != len(found):
        raise ArgumentError(
            f"mesh: {sizes} are {math.prod(sizes)} devices, but there are {len(found)}",
            fix="the product of the sizes is the number of devices of all processes; devices= chooses "
            "some of them; XLA_FLAGS=--xla_force_host_platform_device_count=8, set before JAX is "
            "imported, makes eight of one CPU",
        )
    kinds = (jax.sharding.AxisType.Auto,) * len(sizes)
    return jax.make_mesh(sizes, labels, axis_types=kinds, devices=found)


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
) -> None:
    """Make this process one of several that compute together; before any other use of JAX.

    Without arguments, JAX finds out the rest from the cluster (Slurm, Open MPI, Cloud TPU, GKE).
    CPUs exchange values by gloo.

    Args:
        coordinator_address: host and port of process 0, ``"10.0.0.1:9999"``.
        num_processes: number of processes.
        process_id: number of this one, from 0.
        initialization_timeout: seconds to wait for the others.
        heartbeat_timeout_seconds: seconds after which the processes end if one has ended.

    Raises:
        UnsupportedFunctionError: if JAX is not installed.

    Example:
        >>> import functrace as ft
        >>> def main(process):  # in each of two processes
        ...     ft.distributed.initialize("127.0.0.1:9999", 2, process)
        ...     return ft.distributed.mesh()

    Source:
        ``jax.distributed.initialize``.
    """
    jax = _jax()
    if jax.config.jax_cpu_collectives_implementation in (None, "none"):
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        coordinator_address,
        num_processes,
        process_id,
        initialization_timeout=initialization_timeout,
        heartbeat_timeout_seconds=heartbeat_timeout_seconds,
    )


def global_array(local_data: PyTree, sharding: PyTree) -> Any:
    """Make arrays on all devices of the parts that the processes have.

    Each process passes the part that its own devices hold, such as its rows of a batch; with one
    process, or with ``PartitionSpec()``, that is the whole array. Dtypes stay as they are: without
    ``jax.enable_x64``, ``jax.device_put`` would round float64 to float32.

    Args:
        local_data: arrays of this process: a pytree. Each process has as many rows as the others.
        sharding: a ``jax.sharding.Sharding``, or a pytree of them that is a prefix of ``local_data``.

    Returns:
        a pytree of ``jax.Array``.

    Raises:
        TreeError: if ``sharding`` is no prefix.
        ArgumentError: if a leaf is no array or number, if the shape cannot be divided like that, or
            if a part that all processes have differs between them.
        UnsupportedFunctionError: if JAX is not installed.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from jax.sharding import NamedSharding, PartitionSpec
        >>> rows = NamedSharding(ft.distributed.mesh(1), PartitionSpec("data"))
        >>> x = ft.distributed.global_array(np.arange(6.0), rows)
        >>> x.dtype, x.sharding == rows
        (dtype('float64'), True)
    """
    _jax()
    from functrace.xla.scope import from_local_data

    def place(x: object, wanted: Sharding) -> Any:
        array = np.asarray(x)
        if array.dtype.kind == "O":
            raise ArgumentError(
                f"global_array: {type(x).__name__} is no array", fix="pass arrays of numbers"
            )
        try:
            return from_local_data(array, wanted)
        except (ValueError, AssertionError) as error:
            raise ArgumentError(
                f"global_array: no array of parts of shape {array.shape}, sharded by {wanted}: {error}",
                fix="each process passes the part of its own devices, all equal in shape; a dimension "
                "is a multiple of the number of devices that divide it",
            ) from error

    return map_tree(place, local_data, broadcast(sharding, local_data))


def _jax() -> Any:
    """Return JAX.

    Raises:
        UnsupportedFunctionError: if it is not installed.
    """
    from functrace.xla.program import check_installed

    check_installed("functrace.distributed")
    import jax

    return jax
