"""From decisions to the fused image: remove small regions of the decision, and blend the seams between sources."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from ..foundation.arrays import Array

Labels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]

ROUNDS = 4  # rounds of removal, each up to four times the region size of the one before
REACH = 4  # the seam is cut off after this many of its standard deviations


def components(labels: Labels, n_labels: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], Array]:
    """Find connected regions of one label; return the region of each pixel, from 0, and their sizes and labels."""
    numbers = np.zeros(labels.shape, np.int32)
    owners: list[int] = []
    for label in range(n_labels):
        here = labels == label
        found, count = ndimage.label(here)
        np.add(found, len(owners) - 1, out=numbers, where=here)
        owners += [label] * count
    return numbers, np.bincount(numbers.ravel(), minlength=len(owners)), np.array(owners, labels.dtype)


def border_votes(
    numbers: npt.NDArray[np.int32], small: npt.NDArray[np.bool_], owners: Array, n_labels: int
) -> npt.NDArray[np.int64]:
    """Count, for every small region, the labels of adjacent pixels that belong to large regions."""
    votes = np.zeros(small.size * n_labels, np.int64)
    for one, other in ((numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1])):
        for inside, outside in ((one, other), (other, one)):
            touching = small[inside] & ~small[outside]
            votes += np.bincount(
                inside[touching].astype(np.int64) * n_labels + owners[outside[touching]], minlength=votes.size
            )
    return votes.reshape(small.size, n_labels)


def remove_small(labels: Labels, n_labels: int, min_size: float) -> Labels:
    """Give every connected region of fewer than `min_size` pixels the label that most of its border touches.

    The smallest regions are removed first, so that a small region inside a slightly larger one does not protect it. A
    region that touches only small regions waits until these have merged.
    """
    labels = labels.copy()
    for size in min_size / 4.0 ** np.arange(ROUNDS - 1, -1, -1):
        while True:
            numbers, sizes, owners = components(labels, n_labels)
            small = sizes < size
            if not small.any():
                break
            votes = border_votes(numbers, small, owners, n_labels)
            decided = votes.any(axis=1)
            if not decided.any():  # all regions are small
                break
            owners[decided] = votes[decided].argmax(axis=1)
            labels = owners[numbers]
    return labels


def compose(images: list[Array], labels: Labels, seam: float) -> Array:
    """Take every pixel from its source; where sources meet, blend them over a seam of about `seam` pixels."""
    fused = images[0].copy()
    for number, image in enumerate(images[1:], start=1):
        here = labels == number
        fused[here] = image[here]
    reach = int(REACH * seam + 0.5)
    if not reach:
        return fused
    size = 2 * reach + 1
    mixed = ndimage.maximum_filter(labels, size) != ndimage.minimum_filter(labels, size)
    if not mixed.any():
        return fused
    real = np.float32 if fused.dtype.itemsize < 4 else np.float64
    values = np.zeros(fused[mixed].shape, real)
    for number, image in enumerate(images):
        share = ndimage.gaussian_filter((labels == number).astype(np.float32), seam, radius=reach, mode="nearest")
        weights = share[mixed].reshape(-1, *(1,) * (fused.ndim - 2))
        values += image[mixed] * weights
    if fused.dtype.kind in "iu":
        limits = np.iinfo(fused.dtype)
        values = np.rint(values).clip(limits.min, limits.max)
    fused[mixed] = values.astype(fused.dtype)
    return fused
