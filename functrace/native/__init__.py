"""The native tier: programs as machine code, through LLVM (the extra ``native``).

A plan becomes loop IR (`functrace.native.loop_ir`), by one row per primitive
(`functrace.native.rows`); that is printed as LLVM IR, compiled, and called as a builtin function
(`functrace.native.engine`). Use it with ``functrace.jit(f, backend="native")``.

Layer: 7.
"""
