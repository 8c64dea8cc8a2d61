"""From evidence to a picture: no small islands in the decision, and seams too narrow to see."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from .._views import Array

Labels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]

ROUNDS = 4  # regions are removed in rounds, each to four times the size of the one before, small ones first
REACH = 4  # the seam ends after so many of its widths


def components(labels: Labels, n_labels: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], Array]:
    """Return connected regions of one label, numbered from 0: the number of each pixel, sizes, and labels."""
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
    """Count, for every region that is small, the labels of pixels beside it that belong to regions that are not."""
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

    Small regions go first, so that an island in a lake does not keep the lake alive. A region that touches only small
    ones waits until they have grown together.
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
            if not decided.any():  # there are only small regions
                break
            owners[decided] = votes[decided].argmax(axis=1)
            labels = owners[numbers]
    return labels


def compose(images: list[Array], labels: Labels, seam: float) -> Array:
    """Take every pixel from its source, mixed over a seam of about `seam` pixels where sources meet."""
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
