"""A self-contained HTML document: style and script are embedded, and its security policy allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from ._html import Html, element


def document(title: str, parts: Sequence[Html]) -> str:
    """Return the whole page; the script of the explorer comes last, after the elements that it uses."""
    files = resources.files(__package__)
    style = base_style() + files.joinpath("style.css").read_text(encoding="utf-8")
    script = files.joinpath("explorer.js").read_text(encoding="utf-8")
    body = element("body", *parts, element("script", Html(script)))
    return "<!doctype html>\n" + element("html", _head(title, style, script), body, lang="en") + "\n"


def base_style() -> str:
    """Return the style sheet that all pages share, including the local page."""
    return resources.files(__package__).joinpath("base.css").read_text(encoding="utf-8")


def _head(title: str, style: str, script: str) -> Html:
    # The policy blocks all loading, and all scripts but ours, even if some text were inserted unescaped.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}';"
        " base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · coupledict"),
        element("style", Html(style)),
    )
