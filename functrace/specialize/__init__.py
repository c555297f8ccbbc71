"""One mechanism for "this program is valid while …": guards, their answers, and what runs where the answers lead.

Layer: b (base).
"""

from functrace.specialize.table import Guard, Miss, Node, Specialization, Table

__all__ = ["Guard", "Miss", "Node", "Specialization", "Table"]
