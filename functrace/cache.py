"""``python -m functrace.cache``: show, or clear, the machine code that is kept on disk.

Layer: 8 (api).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from functrace.native import object_cache


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m functrace.cache", description=__doc__)
    parser.add_argument("--clear", action="store_true", help="remove all files")
    if parser.parse_args(arguments).clear:
        print(f"removed {object_cache.clear()} files")
        return 0
    found = object_cache.statistics()
    if found.directory is None:
        print(f"off: {object_cache.VARIABLE} is an empty string")
    else:
        print(f"{found.directory}: {found.files} files, {found.nbytes:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
