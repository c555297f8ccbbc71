"""Let a reverse pass overwrite the carries that its forward sweep has kept, in programs that run.

The kept carries are results of one operation and operands of another one. If the same program has
both, and nothing else reads them, the reverse pass keeps later carries in the rows of those that it
has used. Otherwise (a pullback may be called again) it allocates them.

Layer: 5.
"""

from __future__ import annotations

from functrace.control.checkpointed_forward import checkpointed_forward_p
from functrace.control.checkpointed_reverse import checkpointed_reverse_p, kept_places
from functrace.control.checkpointed_sweep import ReverseSweep
from functrace.ir.parts import Rewrite
from functrace.ir.program import Program
from functrace.ops.shaping import permute_p


def own_kept_carries(program: Program) -> Program:
    """Mark reverse passes that own the carries kept for them; returns an equal program, to be run.

    Cost:
        nothing without such operations.
    """
    if checkpointed_reverse_p not in program.kinds:
        return program
    readers: dict[int, int] = {}
    for i in program.output_ids:
        readers[i] = 2
    for k, _ in program.schedule:
        for i in program.ops[k][1]:
            readers[i] = readers.get(i, 0) + 1
    first: dict[int, int] = {}
    for k, _ in program.schedule:
        if program.ops[k][0] is checkpointed_forward_p:
            first.update((k + n, k) for n in range(program.result_count(k)))

    def is_alone(i: int) -> bool:
        while readers.get(i) == 1:
            if i in first:
                return True
            primitive, operands, _ = program.ops[i]
            if primitive is not permute_p:
                return False
            i = operands[0]
        return False

    write = Rewrite(program)
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if primitive is checkpointed_reverse_p and all(
            is_alone(operands[n]) for n in kept_places(ReverseSweep._make(params))
        ):
            start = write.place(
                primitive,
                tuple(map(write.operand, operands)),
                (*params[:-1], True),
                write.position(k),
            )
            write.moved.update((k + n, start + n) for n in range(program.result_count(k)))
        else:
            write.keep_each([k])
    return write.finish()
