"""The result of a fusion: the picture, the source of each pixel, and what was done to each source."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array

Labels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FusedSource:
    """What a fusion did to one source.

    Attributes
    ----------
    share : float
        Share of the pixels of the result that come mostly from this source.
    aligned : bool
        Whether the source was resampled to fit the reference.
    shift : float
        Largest movement of a corner, in pixels; 0 if the source was not resampled.
    matrix : array of shape (3, 3)
        Maps positions (x, y, 1) in the reference to positions in the source.
    gain : float
        Factor by which its brightness was multiplied.
    correlation : tuple of two floats
        Correlation with its neighbour before and after alignment; both are 1 for the reference.
    note : str
        A sentence that says what went wrong, or empty.
    """

    share: float
    aligned: bool
    shift: float
    matrix: Matrix
    gain: float
    correlation: tuple[float, float]
    note: str = ""


@dataclass(frozen=True)
class Fusion:
    """What :meth:`MultiFocusFusion.fuse` returns.

    Attributes
    ----------
    image : array of the number type of the sources
        The fused picture: the part of the reference that all sources cover, or all of it with ``keep_size=True``.
    decision : array of int of shape (height, width)
        The number of the source that each pixel comes mostly from, counted from 0.
    depth : array of float32 of shape (height, width)
        The decision as a smooth surface, from 0 to the number of the last source.
    reference : int
        The number of the source that the others were aligned with.
    box : tuple of int
        Top, left, bottom and right of `image` in the reference.
    sources : list of FusedSource
        What was done to each source.
    """

    image: Array
    decision: Labels
    depth: npt.NDArray[np.float32]
    reference: int
    box: tuple[int, int, int, int]
    sources: list[FusedSource]


def make_labels(shape: tuple[int, ...], n_sources: int) -> Labels:
    """Return an array of zeros that can hold the number of every source."""
    return np.zeros(shape, np.uint8) if n_sources <= 256 else np.zeros(shape, np.uint16)


def source_shares(labels: Labels, n_sources: int) -> list[float]:
    """Return the share of the pixels that have the label of each source."""
    shares: list[float] = (np.bincount(labels.ravel(), minlength=n_sources) / labels.size).tolist()
    return shares
