"""``nn.utils``: clipping, vectors, pruning, parametrizations, norms of weights, packed sequences."""

import copy
import importlib
import pickle


def run(torch, log):
    for name in ("parametrize", "prune", "parametrizations"):
        importlib.import_module(f"{torch.__name__}.nn.utils.{name}")

    def attempt(label, function):
        try:
            found = function()
        except Exception as error:
            log(label, type(error).__name__, str(error).replace("functrace.", ""))
        else:
            log(label, repr(found) if isinstance(found, torch.nn.Module) else found)

    clipping(torch, log, attempt)
    pruning(torch, log, attempt)
    older_norms(torch, log, attempt)
    parametrized(torch, log, attempt)
    sequences(torch, log, attempt)
    fused(torch, log, attempt)


def filled(torch):
    layer = torch.nn.Linear(3, 4)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(12.0).reshape(4, 3))
        layer.bias.copy_(torch.arange(4.0))
    return layer


def clipping(torch, log, attempt):
    u = torch.nn.utils
    a, b = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    (a.sum() * 3 + (b * b).sum() * 2).backward()
    attempt("norm", lambda: u.clip_grad_norm_([a, b], 1.0))
    log(a.grad, b.grad)
    attempt("inf", lambda: u.clip_grad_norm_(a, 1.0, norm_type=float("inf")))
    attempt("none", lambda: u.clip_grad_norm_([], 1.0))
    attempt("no gradient", lambda: u.clip_grad_norm_([torch.ones(2)], 1.0))
    attempt("older", lambda: u.clip_grad_norm(a, 1.0))
    attempt("value", lambda: u.clip_grad_value_([a, b], 0.1))
    log(a.grad)
    attempt("total", lambda: u.get_total_norm([torch.ones(2), torch.ones(3)]))
    attempt("total", lambda: u.get_total_norm(torch.ones(2), 1))
    a.grad = torch.tensor([float("nan"), 1.0])
    attempt("nan", lambda: u.clip_grad_norm_([a, b], 1.0, error_if_nonfinite=True))
    attempt("known", lambda: u.clip_grads_with_norm_([a, b], 0.1, torch.tensor(2.0)))
    log(b.grad)
    layer = filled(torch)
    attempt("vector", lambda: u.parameters_to_vector(layer.parameters()))
    u.vector_to_parameters(torch.arange(16.0) * 2, layer.parameters())
    log(layer.weight, layer.bias)
    attempt("no tensor", lambda: u.vector_to_parameters([1], layer.parameters()))
    attempt("short", lambda: u.vector_to_parameters(torch.ones(3), layer.parameters()))
    attempt("skipped", lambda: u.skip_init(torch.nn.Linear, 2, 3))
    attempt("skipped", lambda: u.skip_init(torch.nn.ReLU))


def pruning(torch, log, attempt):
    prune, layer = torch.nn.utils.prune, filled(torch)
    attempt("half", lambda: prune.l1_unstructured(layer, "weight", 0.5))
    log(list(layer.state_dict()), layer.weight, layer.weight_mask)
    attempt("two", lambda: prune.l1_unstructured(layer, "weight", 2))
    log(layer.weight_mask, [type(h).__name__ for h in layer._forward_pre_hooks.values()])
    log(layer(torch.ones(1, 3)).detach(), prune.is_pruned(torch.nn.Sequential(layer)))
    attempt("remove", lambda: prune.remove(layer, "weight"))
    log(list(layer.state_dict()), layer.weight, prune.is_pruned(layer))
    attempt("remove", lambda: prune.remove(layer, "weight"))
    layer = filled(torch)
    attempt("rows", lambda: prune.ln_structured(layer, "weight", 0.5, n=2, dim=0))
    log(layer.weight_mask)
    attempt("columns", lambda: prune.ln_structured(layer, "weight", 1, n=float("inf"), dim=1))
    log(layer.weight_mask)
    attempt("vector", lambda: prune.ln_structured(layer, "bias", 1, n=1, dim=0))
    attempt("identity", lambda: prune.identity(layer, "bias"))
    attempt("mask", lambda: prune.custom_from_mask(filled(torch), "bias", torch.eye(4)[1]).bias)
    attempt("amount", lambda: prune.l1_unstructured(filled(torch), "weight", -1))
    attempt("amount", lambda: prune.l1_unstructured(filled(torch), "weight", 1.5))
    attempt("amount", lambda: prune.l1_unstructured(filled(torch), "weight", 100))
    attempt("amount", lambda: prune.l1_unstructured(filled(torch), "weight", "a"))
    attempt("name", lambda: prune.random_unstructured(filled(torch), "nope", 1))
    one, other = filled(torch), filled(torch)
    with torch.no_grad():
        other.weight.add_(0.5)
    pairs = [(one, "weight"), (other, "weight")]
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.3)
    log(one.weight_mask, other.weight_mask)
    attempt("no list", lambda: prune.global_unstructured(3, prune.L1Unstructured, amount=0.4))
    attempt("alone", lambda: prune.L1Unstructured(0.5).prune(torch.arange(4.0)))


def older_norms(torch, log, attempt):
    u, layer = torch.nn.utils, filled(torch)
    attempt("weight norm", lambda: u.weight_norm(layer))
    log(list(layer.state_dict()), layer.weight, layer.weight_g)
    layer(torch.ones(1, 3)).sum().backward()
    log(layer.weight_g.grad, layer.weight_v.grad)
    attempt("twice", lambda: u.weight_norm(layer))
    attempt("remove", lambda: u.remove_weight_norm(layer))
    attempt("remove", lambda: u.remove_weight_norm(layer))
    for dim in (None, 1, -1):
        attempt("axis", lambda: u.weight_norm(filled(torch), dim=dim).weight_g)
    torch.manual_seed(0)
    layer = filled(torch)
    attempt("spectral norm", lambda: u.spectral_norm(layer))
    log(list(layer.state_dict()), repr(dict(layer.state_dict()._metadata)))
    log(layer(torch.ones(1, 3)), layer.weight_u)
    attempt("twice", lambda: u.spectral_norm(layer))
    attempt("remove", lambda: u.remove_spectral_norm(layer))
    log(list(layer.state_dict()), layer.weight, len(layer._state_dict_hooks))
    attempt("remove", lambda: u.remove_spectral_norm(layer))
    attempt("iterations", lambda: u.spectral_norm(layer, n_power_iterations=0))


def parametrized(torch, log, attempt):
    nn = torch.nn
    parametrize, ready = nn.utils.parametrize, nn.utils.parametrizations

    class Symmetric(nn.Module):
        def forward(self, X):
            return X.triu() + X.triu(1).T

        def right_inverse(self, A):
            return A.triu()

    class Halves(nn.Module):
        def forward(self, a, b):
            return a + b

        def right_inverse(self, A):
            return A / 2, A / 2

    class First(nn.Module):
        def forward(self, X):
            return X[0]

    class Doubled(nn.Module):
        def forward(self, X):
            return X * 2

    def square():
        layer = nn.Linear(3, 3)
        with torch.no_grad():
            layer.weight.copy_(torch.arange(9.0).reshape(3, 3))
        return layer

    m = square()
    attempt("register", lambda: parametrize.register_parametrization(m, "weight", Symmetric()))
    log(type(m).__name__, list(m.state_dict()), m.weight, m.parametrizations.weight.original)
    log([parametrize.is_parametrized(m, n) for n in (None, "weight", "bias")])
    attempt("again", lambda: parametrize.register_parametrization(m, "weight", Symmetric()))
    m.weight = torch.ones(3, 3)
    log(m.weight, m.parametrizations.weight.original)
    with parametrize.cached():
        log(m.weight is m.weight)
    log(m.weight is m.weight)
    attempt("remove", lambda: parametrize.remove_parametrizations(m, "weight"))
    log(type(m).__name__, m.weight)
    attempt("remove", lambda: parametrize.remove_parametrizations(m, "weight"))
    for name, made in (("nope", Symmetric()), ("weight", First())):
        attempt("register", lambda: parametrize.register_parametrization(m, name, made))
    parametrize.register_parametrization(m, "weight", Doubled())
    attempt("assign", lambda: setattr(m, "weight", torch.ones(3, 3)))
    parametrize.remove_parametrizations(m, "weight", leave_parametrized=False)
    log(m.weight)
    parametrize.register_parametrization(m, "weight", Halves())
    log(list(m.state_dict()))
    attempt("pickle", lambda: pickle.dumps(m))
    attempt("deepcopy", lambda: copy.deepcopy(m))
    attempt("w/o", lambda: parametrize.remove_parametrizations(m, "weight", False))
    w = ready.weight_norm(filled(torch))
    log(repr(w), list(w.state_dict()), w.weight)
    torch.manual_seed(0)
    s = ready.spectral_norm(filled(torch))
    log(repr(s), list(s.state_dict()), s.weight)
    attempt("name", lambda: ready.spectral_norm(filled(torch), "z"))
    attempt("vector", lambda: ready.spectral_norm(filled(torch), "bias").bias)
    attempt("axis", lambda: ready.spectral_norm(filled(torch), dim=5))
    torch.manual_seed(0)
    for kind in ("cayley", "householder", "matrix_exp"):
        o = ready.orthogonal(square(), orthogonal_map=kind)
        near = (o.weight.T @ o.weight - torch.eye(3)).abs().max().item() < 1e-5
        log(kind, list(o.state_dict()), near, o.parametrizations.weight.original)
    attempt("map", lambda: ready.orthogonal(square(), orthogonal_map="x"))
    attempt("vector", lambda: ready.orthogonal(square(), "bias"))
    wide = ready.orthogonal(nn.Linear(5, 3))
    log((wide.weight @ wide.weight.T - torch.eye(3)).abs().max().item() < 1e-5)


def sequences(torch, log, attempt):
    rnn = torch.nn.utils.rnn
    x = torch.arange(6.0).reshape(3, 2)
    for lengths in ([3], [3, 0], [2, 3], [-1, -2], [2, 1], [3, 3]):
        attempt("pack", lambda: tuple(rnn.pack_padded_sequence(x, lengths)))
    attempt("pack", lambda: tuple(rnn.pack_padded_sequence(torch.ones(0, 2), [1, 1])))
    attempt("sort", lambda: tuple(rnn.pack_padded_sequence(x, [1, 2], enforce_sorted=False)))
    packed = rnn.pack_padded_sequence(x, [1, 3], enforce_sorted=False)
    attempt("pad", lambda: rnn.pad_packed_sequence(packed))
    attempt("pad", lambda: rnn.pad_packed_sequence(packed, True, -1.0, 4))
    attempt("pad", lambda: rnn.pad_packed_sequence(packed, total_length=1))
    for given in (3, [], [torch.ones(2), torch.zeros(3)]):
        attempt("pad", lambda: rnn.pad_sequence(given, padding_value=7.0))
    attempt("left", lambda: rnn.pad_sequence([torch.ones(2), torch.ones(1)], padding_side="left"))
    attempt("side", lambda: rnn.pad_sequence([torch.ones(2)], padding_side="x"))
    attempt("unpack", lambda: rnn.unpack_sequence(packed))
    attempt("to", lambda: packed.double().data.dtype)
    attempt("one", lambda: rnn.PackedSequence(torch.ones(2)))


def fused(torch, log, attempt):
    nn, u = torch.nn, torch.nn.utils
    bn, linear, conv = nn.BatchNorm1d(3).eval(), nn.Linear(2, 3).eval(), nn.Conv1d(1, 3, 1).eval()
    bn.running_mean.copy_(torch.arange(3.0))
    bn.running_var.copy_(torch.arange(3.0) + 1)
    with torch.no_grad():
        for layer in (linear, conv):
            layer.weight.fill_(2)
            layer.bias.fill_(1)
    for layer in (u.fuse_linear_bn_eval(linear, bn), u.fuse_conv_bn_eval(conv, bn)):
        log(repr(layer), layer.weight, layer.bias)
    attempt("training", lambda: u.fuse_conv_bn_eval(nn.Conv1d(1, 3, 1), nn.BatchNorm1d(3)))
    other = nn.Linear(1, 2).eval()
    attempt("sizes", lambda: u.fuse_linear_bn_eval(other, bn))
