"""``torch.jit._trace``: the state of PyTorch's tracer, which never runs here.

Layer: 9.
"""

_trace_module_map = None
