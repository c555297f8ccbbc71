"""Differentiation.

* gradients.py: `grad`, `value_and_grad`, `vjp`, `jvp`, `linearize`
* jacobians.py: `jacfwd`, `jacrev`, `hessian`, `hvp`, `elementwise_grad`
* linear.py: `linear_transpose`

Layer: 8.
"""
