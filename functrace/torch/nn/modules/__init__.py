"""``torch.nn.modules``: the Function that module hooks use.

Layer: 9.
"""

from functrace.torch.nn.modules import _functions as _functions
