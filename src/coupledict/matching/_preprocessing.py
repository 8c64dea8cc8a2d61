"""Preprocessing of samples, each by itself: subtracting its mean over the features, and dividing by its scale.

The brightness of a picture or the loudness of a sound changes all features of a sample alike, and often says nothing
about what is to be matched. Whitening cannot undo that, because it changes all samples in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from ..foundation.arrays import Floats
from ..foundation.views import list_views

#: Preprocessing of each sample of a view; None for none.
Kind: TypeAlias = Literal["center", "standardize"] | None
#: What users may ask for.
Preprocess: TypeAlias = Literal["auto", "center", "standardize"] | None

KINDS: tuple[Kind, ...] = (None, "center", "standardize")
ROUNDING = 64 * np.finfo(np.float64).eps  # relative to the size of a sample; one that varies less is constant


@dataclass(frozen=True)
class SamplePreprocessing:
    """Preprocessing of each sample of a view, and the mean and scale with which it is undone.

    Attributes
    ----------
    kind : None, "center" or "standardize"
        ``"center"``: the mean over features becomes 0. ``"standardize"``: their standard deviation becomes 1 as well;
        constant samples become 0.
    level, scale : float
        Averages, over the training samples, of these means and standard deviations.
    """

    kind: Kind = None
    level: float = 0.0
    scale: float = 1.0

    def apply(self, rows: Floats) -> Floats:
        """Return preprocessed samples; rows of NaN stay."""
        if self.kind is None:
            return rows
        centred = rows - rows.mean(axis=1, keepdims=True)
        if self.kind == "center":
            return np.asarray(centred)
        deviation = _deviation(rows, centred)
        return np.asarray(np.where(deviation == 0, 0.0, centred / np.where(deviation == 0, 1.0, deviation)))

    def undo(self, rows: Floats) -> Floats:
        """Return samples with the typical mean and scale."""
        return rows if self.kind is None else np.asarray(rows * self.scale + self.level)


def _deviation(rows: Floats, centred: Floats) -> Floats:
    """Return the standard deviation of each row, as a column; 0 where it is only rounding error."""
    deviation = np.sqrt(np.mean(centred * centred, axis=1, keepdims=True))
    size = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(np.where(deviation <= ROUNDING * size, 0.0, deviation))


class PreprocessingSums:
    """Sums of the means and deviations of samples, block by block."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._level = self._scale = 0.0
        self._count = 0

    def add(self, rows: Floats) -> None:
        """Add a block of samples."""
        means = rows.mean(axis=1, keepdims=True)
        self._level += float(means.sum())
        self._scale += float(_deviation(rows, rows - means).sum())
        self._count += len(rows)

    def preprocessing(self) -> SamplePreprocessing:
        """Return the preprocessing learned from all blocks."""
        level = self._level / max(self._count, 1)
        scale = self._scale / max(self._count, 1) if self.kind == "standardize" else 1.0
        return SamplePreprocessing(self.kind, level, scale if scale > 0 else 1.0)


def preprocess_of_views(preprocess: Any, n_views: int, names: Sequence[str] | None) -> list[Preprocess]:
    """Return the requested preprocessing of each view."""
    if isinstance(preprocess, Mapping):
        if names is None or set(preprocess) != set(names):
            known = "views have no names" if names is None else f"views are named {list(names)}"
            raise ValueError(f"Expected preprocess to name each view, {known}, got {list(preprocess)}.")
        return list(list_views(dict(preprocess), names, name="preprocess"))
    if isinstance(preprocess, list | tuple):
        if len(preprocess) != n_views:
            raise ValueError(f"Expected preprocess for each of the {n_views} views, got {len(preprocess)}.")
        return list(preprocess)
    return [preprocess] * n_views
