"""Where learning starts: cosines, samples, noise, or arrays that are given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ._data import Data
from ._views import Array, check_count, check_view

INITS = ("auto", "dct", "samples", "random")


def _cosines(length: int, count: int) -> npt.NDArray[np.float64]:
    """Return `count` cosines of rising frequency as columns of norm 1, all but the first without their mean."""
    waves = np.cos(np.pi / count * np.outer(np.arange(length), np.arange(count)))
    waves[:, 0] = 1
    waves[:, 1:] -= waves[:, 1:].mean(axis=0)
    norms = np.linalg.norm(waves, axis=0)
    return np.asarray(waves / np.where(norms > 0, norms, 1), np.float64)


def _factors(n_components: int, patch_shape: tuple[int, int]) -> tuple[int, int]:
    """Split n_components into frequencies along the two axes, as near to the shape of the patch as can be."""
    wanted = math.log(patch_shape[0] / patch_shape[1])
    pairs = [(q, n_components // q) for q in range(1, n_components + 1) if n_components % q == 0]
    return min(pairs, key=lambda pair: abs(math.log(pair[0] / pair[1]) - wanted))


def dct_dictionary(patch_shape: tuple[int, int], n_components: int) -> npt.NDArray[np.float64]:
    """Make an overcomplete dictionary of separable cosines, the paper's start.

    Parameters
    ----------
    patch_shape : (height, width)
        Shape of the patches, which are rows of height * width features.
    n_components : int
        Number of atoms; it is split into two factors, the frequencies along each axis, as near to the shape of the
        patch as can be (256 for 8 x 8 patches: 16 and 16).

    Returns
    -------
    array of shape (n_components, height * width)
        Atoms as rows of norm 1; all but the first have mean 0.

    Examples
    --------
    >>> from coupledict import dct_dictionary
    >>> dct_dictionary((8, 8), 256).shape
    (256, 64)
    """
    if not isinstance(patch_shape, tuple | list) or len(patch_shape) != 2:
        raise TypeError(f"Expected patch_shape to be (height, width), got {patch_shape!r}.")
    height, width = (check_count(side, "each side of patch_shape") for side in patch_shape)
    n_components = check_count(n_components, "n_components")
    down, across = _factors(n_components, (height, width))
    return np.asarray(np.kron(_cosines(height, down), _cosines(width, across)).T, np.float64)


def _square_side(n_features: int) -> int | None:
    side = math.isqrt(n_features)
    return side if side * side == n_features and side > 1 else None


def _suits_dct(widths: Sequence[int], n_components: int) -> bool:
    """Tell whether all views are square patches of one size and the atoms can be laid out nearly squarely."""
    if len(set(widths)) != 1 or _square_side(widths[0]) is None:
        return False
    down, across = _factors(n_components, (1, 1))
    return n_components >= widths[0] and max(down, across) <= 2 * min(down, across)


def check_init(init: Any, widths: Sequence[int], n_components: int, *, cosines: bool = True) -> Any:
    """Return the kind of start, with "auto" decided, or the given arrays; raise where it cannot work.

    `cosines` says whether "auto" may be the cosine dictionary, where the views suit it.
    """
    if isinstance(init, str):
        if init not in INITS:
            raise ValueError(f"Expected init to be one of {INITS} or a list of arrays, got {init!r}.")
        if init == "auto":
            return "dct" if cosines and _suits_dct(widths, n_components) else "samples"
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
    return arrays


def _paired_samples(data: Data, n_components: int, rng: np.random.Generator) -> list[Array]:
    """Return samples without their zero rows, in random order, filled up with noise where there are too few."""
    rows = data.draw(4 * n_components, rng)
    alive = np.logical_and.reduce([np.isfinite(part).all(axis=1) & (np.abs(part).sum(axis=1) > 0) for part in rows])
    rows = [part[alive][:n_components] for part in rows]
    missing = n_components - rows[0].shape[0]
    return [np.vstack([part, rng.standard_normal((missing, part.shape[1]))]) for part in rows]


def start(init: Any, data: Data, n_components: int, rng: np.random.Generator) -> list[Array]:
    """Return one float64 array of atoms a view, not yet normalised; `init` has gone through :func:`check_init`."""
    widths = data.widths
    if init == "dct":
        return [dct_dictionary((math.isqrt(width), math.isqrt(width)), n_components) for width in widths]
    if init == "samples":
        return _paired_samples(data, n_components, rng)
    if init == "random":
        return [rng.standard_normal((n_components, width)) for width in widths]
    return [np.array(array, np.float64) for array in init]
