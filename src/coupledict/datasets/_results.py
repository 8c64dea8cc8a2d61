"""Results of loaders: views, pictures or sounds, and their origin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array


@dataclass(frozen=True, eq=False, repr=False)
class MultiviewDataset:
    """Several views of the same samples.

    Parameters
    ----------
    views : dict of str to array of shape (n_samples, n_features_v)
        The views by name, as every ``fit`` of this package takes them. NaN marks a missing entry.
    DESCR : str
        Description of the data, their origin and their rights.
    shapes : dict of str to tuple of int
        The shape of one sample of each view: ``(8, 8)`` for patches, ``(n_features_v,)`` for features.
    target : array of shape (n_samples,), optional
        The class of each sample, as a number.
    target_names : list of str, optional
        The names of the classes.
    feature_names : dict of str to list of str, optional
        The names of the features of each view.

    Examples
    --------
    >>> from coupledict.datasets import load_breast_cancer_views
    >>> data = load_breast_cancer_views()
    >>> data
    MultiviewDataset: mean (569, 10), error (569, 10), worst (569, 10); 2 classes
    >>> data.views["error"].shape
    (569, 10)
    """

    views: dict[str, Array]
    DESCR: str
    shapes: dict[str, tuple[int, ...]]
    target: Array | None = None
    target_names: list[str] | None = None
    feature_names: dict[str, list[str]] | None = None

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {view.shape}" for name, view in self.views.items())
        classes = "" if self.target is None else f"; {len(np.unique(self.target))} classes"
        return f"{type(self).__name__}: {shapes}{classes}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CoupledSignals(MultiviewDataset):
    """Views of signals for which the dictionaries and codes are known.

    Parameters
    ----------
    views : dict of str to array of shape (n_samples, n_features_v)
        The signals by view.
    DESCR : str
        Description of the data, their origin and their rights.
    shapes : dict of str to tuple of int
        The shape of one sample of each view.
    target : None
        There are no classes.
    target_names : None
        There are no classes.
    feature_names : None
        Features have no names.
    components : dict of str to array of shape (n_components, n_features_v)
        The true dictionaries.
    codes : csr_array or array of shape (n_samples, n_components)
        The true codes: ``codes @ components[name]`` is view `name` without noise.

    Examples
    --------
    >>> from coupledict.datasets import make_coupled_signals
    >>> signals = make_coupled_signals(100, random_state=0)
    >>> signals.codes @ signals.components["view0"]  # doctest: +ELLIPSIS
    array([[...
    """

    components: dict[str, Array]
    codes: Any


@dataclass(frozen=True, eq=False, repr=False)
class ImageDataset:
    """Pictures that belong together.

    Parameters
    ----------
    images : dict of str to list of arrays of shape (height, width, 3) or (height, width)
        A list for each kind of picture; entry i of one list belongs to entry i of the others.
    names : list of str
        The name of each entry.
    DESCR : str
        Description of the pictures, their origin and their rights.

    Examples
    --------
    >>> from coupledict.datasets import fetch_super_resolution
    >>> fetch_super_resolution("Set5", scale=3)  # doctest: +SKIP
    ImageDataset: low, high; 5 of each
    """

    images: dict[str, list[Array]]
    names: list[str]
    DESCR: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {', '.join(self.images)}; {len(self.names)} of each"


@dataclass(frozen=True, eq=False, repr=False)
class SoundDataset:
    """Recordings.

    Parameters
    ----------
    signals : list of arrays of shape (n_samples,)
        The recordings, float32, from -1 to 1.
    rate : int
        Samples per second.
    names : list of str
        The name of each recording.
    DESCR : str
        Description of the recordings, their origin and their rights.

    Examples
    --------
    >>> from coupledict.datasets import fetch_speech
    >>> fetch_speech()  # doctest: +SKIP
    SoundDataset: 3 recordings, 45.5 s at 16000 Hz
    """

    signals: list[Array]
    rate: int
    names: list[str]
    DESCR: str

    def __repr__(self) -> str:
        seconds = sum(map(len, self.signals)) / self.rate
        return f"{type(self).__name__}: {len(self.signals)} recordings, {seconds:.1f} s at {self.rate} Hz"


def check_float_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return a number type, checked to be float32 or float64."""
    found = np.dtype(dtype)
    if found not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"Expected dtype to be float32 or float64, got {found}.")
    return found


def vector_shapes(views: dict[str, Array]) -> dict[str, tuple[int, ...]]:
    """Return the shape of a sample of each view, for views of plain features."""
    return {name: (view.shape[1],) for name, view in views.items()}


def description(*paragraphs: str) -> str:
    """Return paragraphs as one text."""
    return "\n\n".join(paragraphs)
