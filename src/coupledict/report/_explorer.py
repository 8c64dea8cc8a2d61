"""The atom explorer: grids of atoms that highlight each other's partners, and the data for their script.

The orders of the atoms and all texts are prepared here; the script only draws.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.drawing import full_scale
from ._html import Html, element
from ._numbers import NONE, is_number

Atoms = npt.NDArray[np.float64]

#: All orders and their names; a page offers some of them.
ORDERS = {"use": "most used first", "correlation": "best correlated first", "number": "by number"}


@dataclass(frozen=True)
class View:
    """One grid of atoms."""

    key: str  # in the names of elements
    name: str  # over the grid
    short: str  # under the enlarged atom
    shape: tuple[int, ...]  # (height, width) or (height, width, 3) of a patch, (length,) of a curve

    def describe(self) -> dict[str, Any]:
        """Return what the script needs to draw atoms of this view."""
        if len(self.shape) == 1:
            return {"key": self.key, "length": self.shape[0]}
        height, width, *channels = self.shape
        return {"key": self.key, "height": height, "width": width, "channels": channels[0] if channels else 1}


def pack(atoms: Atoms) -> str:
    """Return atoms as base64 of bytes, each on its own scale: 0 is mid-grey, the largest entry black or white.

    Atoms of a very small norm are paler; see :func:`coupledict.foundation.drawing.full_scale`.
    """
    levels = np.rint(127.5 * (1 + atoms / full_scale(atoms))).astype(np.uint8)
    return base64.b64encode(levels.tobytes()).decode("ascii")


def descending(values: Sequence[Any]) -> list[int]:
    """Return the order from large to small; ties keep their order, missing values come last."""
    return sorted(range(len(values)), key=lambda t: -values[t] if is_number(values[t]) else math.inf)


def embed(views: Sequence[View], modes: Mapping[str, Any], partner: int | None = None) -> Html:
    """Return the data of the explorer as a block that the browser does not execute.

    Each mode is one set of dictionaries, with ``atoms`` (packed, one per view), ``orders``, ``facts`` (texts for each
    atom) and ``best``: for each atom, the best matching atom of the view `partner`, or None.
    """
    data = {"views": [view.describe() for view in views], "partner": partner, "modes": modes}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    # "</script>" inside a string would end the block, and "<!--" would change how it is parsed.
    return element("script", Html(text.replace("<", "\\u003c")), type="application/json", id="explorer-data")


def explorer(
    views: Sequence[View],
    modes: Mapping[str, str],
    orders: Sequence[str],
    facts: Mapping[str, str],
    legend: Sequence[tuple[str, str]],
    *,
    best: bool = False,
) -> Html:
    """Return the explorer, hidden until the script shows it: without the script it would be empty."""
    keys = [element("span", element("i", class_=f"key {kind}"), text) for kind, text in legend]
    return element(
        "div",
        _controls(modes, orders),
        element("div", _panel(views, facts, best=best), _grids(views), class_="stage"),
        element("p", *keys, class_="legend"),
        element(
            "p",
            ("Point at an atom of either dictionary" if len(views) == 2 else "Point at an atom")
            + ", or tap it. A click"
            " pins it; another click on it, or Escape, unpins it. Keyboard: arrow keys, Home and End along a row"
            " (with Ctrl to the first and last atom), Page Up and Page Down.",
            id="explorer-help",
            class_="small",
        ),
        element("p", class_="hidden-text", id="explorer-status", role="status", aria_live="polite"),
        class_="explorer",
        id="explorer",
        hidden=True,
    )


def _controls(modes: Mapping[str, str], orders: Sequence[str]) -> Html:
    """Return the controls above the grids; those without a choice are hidden, because the script needs them."""
    choices = [
        element(
            "label",
            element("input", type="radio", name="explorer-mode", value=mode, checked=number == 0),
            element("span", name),
        )
        for number, (mode, name) in enumerate(modes.items())
    ]
    options = [element("option", ORDERS[key], value=key) for key in orders]
    legend = element("legend", "Dictionaries", class_="hidden-text")
    return element(
        "div",
        element("fieldset", legend, *choices, class_="switch", hidden=len(modes) == 1),
        element(
            "label",
            "Order ",
            element("select", *options, id="explorer-order"),
            class_="order",
            hidden=len(orders) == 1,
        ),
        class_="controls",
        hidden=len(modes) == len(orders) == 1,
    )


def _grids(views: Sequence[View]) -> Html:
    grids = [
        element(
            "figure",
            element("figcaption", view.name, id=f"explorer-{view.key}-name"),
            element(
                "div",
                element("canvas", aria_hidden="true"),
                class_="atoms",
                id=f"explorer-{view.key}",
                role="grid",
                tabindex=0,
                aria_labelledby=f"explorer-{view.key}-name",
                aria_describedby="explorer-help",
            ),
        )
        for view in views
    ]
    return element("div", *grids, class_="grids", data_views=len(views))


def _panel(views: Sequence[View], facts: Mapping[str, str], *, best: bool) -> Html:
    """Return the panel that shows one atom of each view enlarged, with its facts."""
    tiles = [
        element("figure", element("canvas", id=f"explorer-large-{view.key}"), element("figcaption", view.short))
        for view in views
    ]
    if best:
        canvas = element("canvas", id="explorer-large-best")
        tiles.append(element("figure", canvas, element("figcaption", "best"), class_="third"))
    rows = [
        element("div", element("dt", name), element("dd", NONE, data_fact=key), class_=f"fact-{key}")
        for key, name in facts.items()
    ]
    return element(
        "div",
        element(
            "div",
            element("p", "Atom ", element("b", "0", id="explorer-number"), class_="number"),
            element(
                "p",
                element("span", id="explorer-place"),
                element("span", ", pinned", id="explorer-pinned", hidden=True),
                class_="place small",
            ),
            _button("previous", "Previous atom", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"),
            _button("next", "Next atom", "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"),
            class_="heading",
        ),
        element("div", *tiles, class_="tiles", data_tiles=len(tiles)),
        element("dl", *rows, class_="facts"),
        class_="panel",
        id="explorer-panel",
    )


def _button(key: str, label: str, mark: str) -> Html:
    return element("button", mark, type="button", id=f"explorer-{key}", aria_label=label)
