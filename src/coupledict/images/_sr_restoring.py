"""Restoration of small pictures before they are enlarged: noise and compression are taken off, patch by patch.

A model consists of *levels*: pairs of dictionaries of degraded and clean patches for one strength of noise, or for one
quality of JPEG. A patch covers 3 x 3 pixels, and is restored from the 7 x 7 pixels around it, less their mean. These
are turned as in super-resolution. Their energy chooses one of a few classes, because faint structure is to be smoothed
and strong structure is to be kept; the nearest anchor of the class has a linear map from the degraded pixels to clean
ones. Nine patches over a pixel are averaged. Where more would be removed than noise can be, part of it is given back.

Noise that is twice as strong in a picture of twice the contrast is the same problem. So a picture whose noise lies
between two levels is multiplied until it fits the nearer one, and the levels can be a factor of two apart.
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
from scipy.sparse import csr_array

from ..files.models import JSON, contradiction
from ..files.packing import pack_half, unpack_half
from ..files.state import CONTRADICTIONS, ModelState, check_range
from ..foundation.arrays import Array
from ..foundation.progress import Meter
from ._sr_geometry import N_TURNS, Geometry
from ._sr_model import MOST, product
from ._sr_pipeline import predict_patches

FILE = "super_resolution_degraded.safetensors"
NAME = "Restoration"  # of the model in its file
GEOMETRY = Geometry(1, 3)
INNER = slice(GEOMETRY.radius - GEOMETRY.half, GEOMETRY.radius + GEOMETRY.half + 1)  # the patch in its window
KINDS = ("noise", "jpeg")
REACH = 5.0  # pixels, of the Gaussian window in which the risk of a restoration is estimated
JPEG_NOISE = 8.0  # grey values, at quality 50; it goes with the root of the coarseness
TINY = np.finfo(np.float32).tiny
TENSORS = ("strengths", "edges", "components", "maps")


@dataclass(frozen=True)
class Levels:
    """Levels of one kind of degradation, from weak to strong.

    `strengths` (n_levels) tells how strong each is; `edges` (n_levels, n_classes - 1) the norms that separate classes;
    `components` (n_levels, n_classes, n_anchors, window ** 2) holds the anchors, and `maps` (n_levels, n_classes,
    n_anchors, window ** 2, side ** 2) the map of each, from degraded to clean pixels.
    """

    strengths: Array
    edges: Array
    components: Array
    maps: Array

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array]) -> Self:
        """Return levels made from the arrays of a file; raise where they do not fit each other."""
        check_range(tensors, MOST)
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
    """Restores the patches of a picture by one level; threads share it.

    Parameters
    ----------
    levels : Levels
    level : int
        Which of them.
    """

    geometry = GEOMETRY
    n_layers = 2  # the restored pixel, and how much of a change of the degraded pixel is left in it

    def __init__(self, levels: Levels, level: int) -> None:
        self._edges = levels.edges[level].astype(np.float64) ** 2
        self._components, maps = levels.components[level], levels.maps[level]
        self._maps = maps.reshape(-1, maps.shape[3])
        inner = np.arange(GEOMETRY.window**2).reshape(GEOMETRY.window, -1)[INNER, INNER].ravel()
        own = maps[:, :, inner, np.arange(inner.size)] - maps.mean(axis=2)
        self._kept = (own + 1 / maps.shape[2]).reshape(-1, inner.size)

    def pad(self, plane: Array) -> Array:
        """Return a picture with a mirror image of its edge around it: repeated pixels would look less noisy."""
        return np.pad(plane, self.geometry.radius, mode="symmetric")

    def patches(self, near: Array) -> Array:
        """Return both layers of every patch of a padded piece of a picture, (n_patches, side ** 2 * 2)."""
        side, window = self.geometry.side, self.geometry.window
        turns = self.geometry.turns(near).ravel()
        windows = sliding_window_view(near, (window, window)).reshape(turns.size, -1)
        features: Array = np.empty(windows.shape, near.dtype)
        groups = [np.flatnonzero(turns == turn) for turn in range(N_TURNS)]
        for turned, mine in zip(self.geometry.turned(window), groups, strict=True):
            features[mine] = windows[mine[:, None], turned]
        levels = _mean(features)
        features -= levels
        nearest = self._nearest(features)
        restored = self._apply(features, nearest)
        restored += levels
        layers: Array = np.empty((turns.size, side * side, 2), near.dtype)
        for back, mine in zip(self.geometry.turned_back(side), groups, strict=True):
            layers[mine, :, 0] = restored[mine[:, None], back]
            layers[mine, :, 1] = self._kept[nearest[mine][:, None], back]
        return layers.reshape(turns.size, -1)

    def _nearest(self, features: Array) -> npt.NDArray[np.int64]:
        """Return the number of the anchor of each row of features, among all classes."""
        n_classes, n_anchors, _ = self._components.shape
        energies = np.einsum("ij,ij->i", features, features).astype(np.float64)
        classes = np.searchsorted(self._edges, energies, side="right")
        nearest = np.empty(len(features), np.int64)
        for number in range(n_classes):
            (mine,) = np.nonzero(classes == number)
            if mine.size:
                correlations = np.abs(product(features[mine], self._components[number].T))
                nearest[mine] = number * n_anchors + correlations.argmax(axis=1)
        return nearest

    def _apply(self, features: Array, nearest: npt.NDArray[np.int64]) -> Array:
        """Return what the map of its anchor makes of each row of features."""
        # The map of an anchor is a block of rows of one tall matrix, and the features are coefficients of that block.
        n, d = features.shape
        columns = (nearest[:, None] * d + np.arange(d)).astype(np.int32)
        ends = np.arange(n + 1, dtype=np.int32) * d
        blocks = csr_array((features.ravel(), columns.ravel(), ends), shape=(n, len(self._maps)))
        return np.asarray(blocks @ self._maps)


def _mean(rows: Array) -> Array:
    """Return the mean of each row, as a column; it does not depend on other rows."""
    return np.asarray(np.einsum("ij->i", rows) / rows.dtype.type(rows.shape[1]))[:, None]


def trust(removed: Array, kept: Array, noise: float) -> Array:
    """Return which share of what a restoration removes is better removed, from 0 to 1 for each pixel.

    `kept` tells how much of a change of a pixel is left in its restored value. Stein's unbiased estimate of the risk of
    removing a share of `removed` is least at the share noise ** 2 * (1 - kept) / removed ** 2, each a mean over
    neighbours. It is below 1 where more is removed than noise can be: there, texture would be lost that the training
    pictures did not have.
    """
    energy, noisy = (gaussian_filter(part, REACH, mode="reflect") for part in (removed**2, 1 - kept))
    noisy *= np.float32(noise**2)
    return np.asarray(np.clip(noisy / np.maximum(energy, np.maximum(noisy, TINY)), 0, 1))


@dataclass(frozen=True)
class Restoration:
    """Levels for each kind of degradation."""

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
            How much of the numbers of `plane` is a grey value, 1/255 of the range.
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
        return np.asarray(plane - removed * trust(removed, layers[:, :, 1], noise))

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
        """Return the models that :meth:`to_state` described."""
        if state.estimator != NAME:
            raise ValueError(f"it holds a {state.estimator[:100]}")
        shapes: Any = state.facts["half"]
        arrays = {name: unpack_half(state.tensors[name], shape) for name, shape in shapes.items()}
        kinds = [Levels.from_tensors({name: arrays[f"{kind}.{name}"] for name in TENSORS}) for kind in KINDS]
        return cls(*kinds)


def read(path: str | os.PathLike[str]) -> Restoration:
    """Return the restoration of a file."""
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
