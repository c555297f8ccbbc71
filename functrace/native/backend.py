"""The native backend: programs as machine code, through LLVM.

What has no native form splits a program: maximal runs of operations that have one become single
operations (`native_p`) of a program that the NumPy backend compiles.

Layer: 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.parallel.concurrent import group_concurrent
from functrace.executor.plan.planner import Plan, planned
from functrace.executor.policy import Policy
from functrace.ir.parts import Compiled
from functrace.ir.program import Program

if TYPE_CHECKING:
    from functrace.native.loop_ir import Function

MOST_STATEMENTS: Final = 30_000
"""Statements of loop IR up to which a program is compiled: LLVM takes some seconds for them. The
arithmetic of indices counts, and of equal loop nests only the first one.
"""


@final
class NativeBackend:
    """The native backend; see the module's docstring.

    Args:
        splits: False to raise `NoNativeForm` for a program of which a part has no native form.
        falls_back: False to return None where NumPy's form has to run: the caller runs it.
        is_exact: True for results that equal NumPy's to the bit.
    """

    policy = Policy()

    def __init__(
        self, splits: bool = True, falls_back: bool = True, is_exact: bool = False
    ) -> None:
        self.splits, self.falls_back, self.is_exact = splits, falls_back, is_exact

    def compile(self, plan: Plan) -> Compiled:
        """Compile a plan."""
        from functrace.native.zero_dimensional import with_arrays

        return with_arrays(plan.program, self._compile(plan))

    def _compile(self, plan: Plan) -> Compiled:
        form = self.form(plan)
        return NUMPY.compile(form) if isinstance(form, Plan) else self._callable(form, plan.program)

    def form(self, plan: Plan) -> Function | Plan:
        """Return a plan as one function of machine code, or else NumPy's plan around functions for
        its parts.

        Raises:
            NoNativeForm: without ``splits``, if a part has no native form.
        """
        from functrace.native.lowering import NoNativeForm
        from functrace.native.zero_dimensional import has_branch_results

        if self.is_exact and has_branch_results(plan.program):
            if not self.splits:
                raise NoNativeForm("results of a branch, which decides their types")
            return planned(plan.program)
        if self.falls_back and self.splits:
            from functrace.native.tiles import in_tiles, is_concurrent

            tiled = in_tiles(plan.program, self.lowered, is_exact=self.is_exact)
            if tiled is not None and is_concurrent(tiled):
                return planned(tiled, Policy(NUMPY.policy.tuned, group_concurrent))
            if tiled is not None:
                return self._in_segments(tiled)
        try:
            return self._whole(plan)
        except NoNativeForm:
            if not self.splits:
                raise
            return self._in_segments(plan.program)

    def _whole(self, plan: Plan) -> Function:
        """Lower a plan to one function.

        Raises:
            NoNativeForm: if an operation has no native form, or if the code is too long to compile.
        """
        from functrace.executor.plan.layouts import are_results_in_c_order
        from functrace.native.lowering import NoNativeForm

        if self.is_exact and not are_results_in_c_order(plan):
            raise NoNativeForm("results that are not in C order in NumPy's run")
        return self._function(plan)

    def _callable(self, function: Function, program: Program) -> Compiled:
        """Compile a function; NumPy's form of the program runs where its machine code fails."""
        from functrace.native.engine import NativeFunction

        make = (lambda: NUMPY.compile(planned(program))) if self.falls_back else None
        return NativeFunction(function, make, is_exact=self.is_exact).call

    def lowered(self, program: Program) -> Function:
        """Lower a program.

        Raises:
            NoNativeForm: as `_whole` does.
        """
        return self._function(planned(program, Policy()))

    def _function(self, plan: Plan) -> Function:
        """Lower a plan.

        Raises:
            NoNativeForm: as `_whole` does.
        """
        from functrace.native.lowering import NoNativeForm, lower
        from functrace.native.repeated import Repeats, repeats_in
        from functrace.native.rows import EXACT_ROWS, ROWS

        function = lower(plan, EXACT_ROWS if self.is_exact else ROWS, plan.program.name)
        count = Repeats({}, {}).count(function.body)
        if count > MOST_STATEMENTS:
            count = repeats_in(function.body).count(function.body)
        if count > MOST_STATEMENTS:
            raise NoNativeForm(f"code as long as {count:,} statements")
        return function

    def _in_segments(self, program: Program) -> Plan:
        """Return the plan of a program whose parts with a native form are single operations."""
        from functrace.native.rows import EXACT_ROWS, ROWS
        from functrace.native.segments import segmented

        rows = EXACT_ROWS if self.is_exact else ROWS

        def compile_segment(part: Program) -> Compiled:
            return self._callable(self._whole(planned(part, Policy())), part)

        policy = Policy(NUMPY.policy.tuned, lambda inner: segmented(inner, compile_segment, rows))
        return planned(program, policy)


NATIVE = NativeBackend()
"""The native backend."""
EXACT = NativeBackend(is_exact=True)
"""The native backend with results that equal NumPy's to the bit."""
