"""Learning of restoration: dictionaries of degraded and clean patches, for levels of noise and JPEG compression.

Clean pictures are degraded, and their windows are collected together with the clean patches at the same positions.
Windows of about the same energy form a class. Dictionary learning with one atom per code finds the anchors of a class;
the map of an anchor is a ridge regression on the windows nearest to it, and some more that correlate with it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..estimators.single import DictionaryLearning
from ..foundation.arrays import Array
from ..parallel.blas import one_blas_thread
from ._resize import imresize
from ._sr_geometry import turn_squares
from ._sr_jpeg import coarseness_of
from ._sr_restoration import GEOMETRY, Levels, Restoration

NOISE_LEVELS = (1.5, 3.0, 6.0, 12.0, 24.0)  # standard deviations, in grey values of 255
QUALITIES = (95, 90, 75, 50, 20)
FACTORS = (2 / 3, 1 / 2, 1 / 3)  # pictures are first made smaller, which makes them sharp and free of noise
CLASS_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)  # quantiles of the norms of windows at which classes begin
N_ANCHORS = 32
N_SAMPLES = 800_000
LEARNING_SAMPLES = 100_000
MAX_ITER = 10
NEIGHBOURHOOD = 1.5  # windows that a map is fitted to, relative to the mean number per anchor
RIDGE = 1e-3  # relative to the mean energy of a pixel

Degrade = Callable[[Array, np.random.Generator], Array]


@dataclass(frozen=True)
class Settings:
    """Sizes of the models and of the training set."""

    n_anchors: int = N_ANCHORS
    n_samples: int = N_SAMPLES
    class_shares: Sequence[float] = CLASS_SHARES
    factors: Sequence[float] = FACTORS
    noise_levels: Sequence[float] = NOISE_LEVELS
    qualities: Sequence[int] = QUALITIES
    seed: int = 0


def add_noise(sigma: float) -> Degrade:
    """Return a function that adds white noise to a picture of 8 bits."""
    return lambda plane, rng: _rounded(plane + sigma * rng.standard_normal(plane.shape))


def compress(quality: int) -> Degrade:
    """Return a function that compresses a picture as JPEG."""
    from PIL import Image

    def degrade(plane: Array, _: np.random.Generator) -> Array:
        file = io.BytesIO()
        Image.fromarray(_rounded(plane).astype(np.uint8)).save(file, "JPEG", quality=quality)
        with Image.open(file) as image:
            return np.asarray(image, np.float64)

    return degrade


def _rounded(plane: Array) -> Array:
    return np.clip(np.rint(plane), 0, 255)


def learn(pictures: Sequence[Array], settings: Settings) -> Restoration:
    """Return the restoration learned from the brightness of clean pictures, 0 to 255."""
    planes = [imresize(np.asarray(plane, np.float64), factor) for plane in pictures for factor in settings.factors]
    noise = [(sigma, add_noise(sigma)) for sigma in settings.noise_levels]
    jpeg = [(coarseness_of(quality), compress(quality)) for quality in settings.qualities]
    return Restoration(*(_learn_levels(planes, kind, settings) for kind in (noise, jpeg)))


def _learn_levels(planes: Sequence[Array], wanted: Sequence[tuple[float, Degrade]], settings: Settings) -> Levels:
    with one_blas_thread():
        parts = [_learn_level(planes, degrade, settings) for _, degrade in wanted]
    edges, components, maps = (np.stack(arrays).astype(np.float32) for arrays in zip(*parts, strict=True))
    return Levels(np.array([strength for strength, _ in wanted], np.float32), edges, components, maps)


def _learn_level(planes: Sequence[Array], degrade: Degrade, settings: Settings) -> tuple[Array, Array, Array]:
    """Return the edges of classes, the anchors and the maps of one level."""
    windows, patches = samples(planes, degrade, settings.n_samples, np.random.default_rng(settings.seed))
    norms = np.linalg.norm(windows, axis=1)
    edges = np.quantile(norms, settings.class_shares[1:])
    classes = np.searchsorted(edges, norms, side="right")
    found = [
        _learn_class(windows[classes == number], patches[classes == number], settings)
        for number in range(len(settings.class_shares))
    ]
    components, maps = zip(*found, strict=True)
    return edges, np.stack(components), np.stack(maps)


def _learn_class(windows: Array, patches: Array, settings: Settings) -> tuple[Array, Array]:
    """Return the anchors of a class, and the map of each."""
    n_anchors = settings.n_anchors
    norms = np.linalg.norm(windows, axis=1, keepdims=True)
    directions = windows / np.where(norms > 0, norms, 1)
    learner = DictionaryLearning(n_anchors, n_nonzero_coefs=1, max_iter=MAX_ITER, random_state=settings.seed)
    anchors = learner.fit(directions[:LEARNING_SAMPLES]).components_
    correlations = np.abs(directions @ anchors.T)
    limits = np.quantile(correlations[:LEARNING_SAMPLES], max(0.0, 1 - NEIGHBOURHOOD / n_anchors), axis=0)
    nearest = correlations.argmax(axis=1)
    maps: Array = np.empty((n_anchors, windows.shape[1], patches.shape[1]), np.float64)
    for number in range(n_anchors):
        chosen = (correlations[:, number] >= limits[number]) | (nearest == number)
        maps[number] = _regression(windows[chosen], patches[chosen])
    return anchors, maps


def _regression(windows: Array, patches: Array) -> Array:
    """Return the ridge regression from windows to patches."""
    moments = (windows.T @ windows).astype(np.float64)
    moments += max(RIDGE * np.trace(moments) / len(moments), np.finfo(np.float64).tiny) * np.eye(len(moments))
    return np.asarray(np.linalg.solve(moments, (windows.T @ patches).astype(np.float64)))


def samples(planes: Sequence[Array], degrade: Degrade, n_samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return windows of degraded pictures and the clean patches at their centres, turned, minus the window means."""
    windows, patches = [], []
    total = sum(plane.size for plane in planes)
    window, side, radius, half = GEOMETRY.window, GEOMETRY.side, GEOMETRY.radius, GEOMETRY.half
    for plane in planes:
        degraded = degrade(plane, rng)
        room = [max(0, n - 2 * radius) for n in plane.shape]
        count = min(room[0] * room[1], round(n_samples * plane.size / total))
        chosen = np.sort(rng.choice(room[0] * room[1], count, replace=False)) if count else np.empty(0, np.int64)
        i, j = np.divmod(chosen, max(1, room[1]))
        if not count:
            continue
        turns = GEOMETRY.turns(degraded)[i, j]
        offset = radius - half
        first = turn_squares(sliding_window_view(degraded, (window, window))[i, j], turns)
        second = turn_squares(sliding_window_view(plane, (side, side))[i + offset, j + offset], turns)
        level = first.mean(axis=1, keepdims=True)
        windows.append((first - level).astype(np.float32))
        patches.append((second - level).astype(np.float32))
    order = rng.permutation(sum(len(part) for part in windows))
    return np.concatenate(windows)[order], np.concatenate(patches)[order]
