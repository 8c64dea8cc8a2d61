"""Figures of the page: pictures as data URIs, so that the page needs no other file."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..foundation.text import quoted
from ._html import Html, element, join, scrolling

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def beside(file: Path, folder: Path) -> str | None:
    """Return the relative address of a file in the folder of the page or below it, or None."""
    file, folder = file.resolve(), folder.resolve()
    return "./" + quote(file.relative_to(folder).as_posix()) if file.is_relative_to(folder) else None


def addresses(path: Path, folder: Path) -> list[tuple[str, str]]:
    """Return the names and relative addresses of a figure and its SVG version, if they are next to the page."""
    files = [file for file in (path, path.with_suffix(".svg")) if file.exists()]
    return [(file.name, address) for file in files if (address := beside(file, folder)) is not None]


def check_figures(figures: Any) -> dict[str, Path]:
    """Return the figures as paths, without those that are None."""
    if not isinstance(figures, Mapping):
        raise TypeError(f"Expected figures to be a dict of names and paths, got {type(figures).__name__}.")
    return {str(name): Path(path) for name, path in figures.items() if path is not None}


def _read(path: Path) -> tuple[bytes, int, int]:
    """Return a picture with its width and height, so that the page does not shift when it loads."""
    picture = path.read_bytes()
    if not picture.startswith(SIGNATURE) or len(picture) < 24:
        raise ValueError(f"Expected {quoted(path)} to be a PNG file, got something else.")
    return picture, int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")


def side_by_side(*figures: Html | None) -> Html | None:
    """Return figures side by side, or below each other if there is no room; None without any."""
    there = [one for one in figures if one is not None]
    return element("div", *there, class_="plates") if there else None


def figure(path: Path | None, folder: Path, *, alt: str, caption: str, kind: str = "chart") -> Html | None:
    """Return a figure with its caption and links to its files, or None if there is no picture.

    A "chart" is black on white and changes with the colour scheme, a "picture" stays as it is.
    """
    if path is None:
        return None
    picture, width, height = _read(path)
    image = element(
        "img",
        src=f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}",
        alt=alt,
        width=width,
        height=height,
    )
    links = [
        join(" ", element("a", Path(name).suffix[1:].upper(), href=address))
        for name, address in addresses(path, folder)
    ]
    return element(
        "figure",
        scrolling(image, caption, f"plate {kind}"),
        element("figcaption", caption, element("span", *links, class_="files") if links else None),
        class_="wide",
    )
