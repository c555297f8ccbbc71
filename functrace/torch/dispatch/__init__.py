"""Dispatch: how an operation on tensors is looked up, applied, recorded as a node, and
differentiated.

Start at `functrace.torch.dispatch.applying`; the table of operations is in
`functrace.torch.dispatch.rows`.

Layer: 9.
"""
