"""Pages of the documentation in a real browser: code fits its column, wide tables scroll in boxes of their own.

The pages are made for this, with the settings and the style of the documentation. The tests need Playwright and a
Chromium, and are skipped without; COUPLEDICT_BROWSER=required makes that a failure.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from support.waiting import PATIENCE

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
#: Columns of code that fit at 1280 pixels: on a page, and in the docstring of a method.
ON_PAGES, IN_DOCSTRINGS = 88, 112
LONG_NAME = "a_name_that_is_" + "very_" * 12 + "long"
PAGE = f"""# A page

```{{toctree}}
reference
```

```python
{"x" * ON_PAGES}
```

```python
{"x" * 120}
```

A name: `{LONG_NAME}`.

| {" | ".join(f"column {n}" for n in range(12))} |
|{"---|" * 12}
| {" | ".join(f"{n}000.000" for n in range(12))} |

## Another part

Words.
"""
REFERENCE = f"""A class
=======

.. py:class:: A

   .. py:method:: work()

      :Parameters:

         name : {LONG_NAME}, or a list with one for each view of the samples, or a dict by name
            Words.

      >>> {"x" * (IN_DOCSTRINGS - 4)}
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    pytest.importorskip("sphinx_gallery")
    pytest.importorskip("pydata_sphinx_theme")
    folder = tmp_path_factory.mktemp("documentation")
    (folder / "docs").mkdir()
    for path in [*DOCS.glob("*.py"), DOCS / "_static", DOCS / "_templates"]:
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, folder / "docs" / path.name)
    pictures = folder / "docs" / "_static" / "pictures"
    pictures.mkdir(exist_ok=True)
    for name in ("pairs", "prediction", "fusion", "atoms"):
        Image.new("L", (4, 4)).save(pictures / f"{name}.png")
    (folder / "examples").mkdir()
    (folder / "examples" / "README.rst").write_text("Gallery\n=======\n")
    (folder / "docs" / "page.md").write_text(PAGE)
    (folder / "docs" / "reference.rst").write_text(REFERENCE)
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-d", folder / "doctrees"]
    command += ["-D", "root_doc=page", "-D", "include_patterns=page.md,reference.rst"]
    done = subprocess.run([*command, folder / "docs", folder / "site"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


#: For each element: whether what is in it is wider than it is.
SCROLLS = "selector => [...document.querySelectorAll(selector)].map(each => each.scrollWidth > each.clientWidth)"


@pytest.fixture
def open_page(browser, site):
    """Open a page of the site at a width; at the end it must have asked for nothing but files of the site."""
    contexts, requests = [], []

    def open_page(name, width):
        context = browser.new_context(viewport={"width": width, "height": 800})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("request", lambda request: requests.append(request.url))
        page.goto((site / name).as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [url for url in requests if not url.startswith((site.as_uri(), "data:"))] == []


@pytest.mark.parametrize("width", [1280, 1519, 1520, 1920])
def test_code_fits_its_column(open_page, width):
    page = open_page("page.html", width)
    assert page.evaluate(SCROLLS, ".bd-content pre")[0] is False
    reference = open_page("reference.html", width)
    assert reference.evaluate(SCROLLS, ".bd-content pre") == [False]


def test_longer_code_would_have_to_be_scrolled(open_page):
    page = open_page("page.html", 1280)
    assert page.evaluate(SCROLLS, ".bd-content pre") == [False, True]


@pytest.mark.parametrize("name", ["page.html", "reference.html"])
@pytest.mark.parametrize("width", [360, 400])
def test_pages_do_not_scroll_sideways_on_a_phone(open_page, name, width):
    page = open_page(name, width)
    assert page.evaluate(SCROLLS, "html, .bd-article-container") == [False, False]
    if name == "page.html":
        assert page.evaluate(SCROLLS, ".pst-scrollable-table-container") == [True]
