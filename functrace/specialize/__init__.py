"""One mechanism for conditionally valid programs: trees of guards with specialized programs at the
leaves.

Layer: b (base).
"""

from functrace.specialize.table import Guard, Miss, Node, Specialization, Table

__all__ = ["Guard", "Miss", "Node", "Specialization", "Table"]
