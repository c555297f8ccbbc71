"""Compare functrace with other libraries, in one run on one machine.

    python -m benchmarks                         all works
    python -m benchmarks eager-rosen cold-600    some
    python -m benchmarks --json FILE             also as JSON
    python -m benchmarks --report DIRECTORY      also as a page with pictures
    python -m benchmarks --no-memory             without a process per work and system for its peak
    memory

One file per work, with one function per system, and a line in `benchmarks/works.py`. Each of these
prepares its inputs and returns a function to be timed; all of them compute the same numbers, which
is checked before any timing. First, second, tenth and later calls are reported separately. The
ratio functrace / peer matters: absolute times depend on the machine. A peer that is not installed
is skipped, and the output says so.

Works run in child processes, without the variables of the environment that would disturb them
(`benchmarks/machine.py`).
"""
