"""Parts of modules that users and third parties name: the variables of hooks, helpers of pruning, reductions, packed
sequences, states of schedules, parameters without a shape, conversions."""

import copy
import gc
import weakref
from collections import OrderedDict
from importlib import import_module


def run(torch, log):
    hooks(torch, log)
    pruning(torch, log)
    reductions(torch, log)
    packed(torch, log)
    schedules(torch, log)
    lazy(torch, log)
    conversions(torch, log)
    attributes(torch, log)
    channels(torch, log)
    replicas(torch, log)
    spectral(torch, log)


def hooks(torch, log):
    log("hooks of all modules")
    module = import_module(f"{torch.__name__}.nn.modules.module")
    calls = []
    names = (
        "forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks", "forward_hooks_with_kwargs",
        "forward_hooks_always_called",
    )  # fmt: skip
    before = [len(getattr(module, f"_global_{name}")) for name in names]  # (PyTorch leaves one of a removed hook)
    handles = [
        module.register_module_forward_hook(lambda *a: calls.append("forward"), always_call=True),
        module.register_module_forward_hook(lambda *a: calls.append(len(a)), with_kwargs=True),
        module.register_module_forward_pre_hook(lambda *a: calls.append("pre")),
        module.register_module_full_backward_hook(lambda *a: calls.append("backward")),
        module.register_module_full_backward_pre_hook(lambda *a: calls.append("backward pre")),
    ]
    log(
        [len(getattr(module, f"_global_{name}")) - n for name, n in zip(names, before)],
        module._global_is_full_backward_hook,
    )
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(1, 2, requires_grad=True)).sum().backward()
    log(str(calls))
    log.error("mixed", lambda: module.register_module_backward_hook(print))
    for handle in handles:
        handle.remove()
    log([len(getattr(module, f"_global_{name}")) for name in names if "kwargs" not in name])
    module.register_module_forward_hook(lambda *a: calls.append("again"))
    calls.clear()
    layer(torch.ones(1, 2))
    module._global_forward_hooks = OrderedDict()
    layer(torch.ones(1, 2))
    log(str(calls))
    module._global_is_full_backward_hook = None
    module.register_module_backward_hook(lambda *a: calls.append("older")).remove()
    log(module._global_is_full_backward_hook)
    module._global_is_full_backward_hook = None

    log("hooks of one module")
    layer = torch.nn.Linear(2, 2, bias=False)

    def named(module, *rest):
        calls.append(type(module).__name__)

    calls.clear()
    layer.register_load_state_dict_pre_hook(named)
    hook = next(iter(layer._load_state_dict_pre_hooks.values()))
    log(hook.__name__, hook.module() is layer)
    other = copy.deepcopy(layer)
    log(next(iter(other._load_state_dict_pre_hooks.values())).module() is other)
    other.load_state_dict(layer.state_dict())
    log(str(calls))
    gc.collect()
    gc.disable()
    try:
        seen = weakref.ref(layer)
        del layer
        log(seen() is None)
        log.error("dead", lambda: hook(1))
        log.error("copied", lambda: copy.deepcopy(hook))
    finally:
        gc.enable()


def pruning(torch, log):
    log("pruning")
    prune = import_module(f"{torch.__name__}.nn.utils.prune")
    for amount in (0, 3, 0.0, 0.25, 1.0, -1, 1.5, -0.5, True, "much", None):
        log.error(str(amount), lambda amount=amount: prune._validate_pruning_amount_init(amount))
    for amount, size in ((3, 2), (2, 2), (0.5, 2), (True, 0)):
        log.error(
            f"{amount} of {size}", lambda a=amount, s=size: prune._validate_pruning_amount(a, s)
        )
    log([prune._compute_nparams_toprune(a, 10) for a in (0, 3, 20, 0.0, 0.25, 0.35, 0.45, 1.0)])
    for shape in ((), (3,), (2, 3)):
        log.error(str(shape), lambda s=shape: prune._validate_structured_pruning(torch.ones(s)))
    for dim in (0, 1, 2, -1, -5):
        log.error(str(dim), lambda d=dim: prune._validate_pruning_dim(torch.ones(2, 3), d))
    log(prune._compute_norm(torch.arange(12.0).reshape(2, 3, 2), 1, -2))
    container = prune.PruningContainer()
    container._tensor_name = "weight"

    class Whole(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            return torch.tensor([0, 1, 0, 1])

    method = Whole()
    method._tensor_name = "weight"
    container.add_pruning_method(method)
    log(container.compute_mask(torch.ones(2, 3), torch.tensor([[1, 0, 1], [1, 0, 1]])))


def reductions(torch, log):
    log("reductions")
    found = import_module(f"{torch.__name__}.nn._reduction")
    log(torch.nn._reduction is found)
    for name in ("none", "mean", "sum", "elementwise_mean", "other"):
        log.error(name, lambda name=name: found.get_enum(name))
    for size_average in (None, True, False):
        for reduce in (None, True, False):
            given = size_average, reduce
            log(
                str(given),
                found.legacy_get_string(*given),
                found.legacy_get_enum(*given, emit_warning=False),
            )

    loss = torch.nn.LinearCrossEntropyLoss
    for settings in (
        {"weight": torch.ones(2)},
        {"label_smoothing": 1.5},
        {"label_smoothing": -1},
        {"reduction": "x"},
    ):
        log.error(str(list(settings)), lambda settings=settings: repr(loss(3, 4, **settings)))


def packed(torch, log):
    log("packed")
    rnn = import_module(f"{torch.__name__}.nn.utils.rnn")
    sequence = rnn.pack_padded_sequence(torch.arange(6.0).reshape(3, 2) * 40, [3, 2])
    for name in ("short", "char", "byte", "int", "long", "half", "float", "double", "cpu"):
        found = getattr(sequence, name)()
        log(name, found.data, found is sequence)
    log(sequence.cpu(dtype=torch.float64).data.dtype, sequence.to("cpu", torch.half).data.dtype)
    log.error("copy", lambda: sequence.to(torch.half, copy=True).data)

    class Own(rnn.PackedSequence):
        pass

    own = Own(sequence.data, sequence.batch_sizes)
    log(type(own.double()).__name__)


def schedules(torch, log):
    log("schedules")
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=6)
    del schedule._anneal_func_type
    state = schedule.state_dict()
    log("anneal_func_type" in state)
    state["anneal_func"] = torch.optim.lr_scheduler.OneCycleLR._annealing_linear
    schedule.load_state_dict(state)
    for _ in range(4):
        optimizer.step()
        schedule.step()
        log(optimizer.param_groups[0]["lr"])


def lazy(torch, log):
    log("lazy")
    F = torch.nn.functional
    for make in (torch.nn.parameter.UninitializedParameter, torch.nn.parameter.UninitializedBuffer):
        p = make()
        for name, attempt in {
            "add": lambda p: torch.add(p, p), "plus": lambda p: p + p, "sum": lambda p: torch.sum(p),
            "empty_like": lambda p: torch.empty_like(p), "linear": lambda p: F.linear(torch.ones(2, 2), p),
            "second": lambda p: torch.ones(2) + p, "dot": lambda p: torch.zeros(2).dot(p), "relu": lambda p: F.relu(p),
            "numel": lambda p: p.numel(), "dim": lambda p: p.dim(), "stride": lambda p: p.stride(),
            "stack": lambda p: torch.stack([p, p]), "tolist": lambda p: p.tolist(),
            "normal": lambda p: torch.nn.init.normal_(p),
            "shape": lambda p: p.shape, "share": lambda p: p.share_memory_(), "numpy": lambda p: p.numpy(),
        }.items():  # fmt: skip
            try:
                attempt(p)
            except Exception as error:
                log(name, type(error).__name__, str(error)[:40])
        log(
            p.dtype,
            p.requires_grad,
            p.is_leaf,
            p.double().dtype,
            p.float() is p,
            p.to("cpu") is p,
            p.is_complex(),
        )
        log(repr(p), p.grad is None)
        if isinstance(p, torch.nn.Parameter):
            q = copy.deepcopy(p)
            log(type(q).__name__, q is p)
        p.materialize((2, 3), dtype=torch.float64)
        log(type(p).__name__, p.shape, p.dtype, p.requires_grad)
    m = torch.nn.LazyLinear(3).double()
    log(type(m.weight).__name__, m.weight.dtype)
    m(torch.ones(1, 2, dtype=torch.float64))
    log(m.weight.shape, m.weight.dtype)
    for make in (torch.nn.utils.weight_norm, torch.nn.utils.spectral_norm):
        log.error("normalized", lambda make=make: make(torch.nn.LazyLinear(3)))
    for make in (torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad, torch.optim.LBFGS):
        m = torch.nn.LazyLinear(3)
        try:
            log(type(make(m.parameters(), lr=0.1)).__name__)
        except Exception as error:
            log(make.__name__, type(error).__name__, str(error)[:40])


def conversions(torch, log):
    log("conversions")
    m = torch.nn.Linear(2, 2)
    log(m.to("cpu") is m, m.to("cpu", torch.float64).weight.dtype, m.to(torch.ones(1)).weight.dtype)
    log.error("copy", lambda: m.to("cpu", copy=True))
    log.error("copy", lambda: m.to("cpu", torch.float32, False, True))
    log.error("integers", lambda: m.to(torch.int64))
    log.error("device", lambda: m.to("foo"))
    cpu, parse = torch.device("cpu"), torch._C._nn._parse_to
    whole, half = torch.tensor(3), torch.tensor(3.0).half()
    for args, kwargs in (
        ((cpu, True), {}), ((torch.long,), {}), ((None, True), {}), ((cpu, torch.long, True), {}), (([],), {}),
        (({},), {"non_blocking": True}), ((whole,), {"non_blocking": True}), ((cpu, whole), {"non_blocking": True}),
        ((cpu,), {"dtype": torch.half, "non_blocking": True}), ((half, True), {}), ((half,), {"dtype": torch.half}),
        ((torch.half, True), {}), ((), {"other": half}), ((), {}), ((None,), {}), ((None, None), {}),
        (("cpu",), {"device": cpu}), ((float,), {}), ((int, True), {}), ((bool,), {}), ((complex,), {}), ((True,), {}),
        ((), {"tensor": half}), (("cpu", float), {}), ((), {"dtype": int}),
        ((cpu, torch.half, True, False), {}), ((cpu,), {"copy": False}), ((torch.half, True, False, 1), {}), ((1.5,), {}),
        ((cpu,), {"unknown": 1}), ((torch.half,), {"memory_format": torch.channels_last}), ((cpu, torch.half, 1), {}),
        ((), {"device": "cpu"}), ((0,), {}), (("cpu:0",), {}), ((torch.half,), {"device": cpu}),
    ):  # fmt: skip
        try:
            log(str(parse(*args, **kwargs)))
        except Exception as error:
            log(str(args), str(kwargs), type(error).__name__, str(error)[:50].split(" - got")[0])
    conv = torch.nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)
    log(conv.weight.stride(), conv.bias.stride())
    conv = torch.nn.Conv2d(2, 3, 3).to(torch.float64, memory_format=torch.channels_last)
    log(conv.weight.stride(), conv.weight.dtype)
    log.error("rank", lambda: torch.nn.Conv3d(2, 3, 3).to(memory_format=torch.channels_last))


def attributes(torch, log):
    log("attributes")
    nn = torch.nn

    class Older(nn.Module):
        def register_buffer(self, name, value):
            super().register_buffer(name, value, True)

    m = Older()
    m.kept = nn.Buffer(torch.ones(2))
    log(list(m.state_dict()), m.kept)
    log.error(
        "not persistent", lambda: setattr(m, "other", nn.Buffer(torch.ones(2), persistent=False))
    )

    class Tracking(nn.Module):
        def register_buffer(self, name, value, persistent=True):
            log("registered", name, persistent)
            super().register_buffer(name, value, persistent)

    m = Tracking()
    m.kept = nn.Buffer(torch.ones(2), persistent=False)
    m.kept = torch.zeros(2)
    m.kept = nn.Buffer(torch.zeros(1))
    m.kept = None
    log(list(m.state_dict()), list(m._non_persistent_buffers_set))

    def filled():
        m = nn.Module()
        m.number = 5
        m.parameter = nn.Parameter(torch.ones(1))
        m.module = nn.Identity()
        m.register_buffer("buffer", torch.ones(1), persistent=False)
        return m

    values = {
        "buffer": nn.Buffer(torch.zeros(1)), "parameter": nn.Parameter(torch.zeros(1)), "tensor": torch.zeros(1),
        "module": nn.ReLU(), "none": None, "number": 3,
    }  # fmt: skip
    for place in ("number", "parameter", "module", "buffer", "new"):
        for kind, value in values.items():
            m = filled()

            def assign(m=m, place=place, value=value):
                setattr(m, place, value)
                kinds = (
                    m.__dict__,
                    m._parameters,
                    m._modules,
                    m._buffers,
                    m._non_persistent_buffers_set,
                )
                return [place in x for x in kinds]

            log.error(f"{place} = {kind}", assign)
            log.error("  register_buffer", lambda p=place, v=value: filled().register_buffer(p, v))
            log.error(
                "  register_parameter", lambda p=place, v=value: filled().register_parameter(p, v)
            )
            log.error("  add_module", lambda p=place, v=value: filled().add_module(p, v))
    bare = nn.Module.__new__(nn.Module)
    for kind, value in values.items():
        log.error(f"before __init__: {kind}", lambda v=value: setattr(bare, "first", v))

    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "called"

    m = nn.Module()
    m.register_buffer("like", Like())
    log(type(m.like).__name__)


def channels(torch, log):
    log("channels")
    for n, kind in enumerate(
        (torch.nn.InstanceNorm1d, torch.nn.InstanceNorm2d, torch.nn.InstanceNorm3d)
    ):
        for affine in (False, True):
            m = kind(4, affine=affine)
            log(m._get_no_batch_dim() - n)
            for shape in ([2, *[2] * (n + 1)], [3, 2, *[2] * (n + 1)]):
                log.error(str(shape), lambda m=m, shape=shape: m(torch.ones(shape)).shape)


def replicas(torch, log):
    log("replicas")
    nn = torch.nn
    lists = nn.ParameterList([nn.Parameter(torch.ones(2)), nn.Parameter(torch.zeros(1))])
    dicts = nn.ParameterDict(
        {"one": nn.Parameter(torch.ones(2)), "two": nn.Parameter(torch.zeros(1))}
    )
    norm = nn.BatchNorm1d(2)
    for m in (lists, dicts, norm):
        made = m._replicate_for_data_parallel()
        log(
            type(made) is type(m),
            len(list(made.parameters())),
            len(list(made.buffers())),
            made._is_replica,
        )
        log(hasattr(m, "_is_replica"))
        for name, p in m.named_parameters():
            setattr(made, name, p.view_as(p))
        log([getattr(made, name)._base is p for name, p in m.named_parameters()])
    log.error("lazy", lambda: nn.LazyLinear(3)._replicate_for_data_parallel())


def spectral(torch, log):
    log("spectral_norm")
    for dtype in (torch.float32, torch.complex64):
        m = torch.nn.Linear(2, 2, dtype=dtype)
        with torch.no_grad():
            x = torch.tensor([2.0, 1.0]).to(dtype) * (1 if dtype is torch.float32 else 1 + 1j)
            m.weight = torch.nn.Parameter(torch.diag(x))
        torch.nn.utils.parametrizations.spectral_norm(m)
        u = m.parametrizations.weight[0]._u
        version = u._version
        log(
            torch.allclose(m.weight, torch.diag(x / x.abs().max()), atol=1e-4),
            m.parametrizations.weight[0]._u is u,
        )
        log(u._version > version)
    norm = torch.nn.utils.spectral_norm
    m = norm(torch.nn.Linear(3, 2))
    x = torch.ones(1, 3)
    for _ in range(5):
        m(x)
    m.eval()
    expected = m(x)
    state = copy.deepcopy(m.state_dict())
    older = copy.deepcopy(state)
    del older._metadata[""]["spectral_norm"]
    log(str(m.load_state_dict(older)))
    del older["weight_v"]
    older["weight"] = m.weight.detach().clone()
    for kept in (older, {k: v for k, v in older.items() if k != "weight"}):
        m = norm(torch.nn.Linear(3, 2))
        kept = OrderedDict(kept)
        kept._metadata = copy.deepcopy(older._metadata)
        log.error("older", lambda kept=kept: str(m.load_state_dict(kept)))
        log(str(m.load_state_dict(kept, strict=False)))
        m.eval()
        log(torch.allclose(m(x), expected, atol=1e-5) or kept.get("weight") is None)
