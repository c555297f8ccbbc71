"""Run the examples for the gallery: programs that save a picture and end with `sys.exit`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

EXIT = sys.exit


def picture(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Show the picture that an example has saved next to itself."""
    from sphinx_gallery.scrapers import figure_rst

    made = Path(variables["src_file"]).with_suffix(".png")
    if not made.exists() or block[0] != "code":
        return ""
    target = next(variables["image_path_iterator"])
    shutil.copy(made, target)
    return str(figure_rst([target], settings["src_dir"]))


def arguments(settings: dict[str, Any], variables: dict[str, Any]) -> list[str]:
    """Run an example without arguments, and let it know its own file, next to which it saves a
    picture.
    """
    variables["example_globals"]["__file__"] = variables["src_file"]
    return []


def returned(status: int | None = None) -> None:
    """Stand in for `sys.exit`: only a failure is an error."""
    if status:
        raise RuntimeError(f"the example ended with status {status}")


def stay_in_process(settings: dict[str, Any], name: str, when: str) -> None:
    """Let an example end without ending the build."""
    sys.exit = returned if when == "before" else EXIT  # type: ignore[assignment]
