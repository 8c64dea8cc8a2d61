"""Patches at the same positions of several pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..foundation.arrays import Array, Flags
from ..foundation.checks import check_count

Places = tuple[Array, Array]


def draw_places(starts: Flags, n_samples: int, rng: np.random.Generator) -> Places:
    """Draw positions of patches, each at most once, in random order.

    Parameters
    ----------
    starts : array of bool
        Where a patch may begin.
    n_samples : int
        How many to draw.
    rng : Generator
        What draws.

    Returns
    -------
    rows, columns : array of shape (n_samples,)
    """
    possible = np.flatnonzero(starts)
    check_enough(n_samples, len(possible))
    rows, columns = np.unravel_index(rng.choice(possible, size=n_samples, replace=False), starts.shape)
    return np.asarray(rows), np.asarray(columns)


def check_enough(n_samples: int, most: int) -> None:
    """Raise if there are fewer patches than requested samples."""
    if check_count(n_samples, "n_samples") > most:
        raise ValueError(
            f"Expected n_samples to be at most {most}, the number of patches, got {n_samples}; take fewer, or"
            " smaller patches."
        )


def possible_starts(shape: tuple[int, ...], side: int) -> Flags:
    """Return, for each position, whether a patch that begins there lies within a picture of this shape."""
    if side > min(shape[:2]):
        raise ValueError(
            f"Expected patch_size to be at most {min(shape[:2])}, the shorter side of the picture, got {side}."
        )
    starts = np.zeros(shape[:2], dtype=bool)
    starts[: shape[0] - side + 1, : shape[1] - side + 1] = True
    return starts


def patches_at(picture: Array, places: Places, side: int, *, center: bool, dtype: np.dtype[Any]) -> Array:
    """Return square patches as rows, minus their means if `center`; means ignore NaN."""
    windows = np.lib.stride_tricks.sliding_window_view(picture, (side, side))
    patches = windows[places].reshape(len(places[0]), side * side).astype(dtype)
    if center:
        known = np.isfinite(patches)
        totals = np.where(known, patches, 0).sum(axis=1, dtype=np.float64)
        patches -= (totals / np.maximum(known.sum(axis=1), 1)).astype(dtype)[:, None]
    return patches
