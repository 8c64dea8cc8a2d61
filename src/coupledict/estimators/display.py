"""Fitted estimators in notebooks: scikit-learn's diagram, and below it the atoms as a picture, and facts in lines.

A picture is small, whatever the size of the dictionary: it shows some atoms of some views, patches as a PNG, anything
else as curves in an SVG, both embedded in the page. If it cannot be drawn, only the diagram is shown.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.drawing import describe_norms, full_scale

MOST_VIEWS = 6
MOST_ATOMS = 100  # per view
MOST_LINES = 12
MOST_CURVES = 36  # per view, if atoms are curves, which take more room on the page
MOST_PIXELS = 60_000  # of all views together; noise takes about one byte per pixel, and a third more in base64
MOST_SIDE = 32  # of larger patches only every second, third, ... pixel is shown
MOST_POINTS = 64  # per curve
CLEAR = 255  # grey level that is transparent, so that the gaps between atoms suit light and dark pages
CELL = (64, 32)  # width and height of a curve, in the units of the SVG


class PicturedMixin:
    """Mixin for estimators that show their atoms in notebooks once they are fitted."""

    def _pictured(self) -> list[tuple[str, Any]]:
        """Return one title and dictionary per view; an empty list if there is nothing to show."""
        raise NotImplementedError

    def _described(self) -> list[str]:
        """Return lines of text about the fitted estimator."""
        return []

    def _repr_html_inner(self) -> str:
        return self._with_picture(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._with_picture(bundle["text/html"])
        return bundle

    def _with_picture(self, html: str) -> str:
        try:
            return html + picture(self._pictured()) + lines_below(self._described())
        except Exception:  # a notebook without the picture is better than an error
            return html


def picture(dictionaries: list[tuple[str, Any]]) -> str:
    """Return dictionaries as HTML: one figure per view, with a caption that says how many atoms it shows.

    Parameters
    ----------
    dictionaries : list of (title, array of shape (n_components, n_features))

    Returns
    -------
    str
        HTML; empty if there is nothing to show.
    """
    shown = [(title, np.asarray(atoms)) for title, atoms in dictionaries[:MOST_VIEWS]]
    shown = [(title, atoms) for title, atoms in shown if atoms.ndim == 2 and atoms.size and np.isfinite(atoms).all()]
    if not shown:
        return ""
    figures = "".join(_figure(title, atoms, MOST_PIXELS // len(shown)) for title, atoms in shown)
    left = len(dictionaries) - MOST_VIEWS
    more = f'<div style="align-self:center">and {left} more</div>' if left > 0 else ""
    norms = describe_norms([np.asarray(atoms) for _, atoms in dictionaries]) if len(shown) == len(dictionaries) else ""
    note = f'<div style="width:100%">Atoms of {norms}, each drawn on a scale of its own.</div>' if norms else ""
    return (
        '<div class="coupledict-atoms" style="display:flex;flex-wrap:wrap;gap:1em;margin:0.5em 0;'
        f'font-family:monospace;font-size:0.9em">{figures}{more}{note}</div>'
    )


def lines_below(lines: list[str]) -> str:
    """Return lines of text as HTML, at most MOST_LINES of them; empty without lines."""
    left = len(lines) - MOST_LINES
    shown = lines[:MOST_LINES] + ([f"and {left} more"] if left > 0 else [])
    text = "<br>".join(escape(line) for line in shown)
    return f'<div style="margin:0.5em 0;font-family:monospace;font-size:0.9em">{text}</div>' if text else ""


def _figure(title: str, atoms: npt.NDArray[Any], budget: int) -> str:
    n_atoms, n_features = atoms.shape
    shape = find_patch_size(n_features)
    if shape is None:
        source, count = _curves(_some(atoms, MOST_CURVES), _some(full_scale(atoms), MOST_CURVES))
        pixelated, kind = "", "image/svg+xml"
    else:
        source, count = _mosaic(atoms, shape, budget)
        pixelated, kind = ";image-rendering:pixelated", "image/png"
    number = f"{n_atoms} atoms" if count == n_atoms else f"{count} of {n_atoms} atoms"
    caption = escape(f"{title}: {number} of {n_features} features", quote=True)
    uri = f"data:{kind};base64,{base64.b64encode(source).decode('ascii')}"
    return (
        f'<figure style="margin:0"><img src="{uri}" alt="{caption}" style="width:240px;max-width:100%{pixelated}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _some(atoms: npt.NDArray[Any], most: int) -> npt.NDArray[Any]:
    """Return at most `most` atoms, evenly spaced: atoms may be sorted, for instance by class."""
    return np.asarray(atoms[np.linspace(0, len(atoms) - 1, min(len(atoms), most)).astype(int)])


def find_patch_size(n_features: int) -> tuple[int, int, int] | None:
    """Return height, width and channels of square patches, grey or colour; None for other features."""
    for channels in (1, 3):
        side = math.isqrt(n_features // channels)
        if side >= 3 and side * side * channels == n_features:
            return side, side, channels
    return None


def _mosaic(atoms: npt.NDArray[Any], shape: tuple[int, int, int], budget: int) -> tuple[bytes, int]:
    """Return a grid of atoms as a PNG, and their number; each atom has its own scale, with 0 as mid-grey.

    Atoms of a very small norm are paler; see :func:`coupledict.foundation.drawing.full_scale`.
    """
    step = -(-shape[0] // MOST_SIDE)
    height, width, channels = -(-shape[0] // step), -(-shape[1] // step), shape[2]
    count = min(len(atoms), MOST_ATOMS, max(1, budget // ((height + 1) * (width + 1) * channels)))
    patches = np.asarray(_some(atoms, count), np.float64).reshape(count, *shape)[:, ::step, ::step]
    levels = np.rint((CLEAR - 1) / 2 * (1 + patches / _some(full_scale(atoms), count)[:, :, None, None]))
    columns = math.ceil(math.sqrt(count))
    rows = -(-count // columns)
    grid = np.full((rows * columns, height + 1, width + 1, channels), CLEAR, np.uint8)
    grid[:count, 1:, 1:] = levels
    table = grid.reshape(rows, columns, height + 1, width + 1, channels).swapaxes(1, 2)
    return png(table.reshape(rows * (height + 1), columns * (width + 1), channels)), count


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return an image of one or three channels as a PNG file; pixels with `CLEAR` in all channels are transparent."""
    height, width, channels = pixels.shape

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    lines = np.insert(pixels.reshape(height, width * channels), 0, 0, axis=1)  # filter type 0 (none) before each line
    parts = [(b"IHDR", header), (b"tRNS", struct.pack(">H", CLEAR) * channels)]
    parts += [(b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, content) for kind, content in parts)


def _curves(atoms: npt.NDArray[Any], scales: npt.NDArray[np.float64]) -> tuple[bytes, int]:
    """Return a grid of atoms as curves in an SVG, and their number; 0 is in the middle, with one scale per column."""
    width, height = CELL
    count, n_features = atoms.shape
    columns = math.ceil(math.sqrt(count / 1.5))
    places = np.unique(np.linspace(0, n_features - 1, min(n_features, MOST_POINTS)).round().astype(int))
    chosen = np.asarray(atoms[:, places], np.float64)
    heights = height / 2 - 0.45 * height * chosen / scales
    steps = np.linspace(2, width - 2, len(places)) if len(places) > 1 else np.array([width / 2])
    paths = []
    for t, ys in enumerate(heights):
        left, top = t % columns * width, t // columns * height
        points = " ".join(f"{left + x:.0f},{top + y:.1f}" for x, y in zip(steps, ys, strict=True))
        paths.append(f"M{points}" if len(places) > 1 else f"M{points}h1")
    size = (columns * width, -(-count // columns) * height)
    # This blue is readable on light and on dark pages.
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}"'
        f' viewBox="0 0 {size[0]} {size[1]}"><path d="{"".join(paths)}" fill="none" stroke="#3b8ed0"/></svg>'
    )
    return text.encode("ascii"), count
