"""Files of arrays: pytrees in one file (`save`, `load`), and what all writers of files share.

* trees.py: `save`, `load`
* structures.py: the structure of a pytree as JSON
* files.py: files that are written as a whole or not at all, and their checksums

Layer: b (base).
"""
