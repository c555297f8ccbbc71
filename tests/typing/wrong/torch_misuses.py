"""Arguments that the functions and methods of `functrace.torch` do not take."""

import functrace.torch as torch

x = torch.ones(2, 3)
x.sum(axes=0)  # E
x.sin(1)  # E
x.sin__()  # E
x.add(1, beta=2)  # E
x.transpose(0)  # E
x.clamp("low")  # E
x.view("flat")  # E
x.T()  # E
x.absolut_()  # E
torch.sin()  # E
torch.add(x, "one")  # E
torch.full((2,), fill=1.0)  # E
torch.stack(x, x)  # E
torch.nn.functional.mse_loss(x, x, "mean")  # E
torch.nn.functional.sinh(x)  # E
torch.float12  # E
x + "text"  # E
text: str = x.mean()  # E
