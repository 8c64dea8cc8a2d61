"""Input of fusion: checked sources, checked pairs of focused and blurred images, and samples drawn from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..foundation.arrays import Array
from ..foundation.views import list_views
from ._fusion_evidence import Grey, luma
from ._patches import extract_patches

MOST_SOURCES = 65535
VIEWS = ("focused", "blurred")


def draw_views(
    pairs: list[tuple[Grey, Grey]], side: int, max_samples: int, rng: np.random.Generator
) -> tuple[Grey, Grey]:
    """Draw pairs of patches; return the mean and half the difference of each pair as rows, centred to mean 0."""
    counts = np.array([(one.shape[0] - side + 1) * (one.shape[1] - side + 1) for one, _ in pairs])
    shares = np.maximum(1, np.minimum(counts, counts * min(1.0, max_samples / counts.sum()))).astype(int)
    views: list[list[Grey]] = [[], []]
    for (one, other), share in zip(pairs, shares, strict=True):
        seed = int(rng.integers(2**32))
        for view, image in zip(views, ((one + other) / 2, (one - other) / 2), strict=True):
            rows = extract_patches(image, side, max_patches=int(share), random_state=seed)
            view.append(rows.reshape(len(rows), -1))
    means, details = (np.concatenate(view) for view in views)
    for rows in (means, details):
        rows -= rows.mean(axis=1, keepdims=True)
    return means, details


def _as_images(value: Any, name: str) -> list[Array]:
    """Return images as a list of arrays, checked one by one."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
        raise TypeError(f"Expected {name} to be a list of images, got {type(value).__name__}.")
    images = [np.asarray(image) for image in value]
    for number, image in enumerate(images):
        label = f"{name}[{number}]"
        if image.ndim not in (2, 3) or image.size == 0:
            raise ValueError(
                f"Expected {label} to have the shape (height, width) or (height, width, n_channels) and pixels,"
                f" got {image.shape}."
            )
        if image.dtype.kind not in "fiu" or image.dtype.itemsize > 8:
            raise TypeError(f"Expected {label} to hold integers or floating-point numbers, got {image.dtype}.")
        if image.dtype.kind == "f" and not np.isfinite(image).all():
            raise ValueError(f"Expected {label} to be finite, got NaN or infinity.")
    return images


def _check_size(image: Array, label: str, side: int) -> None:
    if min(image.shape[:2]) < side:
        raise ValueError(
            f"Expected {label} to be at least as large as a patch, {side} x {side} pixels, got"
            f" {image.shape[0]} x {image.shape[1]}."
        )


def _unit_scale(images: Sequence[Array]) -> float:
    """Return the factor that scales images to values of magnitude about 1 at most."""
    if images[0].dtype.kind in "iu" and images[0].dtype.itemsize <= 2:
        return 1 / float(np.iinfo(images[0].dtype).max)
    largest = max(max(abs(float(image.min())), abs(float(image.max()))) for image in images)
    real = np.result_type(images[0].dtype, np.float32)
    return 1 / max(largest, float(np.finfo(real).tiny))


def check_sources(images: Any, side: int) -> tuple[list[Array], float]:
    """Return the sources of a fusion, and the factor that scales them to magnitude 1."""
    sources = _as_images(images, "images")
    if not 2 <= len(sources) <= MOST_SOURCES:
        raise ValueError(f"Expected at least two images to fuse, got {len(sources)}.")
    for number, image in enumerate(sources):
        if image.shape != sources[0].shape:
            raise ValueError(
                f"Expected images of one shape, got {sources[0].shape} and {image.shape} (images[{number}])."
                " Crop or convert them first."
            )
        if image.dtype != sources[0].dtype:
            raise ValueError(
                f"Expected images of one number type, got {sources[0].dtype} and {image.dtype} (images[{number}])."
                " Convert them first."
            )
    _check_size(sources[0], "images", side)
    return sources, _unit_scale(sources)


def check_pairs(X: Any, side: int) -> list[tuple[Grey, Grey]]:
    """Return pairs of focused and blurred images, as brightness scaled to magnitude 1."""
    views = list_views(X, VIEWS)
    if not isinstance(views, list | tuple) or len(views) != len(VIEWS):
        got = f"{len(views)} entries" if isinstance(views, list | tuple) else type(views).__name__
        raise ValueError(f"Expected X to be [focused, blurred] images, or a dict with these names, got {got}.")
    sharp, soft = (
        _as_images([value] if isinstance(value, np.ndarray) else value, name)
        for value, name in zip(views, VIEWS, strict=True)
    )
    if len(sharp) != len(soft) or not sharp:
        raise ValueError(
            f"Expected as many focused as blurred images, and at least one, got {len(sharp)} and {len(soft)}."
        )
    pairs = []
    for number, (one, other) in enumerate(zip(sharp, soft, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            raise ValueError(
                f"Expected focused[{number}] and blurred[{number}] to have one shape and number type, got"
                f" {one.shape}, {one.dtype} and {other.shape}, {other.dtype}."
            )
        _check_size(one, f"focused[{number}]", side)
        scale = _unit_scale([one, other])
        pairs.append((luma(one, scale), luma(other, scale)))
    return pairs
