"""The atom explorer: dictionaries and what is known of their atoms, ready for the script of the page.

Everything that can be decided here is: the orders of the atoms and every number as text. The script only draws.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._views import check_view
from ._html import Html, element
from ._numbers import NONE, SPACE, count, entries, find, fixed, is_number, share

Atoms = npt.NDArray[np.float64]

MODES = {"together": "Learned together", "separate": "Learned separately"}
VIEWS = {"focused": "Focused atoms", "blurred": "Blurred atoms"}
ORDERS = {"use": "most used first", "correlation": "best correlated first", "number": "by number"}
FACTS = {
    "use": "Used in patches",
    "focused": "Norm, focused",
    "blurred": "Norm, blurred",
    "gain": "Gain",
    "correlation": "Correlation",
    "best": "Best partner",
}


def check_dictionaries(dictionaries: Any) -> dict[str, list[Atoms]]:
    """Return the dictionaries of both modes, two arrays of one shape in each."""
    if not isinstance(dictionaries, Mapping) or not all(mode in dictionaries for mode in MODES):
        got = sorted(map(str, dictionaries)) if isinstance(dictionaries, Mapping) else type(dictionaries).__name__
        raise ValueError(f"Expected dictionaries to be a dict with the keys {list(MODES)}, got {got}.")
    return {mode: _check_pair(dictionaries[mode], f"dictionaries[{mode!r}]") for mode in MODES}


def _check_pair(pair: Any, name: str) -> list[Atoms]:
    if not isinstance(pair, list | tuple) or len(pair) != len(VIEWS):
        got = len(pair) if isinstance(pair, list | tuple) else type(pair).__name__
        raise ValueError(f"Expected {name} to be a list of 2 arrays, focused and blurred atoms, got {got}.")
    views = [check_view(atoms, f"{name}[{v}]").astype(np.float64) for v, atoms in enumerate(pair)]
    for v, atoms in enumerate(views):
        if atoms.size == 0:
            raise ValueError(f"Expected {name}[{v}] to hold at least one atom, got shape {atoms.shape}.")
        if not np.isfinite(atoms).all():
            raise ValueError(f"Expected {name}[{v}] to be finite, got NaN or infinity.")
    if views[0].shape != views[1].shape:
        raise ValueError(f"Expected both arrays of {name} to have one shape, got {views[0].shape}, {views[1].shape}.")
    return views


def patch_sides(patch_shape: Any, n_features: int) -> tuple[int, int]:
    """Return height and width of an atom; a square where no shape is given."""
    side = math.isqrt(n_features)
    shape = [side, side] if patch_shape is None else patch_shape
    whole = isinstance(shape, list | tuple) and len(shape) == 2 and all(isinstance(s, int | np.integer) for s in shape)
    if not whole or shape[0] < 1 or shape[0] * shape[1] != n_features:
        raise ValueError(
            f"Expected results['pairs']['patch_shape'] to be height and width of atoms with {n_features} features,"
            f" got {patch_shape!r}."
        )
    return int(shape[0]), int(shape[1])


def pack(atoms: Atoms) -> str:
    """Return atoms as base64 of bytes, each on a scale of its own: 0 is mid-grey, its largest entry black or white."""
    largest = np.abs(atoms).max(axis=1, keepdims=True)
    levels = np.rint(127.5 * (1 + atoms / np.where(largest > 0, largest, 1))).astype(np.uint8)
    return base64.b64encode(levels.tobytes()).decode("ascii")


def _column(values: Any, n_atoms: int, name: str) -> list[Any]:
    """Return one figure for each atom; None where nothing was recorded."""
    if values is None:
        return [None] * n_atoms
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != n_atoms:
        got = len(values) if isinstance(values, Sequence) and not isinstance(values, str) else type(values).__name__
        raise ValueError(f"Expected {name} to hold {n_atoms} figures, one an atom, got {got}.")
    return list(values)


def _descending(values: list[Any]) -> list[int]:
    """Return the order from large to small; ties keep their order, what was not recorded comes last."""
    return sorted(range(len(values)), key=lambda t: -values[t] if is_number(values[t]) else math.inf)


def _describe_use(n_users: Any, n_patches: Any) -> str:
    if not is_number(n_users):
        return NONE
    part = f"{SPACE}({share(n_users / n_patches)})" if is_number(n_patches) and n_patches > 0 else ""
    return count(n_users) + part


def _mode(views: list[Atoms], known: Any, n_patches: Any, name: str) -> dict[str, Any]:
    """Return what the script needs to know of one pair of dictionaries."""
    n_atoms = len(views[0])
    norms = entries(known, "norms") or [None, None]
    if len(norms) != len(VIEWS):
        raise ValueError(f"Expected {name}['norms'] to hold 2 lists, one a view, got {len(norms)}.")
    columns = {key: _column(find(known, key), n_atoms, f"{name}['{key}']") for key in ("use", "gain", "correlation")}
    columns |= {view: _column(norms[v], n_atoms, f"{name}['norms'][{v}]") for v, view in enumerate(VIEWS)}
    best = _column(find(known, "best"), n_atoms, f"{name}['best']")
    if not all(t is None or (isinstance(t, int | np.integer) and 0 <= t < n_atoms) for t in best):
        raise ValueError(f"Expected {name}['best'] to hold numbers of atoms from 0 to {n_atoms - 1}, got others.")
    facts = {key: [fixed(value) for value in values] for key, values in columns.items()}
    facts["use"] = [_describe_use(value, n_patches) for value in columns["use"]]
    facts["best"] = [
        NONE if t is None else "the same number" if t == own else f"atom{SPACE}{t}" for own, t in enumerate(best)
    ]
    orders = {"use": _descending(columns["use"]), "correlation": _descending(columns["correlation"])}
    return {
        "atoms": [pack(atoms) for atoms in views],
        "best": [None if t is None else int(t) for t in best],
        "orders": orders | {"number": list(range(n_atoms))},
        "facts": facts,
    }


def embed(dictionaries: dict[str, list[Atoms]], pairs: Any) -> Html:
    """Return the data of the explorer as a block that the browser does not run."""
    height, width = patch_sides(find(pairs, "patch_shape"), dictionaries["together"][0].shape[1])
    modes = {}
    for mode, views in dictionaries.items():
        if views[0].shape[1] != height * width:
            raise ValueError(
                "Expected as many features in all dictionaries, got"
                f" {height * width} and {views[0].shape[1]} (dictionaries[{mode!r}])."
            )
        known = find(pairs, mode, "atoms")
        modes[mode] = _mode(views, known, find(pairs, "n_patches"), f"results['pairs']['{mode}']['atoms']")
    text = json.dumps({"height": height, "width": width, "modes": modes}, allow_nan=False, separators=(",", ":"))
    # "</script>" inside a string would end the block, and "<!--" change how it is read.
    return element("script", Html(text.replace("<", "\\u003c")), type="application/json", id="explorer-data")


def explorer() -> Html:
    """Return the explorer as the script finds it: hidden, for without the script it shows nothing."""
    choices = [
        element(
            "label",
            element("input", type="radio", name="explorer-mode", value=mode, checked=mode == "together"),
            element("span", name),
        )
        for mode, name in MODES.items()
    ]
    orders = [element("option", name, value=key) for key, name in ORDERS.items()]
    grids = [
        element(
            "figure",
            element("figcaption", name, id=f"explorer-{view}-name"),
            element(
                "div",
                element("canvas", aria_hidden="true"),
                class_="atoms",
                id=f"explorer-{view}",
                role="grid",
                tabindex=0,
                aria_labelledby=f"explorer-{view}-name",
                aria_describedby="explorer-help",
            ),
        )
        for view, name in VIEWS.items()
    ]
    return element(
        "div",
        element(
            "div",
            element("fieldset", element("legend", "Dictionaries", class_="hidden-text"), *choices, class_="switch"),
            element("label", "Order ", element("select", *orders, id="explorer-order"), class_="order"),
            class_="controls",
        ),
        element("div", _panel(), element("div", *grids, class_="grids"), class_="stage"),
        element(
            "p",
            element("span", element("i", class_="key same"), "the atom pointed at, and its partner of the same number"),
            element(
                "span", element("i", class_="key best"), "the blurred atom that fits the focused one best, if another"
            ),
            class_="legend",
        ),
        element(
            "p",
            "Point at an atom of either dictionary, or tap it. With the keyboard: arrow keys, Home and End along a row"
            " (with Ctrl to the first and last atom), Page Up and Page Down.",
            id="explorer-help",
            class_="small",
        ),
        element("p", class_="hidden-text", id="explorer-status", role="status", aria_live="polite"),
        class_="explorer",
        id="explorer",
        hidden=True,
    )


def _panel() -> Html:
    """Return the panel that shows one pair of atoms enlarged, and what is known of it."""
    tiles = [
        element("figure", element("canvas", id=f"explorer-large-{view}"), element("figcaption", view)) for view in VIEWS
    ]
    tiles.append(
        element("figure", element("canvas", id="explorer-large-best"), element("figcaption", "best"), class_="third")
    )
    facts = [
        element("div", element("dt", name), element("dd", NONE, data_fact=key), class_=f"fact-{key}")
        for key, name in FACTS.items()
    ]
    return element(
        "div",
        element(
            "div",
            element("p", "Atom ", element("b", "0", id="explorer-number"), class_="number"),
            element("p", id="explorer-place", class_="place small"),
            element(
                "button",
                "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
                type="button",
                id="explorer-previous",
                aria_label="Previous atom",
            ),
            element(
                "button",
                "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
                type="button",
                id="explorer-next",
                aria_label="Next atom",
            ),
            class_="heading",
        ),
        element("div", *tiles, class_="tiles"),
        element("dl", *facts, class_="facts"),
        class_="panel",
        id="explorer-panel",
    )
