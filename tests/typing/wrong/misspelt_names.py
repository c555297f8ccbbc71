"""Names that do not exist."""

import numpy as np

import functrace as ft
import functrace.numpy as fnp
import functrace.torch as torch
from functrace import no_such_thing  # E
from functrace.torch import no_tensor  # E

ft.gard(np.sin)  # E
ft.no_such_thing  # E
ft.policies.remember  # E
ft.tree.mapp  # E
fnp.arrayy([1.0])  # E
ft.numpy.linalg.nrom(np.ones(2))  # E
torch.tensr([1.0])  # E
torch.nn.functional.rellu(torch.ones(1))  # E
torch.ones(2).summ()  # E
torch.autograd.Functoin  # E
torch.nn.Liner(2, 2)  # E
torch.nn.utils.clip_grad_nrom_  # E
torch.optim.Adamm  # E
torch.utils.dta  # E
ft.trace(np.sin)(1.0).as_pyton()  # E
ft.jit(np.sin).cache_inf()  # E
ft.saved_residuals(np.sin)(1.0).bytes  # E
