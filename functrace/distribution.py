"""The check that no other distribution shares the package's directory.

The package index has an unrelated project named ``functrace``, which installs a package
``functrace``, too; this one is the distribution ``functrace-numpy``. Installers write both into one
directory and overwrite files of the first by those of the second. See
docs/decisions/0048-distribution.md.

Layer: b (base).
"""

from __future__ import annotations

import os

NAME = "functrace-numpy"
"""The name of the distribution, which installers know."""


def check_directory(package: str) -> None:
    """Refuse a package directory that another distribution has written into.

    Only what an installer has recorded next to the package counts, so a checkout, a copy inside
    another package and an archive pass.

    Args:
        package: the directory of the package.

    Raises:
        ImportError: naming the other distribution, with the commands that help.

    Cost:
        one listing of the directory that the package stands in: 0.01 ms for 20 entries, 0.2 ms for
        300.
    """
    try:
        installed = [
            name for name in os.listdir(os.path.dirname(package)) if name.endswith(".dist-info")
        ]
    except OSError:  # an archive, or a directory that may be searched but not listed
        return
    others = [
        name.removesuffix(".dist-info") for name in installed if name.startswith("functrace-")
    ]
    if others and any(name.startswith(NAME.replace("-", "_") + "-") for name in installed):
        raise ImportError(
            f"{others[0]} and {NAME} are installed in one place: both have a package named "
            "functrace, and files of one have "
            f"replaced files of the other in {package}\n"
            f"fix: pip uninstall functrace {NAME}, then pip install {NAME} again",
            name="functrace",
            path=package,
        )
