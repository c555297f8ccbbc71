"""``torch.utils.model_zoo``: the older name of ``torch.hub.load_state_dict_from_url``.

Layer: 9.
"""

from functrace.torch.hub import load_state_dict_from_url
from functrace.torch.hub import load_state_dict_from_url as load_url

__all__ = ["load_state_dict_from_url", "load_url"]
