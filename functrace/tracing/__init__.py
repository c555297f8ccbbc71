"""Recording user code as a program, and the reference evaluator of programs.

Layer: 1.
"""

from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer

__all__ = ["Recording", "Tracer", "bind", "evaluate_program"]
