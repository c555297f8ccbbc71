"""``torch.nn.modules``: so far what hooks of modules need.

Layer: 9.
"""

from functrace.torch.nn.modules import _functions as _functions
