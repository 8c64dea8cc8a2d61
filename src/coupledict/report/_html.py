"""HTML built from elements; all text that is not marked as HTML is escaped."""

from __future__ import annotations

import html
from typing import TypeAlias

VOID = frozenset({"br", "col", "img", "input", "meta"})  # elements that have no end tag


class Html(str):
    """Text that is already HTML and is not escaped again."""

    __slots__ = ()


Child: TypeAlias = "str | None"
Attribute: TypeAlias = "str | int | float | bool | None"


def escape(text: str) -> Html:
    """Return text escaped as HTML, unless it is already HTML."""
    return text if isinstance(text, Html) else Html(html.escape(text))


def join(*children: Child) -> Html:
    """Return the concatenated children, without None."""
    return Html("".join(escape(child) for child in children if child is not None))


def element(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return one element.

    Underscores in the names of attributes become hyphens, and one at the end is dropped (``class_``). Attributes that
    are None or False are left out, True is an attribute without a value.
    """
    tag = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            tag.append(key)
        elif value is not None and value is not False:
            tag.append(f'{key}="{html.escape(str(value))}"')
    start = f"<{' '.join(tag)}>"
    return Html(start) if name in VOID else Html(f"{start}{join(*children)}</{name}>")


def paragraph(*children: Child, class_: str | None = None) -> Html | None:
    """Return a paragraph, or None for empty text."""
    text = join(*children)
    return element("p", text, class_=class_) if text else None


def definitions(entries: list[tuple[str, str]], class_: str | None = None) -> Html | None:
    """Return terms and their descriptions, without entries that have none; None without any entries."""
    rows = [element("div", element("dt", term), element("dd", text)) for term, text in entries if text]
    return element("dl", *rows, class_=class_) if rows else None


def scrolling(content: Html, label: str, class_: str) -> Html:
    """Return content in a box that scrolls by itself, also with the keyboard, so that the page never has to."""
    return element("div", content, class_=f"scroll {class_}", role="region", aria_label=label, tabindex=0)
