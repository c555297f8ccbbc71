"""``torch._torch_docs``: parts that PyTorch's docstrings have in common.

Layer: 9.
"""

reproducibility_notes = {
    "forward_reproducibility_note": "",
    "backward_reproducibility_note": "",
    "undeterministic_note": "",
    "cudnn_reproducibility_note": "",
}
tf32_notes = {"tf32_note": ""}
sparse_support_notes = {"sparse_beta_warning": ""}
