"""`functrace.torch.stand_in`: imports of ``torch`` get functrace.torch, and nothing is mixed.

Each case runs in a process of its own, since the tests' own may have imported PyTorch.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import functrace.torch as torch


def run(script: str, tmp_path: Path, **modules: str) -> str:
    """Run a script beside some modules; returns its output."""
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_modules_are_the_same_objects(tmp_path: Path) -> None:
    run(
        """
        import functrace.torch as ft
        with ft.stand_in() as given:
            import torch
            import torch.nn.functional as F
            import torch.nn.modules.linear
            from torch import cuda, optim
            from torch.optim.optimizer import Optimizer
            from torch.utils.data import DataLoader
            assert given is torch is ft and torch.__name__ == "functrace.torch"
            assert torch.__spec__.name == "functrace.torch"
            assert F is ft.nn.functional and optim is ft.optim and cuda is ft.cuda
            assert torch.nn.modules.linear.Linear is ft.nn.Linear
            assert issubclass(optim.SGD, Optimizer)
            assert DataLoader is ft.utils.data.DataLoader
        import sys
        assert not [name for name in sys.modules if name.partition(".")[0] == "torch"]
        """,
        tmp_path,
    )


def test_functions_are_not_replaced_by_modules_of_their_names(tmp_path: Path) -> None:
    run(
        """
        import functrace.torch as ft
        before = {
            (package, name): value
            for package in (ft, ft.autograd, ft.nn, ft.optim, ft.utils, ft.func)
            for name, value in list(vars(package).items()) if callable(value)
        }
        assert (ft.autograd, "gradcheck") in before
        with ft.stand_in():
            import importlib, sys
            for name in [name for name in sys.modules if name.startswith("functrace.torch.")]:
                importlib.import_module(name.removeprefix("functrace."))
            from torch.autograd.gradcheck import GradcheckError
            assert all(vars(package)[name] is value for (package, name), value in before.items())
            import torch
            assert torch.autograd.gradcheck(torch.sin, torch.ones(2, dtype=torch.float64).requires_grad_())
        """,
        tmp_path,
    )


def test_names_that_are_absent_raise_import_errors(tmp_path: Path) -> None:
    run(
        """
        import functrace.torch, importlib.util
        functrace.torch.stand_in()
        import torch
        for name in ("torch.fx", "torch.nn.nonsense", "torch.nonsense.more"):
            try:
                __import__(name)
            except ModuleNotFoundError as error:
                assert name.startswith(error.name), error.name
            else:
                raise AssertionError(name)
        assert importlib.util.find_spec("torch.nn.nonsense") is None
        assert importlib.util.find_spec("torch.nn.functional") is not None
        try:
            from torch.nn import Nonsense
        except ImportError as error:
            assert "Nonsense" in str(error)
        """,
        tmp_path,
    )


def test_pytorch_that_is_imported_already_is_refused(tmp_path: Path) -> None:
    out = run(
        """
        import functrace.torch, sys, types
        for name in ("torch", "torch.nn"):
            sys.modules[name] = types.ModuleType(name)
            try:
                functrace.torch.stand_in()
            except ImportError as error:
                print(error)
            del sys.modules[name]
        with functrace.torch.stand_in():
            import torch
        """,
        tmp_path,
    )
    assert out.count("is imported already") == 2 and "fix: call functrace.torch.stand_in()" in out


def test_contexts_are_counted(tmp_path: Path) -> None:
    run(
        """
        import functrace.torch as ft, sys
        first = ft.stand_in()
        with ft.stand_in(), first:
            import torch
        assert "torch" not in sys.modules
        with ft.stand_in():
            with ft.stand_in():
                import torch
            assert sys.modules["torch"] is ft
            import torch.nn
        assert "torch" not in sys.modules and "torch.nn" not in sys.modules
        with first:
            import torch
        first.__exit__()
        assert "torch" not in sys.modules
        """,
        tmp_path,
    )


def test_a_call_lasts_until_the_process_ends(tmp_path: Path) -> None:
    run(
        """
        import functrace.torch as ft
        ft.stand_in()
        import gc; gc.collect()
        import torch, package
        assert torch is ft and package.Layer()(torch.ones(2)).tolist() == [2.0, 2.0]
        """,
        tmp_path,
        package="""
        import torch.nn as nn

        class Layer(nn.Module):
            def forward(self, x):
                import torch
                return x + torch.ones_like(x)
        """,
    )


def test_packages_keep_working_and_later_imports_are_refused(tmp_path: Path) -> None:
    out = run(
        """
        import functrace.torch as ft, sys
        with ft.stand_in():
            import eager, late
        assert eager.twice(ft.ones(2)).tolist() == [2.0, 2.0]
        try:
            late.twice(ft.ones(2))
        except ImportError as error:
            print(error)
        with ft.stand_in():
            assert late.twice(ft.ones(2)).tolist() == [2.0, 2.0]
        """,
        tmp_path,
        eager="import torch\ntwice = lambda x: torch.add(x, x)",
        late="""
        from torch import Tensor

        def twice(x):
            import torch
            return torch.add(x, x)
        """,
    )
    assert "late was imported under functrace.torch.stand_in()" in out and "fix: " in out


def test_threads_enter_and_leave(tmp_path: Path) -> None:
    run(
        """
        import functrace.torch as ft, sys, threading
        def use():
            for _ in range(20):
                with ft.stand_in():
                    import torch
                    assert torch is ft
        threads = [threading.Thread(target=use) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert "torch" not in sys.modules
        """,
        tmp_path,
    )


def test_a_failed_import_leaves_no_half_loaded_module(tmp_path: Path) -> None:
    run(
        """
        import functrace.torch as ft, sys
        import functrace.torch.nn
        with ft.stand_in():
            import torch
            sys.modules["functrace.torch.hub"] = None
            try:
                import torch.hub
            except ImportError:
                assert "torch.hub" not in sys.modules
            del sys.modules["functrace.torch.hub"]
            import torch.hub
        """,
        tmp_path,
    )


# -- modules of a CPU build ------------------------------------------------------------------------


def test_devices_are_absent() -> None:
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    assert not torch.backends.mps.is_available() and not torch.backends.cudnn.is_available()
    assert not torch.mps.is_available() and not torch.xpu.is_available()
    assert not torch.accelerator.is_available() and torch.accelerator.current_accelerator() is None
    assert torch.cpu.is_available() and torch.cpu.device_count() == 1
    torch.cuda.empty_cache()
    torch.cuda.manual_seed_all(0)
    for refused in (torch.cuda.synchronize, torch.cuda.current_device, torch.cuda.init):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            refused()
    with pytest.raises(RuntimeError, match="requires CUDA support"):
        torch.cuda.Stream()
    assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)


def test_switches_are_kept() -> None:
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark
    with cudnn.flags(enabled=True, benchmark=True):
        assert cudnn.benchmark
    assert cudnn.benchmark is before
    cudnn.deterministic = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")


def test_compilers_return_functions() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x

    assert torch.compile(f) is f and torch.compile(mode="default")(f) is f
    assert torch.jit.script(f) is f and torch.jit.trace(f, torch.ones(1)) is f
    assert torch.jit.ignore(f) is f and torch.jit.ignore(drop=True)(f) is f
    assert torch.compiler.disable(f) is f and not torch.compiler.is_compiling()
    assert torch._dynamo.allow_in_graph(f) is f
    with pytest.raises(TypeError, match="state_dict"):
        torch.jit.save(f, "file")


def test_autocast_does_nothing_for_absent_devices() -> None:
    with torch.autocast("cpu", enabled=False):
        assert torch.ones(1).dtype is torch.float32
    with pytest.warns(UserWarning, match="CUDA is not available"), torch.autocast("cuda"):
        assert not torch.is_autocast_enabled()
    with pytest.raises(RuntimeError, match="device type at start of device string: foo"):
        torch.autocast("foo")


def test_a_grad_scaler_adapts_its_scale() -> None:
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", growth_interval=2)
    scales = []
    for k in range(4):
        optimizer.zero_grad()
        loss = (p * p).sum() * (float("inf") if k == 1 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [65536.0, 32768.0, 32768.0, 65536.0]  # as in PyTorch 2.13.0
    torch.testing.assert_close(p.detach(), torch.full((2,), 0.8**3))
    with pytest.warns(UserWarning, match="Disabling"):
        assert not torch.amp.GradScaler().is_enabled()


def test_the_version_compares_with_strings_and_tuples() -> None:
    version = torch.__version__
    assert isinstance(version, str) and version == "2.13.0" == torch.version.__version__
    assert version >= (1, 8) and version > "2.9" and version < "2.13.1" and version <= "2.13"
    assert not version < "2.13.0rc1" and version != "abc" and torch.version.cuda is None


def test_assert_close_reports_the_greatest_difference() -> None:
    a = torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(a, a + 1e-7)
    torch.testing.assert_close({"a": [a, 1.0]}, {"a": [a, 1.0]})
    with pytest.raises(AssertionError) as caught:
        torch.testing.assert_close(a, torch.tensor([1.0, 2.5, 3.0]))
    assert str(caught.value) == (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\n"
        "Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)"
    )
    with pytest.raises(AssertionError, match="attribute 'dtype' do not match"):
        torch.testing.assert_close(a, a.double())
    with pytest.raises(AssertionError, match=r"for item \['a'\]\[1\]"):
        torch.testing.assert_close({"a": [a, 1.0]}, {"a": [a, 2.0]})


def test_pytrees_keep_none_and_order() -> None:
    pytree = torch.utils._pytree
    tree = {"b": [1, None], "a": (2, [])}
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, None, 2] and spec.num_leaves == 3
    assert pytree.tree_unflatten(leaves, spec) == tree
    assert pytree.tree_map(lambda x, y: (x, y), [1], [2]) == [(1, 2)]
    assert pytree.tree_map_only(int, lambda x: x + 1, [1, "a"]) == [2, "a"]
    with pytest.raises(ValueError, match="arity"):
        pytree.tree_map(lambda x, y: x, [1], [2, 3])


# -- scripts ---------------------------------------------------------------------------------------


def test_missing_names_are_found_without_a_run() -> None:
    from functrace.torch.comparing import missing_names

    text = """
    import torch, torch.nn as nn
    from torch.nn import functional as F
    from torch.nonsense import x
    a = torch.nonsense2(1) + torch.randn(3).nonsense3()
    b = F.relu(a), F.nonsense4, nn.Linear(1, 2).weight, torch.Tensor.nonsense5
    """
    assert missing_names(textwrap.dedent(text)) == [
        (4, "torch.nonsense"),
        (5, "torch.nonsense2"),
        (6, "torch.nn.functional.nonsense4"),
    ]


def test_the_check_reports_lines_of_exceptions(tmp_path: Path) -> None:
    from functrace.torch.check import main

    path = tmp_path / "script.py"
    path.write_text("import torch, sys\nprint(torch.ones(2).sum().item(), sys.argv[1])\n")
    report = torch.check_script(path, ["word"], beside=False)
    assert report and report.count == 1 and not report.has_torch and "it runs" in str(report)
    path.write_text("import torch\nprint(1)\n\ntorch.nonsense()\n")
    report = torch.check_script(path, beside=False)
    assert not report and report.failed_at == 4 and "AttributeError" in report.failure
    assert report.missing == ((4, "torch.nonsense"),)
    assert main(["--alone", str(path)]) == 1
