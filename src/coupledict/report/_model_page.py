"""A page for exploring the atoms of any model: one grid per view, patches as pictures, other atoms as curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.drawing import describe_norms
from ..plotting import PatchSize, PatchSizes, is_one_size, size_per_view, square_size
from . import _explorer
from ._document import document
from ._explorer import Atoms, View, descending, pack
from ._html import Html, definitions, element, paragraph
from ._numbers import NONE, TIMES, count, fixed
from ._pair_atoms import check_atoms, describe_use

LEAST_SIDE = 3  # smaller squares are clearer as curves
LEGEND = "the atom pointed at"
PALER = "Atoms that nearly vanish in a view are drawn paler there."


def explorer_page(
    dictionaries: Sequence[npt.ArrayLike],
    *,
    title: str,
    patch_size: PatchSizes = None,
    names: Sequence[str] | None = None,
    use: npt.ArrayLike | None = None,
) -> str:
    """Return a page on which the atoms of a model can be explored, as one self-contained HTML text.

    Each view has a grid of its atoms; pointing at an atom highlights its partners in the other views and shows all of
    them enlarged. The page is self-contained and makes no network requests; it works with a mouse, with a keyboard and
    on a phone.

    Parameters
    ----------
    dictionaries : list of arrays of shape (n_components, n_features_v)
        One or more dictionaries with equal numbers of atoms, as in ``CoupledDictionaryLearning.components_``.
    title : str
        Heading of the page; any text, which is escaped.
    patch_size : size, or list with a size or None for each view, optional
        Side of square patches, ``(height, width)`` or ``(height, width, 3)``; ``(n_features,)`` draws atoms as curves.
        By default, atoms of 9 or more features are drawn as square patches, grey or in colour, if their number of
        features allows it, and otherwise as curves.
    names : list of str, optional
        Names of the views; by default "View 0", "View 1" and so on.
    use : array of shape (n_components,), optional
        Number of samples that used each atom, to display and to sort by.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        For dictionaries that are inconsistent, empty or contain NaN, and for shapes that do not match them.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.report import explorer_page
    >>> rng = np.random.default_rng(0)
    >>> page = explorer_page([rng.standard_normal((16, 64)), rng.standard_normal((16, 10))], title="My model")
    >>> page.splitlines()[0]
    '<!doctype html>'
    """
    atoms = _check_views(dictionaries)
    titles = _check_names(names, len(atoms))
    views = [
        View(f"view-{v}", name, name, shape)
        for v, (name, shape) in enumerate(zip(titles, shapes_of_views(patch_size, atoms), strict=True))
    ]
    counts = _check_use(use, len(atoms[0]))
    facts, orders = _facts(atoms, titles, counts)
    mode = {
        "atoms": [pack(view) for view in atoms],
        "best": [None] * len(atoms[0]),
        "orders": orders,
        "facts": {key: texts for key, (_, texts) in facts.items()},
    }
    names_of_facts = {key: name for key, (name, _) in facts.items()}
    legend = [("same", LEGEND + (", and its partners" if len(atoms) > 1 else ""))]
    main = element(
        "main",
        element("noscript", element("p", "The explorer needs JavaScript.", class_="notice")),
        _explorer.explorer(views, {"model": "Model"}, list(orders), names_of_facts, legend),
        _glossary(names_of_facts, any(len(view.shape) == 1 for view in views)),
    )
    header = _header(title, views, len(atoms[0]), describe_norms(atoms))
    return document(title, [header, main, _explorer.embed(views, {"model": mode})])


def _check_views(dictionaries: Any) -> list[Atoms]:
    if not isinstance(dictionaries, list | tuple) or not dictionaries:
        got = "none" if isinstance(dictionaries, list | tuple) else type(dictionaries).__name__
        raise ValueError(f"Expected dictionaries to be a list of one or more arrays, one per view, got {got}.")
    atoms = [check_atoms(entry, f"dictionaries[{v}]") for v, entry in enumerate(dictionaries)]
    counts = [len(view) for view in atoms]
    if len(set(counts)) > 1:
        raise ValueError(f"Expected the same number of atoms in every dictionary, got {counts}.")
    return atoms


def _check_names(names: Sequence[str] | None, n_views: int) -> list[str]:
    if names is None:
        return [f"View {v}" for v in range(n_views)]
    if isinstance(names, str) or len(names) != n_views:
        raise ValueError(f"Expected names to hold {n_views} names, one per view, got {names!r}.")
    return [str(name) for name in names]


def _check_use(use: npt.ArrayLike | None, n_atoms: int) -> list[float] | None:
    if use is None:
        return None
    counts = np.asarray(use)
    if counts.shape != (n_atoms,) or counts.dtype.kind not in "iuf":
        raise ValueError(f"Expected use to hold {n_atoms} numbers, one per atom, got shape {counts.shape}.")
    return [float(value) for value in counts]


def shapes_of_views(patch_size: PatchSizes, dictionaries: Sequence[Atoms]) -> list[tuple[int, ...]]:
    """Return the shape of the atoms of each view: one number for curves, two or three for patches."""
    widths = [atoms.shape[1] for atoms in dictionaries]
    given = size_per_view(patch_size, len(widths))
    return [_infer(n) if size is None else _check_size(size, n) for size, n in zip(given, widths, strict=True)]


def _infer(n_features: int) -> tuple[int, ...]:
    """Return the shape of a square patch, grey or in colour, or of a curve if neither fits."""
    for channels in ((), (3,)):
        side = math.isqrt(n_features // math.prod(channels))
        shape = (side, side, *channels)
        if side >= LEAST_SIDE and math.prod(shape) == n_features:
            return shape
    return (n_features,)


def _check_size(size: PatchSize, n_features: int) -> tuple[int, ...]:
    shape = square_size(size, n_features) if is_one_size(size) else ()
    fits = 1 <= len(shape) <= 3 and min(shape) >= 1 and math.prod(shape) == n_features
    if not fits or (len(shape) == 3 and shape[2] != 3):
        raise ValueError(
            f"Expected a patch_size of (height, width) or (height, width, 3) with a product of {n_features} features,"
            f" or ({n_features},) for curves, got {size!r}."
        )
    return shape


def _facts(
    atoms: list[Atoms], names: list[str], use: list[float] | None
) -> tuple[dict[str, tuple[str, list[str]]], dict[str, list[int]]]:
    """Return the facts about each atom, by name, and the orders that they allow."""
    facts: dict[str, tuple[str, list[str]]] = {}
    orders: dict[str, list[int]] = {}
    if use is not None:
        facts["use"] = ("Used by samples", [describe_use(value, None) for value in use])
        orders["use"] = descending(use)
    norms = [np.linalg.norm(view, axis=1) for view in atoms]
    for v, (name, lengths) in enumerate(zip(names, norms, strict=True)):
        facts[f"norm-{v}"] = (f"Norm, {name}" if len(atoms) > 1 else "Norm", [fixed(float(n)) for n in lengths])
    for v in range(1, len(atoms)):
        if atoms[v].shape == atoms[0].shape:
            scale = norms[0] * norms[v]
            cosines = np.abs(np.sum(atoms[0] * atoms[v], axis=1)) / np.where(scale > 0, scale, 1)
            name = "Correlation" if len(atoms) == 2 else f"Correlation, {names[0]} and {names[v]}"
            values = [float(c) if s > 0 else None for c, s in zip(cosines, scale, strict=True)]
            facts[f"correlation-{v}"] = (name, [NONE if value is None else fixed(value) for value in values])
            if len(atoms) == 2:
                orders["correlation"] = descending(values)
    return facts, orders | {"number": list(range(len(atoms[0])))}


def _describe_shape(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"{count(shape[0])} {'value' if shape[0] == 1 else 'values'}"
    return f"{shape[0]} {TIMES} {shape[1]} {'pixels' if len(shape) == 2 else 'pixels in colour'}"


def _header(title: str, views: list[View], n_atoms: int, norms: str) -> Html:
    shapes = ", ".join(f"{view.name}: {_describe_shape(view.shape)}" for view in views)
    number = f"{count(n_atoms)} {'atom' if n_atoms == 1 else 'atoms'}"
    lede = f"{number} in {len(views)} views" if len(views) > 1 else number
    return element(
        "header",
        element("p", "coupledict", class_="eyebrow"),
        element("h1", title),
        element("p", f"{lede}. {shapes}. Atoms of {norms}.", class_="lede"),
        class_="short",
    )


def _glossary(facts: dict[str, str], curves: bool) -> Html | None:
    entries = [
        ("Number", "the row of the atom in the dictionary, counted from 0."),
        ("Scale", f"each atom has its own{'' if curves else '; mid-grey is zero'}. {PALER}"),
    ]
    if any(key.startswith("norm") for key in facts):
        entries.append(("Norm", "the root of the sum of squares of the atom in that view."))
    if "use" in facts:
        entries.append(("Used by samples", "the number of samples that have this atom in their code."))
    if any(key.startswith("correlation") for key in facts):
        entries.append(("Correlation", "absolute cosine of the angle between the atoms of two views."))
    return definitions(entries, class_="glossary small") or paragraph("")
