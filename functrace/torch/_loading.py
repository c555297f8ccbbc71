"""Loading of the modules of ``torch``, without collections of garbage in between.

Code objects consist of tuples that live on: their loading would start 130 collections that find
nothing, a fifth of the time of ``import functrace.torch``.

Layer: 9.
"""

import gc
import importlib


def load(*names: str) -> None:
    """Import modules while Python's collector of cyclic garbage is paused.

    Args:
        names: of the modules, in their order.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        for name in names:
            importlib.import_module(name)
    finally:
        if collects:
            gc.enable()


load(*[f"functrace.torch.{name}" for name in ("_C", "autograd", "func", "namespace", "nn")])
