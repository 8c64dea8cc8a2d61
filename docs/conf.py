"""How the documentation is built: `make docs`, without network, warnings being errors."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import _pictures  # noqa: E402
from _mathml import add_mathml  # noqa: E402
from _site import check_site  # noqa: E402

project = "coupledict"
author = "The coupledict developers"
copyright = "the coupledict developers; licence BSD-3-Clause"
release = version = importlib.metadata.version("coupledict")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/*.py.md5", "**/sg_execution_times*"]
templates_path = ["_templates"]

# Markdown
myst_enable_extensions = ["colon_fence", "dollarmath", "attrs_inline"]
myst_heading_anchors = 3

# Reference
autosummary_generate = True
autodoc_typehints = "none"  # docstrings tell types in words
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the template lists methods below the class
numpydoc_class_members_toctree = False

# Gallery: the scripts examples/plot_*.py are run, and nothing else in that folder is looked at.
sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "plot_",
    "ignore_pattern": r"^(?!.*plot_)",
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,  # seconds on somebody's machine are no news
    "remove_config_comments": True,
    "thumbnail_size": (400, 280),
    "within_subsection_order": "_gallery.ByWhatIsWanted",
}

# Pages
html_theme = "pydata_sphinx_theme"
html_title = f"coupledict {release}"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_use_index = False
html_math_renderer = "mathml"
WITHOUT_PAGES_BELOW = ("index", "installation", "faq", "citing", "development")
html_sidebars: dict[str, list[str]] = {page: [] for page in WITHOUT_PAGES_BELOW}
html_theme_options: dict[str, Any] = {
    "show_nav_level": 1,
    "navigation_depth": 3,
    "show_prev_next": True,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "coupledict"},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_exclude = ".linenos, .gp, .go"


def skip_what_others_wrote(
    app: object, what: str, name: str, member: object, skip: bool, options: object
) -> bool | None:
    """Leave out what classes inherit from scikit-learn: its docstrings refer to pages that are not here."""
    function = (
        getattr(member, "__func__", None) or getattr(member, "fget", None) or member
    )
    module = getattr(function, "__module__", None) or ""
    if (
        what == "class"
        and (callable(member) or isinstance(member, property))
        and not module.startswith("coupledict")
    ):
        return True
    return True if name.endswith("_request") else None


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx about formulas, pictures, what to leave out, and what to check in the end."""
    add_mathml(app)
    app.connect(
        "builder-inited", _pictures.draw_all, priority=100
    )  # before the gallery
    app.connect("autodoc-skip-member", skip_what_others_wrote)
    app.connect("build-finished", check_site, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
