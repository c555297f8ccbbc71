"""``state_dict`` and ``load_state_dict``: names, metadata, refusals, hooks, assigned tensors."""

from collections import OrderedDict


def run(torch, log):
    nn = torch.nn

    def attempt(label, function):
        try:
            found = function()
        except Exception as error:
            log(label, type(error).__name__, str(error))
        else:
            log(label, repr(found))

    m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU())
    state = m.state_dict()
    log(list(state), type(state).__name__, repr(dict(state._metadata)))
    log(state["0.weight"].requires_grad, m.state_dict(keep_vars=True)["0.weight"].requires_grad)
    log(list(m.state_dict(prefix="a.")), list(m.state_dict(OrderedDict(), "q.")))
    attempt("same", lambda: m.load_state_dict(state))
    attempt("no dict", lambda: m.load_state_dict(3))
    bad = dict(state)
    del bad["0.weight"]
    bad.update({"zz": torch.ones(1), "1.zz": torch.ones(1), "9.w": torch.ones(1)})
    bad.update({"0.bias": torch.ones(7)})
    attempt("bad", lambda: m.load_state_dict(bad))
    attempt("not strict", lambda: m.load_state_dict(bad, strict=False))
    del bad["0.bias"]
    attempt("not strict", lambda: m.load_state_dict(bad, strict=False))
    attempt("empty", lambda: m.load_state_dict({}))
    p = m[0].weight
    attempt("assign", lambda: m.load_state_dict(state, assign=True))
    log(m[0].weight is p, type(m[0].weight).__name__, m[0].weight.requires_grad)
    log(m[0].weight.data_ptr() == state["0.weight"].data_ptr())
    log(m[1].running_mean.data_ptr() == state["1.running_mean"].data_ptr())
    old = {k: torch.ones(3) for k in ("weight", "bias", "running_mean", "running_var")}
    attempt("older", lambda: nn.BatchNorm1d(3).load_state_dict(old))
    attempt("older", lambda: nn.InstanceNorm1d(3).load_state_dict(old))
    tracked = nn.InstanceNorm1d(3, affine=True, track_running_stats=True)
    attempt("older", lambda: tracked.load_state_dict(old))
    extra(torch, log, attempt)
    hooks(torch, log, attempt)


def extra(torch, log, attempt):
    nn = torch.nn

    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.k = 1

        def get_extra_state(self):
            return self.k

        def set_extra_state(self, state):
            self.k = state

    one, other = nn.Sequential(Counted()), nn.Sequential(Counted())
    one[0].k = 5
    log(dict(one.state_dict()))
    attempt("extra", lambda: other.load_state_dict(one.state_dict()))
    log(other[0].k)
    attempt("missing", lambda: other.load_state_dict({}))
    attempt("unexpected", lambda: nn.Sequential(nn.ReLU()).load_state_dict({"0._extra_state": 3}))
    attempt("get", lambda: nn.Module().get_extra_state())
    attempt("set", lambda: nn.Module().set_extra_state(1))


def hooks(torch, log, attempt):
    nn = torch.nn
    m = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    before = m.register_state_dict_pre_hook(lambda module, prefix, keep: log("pre", prefix, keep))
    after = m.register_state_dict_post_hook(
        lambda module, state, prefix, metadata: log("post", list(state), prefix, metadata)
    )
    m[0].register_state_dict_post_hook(
        lambda module, state, prefix, metadata: state.update({prefix + "hi": 1})
    )
    m.state_dict()
    before.remove()
    after.remove()
    m._register_state_dict_hook(lambda module, state, prefix, metadata: {"only": 1})
    log(m.state_dict())
    r = nn.ReLU()
    r.register_state_dict_post_hook(lambda *args: 3)
    attempt("result", lambda: r.state_dict())
    r = nn.Linear(1, 1)
    r.register_load_state_dict_pre_hook(lambda *args: log("pre", len(args), repr(args[2:])))
    r._register_load_state_dict_pre_hook(lambda *args: log("older", len(args), repr(args[1:])))
    r.register_load_state_dict_post_hook(lambda module, keys: log("post", repr(keys)))
    attempt("load", lambda: r.load_state_dict(nn.Linear(1, 1).state_dict()))
    attempt("load", lambda: r.load_state_dict({}, strict=False))
    r.register_load_state_dict_post_hook(lambda module, keys: 3)
    attempt("result", lambda: r.load_state_dict(nn.Linear(1, 1).state_dict()))
    r = nn.Linear(1, 1)
    r.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    attempt("cleared", lambda: r.load_state_dict({}))
