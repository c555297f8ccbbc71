"""Memory of a run: which arrays are alive at each operation, why, and what work memory NumPy takes.

`functrace.executor.memory.timeline` has the data, `functrace.executor.memory.of_plans` and
`functrace.executor.memory.of_lists` make it of compiled plans and of instruction lists, by the
lifetimes that these runs have. The public functions are `functrace.memory_plan` and
`functrace.testing.check_memory`.

Layer: 7.
"""
