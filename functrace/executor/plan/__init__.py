"""Planning: schedule, liveness, aliasing, buffer reuse and fusion of a program, for every backend.

Start at `functrace.executor.plan.planner.planned`.

Layer: 7.
"""
