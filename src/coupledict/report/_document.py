"""An HTML document that needs no other file: style and script inside, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from ._html import Html, element


def document(title: str, parts: Sequence[Html]) -> str:
    """Return the whole page; the script of the explorer comes last, when all that it looks for is there."""
    files = resources.files(__package__)
    style = files.joinpath("style.css").read_text(encoding="utf-8")
    script = files.joinpath("explorer.js").read_text(encoding="utf-8")
    body = element("body", *parts, element("script", Html(script)))
    return "<!doctype html>\n" + element("html", _head(title, style, script), body, lang="en") + "\n"


def _head(title: str, style: str, script: str) -> Html:
    # Nothing is loaded from anywhere, and no script runs but ours, even if some text were to slip in as HTML.
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
