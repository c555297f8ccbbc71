"""functrace side by side with its peers, in one run on one machine.

    python -m benchmarks                         all works
    python -m benchmarks eager-rosen cold-600    some
    python -m benchmarks --json FILE             also as JSON

One file per work, with one function per system. Each of these prepares its inputs and returns a function to be timed; all
of them compute the same numbers, which is checked before anything is timed. What counts is the ratio functrace / peer: the
times themselves belong to the machine. A peer that is not installed is skipped, and the output says so.
"""
