"""checkpoint(use_reentrant=False): groups of backward passes, what debug tells, settings, contexts, private names."""

import contextlib
import logging
import threading
import warnings


def leaf(torch, *values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def run(torch, log):
    groups(torch, log)
    overlapping(torch, log)
    with no_other_handlers():
        debug(torch, log)
        debug_settings(torch, log)
    messages(torch, log)
    early_stop_everywhere(torch, log)
    contexts(torch, log)
    arguments(torch, log)
    devices(torch, log)
    by_hand(torch, log)


@contextlib.contextmanager
def no_other_handlers():
    """PyTorch logs records that no handler but its own can format."""
    loggers = [logging.getLogger(name) for name in (None, "LoggingTensor")]
    before = [logger.handlers for logger in loggers]
    for logger in loggers:
        logger.handlers = []
    try:
        yield
    finally:
        for logger, handlers in zip(loggers, before):
            logger.handlers = handlers


def counted(function):
    def run(*args, **kwargs):
        run.calls += 1
        return function(*args, **kwargs)

    run.calls = 0
    return run


def groups(torch, log):
    cp = torch.utils.checkpoint
    for inside in (False, True):
        function = counted(lambda x: (x.sin().exp(), x.cos().exp()))
        x = leaf(torch, 0.5, 1.0)
        a, b = cp.checkpoint(function, x, use_reentrant=False)
        with cp.GraphExecGroup() if inside else contextlib.nullcontext():
            a.sum().backward()
            b.sum().backward()
        log("calls", function.calls, x.grad)
    inner = counted(lambda x: x.exp().sin())
    outer = counted(lambda x: (cp.checkpoint(inner, x.cos(), use_reentrant=False).tan(), x.sin().exp()))
    x = leaf(torch, 0.5)
    a, b = cp.checkpoint(outer, x, use_reentrant=False)
    with cp.GraphExecGroup() as group:
        log(cp.GraphExecGroup._get_current_group() is group)
        (g,) = torch.autograd.grad(b.sum(), x, retain_graph=True)
        a.sum().backward()
    log("nested", outer.calls, inner.calls, g, x.grad, cp.GraphExecGroup._get_current_group() is None)
    try:
        with cp.GraphExecGroup(), cp.GraphExecGroup():
            pass
    except RuntimeError as error:
        log(str(error).split("<")[0], cp.GraphExecGroup._get_current_group() is None)
    found = []
    with cp.GraphExecGroup():
        thread = threading.Thread(target=lambda: found.append(cp.GraphExecGroup._get_current_group() is None))
        thread.start()
        thread.join()
    log("in another thread none", found)


def overlapping(torch, log):
    cp = torch.utils.checkpoint
    x = leaf(torch, 0.5)
    y = cp.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False)
    with cp.GraphExecGroup():
        y.sum().backward(retain_graph=True)
        log.error("again in the group", lambda: y.sum().backward(retain_graph=True))
    y.sum().backward()
    log(x.grad)


def sections(error):
    """The log without stack traces, which hold file names, and without aliases."""
    text = str(error)
    listed = text[text.index("|       3. Log of operators") :]
    return [line for line in listed.splitlines() if "detach.default" not in line]


def debug(torch, log):
    cp = torch.utils.checkpoint

    def first(x, k=2.0):
        return torch.cat([x.sin() * k, x]).view(2, 2).sum(0, keepdim=True).max(1)[0].exp()

    for second in (lambda x: x.sin() * 2.0, lambda x: x.float().exp()):
        function = counted(lambda x: first(x) if function.calls == 1 else second(x))
        x = leaf(torch, 0.5, 1.0)
        y = cp.checkpoint(function, x, use_reentrant=False, debug=True)
        try:
            y.sum().backward()
        except cp.CheckpointError as error:
            head = str(error).split("\n+~")[0]
            log(head)
            log(str(error).count("(1 of "), "checkpoint_groups.py:" in str(error), type(error.__cause__).__name__)
            log(str(error.__cause__).split("\n")[0])
            numbered = [line.split(" = ")[-1] if " = " in line else line for line in sections(error)]
            for line in numbered:
                log(line.replace("$0", "$").split("($")[0])
    y = cp.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False, debug=True)
    y.sum().backward()
    log(x.grad)


def debug_settings(torch, log):
    cp = torch.utils.checkpoint
    differs = counted(lambda x: x.sin() if differs.calls == 1 else x + 1)
    for enabled, given in ((True, False), (False, True), (None, True)):
        differs.calls = 0
        x = leaf(torch, 0.5)
        with cp.set_checkpoint_debug_enabled(enabled):
            y = cp.checkpoint(differs, x, use_reentrant=False, debug=given)
        try:
            y.backward()
        except cp.CheckpointError as error:
            log(enabled, given, str(error).splitlines()[0])
    with cp.set_checkpoint_debug_enabled(True):
        around = (contextlib.nullcontext(), contextlib.nullcontext())
        log.error("contexts", lambda: cp.checkpoint(differs, x, use_reentrant=False, context_fn=lambda: around))
    log.error("reentrant", lambda: cp.checkpoint(differs, x, use_reentrant=True, debug=None))


def messages(torch, log):
    cp = torch.utils.checkpoint
    for second, options in (
        (lambda x: x + 1, {}),
        (lambda x: x[:1].sin(), {}),
        (lambda x: x.sin().exp(), {"early_stop": False}),
    ):
        function = counted(lambda x: x.sin() if function.calls == 1 else second(x))
        y = cp.checkpoint(function, leaf(torch, 0.5, 1.0), use_reentrant=False, **options)
        log.error("differs", lambda: y.sum().backward())
    log(sorted(cp._allowed_determinism_checks_to_fns), cp._DEFAULT_DETERMINISM_MODE)
    described = cp._allowed_determinism_checks_to_fns["default"](torch.ones(2))
    log(sorted(described), str(described["shape"]), str(described["dtype"]), str(described["device"]))
    log.error("unknown", lambda: cp.checkpoint(lambda x: x, leaf(torch, 1.0), use_reentrant=False, determinism_check="some"))


def early_stop_everywhere(torch, log):
    cp = torch.utils.checkpoint
    ended = []

    def function(x):
        y = x.sin()
        ended.append(1)
        return y

    made = []
    x = leaf(torch, 0.5)
    with cp.set_checkpoint_early_stop(False):
        thread = threading.Thread(target=lambda: made.append(cp.checkpoint(function, x, use_reentrant=False)))
        thread.start()
        thread.join()
        with cp.set_checkpoint_early_stop(True):
            made.append(cp.checkpoint(function, x, use_reentrant=False, early_stop=False))
    made.append(cp.checkpoint(function, x, use_reentrant=False, early_stop=False))
    made.append(cp.checkpoint(function, x, use_reentrant=False))
    for y in made:
        ended.clear()
        y.backward()
        log("ended", len(ended))


def contexts(torch, log):
    cp = torch.utils.checkpoint
    calls = []

    @contextlib.contextmanager
    def around(name):
        log("enter", name)
        try:
            yield
        finally:
            log("leave", name)

    def make():
        calls.append(1)
        return around("forward"), around("again")

    x = leaf(torch, 0.5)
    y = cp.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False, context_fn=make)
    log("made", len(calls))
    y.backward()
    with torch.no_grad():
        cp.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False, context_fn=make)
    log("made", len(calls))

    def broken(x):
        raise KeyError("from the function")

    log.error("broken", lambda: cp.checkpoint(broken, x, use_reentrant=False, context_fn=make))
    suppressing = (contextlib.suppress(KeyError), contextlib.nullcontext())
    log.error("suppressed", lambda: cp.checkpoint(broken, x, use_reentrant=False, context_fn=lambda: suppressing))
    log.error("afterwards", lambda: x.sin())


def arguments(torch, log):
    cp = torch.utils.checkpoint
    x = leaf(torch, 0.5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cp.check_backward_validity([torch.ones(1), 3, x])
        cp.check_backward_validity([torch.ones(1), 3])
    log([str(w.message) for w in caught])
    a, b, c = cp.detach_variable((x, 3, x * 1))
    log(a is x, a.requires_grad, a.is_leaf, b, c.requires_grad, c.is_leaf)
    log.error("list", lambda: cp.detach_variable([x]))
    log.error("rest", lambda: cp.checkpoint(lambda x: x, x, use_reentrant=False, nonsense=1))
    log.error("sequential", lambda: cp.checkpoint_sequential([torch.sin], 1, x, use_reentrant=False, nonsense=1))


def devices(torch, log):
    cp = torch.utils.checkpoint
    log(
        cp.get_device_states(leaf(torch, 1.0)),
        cp._infer_device_type(leaf(torch, 1.0)),
        cp.DefaultDeviceType.get_device_type(),
    )
    cp.set_device_states([], [])
    cp.set_device_states([0], [torch.get_rng_state()], device_type="meta")


def by_hand(torch, log):
    """The parts of a checkpoint, put together."""
    import weakref

    cp = torch.utils.checkpoint
    x = leaf(torch, 0.5, 1.0)
    function = counted(lambda x: x.sin().exp())
    frame = cp._CheckpointFrame(function, True, None, cp._allowed_determinism_checks_to_fns["default"])
    frame.save_inputs(x, 3)
    log(frame.get_inputs()[0] is x, frame.get_inputs()[1], frame.early_stop, frame.forward_completed)
    frame.save_inputs(x)
    with cp._checkpoint_hook(frame):
        y = function(x)
    frame.forward_completed = True
    log(len(frame.weak_holders), [sorted(m) for m in frame.x_metadatas], frame.ignore_saved_mismatch)
    y.sum().backward()
    log(function.calls, x.grad, [r() is None for r in frame.weak_holders])
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        log(issubclass(cp._recomputation_hook, torch.autograd.graph.saved_tensors_hooks), weakref.ref(frame)() is frame)
    around = cp._checkpoint_without_reentrant_generator(function, True, cp.noop_context_fn, "default", False, True, x)
    next(around)
    y = function(x)
    next(around, None)
    y.sum().backward()
    log(function.calls, x.grad)
