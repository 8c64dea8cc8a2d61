"""Checks of a finished site: it loads nothing from other hosts and shows no paths of this machine."""

from __future__ import annotations

import html.parser
import re
from pathlib import Path
from typing import Any

LINKS = (
    "canonical",
    "next",
    "prev",
    "search",
    "index",
)  # <link> elements of these kinds load nothing


class _Resources(html.parser.HTMLParser):
    """Collects what a page loads: scripts, styles, pictures; not what it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses of one element."""
        attributes = dict(attrs)
        if tag in ("script", "img", "source", "iframe", "embed", "video", "audio"):
            self.found.append(attributes.get("src") or "")
            self.found += [
                part.split()[0]
                for part in (attributes.get("srcset") or "").split(",")
                if part.strip()
            ]
        if tag == "link" and attributes.get("rel") not in LINKS:
            self.found.append(attributes.get("href") or "")


def foreign(text: str) -> list[str]:
    """Return what a page or a style sheet loads from other hosts."""
    page = _Resources()
    page.feed(text)
    styles = re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')]+)", text)
    return [
        address
        for address in page.found + styles
        if re.match(r"(?:https?:)?//", address)
    ]


def faults(site: Path, private: list[str]) -> list[str]:
    """Return one sentence for each fault of the site."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix not in (".html", ".js", ".css", ".txt", ".ipynb", ".py"):
            continue
        text, name = path.read_text(encoding="utf-8"), path.relative_to(site)
        found += [
            f"{name} has the path {part} of this machine."
            for part in private
            if part in text
        ]
        if path.suffix in (".html", ".css"):
            found += [f"{name} loads {address}." for address in foreign(text)]
    return found


def check_site(app: Any, exception: Exception | None) -> None:
    """Fail a build whose pages load something from other hosts or show where they were built."""
    if exception is not None or app.builder.format != "html":
        return
    from sphinx.errors import ExtensionError

    # A path of one part, such as /docs, may occur in any text; so may that of a home directory without its slash.
    folders = [
        str(folder)
        for folder in (Path(app.srcdir).parent, Path(app.outdir))
        if len(folder.parts) > 2
    ]
    home = [f"{Path.home()}/"] if len(Path.home().parts) > 1 else []
    found = faults(Path(app.outdir), folders + home)
    if found:
        raise ExtensionError(
            "Expected pages that need nothing but themselves. " + " ".join(found)
        )
