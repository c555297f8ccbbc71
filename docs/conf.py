"""Configuration of the documentation site: ``sphinx-build -W -b html docs docs/_build/html``.

Nothing is fetched. Links into the manuals of NumPy, SciPy and JAX are made only if
``FUNCTRACE_DOCS_INVENTORIES`` is ``online``, or a directory that holds ``numpy.inv``, ``scipy.inv``
and ``jax.inv``. ``FUNCTRACE_DOCS_EXAMPLES=0`` builds the gallery without running the examples.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]
os.environ.update(MPLBACKEND="Agg", TQDM_DISABLE="1")

import functrace  # noqa: E402

# -- the project -----------------------------------------------------------------------------------

project = "functrace"
author = "The functrace authors"
copyright = author
version = release = functrace.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docstrings",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery/*.ipynb"]
default_role = (
    "py:obj"  # a name in backticks is a link if the site documents it, and code otherwise
)
myst_heading_anchors = 3

# -- other manuals ---------------------------------------------------------------------------------

MANUALS = {
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "jax": "https://docs.jax.dev/en/latest/",
}
inventories = os.environ.get("FUNCTRACE_DOCS_INVENTORIES")
intersphinx_mapping = {
    name: (
        url,
        None if inventories == "online" else str(Path(inventories, f"{name}.inv").resolve()),
    )
    for name, url in MANUALS.items()
    if inventories
}

# -- docstrings ------------------------------------------------------------------------------------

autodoc_typehints = "none"  # a docstring says what arguments are, and signatures stay short
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Returns", "Cost", "Source"]  # text; "a: b" in it is no type

# -- the gallery -----------------------------------------------------------------------------------

SLOW = (
    "characters",
    "digits_distributed",
    "digits_torch",
)  # these train for longer than the rest of the site takes to build
RUN = rf"/(?!{'|'.join(SLOW)})\w+\.py$"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "^$" if os.environ.get("FUNCTRACE_DOCS_EXAMPLES") == "0" else RUN,
    "image_scrapers": ("examples.picture",),
    "reset_argv": "examples.arguments",
    "reset_modules": ("examples.stay_in_process",),
    "reset_modules_order": "both",
    "capture_repr": (),
    "within_subsection_order": "FileNameSortKey",
    "default_thumb_file": str(HERE / "_static" / "program.png"),
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "download_all_examples": False,
}

# -- the site --------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "functrace"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"get_started": [], "sharp_bits": []}  # pages of no section
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "show_toc_level": 2,
}
