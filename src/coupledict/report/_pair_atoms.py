"""The explorer of the report: focused and blurred atoms, learned together and separately."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..foundation.views import check_view
from . import _explorer
from ._explorer import Atoms, View, descending, pack
from ._html import Html
from ._numbers import NONE, SPACE, count, entries, find, fixed, is_number, share

MODES = {"together": "Learned together", "separate": "Learned separately"}
VIEWS = {"focused": "Focused atoms", "blurred": "Blurred atoms"}
FACTS = {
    "use": "Used in patches",
    "focused": "Norm, focused",
    "blurred": "Norm, blurred",
    "gain": "Gain",
    "correlation": "Correlation",
    "best": "Best partner",
}
LEGEND = (
    ("same", "the atom pointed at, and its partner of the same number"),
    ("best", "the blurred atom that matches the focused one best, if it is another"),
)
BLURRED = 1  # the view that holds the best partners


def check_dictionary_pairs(dictionaries: Any) -> dict[str, list[Atoms]]:
    """Return the dictionaries of both modes, two arrays of one shape for each."""
    if not isinstance(dictionaries, Mapping) or not all(mode in dictionaries for mode in MODES):
        got = sorted(map(str, dictionaries)) if isinstance(dictionaries, Mapping) else type(dictionaries).__name__
        raise ValueError(f"Expected dictionaries to be a dict with the keys {list(MODES)}, got {got}.")
    return {mode: _check_pair(dictionaries[mode], f"dictionaries[{mode!r}]") for mode in MODES}


def _check_pair(pair: Any, name: str) -> list[Atoms]:
    if not isinstance(pair, list | tuple) or len(pair) != len(VIEWS):
        got = len(pair) if isinstance(pair, list | tuple) else type(pair).__name__
        raise ValueError(f"Expected {name} to be a list of 2 arrays, focused and blurred atoms, got {got}.")
    views = [check_atoms(atoms, f"{name}[{v}]") for v, atoms in enumerate(pair)]
    if views[0].shape != views[1].shape:
        raise ValueError(f"Expected both arrays of {name} to have one shape, got {views[0].shape}, {views[1].shape}.")
    return views


def check_atoms(atoms: Any, name: str) -> Atoms:
    """Return one dictionary in float64, checked to be finite and not empty."""
    checked = check_view(atoms, name).astype(np.float64)
    if checked.size == 0:
        raise ValueError(f"Expected {name} to hold at least one atom, got shape {checked.shape}.")
    if not np.isfinite(checked).all():
        raise ValueError(f"Expected {name} to be finite, got NaN or infinity.")
    return checked


def patch_sides(patch_size: Any, n_features: int) -> tuple[int, int]:
    """Return the height and width of an atom; a square if no size is given."""
    side = math.isqrt(n_features)
    size = [side, side] if patch_size is None else patch_size
    whole = isinstance(size, list | tuple) and len(size) == 2 and all(isinstance(s, int | np.integer) for s in size)
    if not whole or size[0] < 1 or size[0] * size[1] != n_features:
        raise ValueError(
            f"Expected results['pairs']['patch_size'] to be the height and width of atoms with {n_features} features,"
            f" got {patch_size!r}."
        )
    return int(size[0]), int(size[1])


def _column(values: Any, n_atoms: int, name: str) -> list[Any]:
    """Return one number for each atom; None if nothing was recorded."""
    if values is None:
        return [None] * n_atoms
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != n_atoms:
        got = len(values) if isinstance(values, Sequence) and not isinstance(values, str) else type(values).__name__
        raise ValueError(f"Expected {name} to hold {n_atoms} figures, one per atom, got {got}.")
    return list(values)


def describe_use(n_users: Any, n_samples: Any) -> str:
    """Return how many samples use an atom, and their share if the number of samples is known."""
    if not is_number(n_users):
        return NONE
    part = f"{SPACE}({share(n_users / n_samples)})" if is_number(n_samples) and n_samples > 0 else ""
    return count(n_users) + part


def _mode(views: list[Atoms], known: Any, n_patches: Any, name: str) -> dict[str, Any]:
    """Return what the script needs about one pair of dictionaries."""
    n_atoms = len(views[0])
    norms = entries(known, "norms") or [None, None]
    if len(norms) != len(VIEWS):
        raise ValueError(f"Expected {name}['norms'] to hold 2 lists, one per view, got {len(norms)}.")
    columns = {key: _column(find(known, key), n_atoms, f"{name}['{key}']") for key in ("use", "gain", "correlation")}
    columns |= {view: _column(norms[v], n_atoms, f"{name}['norms'][{v}]") for v, view in enumerate(VIEWS)}
    best = _column(find(known, "best"), n_atoms, f"{name}['best']")
    if not all(t is None or (isinstance(t, int | np.integer) and 0 <= t < n_atoms) for t in best):
        raise ValueError(f"Expected {name}['best'] to hold numbers of atoms from 0 to {n_atoms - 1}, got others.")
    facts = {key: [fixed(value) for value in values] for key, values in columns.items()}
    facts["use"] = [describe_use(value, n_patches) for value in columns["use"]]
    facts["best"] = [
        NONE if t is None else "the same number" if t == own else f"atom{SPACE}{t}" for own, t in enumerate(best)
    ]
    orders = {"use": descending(columns["use"]), "correlation": descending(columns["correlation"])}
    return {
        "atoms": [pack(atoms) for atoms in views],
        "best": [None if t is None else int(t) for t in best],
        "orders": orders | {"number": list(range(n_atoms))},
        "facts": facts,
    }


def _views(shape: tuple[int, int]) -> list[View]:
    return [View(key, name, key, shape) for key, name in VIEWS.items()]


def embed(dictionaries: dict[str, list[Atoms]], pairs: Any) -> Html:
    """Return the data of the explorer."""
    height, width = patch_sides(find(pairs, "patch_size"), dictionaries["together"][0].shape[1])
    modes = {}
    for mode, views in dictionaries.items():
        if views[0].shape[1] != height * width:
            raise ValueError(
                "Expected the same number of features in all dictionaries, got"
                f" {height * width} and {views[0].shape[1]} (dictionaries[{mode!r}])."
            )
        known = find(pairs, mode, "atoms")
        modes[mode] = _mode(views, known, find(pairs, "n_patches"), f"results['pairs']['{mode}']['atoms']")
    return _explorer.embed(_views((height, width)), modes, BLURRED)


def explorer() -> Html:
    """Return the explorer of both pairs of dictionaries."""
    return _explorer.explorer(_views((1, 1)), MODES, list(_explorer.ORDERS), FACTS, LEGEND, best=True)
