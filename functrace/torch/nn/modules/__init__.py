"""``torch.nn.modules``: so far what hooks of modules need.

Floor: 8.
"""

from functrace.torch.nn.modules import _functions as _functions
