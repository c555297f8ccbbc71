"""Writing files for users.

Layer: 0.
"""

from __future__ import annotations

import contextlib
import os
import secrets


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file: readers find the old file or the whole new one, also after an error.

    Args:
        path: path of the file; one that exists is replaced.
        text: its contents, written as UTF-8.

    Raises:
        OSError: if it cannot be written.
    """
    target: str = os.path.realpath(os.fspath(path))
    part = f"{target}.{secrets.token_hex(6)}.part"
    try:
        with open(part, "x", encoding="utf-8", newline="\n") as file:  # (permissions: the umask's)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
