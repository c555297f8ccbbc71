"""Several devices and several machines: meshes, processes, arrays that they share, and checkpoints.

Thin functions around JAX, for functions of ``jit(f, backend="xla")``, whose ``in_shardings`` and
``out_shardings`` are JAX's own. JAX is imported when one of them is called.

* devices.py: `mesh`, `initialize`, `global_array`
* saving.py: `save`, `load`, `latest`

Layer: 8.
"""

from functrace.distributed.devices import global_array, initialize, mesh
from functrace.distributed.saving import latest, load, save

__all__ = ["global_array", "initialize", "latest", "load", "mesh", "save"]
