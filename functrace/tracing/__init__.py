"""Recording: how user code becomes a program, and what a program means.

Floor: 1.
"""

from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.recording import Recording, Tracer, bind

__all__ = ["Recording", "Tracer", "bind", "evaluate_program"]
