"""Control flow that can be recorded.

* branches.py: `cond`, `switch`
* loops.py: `scan`, `while_loop`, `fori_loop`, `map`
* associative.py: `associative_scan`

Layer: 8.
"""
