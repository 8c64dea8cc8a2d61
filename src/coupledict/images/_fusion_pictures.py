"""Input of fusion: checked images, pairs of focused and blurred images, and samples drawn from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..foundation.arrays import Array
from ..foundation.tensors import as_array, as_numpy
from ..foundation.views import list_views
from ._fusion_focus import detail
from ._grey import Grey, luma
from ._patches import extract_patches

LARGEST_SCALE = 1e30  # 255 times it fits into float32
LEAST_DETAIL = 1.0  # energy per pixel, in squared grey values of 255, of a patch to learn from
VIEWS = ("focused", "blurred")


def draw_views(
    pairs: list[tuple[Grey, Grey]], side: int, max_samples: int, rng: np.random.Generator
) -> tuple[Grey, Grey]:
    """Draw pairs of patches of the detail of focused and blurred images, as rows.

    Patches without detail are left out. The others are scaled so that strong ones count more than faint ones, but less
    than in proportion to their energy.
    """
    counts = np.array([(one.shape[0] - side + 1) * (one.shape[1] - side + 1) for one, _ in pairs])
    shares = np.maximum(1, np.minimum(counts, counts * min(1.0, max_samples / counts.sum()))).astype(int)
    views: list[list[Grey]] = [[], []]
    for pair, share in zip(pairs, shares, strict=True):
        seed = int(rng.integers(2**32))
        for view, image in zip(views, pair, strict=True):
            rows = extract_patches(detail(image), side, max_patches=int(share), random_state=seed)
            view.append(rows.reshape(len(rows), -1))
    sharp, soft = (np.concatenate(view) for view in views)
    energy = np.einsum("ij,ij->i", sharp, sharp)
    used = energy > LEAST_DETAIL * side * side
    if not used.any():
        raise ValueError("Expected focused images with detail to learn from, got images without any.")
    factor = (energy[used] ** -0.25)[:, None]
    return sharp[used] * factor, soft[used] * factor


def as_image(value: Any, label: str) -> Array:
    """Return an image as an array; raise if it is not an image."""
    image = as_array(value, label)
    if image.ndim not in (2, 3) or image.size == 0:
        raise ValueError(
            f"Expected {label} to have the shape (height, width) or (height, width, n_channels) and at least one pixel,"
            f" got {image.shape}."
        )
    if image.dtype.kind not in "fiu" or image.dtype.itemsize > 8:
        raise TypeError(f"Expected {label} to hold integers or floating-point numbers, got {image.dtype}.")
    if image.dtype.kind == "f" and not np.isfinite(image).all():
        raise ValueError(f"Expected {label} to be finite, got NaN or infinity.")
    return image


def _as_images(value: Any, name: str) -> list[Array]:
    """Return images as a list of arrays, checked one by one."""
    value = as_numpy(value, name)
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
        raise TypeError(f"Expected {name} to be a list of images, got {type(value).__name__}.")
    return [as_image(image, f"{name}[{number}]") for number, image in enumerate(value)]


def check_size(image: Array, label: str, side: int) -> None:
    """Raise unless an image is at least as large as a patch."""
    if min(image.shape[:2]) < side:
        raise ValueError(
            f"Expected {label} to be at least as large as a patch, {side} x {side} pixels, got"
            f" {image.shape[0]} x {image.shape[1]}."
        )


def unit_scale(images: Sequence[Array]) -> float:
    """Return the factor that scales images to values of magnitude about 1 at most."""
    if images[0].dtype.kind in "iu" and images[0].dtype.itemsize <= 2:
        return 1 / float(np.iinfo(images[0].dtype).max)
    largest = max(max(abs(float(image.min())), abs(float(image.max()))) for image in images)
    real = np.result_type(images[0].dtype, np.float32)
    return min(1 / max(largest, float(np.finfo(real).tiny)), LARGEST_SCALE)


def check_pairs(X: Any, side: int) -> list[tuple[Grey, Grey]]:
    """Return pairs of focused and blurred images, as brightness from 0 to 255."""
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
        check_size(one, f"focused[{number}]", side)
        scale = 255 * unit_scale([one, other])
        pairs.append((luma(one, scale), luma(other, scale)))
    return pairs
