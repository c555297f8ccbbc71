"""Indexing of every kind NumPy has, reading and writing."""
from typing import Any
from functrace.ops.indexing import index_p, embed_p
from functrace.tracing.recording import bind
def index_array(x: Any, index: Any) -> Any: raise NotImplementedError
def scatter_set(x: Any, index: Any, value: Any) -> Any: raise NotImplementedError
def store(x: Any, index: Any, value: Any) -> Any: raise NotImplementedError
class At: pass
