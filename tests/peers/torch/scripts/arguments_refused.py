"""Arguments that look as if they would do are refused."""

import warnings

EXPRESSIONS = """
(m * 1j).abs_(); (m * 1j).absolute_(); m.maximum(m, out=m); m.sin(out=m); m.mul(m, out=m); torch.sort(m, 0, False, True)
m.sort(0, True, True); m.argsort(0, True, True); m.topk(True); m.topk(1.0); m.topk(1, True); (m > 1).topk(1)
m.transpose(True, 0); m.unsqueeze(True); m.squeeze(True); m.var(unbiased=1); m.std(0, 1); torch.cat((m, m), dim=True)
torch.zeros(True); torch.zeros(); torch.rand(); torch.pow(2, 2); torch.pow(2.0, 1j); torch.randperm(-1); m.cumsum(True)
setattr(m, 'requires_grad', 1); setattr(m, 'requires_grad', None); m.index_select(True, torch.tensor([0]))
torch.addmm(torch.ones(1, 3), m[:, :1], m[:1, :1]); torch.isclose(m, torch.ones(3)); m.unbind(True); m.max(True)
m.softmax(True); torch.stack([m, m], True); m.select(True, 0); m.split(1, True); m.chunk(1, True)
torch.lerp(m, m, 1j); torch.addcmul(m, 2, m); torch.addcdiv(m, m, 2.0); m.addcmul_(m, 2)
"""


def run(torch, log):
    with warnings.catch_warnings(action="ignore"):
        for expression in EXPRESSIONS.replace("\n", "; ").strip("; ").split("; "):
            names = {"torch": torch, "m": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}
            try:
                log(expression, eval(expression, names))
            except Exception as error:
                log(expression, type(error).__name__)
