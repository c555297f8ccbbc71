"""``torch.utils.backend_registration``: the name of the device that extensions may add; none here.

Layer: 9.
"""

_privateuse1_backend_name = "privateuseone"
