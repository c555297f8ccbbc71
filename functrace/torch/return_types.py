"""``torch.return_types``: the classes of results with names.

Layer: 9.
"""

from functrace.torch.functions import linear_algebra as _linear_algebra  # noqa: F401 (fills the table)
from functrace.torch.functions import searching as _searching
from functrace.torch.functions import statistics as _statistics
from functrace.torch.functions.arranging import _Cummax, _Cummin
from functrace.torch.functions.named_results import RETURN_TYPES
from functrace.torch.functions.reductions import _Max, _Min

_PAIRS = (
    _Max, _Min, _Cummax, _Cummin, _searching._Kthvalue, _searching._Mode, _statistics._Median,
    _statistics._Nanmedian, _statistics._Sort, _statistics._Topk,
)  # fmt: skip
_FOUND = {kind.__name__: kind for kind in _PAIRS} | RETURN_TYPES
globals().update(_FOUND)
__all__ = list(_FOUND)  # pyright: ignore[reportUnsupportedDunderAll]
