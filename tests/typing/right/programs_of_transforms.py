"""Programs of transformed lambdas: what is traced may itself be made of a lambda."""

import numpy as np

import functrace as ft

x = np.ones(3)
program: ft.Program = ft.trace(ft.grad(lambda x: np.sum(x * x)))(x)
ft.trace(ft.vmap(lambda x: np.sin(x)))(x)
ft.trace(ft.jit(lambda x: np.sin(x)))(x)
ft.trace(lambda x: np.sin(x))(x)
ft.trace(np.sin)(x)
assert program.cost().flops > 0
