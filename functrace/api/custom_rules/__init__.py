"""Functions with rules of their own.

* derivatives.py: `custom_vjp`, `custom_jvp`
* batching.py: `custom_vmap`
* implicit.py: `custom_root`, `custom_linear_solve`, `closure_convert`
* foreign.py: `primitive`, `pure_callback`

Layer: 8.
"""
