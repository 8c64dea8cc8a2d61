"""Fitted estimators in notebooks: scikit-learn's diagram, and below it the atoms as a picture.

A picture is small whatever the dictionary: some atoms of some views, patches as a PNG, anything else as curves in an
SVG, both inside the page. It is an extra: where it cannot be drawn, the diagram stands alone.
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

MOST_VIEWS = 6
MOST_ATOMS = 100  # of a view
MOST_CURVES = 36  # where atoms are curves, which take more room on the page
MOST_PIXELS = 60_000  # of all views together: a picture of noise takes about as many bytes, and a third more as text
MOST_SIDE = 32  # larger patches are shown with some of their pixels
MOST_POINTS = 64  # of a curve
CLEAR = 255  # grey level that stands for transparent, so that light and dark pages shine through between the atoms
CELL = (64, 32)  # width and height of a curve, in the units of the SVG


class PicturedMixin:
    """An estimator that shows its atoms in notebooks once it is fitted."""

    def _pictured(self) -> list[tuple[str, Any]]:
        """Return titles and dictionaries, one a view; none where there is nothing to be shown."""
        raise NotImplementedError

    def _repr_html_inner(self) -> str:
        return self._with_picture(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._with_picture(bundle["text/html"])
        return bundle

    def _with_picture(self, html: str) -> str:
        try:
            return html + picture(self._pictured())
        except Exception:  # a page without a picture is better than none
            return html


def picture(dictionaries: list[tuple[str, Any]]) -> str:
    """Return dictionaries as a piece of a page: one figure a view, and below each how much of it is shown.

    Parameters
    ----------
    dictionaries : list of (title, array of shape (n_components, n_features))

    Returns
    -------
    str
        HTML; empty where there is nothing to show.
    """
    shown = [(title, np.asarray(atoms)) for title, atoms in dictionaries[:MOST_VIEWS]]
    shown = [(title, atoms) for title, atoms in shown if atoms.ndim == 2 and atoms.size and np.isfinite(atoms).all()]
    if not shown:
        return ""
    figures = "".join(_figure(title, atoms, MOST_PIXELS // len(shown)) for title, atoms in shown)
    left = len(dictionaries) - MOST_VIEWS
    more = f'<div style="align-self:center">and {left} more</div>' if left > 0 else ""
    return (
        '<div class="coupledict-atoms" style="display:flex;flex-wrap:wrap;gap:1em;margin:0.5em 0;'
        f'font-family:monospace;font-size:0.9em">{figures}{more}</div>'
    )


def _figure(title: str, atoms: npt.NDArray[Any], budget: int) -> str:
    n_atoms, n_features = atoms.shape
    shape = patch_shape(n_features)
    if shape is None:
        source, count = _curves(_some(atoms, MOST_CURVES))
        pixelated, kind = "", "image/svg+xml"
    else:
        source, count = _mosaic(atoms, shape, budget)
        pixelated, kind = ";image-rendering:pixelated", "image/png"
    number = f"{n_atoms} atoms" if count == n_atoms else f"{count} of {n_atoms} atoms"
    told = escape(f"{title}: {number} of {n_features} features", quote=True)
    uri = f"data:{kind};base64,{base64.b64encode(source).decode('ascii')}"
    return (
        f'<figure style="margin:0"><img src="{uri}" alt="{told}" style="width:240px;max-width:100%{pixelated}">'
        f"<figcaption>{told}</figcaption></figure>"
    )


def _some(atoms: npt.NDArray[Any], most: int) -> npt.NDArray[Any]:
    """Return atoms that are spread over all: they may be sorted, by class for one."""
    return np.asarray(atoms[np.linspace(0, len(atoms) - 1, min(len(atoms), most)).astype(int)])


def patch_shape(n_features: int) -> tuple[int, int, int] | None:
    """Return height, width and channels of square patches, grey or in colour; None for features that are none."""
    for channels in (1, 3):
        side = math.isqrt(n_features // channels)
        if side >= 3 and side * side * channels == n_features:
            return side, side, channels
    return None


def _mosaic(atoms: npt.NDArray[Any], shape: tuple[int, int, int], budget: int) -> tuple[bytes, int]:
    """Return atoms in a grid as a PNG, each on a scale of its own with 0 in the middle, and how many there are."""
    step = -(-shape[0] // MOST_SIDE)
    height, width, channels = -(-shape[0] // step), -(-shape[1] // step), shape[2]
    count = min(len(atoms), MOST_ATOMS, max(1, budget // ((height + 1) * (width + 1) * channels)))
    patches = np.asarray(_some(atoms, count), np.float64).reshape(count, *shape)[:, ::step, ::step]
    largest = np.abs(patches).max(axis=(1, 2, 3), keepdims=True)
    levels = np.rint((CLEAR - 1) / 2 * (1 + patches / np.where(largest > 0, largest, 1)))
    columns = math.ceil(math.sqrt(count))
    rows = -(-count // columns)
    grid = np.full((rows * columns, height + 1, width + 1, channels), CLEAR, np.uint8)
    grid[:count, 1:, 1:] = levels
    table = grid.reshape(rows, columns, height + 1, width + 1, channels).swapaxes(1, 2)
    return png(table.reshape(rows * (height + 1), columns * (width + 1), channels)), count


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return a picture of one or three channels as a PNG file, in which the level `CLEAR` (of all) is transparent."""
    height, width, channels = pixels.shape

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    lines = np.insert(pixels.reshape(height, width * channels), 0, 0, axis=1)  # each line says first: no filter
    parts = [(b"IHDR", header), (b"tRNS", struct.pack(">H", CLEAR) * channels)]
    parts += [(b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, content) for kind, content in parts)


def _curves(atoms: npt.NDArray[Any]) -> tuple[bytes, int]:
    """Return atoms as curves in a grid, each on a scale of its own with 0 in the middle, and how many there are."""
    width, height = CELL
    count, n_features = atoms.shape
    columns = math.ceil(math.sqrt(count / 1.5))
    places = np.unique(np.linspace(0, n_features - 1, min(n_features, MOST_POINTS)).round().astype(int))
    chosen = np.asarray(atoms[:, places], np.float64)
    largest = np.abs(chosen).max(axis=1, keepdims=True)
    heights = height / 2 - 0.45 * height * chosen / np.where(largest > 0, largest, 1)
    steps = np.linspace(2, width - 2, len(places)) if len(places) > 1 else np.array([width / 2])
    paths = []
    for t, ys in enumerate(heights):
        left, top = t % columns * width, t // columns * height
        points = " ".join(f"{left + x:.0f},{top + y:.1f}" for x, y in zip(steps, ys, strict=True))
        paths.append(f"M{points}" if len(places) > 1 else f"M{points}h1")
    size = (columns * width, -(-count // columns) * height)
    # A mid blue can be read on light and on dark pages.
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}"'
        f' viewBox="0 0 {size[0]} {size[1]}"><path d="{"".join(paths)}" fill="none" stroke="#3b8ed0"/></svg>'
    )
    return text.encode("ascii"), count
