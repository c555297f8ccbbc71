"""`torch.utils.module_tracker.ModuleTracker`, and the private helpers of `torch.nn.utils.stateless`."""

import copy
from importlib import import_module


def run(torch, log):
    tracking(torch, log)
    replacing(torch, log)


def tracking(torch, log):
    log("tracking")
    tracker_of = import_module(f"{torch.__name__}.utils.module_tracker").ModuleTracker
    nn = torch.nn

    class Show(nn.Module):
        def forward(self, x):
            log("forward", sorted(tracker.parents), tracker.is_bw)
            y = x["a"] * 2 if isinstance(x, dict) else x * 2
            y.register_hook(lambda g: log("backward", sorted(tracker.parents), tracker.is_bw))
            return {"a": y} if isinstance(x, dict) else y

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Show()
            self.inner = nn.ModuleDict({"deep": nn.Sequential(Show(), nn.Identity(), Show())})

        def forward(self, x):
            return self.inner["deep"](self.first(x))

    m, x = Whole(), torch.ones(2, requires_grad=True)
    with tracker_of() as tracker:
        for given in (x, {"a": x}):
            out = m(given)
            (out["a"] if isinstance(out, dict) else out).sum().backward()
            log(sorted(tracker.parents), tracker.is_bw)
    with tracker_of() as tracker:
        m(x)
    log(sorted(tracker.parents))


def replacing(torch, log):
    log("replacing")
    found = import_module(f"{torch.__name__}.nn.utils.stateless")
    m = torch.nn.Linear(2, 2)
    m.register_buffer("count", torch.zeros(()))
    m.tied = m.weight
    weight, given = m.weight, {"weight": torch.ones(2, 2), "count": torch.ones(())}
    with found._reparametrize_module(m, given):
        log(m.weight is given["weight"], m.tied is weight)
        m.count = m.count + 1
    log(m.weight is weight, m.count, given["count"])
    with found._reparametrize_module(m, given, tie_weights=True):
        log(m.tied is given["weight"])
    log.error("strict", lambda: found._reparametrize_module(m, given, strict=True).__enter__())
    log(sorted(found._untie_named_tensors_map(m, given)), sorted(given))
    other = {**given, "tied": torch.zeros(2, 2)}
    log.error("tied", lambda: found._untie_named_tensors_map(m, other))
    state = {"bias": torch.zeros(2), "weight": torch.eye(2)}
    log(found._functional_call(m, copy.copy(state), torch.ones(1, 2)))
    log.error(
        "parallel",
        lambda: found._functional_call(torch.nn.DataParallel(m), state, torch.ones(1, 2)),
    )
