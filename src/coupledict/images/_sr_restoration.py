"""Restoration of small pictures before they are enlarged: removal of noise and compression artefacts, patch by patch.

A model consists of *levels*: pairs of dictionaries of degraded and clean patches for one strength of noise or one
quality of JPEG. A patch covers 3 x 3 pixels and is restored from the 7 x 7 pixels around it, minus their mean. These
are turned as in super-resolution. Their energy selects one of a few classes, because faint structure should be smoothed
and strong structure preserved; the nearest anchor of the class has a linear map from degraded to clean pixels. The nine
patches over a pixel are averaged. Where more would be removed than noise can account for, part of it is restored.

Noise twice as strong in a picture of twice the contrast is the same problem. So a picture whose noise lies between two
levels is scaled to fit the nearer one, and levels can be a factor of two apart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import gaussian_filter

from ..files.models import JSON, contradiction
from ..files.packing import pack_half, unpack_half
from ..files.state import CONTRADICTIONS, ModelState, check_range
from ..foundation.arrays import Array
from ..foundation.progress import Meter
from ._sr_geometry import N_TURNS, Geometry
from ._sr_model import LARGEST_VALUE, apply_maps, product
from ._sr_pipeline import predict_patches

FILE = "super_resolution_degraded.safetensors"
NAME = "Restoration"  # of the model in its file
GEOMETRY = Geometry(1, 3)
INNER = slice(GEOMETRY.radius - GEOMETRY.half, GEOMETRY.radius + GEOMETRY.half + 1)  # the patch in its window
KINDS = ("noise", "jpeg")
RISK_SIGMA = 5.0  # pixels: Gaussian window over which the risk of a restoration is estimated
JPEG_NOISE = 8.0  # grey values, at quality 50; proportional to the square root of the coarseness
TINY = np.finfo(np.float32).tiny
TENSORS = ("strengths", "edges", "components", "maps")


@dataclass(frozen=True)
class Levels:
    """Levels of one kind of degradation, from weak to strong.

    `strengths` (n_levels) are their strengths; `edges` (n_levels, n_classes - 1) are the norms that separate classes;
    `components` (n_levels, n_classes, n_anchors, window ** 2) are the anchors, and `maps` (n_levels, n_classes,
    n_anchors, window ** 2, side ** 2) their maps from degraded to clean pixels.
    """

    strengths: Array
    edges: Array
    components: Array
    maps: Array

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array]) -> Self:
        """Return the levels of the arrays of a file; raise if they do not fit each other."""
        check_range(tensors, LARGEST_VALUE)
        n_levels, n_classes, n_anchors, n_window = tensors["components"].shape
        expected = {
            "strengths": (n_levels,),
            "edges": (n_levels, n_classes - 1),
            "components": (n_levels, n_classes, n_anchors, GEOMETRY.window**2),
            "maps": (n_levels, n_classes, n_anchors, n_window, GEOMETRY.side**2),
        }
        for name, shape in expected.items():
            array = tensors[name]
            empty = array.size == 0 and name != "edges"
            if array.shape != shape or array.dtype != np.float32 or empty or not np.isfinite(array).all():
                raise ValueError(f"its tensor {name!r} does not fit the others")
        if not np.all(tensors["strengths"] > 0) or np.any(np.diff(tensors["edges"], axis=1) < 0):
            raise ValueError("its levels are not in order")
        return cls(*(tensors[name] for name in TENSORS))


class PatchRestorer:
    """Restores the patches of a picture with one level; several threads may share one object.

    Parameters
    ----------
    levels : Levels
    level : int
        Number of the level.
    """

    geometry = GEOMETRY
    n_layers = 2  # the restored pixel, and its derivative with respect to the degraded pixel

    def __init__(self, levels: Levels, level: int) -> None:
        self._edges = levels.edges[level].astype(np.float64) ** 2
        self._components, maps = levels.components[level], levels.maps[level]
        self._maps = maps.reshape(-1, maps.shape[3])
        inner = np.arange(GEOMETRY.window**2).reshape(GEOMETRY.window, -1)[INNER, INNER].ravel()
        own = maps[:, :, inner, np.arange(inner.size)] - maps.mean(axis=2)
        self._kept = (own + 1 / maps.shape[2]).reshape(-1, inner.size)

    def pad(self, plane: Array) -> Array:
        """Return a picture padded by its mirror image; repeated pixels would look less noisy."""
        return np.pad(plane, self.geometry.radius, mode="symmetric")

    def patches(self, piece: Array) -> Array:
        """Return both layers of every patch of a padded piece of a picture, (n_patches, side ** 2 * 2)."""
        side, window = self.geometry.side, self.geometry.window
        turns = self.geometry.turns(piece).ravel()
        windows = sliding_window_view(piece, (window, window)).reshape(turns.size, -1)
        features: Array = np.empty(windows.shape, piece.dtype)
        groups = [np.flatnonzero(turns == turn) for turn in range(N_TURNS)]
        for turned, group in zip(self.geometry.turned(window), groups, strict=True):
            features[group] = windows[group[:, None], turned]
        levels = _mean(features)
        features -= levels
        nearest = self._nearest(features)
        restored = apply_maps(features, nearest[:, None], np.ones((len(features), 1), features.dtype), self._maps)
        restored += levels
        layers: Array = np.empty((turns.size, side * side, 2), piece.dtype)
        for back, group in zip(self.geometry.turned_back(side), groups, strict=True):
            layers[group, :, 0] = restored[group[:, None], back]
            layers[group, :, 1] = self._kept[nearest[group][:, None], back]
        return layers.reshape(turns.size, -1)

    def _nearest(self, features: Array) -> npt.NDArray[np.int64]:
        """Return the number of the anchor of each row of features, among all classes."""
        n_classes, n_anchors, _ = self._components.shape
        energies = np.einsum("ij,ij->i", features, features).astype(np.float64)
        classes = np.searchsorted(self._edges, energies, side="right")
        nearest = np.empty(len(features), np.int64)
        for number in range(n_classes):
            (group,) = np.nonzero(classes == number)
            if group.size:
                correlations = np.abs(product(features[group], self._components[number].T))
                nearest[group] = number * n_anchors + correlations.argmax(axis=1)
        return nearest


def _mean(rows: Array) -> Array:
    """Return the mean of each row, as a column; it does not depend on other rows."""
    return np.asarray(np.einsum("ij->i", rows) / rows.dtype.type(rows.shape[1]))[:, None]


def shrinkage(removed: Array, kept: Array, noise: float) -> Array:
    """Return the share of a restoration that should be applied, from 0 to 1 for each pixel.

    `kept` is the derivative of a restored pixel with respect to the degraded one. Stein's unbiased estimate of the risk
    of removing a share of `removed` is least at the share noise ** 2 * (1 - kept) / removed ** 2, each a mean over
    neighbours. It is below 1 where more is removed than noise can account for: there, the restoration would remove
    texture unlike that of the training pictures.
    """
    energy, noisy = (gaussian_filter(part, RISK_SIGMA, mode="reflect") for part in (removed**2, 1 - kept))
    noisy *= np.float32(noise**2)
    return np.asarray(np.clip(noisy / np.maximum(energy, np.maximum(noisy, TINY)), 0, 1))


@dataclass(frozen=True)
class Restoration:
    """The levels of each kind of degradation."""

    noise: Levels
    jpeg: Levels

    def restore(self, plane: Array, kind: str, strength: float, *, unit: float, n_jobs: int, meter: Meter) -> Array:
        """Return a plane without its noise or its traces of compression.

        Parameters
        ----------
        plane : array of shape (rows, columns), float32
        kind : {"noise", "jpeg"}
        strength : float
            Standard deviation of the noise in grey values, or coarseness of JPEG.
        unit : float
            Value of one grey level, 1/255 of the range, on the scale of `plane`.
        n_jobs : int
            Threads.
        meter : Meter
            Counts pixels.
        """
        levels: Levels = getattr(self, kind)
        level = int(np.argmin(np.abs(np.log(levels.strengths / strength))))
        factor = np.float32(levels.strengths[level] / (strength * unit))
        level_plane = plane - plane[0, 0]  # a flat picture stays exactly flat
        layers = predict_patches(PatchRestorer(levels, level), level_plane * factor, n_jobs=n_jobs, meter=meter)
        removed = level_plane - layers[:, :, 0] / factor
        noise = strength * unit if kind == "noise" else JPEG_NOISE * float(np.sqrt(levels.strengths[level]) / factor)
        return np.asarray(plane - removed * shrinkage(removed, layers[:, :, 1], noise))

    def to_state(self) -> ModelState:
        """Return the models as data, in half precision."""
        tensors: dict[str, Array] = {}
        shapes: dict[str, JSON] = {}
        for kind in KINDS:
            for name in TENSORS:
                array = getattr(getattr(self, kind), name)
                shapes[f"{kind}.{name}"] = list[JSON](array.shape)
                tensors[f"{kind}.{name}"] = pack_half(array)
        return ModelState(NAME, {}, tensors, {"half": shapes})

    @classmethod
    def from_state(cls, state: ModelState) -> Self:
        """Return the models from what :meth:`to_state` returned."""
        if state.estimator != NAME:
            raise ValueError(f"it holds a {state.estimator[:100]}")
        shapes: Any = state.facts["half"]
        arrays = {name: unpack_half(state.tensors[name], shape) for name, shape in shapes.items()}
        kinds = [Levels.from_tensors({name: arrays[f"{kind}.{name}"] for name in TENSORS}) for kind in KINDS]
        return cls(*kinds)


def read(path: str | os.PathLike[str]) -> Restoration:
    """Read a restoration from a file."""
    state = ModelState.read(path)
    try:
        return Restoration.from_state(state)
    except CONTRADICTIONS as error:
        raise contradiction(path, "a complete model", error) from error


@lru_cache(maxsize=1)
def shipped() -> Restoration:
    """Return the restoration that comes with the package."""
    with as_file(files(__package__) / "models" / FILE) as path:
        return read(path)
