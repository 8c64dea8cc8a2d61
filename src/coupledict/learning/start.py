"""The dictionaries that learning starts from: cosines, samples, noise, or given arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, get_args

import numpy as np

from ..data.interface import Data
from ..foundation.arrays import Array, Flags, Floats
from ..foundation.checks import check_count
from ..foundation.choices import InitName
from ..foundation.views import check_view

Init: TypeAlias = InitName | Sequence[Array] | Array
INITS = get_args(InitName)


def _cosines(length: int, count: int) -> Floats:
    """Return `count` cosines of rising frequency as columns of norm 1; all but the first have mean 0."""
    waves = np.cos(np.pi / count * np.outer(np.arange(length), np.arange(count)))
    waves[:, 0] = 1
    waves[:, 1:] -= waves[:, 1:].mean(axis=0)
    norms = np.linalg.norm(waves, axis=0)
    return np.asarray(waves / np.where(norms > 0, norms, 1), np.float64)


def _factors(n_components: int, patch_size: tuple[int, int]) -> tuple[int, int]:
    """Split n_components into two factors whose ratio is as close as possible to that of the sides of the patch."""
    wanted = math.log(patch_size[0] / patch_size[1])
    pairs = [(q, n_components // q) for q in range(1, n_components + 1) if n_components % q == 0]
    return min(pairs, key=lambda pair: abs(math.log(pair[0] / pair[1]) - wanted))


def dct_dictionary(patch_size: int | tuple[int, int], n_components: int) -> Floats:
    """Make an overcomplete dictionary of separable cosines, from which the paper's algorithm starts.

    Parameters
    ----------
    patch_size : int or (height, width)
        Size of the patches, whose pixels are the features of a row; an integer for square patches.
    n_components : int
        Number of atoms. It is split into two factors, the numbers of frequencies along the two axes, whose ratio is as
        close as possible to that of the sides of the patch (256 for 8 x 8 patches: 16 and 16).

    Returns
    -------
    array of shape (n_components, height * width)
        Atoms as rows of norm 1; all but the first have mean 0.

    Examples
    --------
    >>> from coupledict import dct_dictionary
    >>> dct_dictionary(8, 256).shape
    (256, 64)
    """
    sides = (patch_size, patch_size) if isinstance(patch_size, int | np.integer) else patch_size
    if not isinstance(sides, tuple | list) or len(sides) != 2:
        raise TypeError(f"Expected patch_size to be an integer or (height, width), got {patch_size!r}.")
    height, width = (check_count(side, "each side of patch_size") for side in sides)
    n_components = check_count(n_components, "n_components")
    down, across = _factors(n_components, (height, width))
    return np.asarray(np.kron(_cosines(height, down), _cosines(width, across)).T, np.float64)


def _square_side(n_features: int) -> int | None:
    side = math.isqrt(n_features)
    return side if side * side == n_features and side > 1 else None


def _suits_dct(widths: Sequence[int], n_components: int) -> bool:
    """Return whether all views are square patches of one size, and n_components has two factors of similar size."""
    if len(set(widths)) != 1 or _square_side(widths[0]) is None:
        return False
    down, across = _factors(n_components, (1, 1))
    return n_components >= widths[0] and max(down, across) <= 2 * min(down, across)


def check_init(init: Any, widths: Sequence[int], n_components: int, *, cosines: bool, positive: Flags) -> Any:
    """Return the name of the start, with "auto" resolved, or the given arrays; raise for one that cannot work.

    `cosines` says whether "auto" may be the cosine dictionary, if the views are suitable; with views in which atoms are
    not negative (`positive`) it is not.
    """
    if isinstance(init, str):
        if init == "auto":
            return "dct" if cosines and not positive.any() and _suits_dct(widths, n_components) else "samples"
        if init == "dct" and any(_square_side(width) is None for width in widths):
            raise ValueError(
                f"Expected square patches for init='dct', got views of {list(widths)} features."
                " For other shapes give a list made with coupledict.dct_dictionary."
            )
        return init
    if not isinstance(init, list | tuple) or len(init) != len(widths):
        raise ValueError(f"Expected init to be one of {INITS} or a list of {len(widths)} arrays, got {init!r}.")
    arrays = [check_view(array, f"init[{v}]") for v, array in enumerate(init)]
    for v, (array, width) in enumerate(zip(arrays, widths, strict=True)):
        if array.shape != (n_components, width):
            raise ValueError(f"Expected init[{v}] to have shape {(n_components, width)}, got {array.shape}.")
        if not np.isfinite(array).all():
            raise ValueError(f"Expected init[{v}] to be finite, got NaN or infinity.")
    check_positive(arrays, positive, "init", "Give its positive part, np.maximum(init[{v}], 0), for example.")
    return arrays


def check_positive(arrays: Sequence[Array], positive: Flags, name: str, hint: str) -> None:
    """Raise if a dictionary has negative entries in a view in which there must be none.

    `name` is the name of the list of dictionaries, and `hint` says what to do; "{v}" in it stands for the view.
    """
    for v in np.flatnonzero(positive).tolist():
        if (least := float(np.min(arrays[v], initial=0))) < 0:
            raise ValueError(
                f"Expected no negative entries in {name}[{v}], which positive_dict does not allow in this view, got"
                f" {least:.3g}. {hint.format(v=v)}"
            )


def positive_parts(arrays: Sequence[Array], positive: Flags) -> list[Array]:
    """Return arrays, one per view, with 0 for negative entries in the views that must have none."""
    return [np.maximum(array, 0) if marked else array for array, marked in zip(arrays, positive, strict=True)]


def _paired_samples(data: Data, n_components: int, rng: np.random.Generator, positive: Flags) -> list[Array]:
    """Return nonzero samples in random order as atoms; if there are too few, noise makes up the rest."""
    rows = data.draw(4 * n_components, rng)
    if data.missing:
        rows = fill_drawn(rows)
    rows = positive_parts(rows, positive)
    alive = np.logical_and.reduce([np.isfinite(part).all(axis=1) & (np.abs(part).sum(axis=1) > 0) for part in rows])
    rows = [part[alive][:n_components] for part in rows]
    missing = n_components - rows[0].shape[0]
    noise = _noise(missing, data.widths, rng, positive)
    return [np.vstack(pair) for pair in zip(rows, noise, strict=True)]


def _noise(n_components: int, widths: Sequence[int], rng: np.random.Generator, positive: Flags) -> list[Array]:
    """Return normally distributed entries; their absolute values in the views that must have no negative ones."""
    drawn = [rng.standard_normal((n_components, width)) for width in widths]
    return [np.abs(array) if marked else array for array, marked in zip(drawn, positive, strict=True)]


def fill_drawn(rows: list[Array]) -> list[Array]:
    """Return drawn samples with missing entries filled in by means; those with the most known entries come first."""
    table = np.hstack(rows)
    known = ~np.isnan(table)
    order = np.argsort(-known.sum(axis=1), kind="stable")
    table, known = table[order], known[order]
    counts = known.sum(axis=0)
    means = np.where(known, table, 0).sum(axis=0) / np.maximum(counts, 1)
    filled = np.where(known, table, means)
    return np.split(filled, np.cumsum([part.shape[1] for part in rows])[:-1], axis=1)


def start(init: Any, data: Data, n_components: int, rng: np.random.Generator, positive: Flags) -> list[Array]:
    """Return one float64 array of atoms per view, not yet normalised; `init` comes from :func:`check_init`."""
    widths = data.widths
    if init == "dct":
        return [dct_dictionary(math.isqrt(width), n_components) for width in widths]
    if init == "samples":
        return _paired_samples(data, n_components, rng, positive)
    if init == "random":
        return _noise(n_components, widths, rng, positive)
    return [np.array(array, np.float64) for array in init]
