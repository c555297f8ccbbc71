"""Grad modes as contexts, functions and decorators: of functions, methods, generators, coroutines, classes."""

import asyncio
import threading


def run(torch, log):
    plain(torch, log)
    generators(torch, log)
    coroutines(torch, log)
    others(torch, log)


def kinds(torch):
    return {
        "no_grad": torch.no_grad,
        "enable_grad": torch.enable_grad,
        "set off": lambda: torch.set_grad_enabled(False),
        "set on": lambda: torch.set_grad_enabled(True),
        "inference": torch.inference_mode,
    }


def plain(torch, log):
    on = torch.is_grad_enabled
    log("plain", on())
    for name, kind in kinds(torch).items():
        log(name)
        with kind() as entered:
            log(on(), entered)
        log(on())

        @kind()
        def decorated(x, *, y=2):
            """Say so."""
            return x, y, on()

        log(on(), decorated(1), decorated(1, y=3), decorated.__name__, decorated.__doc__, on())
        with torch.no_grad():
            log(decorated(1)[2], on())
        context = kind()
        with context:
            pass
        with context:
            log("again", on())
        log(on())
        torch.set_grad_enabled(True)

        class Owner:
            @kind()
            def method(self):
                return type(self).__name__, on()

            @staticmethod
            @kind()
            def static():
                return on()

            @classmethod
            @kind()
            def of_class(cls):
                return cls.__name__, on()

        log(Owner().method(), Owner.static(), Owner.of_class())
        torch.set_grad_enabled(True)

        def failing():
            with kind():
                raise KeyError("inside")

        log.error("raises", failing)
        log.error("raises, decorated", kind()(lambda: {}["inside"]))
        log(on())
        torch.set_grad_enabled(True)
    log(torch.no_grad(lambda: on())(), torch.enable_grad(lambda: on())(), torch.inference_mode(lambda: on())())
    setting = torch.set_grad_enabled(False)
    log(on())
    with setting:
        log(on())
    log(on())
    torch.set_grad_enabled(mode=False)
    log(on())
    torch.set_grad_enabled(True)
    log(repr(torch.set_grad_enabled(True)))

    @torch.no_grad()
    def recursive(n):
        return [on()] if n == 0 else [on(), *recursive(n - 1), on()]

    log(recursive(2), on())

    @torch.enable_grad()
    @torch.no_grad()
    def inner_wins():
        return on()

    log(inner_wins())
    for decorator in (torch.no_grad(), torch.no_grad, torch.set_grad_enabled(False), torch.enable_grad()):

        class Made:
            def __init__(self):
                self.seen = on()

        made = decorator(Made)()
        log(type(made).__name__, made.seen, on())


def generators(torch, log):
    on = torch.is_grad_enabled
    log("generators")
    for name, kind in kinds(torch).items():
        log(name)

        @kind()
        def steps(n):
            """Yield modes."""
            received = None
            for _ in range(n):
                try:
                    received = yield received, on()
                except ValueError as error:
                    received = str(error), on()
                except GeneratorExit:
                    log("  closed", on())
                    raise
                finally:
                    log("  finally", on())
            return "done", on()

        log(list(steps(2)), on())
        made = steps(5)
        log(next(made), made.send("sent"), made.throw(ValueError("thrown")), on())
        made.close()
        log(on(), steps.__name__, steps.__doc__)
        made = steps(1)
        next(made)
        log.error("thrown through", lambda made=made: made.throw(KeyError("other")))
        log(on())

        def outer():
            return (yield from steps(1))

        made = outer()
        log(next(made))
        try:
            made.send("last")
        except StopIteration as end:
            log("returned", end.value, on())
        log.error("exhausted", lambda made=made: next(made))
        with torch.no_grad():
            made = steps(2)
            log(next(made), on())
        log(next(made), on())
        made.close()

        @kind()
        def changes():
            yield on()
            torch.set_grad_enabled(not on())
            yield on()
            yield on()

        log(list(changes()), on())
        torch.set_grad_enabled(True)


def coroutines(torch, log):
    on = torch.is_grad_enabled
    log("coroutines")

    @torch.no_grad()
    async def decorated():
        before = on()
        await asyncio.sleep(0)
        return before, on()

    log(asyncio.run(decorated()), on())

    async def contexts():
        with torch.no_grad():
            before = on()
            await asyncio.sleep(0)
            return before, on()

    log(asyncio.run(contexts()), on())


def others(torch, log):
    log("others")
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        y = x * 2
        log(y.requires_grad, x.requires_grad, x.detach().requires_grad)
        z = torch.ones(2, requires_grad=True)
        log(z.requires_grad, z.is_leaf)
        log((x * 2).requires_grad_().is_leaf)
        with torch.enable_grad():
            log((x * 2).requires_grad)
        log(x.numpy().tolist())
    log.error("numpy", lambda: x.numpy())
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    log("thread", seen)
    log(torch._C.is_grad_enabled(), torch.autograd.grad_mode.no_grad is torch.no_grad)
    log(torch.autograd.inference_mode is torch.inference_mode, isinstance(torch.no_grad(), torch.no_grad))
