"""Extraction of patches from images, and their assembly: strided windows, and means where patches overlap.

Patches lie on a grid: every `stride` pixels along each axis, with one more patch at the far edge if the last one does
not end there, so that every pixel is covered. A band is a slice of the first axis that holds whole rows of that grid;
the patches of all bands in turn are the patches of the image. So a large image can be processed in bounded memory.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array, common_dtype
from ..foundation.block_sizes import SIZES
from ..foundation.checks import check_count, make_generator
from ..foundation.tensors import as_array

Shape: TypeAlias = tuple[int, ...]
Stride: TypeAlias = int | Sequence[int]
PatchSize: TypeAlias = int | Sequence[int]


def check_shape(shape: object, name: str) -> Shape:
    """Return `shape` as a tuple of positive integers."""
    if not isinstance(shape, Sequence) or isinstance(shape, str) or not shape:
        raise TypeError(f"Expected {name} to be a tuple of integers, one per axis, got {shape!r}.")
    return tuple(check_count(size, f"{name}[{axis}]") for axis, size in enumerate(shape))


def check_patch_size(patch_size: object) -> Shape:
    """Return the size of a patch along each axis; a single number is the side of a square patch."""
    if isinstance(patch_size, int | np.integer):
        return (check_count(patch_size, "patch_size"),) * 2
    if not isinstance(patch_size, Sequence) or isinstance(patch_size, str) or not patch_size:
        raise TypeError(
            f"Expected patch_size to be an integer or a tuple of integers, one per axis, got {patch_size!r}."
        )
    return check_shape(patch_size, "patch_size")


def check_stride(stride: object, n_axes: int) -> Shape:
    """Return one stride for each axis of a patch."""
    if isinstance(stride, int | np.integer):
        return (check_count(stride, "stride"),) * n_axes
    strides = check_shape(stride, "stride")
    if len(strides) != n_axes:
        raise ValueError(f"Expected stride to be an integer or {n_axes} of them, one per axis, got {stride!r}.")
    return strides


def check_image(image: object, patch_size: object) -> tuple[Array, Shape]:
    """Return the image as an array and the size of a patch, which must fit into it; channels may come last."""
    array, patch = as_array(image, "image"), check_patch_size(patch_size)
    if array.ndim not in (len(patch), len(patch) + 1):
        raise ValueError(
            f"Expected an image of {len(patch)} dimensions for patches of shape {patch}, or one more for channels,"
            f" got shape {array.shape}."
        )
    if any(size > room for size, room in zip(patch, array.shape, strict=False)):
        raise ValueError(
            f"Expected an image at least as large as a patch {patch}, got shape {array.shape}. Use smaller patches."
        )
    return array, patch


def patch_grid(image_shape: Sequence[int], patch_size: PatchSize, *, stride: Stride = 1) -> list[Array]:
    """Return the first pixels of patches along each axis of a patch.

    Patches begin every `stride` pixels; one more is aligned to the far edge if the last one does not end there. The
    patches of an image lie at all combinations of these positions, the last axis changing fastest.

    Examples
    --------
    >>> [axis.tolist() for axis in patch_grid((10, 8), (4, 4), stride=4)]
    [[0, 4, 6], [0, 4]]
    """
    grid, patch = [], check_patch_size(patch_size)
    for room, size, step in zip(image_shape, patch, check_stride(stride, len(patch)), strict=False):
        starts = np.arange(0, room - size + 1, step)
        grid.append(starts if starts[-1] == room - size else np.append(starts, room - size))
    return grid


class PatchOptions(TypedDict, total=False):
    """Options of :func:`extract_patches` that choose patches."""

    stride: Stride
    mask: npt.ArrayLike | None
    max_patches: int | None
    random_state: Any


@overload
def extract_patches(
    image: npt.ArrayLike,
    patch_size: PatchSize,
    *,
    return_positions: Literal[False] = ...,
    **options: Unpack[PatchOptions],
) -> Array: ...
@overload
def extract_patches(
    image: npt.ArrayLike, patch_size: PatchSize, *, return_positions: Literal[True], **options: Unpack[PatchOptions]
) -> tuple[Array, Array]: ...
def extract_patches(
    image: npt.ArrayLike,
    patch_size: PatchSize,
    *,
    stride: Stride = 1,
    mask: npt.ArrayLike | None = None,
    max_patches: int | None = None,
    random_state: Any = None,
    return_positions: bool = False,
) -> Array | tuple[Array, Array]:
    """Extract patches from an image.

    Patches begin every `stride` pixels along each axis; if that leaves pixels uncovered, one more patch is aligned to
    the far edge. Patches are in the order of their positions, the last axis changing fastest.

    Parameters
    ----------
    image : array of shape (height, width), (depth, height, width), ..., with channels last or without
        Of any number type. A memory-mapped image is read only where patches lie. Arrays of PyTorch, JAX and others are
        read in place.
    patch_size : int or tuple of int
        Side of square patches, or the size of a patch along each axis except that of the channels. An image with one
        more axis has channels, and every patch holds all of them.
    stride : int or tuple of int, default=1
        Distance between neighbouring patches, for all axes or for each one.
    mask : array of bool, of the shape of the image without channels, optional
        Take only patches that lie entirely where it is true.
    max_patches : int, optional
        If there are more patches, draw this many of them at random, without replacement; they keep their order.
    random_state : int, RandomState, Generator or None
        Randomness of the draw. The same seed draws the same positions, whatever the values of the image.
    return_positions : bool, default=False
        Also return the position of the first pixel of each patch.

    Returns
    -------
    patches : array of shape ``(n_patches, *patch_size)`` or ``(n_patches, *patch_size, n_channels)``
        A copy. ``patches.reshape(len(patches), -1)`` are the rows that learners take.
    positions : array of shape (n_patches, n_axes)
        First pixel of each patch; only with ``return_positions=True``.

    See Also
    --------
    assemble_patches : The inverse.
    patch_bands : Slices of a large image whose patches fit into memory.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.images import extract_patches
    >>> image = np.arange(24).reshape(4, 6)
    >>> extract_patches(image, (2, 3), stride=3)[0]
    array([[0, 1, 2],
           [6, 7, 8]])
    >>> patches, positions = extract_patches(image, (2, 3), stride=3, return_positions=True)
    >>> positions.tolist()  # the second row of patches is aligned to the lower edge
    [[0, 0], [0, 3], [2, 0], [2, 3]]
    """
    array, patch = check_image(image, patch_size)
    grid = patch_grid(array.shape, patch, stride=stride)
    windows = np.lib.stride_tricks.sliding_window_view(array, patch, axis=tuple(range(len(patch))))
    if array.ndim > len(patch):
        windows = np.moveaxis(windows, len(patch), -1)
    shape = (-1, *windows.shape[len(patch) :])
    chosen = _choose(grid, array.shape[: len(patch)], patch, mask, max_patches, random_state)
    if chosen is None and not return_positions:
        patches: Array = windows[_places(*grid)].reshape(shape)
        return patches.copy() if np.may_share_memory(patches, array) else patches
    sizes = tuple(map(len, grid))
    numbers = np.arange(math.prod(sizes)) if chosen is None else chosen
    positions = [starts[i] for starts, i in zip(grid, np.unravel_index(numbers, sizes), strict=True)]
    patches = windows[tuple(positions)].reshape(shape)
    return (patches, np.stack(positions, axis=1)) if return_positions else patches


def _choose(
    grid: list[Array], room: Shape, patch: Shape, mask: npt.ArrayLike | None, max_patches: int | None, random_state: Any
) -> Array | None:
    """Return the indices of the patches to take, None for all."""
    total = math.prod(map(len, grid))
    inside = None if mask is None else np.flatnonzero(_covered(mask, room, patch)[np.ix_(*grid)])
    if max_patches is None:
        return inside
    rng, available = make_generator(random_state), total if inside is None else len(inside)
    if check_count(max_patches, "max_patches") >= available:
        return inside
    drawn = np.sort(rng.choice(available, max_patches, replace=False, shuffle=False))
    return drawn if inside is None else inside[drawn]


def _covered(mask: npt.ArrayLike, room: Shape, patch: Shape) -> npt.NDArray[np.bool_]:
    """Return, for every position, whether a patch there lies entirely inside the mask."""
    covered: Array = as_array(mask, "mask")
    if covered.dtype != np.bool_ or covered.shape != room:
        raise ValueError(
            f"Expected mask to be of bool and of shape {room}, that of the image without channels, got"
            f" {covered.dtype} and {covered.shape}."
        )
    for axis, size in enumerate(patch):
        windows = np.lib.stride_tricks.sliding_window_view(covered, size, axis=axis)
        covered = np.all(windows, axis=-1)
    return covered


def patch_bands(
    image_shape: Sequence[int],
    patch_size: PatchSize,
    *,
    stride: Stride = 1,
    max_bytes: int = 1 << 26,
    itemsize: int = 4,
) -> Iterator[slice]:
    """Split an image into bands whose patches fit into memory.

    A band is a slice of the first axis. The patches of ``image[band]``, band after band, are the patches of the image
    in order; neighbouring bands overlap where their patches do.

    Parameters
    ----------
    image_shape, patch_size, stride
        As for :func:`extract_patches`; the shape of the image may include channels.
    max_bytes : int, default=64 MiB
        Largest size of the patches of a band, in bytes. A band has at least one row of patches, however large.
    itemsize : int, default=4
        Bytes per value of a patch.

    Yields
    ------
    slice

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.images import extract_patches, patch_bands
    >>> image = np.random.default_rng(0).random((40, 30))
    >>> bands = list(patch_bands(image.shape, (8, 8), max_bytes=100_000))
    >>> bands[:2]
    [slice(0, 23, None), slice(16, 39, None)]
    >>> parts = [extract_patches(image[band], (8, 8)) for band in bands]
    >>> np.array_equal(np.concatenate(parts), extract_patches(image, (8, 8)))
    True
    """
    patch = check_patch_size(patch_size)
    first, *others = patch_grid(image_shape, patch, stride=stride)
    row_bytes = math.prod(map(len, others)) * math.prod(patch) * math.prod(image_shape[len(patch) :]) * itemsize
    n_rows = max(1, check_count(max_bytes, "max_bytes") // row_bytes)
    for start in range(0, len(first), n_rows):
        last = min(start + n_rows, len(first)) - 1
        yield slice(int(first[start]), int(first[last]) + patch[0])


def assemble_patches(
    patches: npt.ArrayLike,
    image_shape: Sequence[int],
    *,
    stride: Stride = 1,
    positions: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    fill: float | None = None,
) -> Array:
    """Assemble patches into an image: the weighted mean where they overlap.

    This is the inverse of :func:`extract_patches`: unchanged patches give the image back, up to rounding.

    Parameters
    ----------
    patches : array of shape ``(n_patches, *patch_size)`` or ``(n_patches, *patch_size, n_channels)``
        All patches of an image of this shape and stride, in order, unless `positions` says where they lie.
    image_shape : tuple of int
        Shape of the image, with channels if patches have them.
    stride : int or tuple of int, default=1
        The stride with which they were extracted.
    positions : array of int of shape (n_patches, n_axes), optional
        First pixel of each patch, as :func:`extract_patches` returns it. Patches may then lie anywhere in the image,
        and `stride` is not used.
    weights : array that broadcasts to the patches, optional
        Weight of each value of each patch: finite, not negative. An array of the size of a patch applies to all patches
        (``window[..., None]`` for patches with channels); ``w[:, None, None]`` weights whole patches.
    fill : float, optional
        Value of pixels that no patch covers with a positive weight. Without it, such pixels are an error.

    Returns
    -------
    array of shape image_shape
        float32 if patches are float32, float16 or integers of up to 16 bits, float64 otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.images import assemble_patches, extract_patches
    >>> image = np.random.default_rng(0).random((20, 30))
    >>> patches = extract_patches(image, (8, 8), stride=3)
    >>> np.allclose(assemble_patches(patches, image.shape, stride=3), image)
    True
    """
    values, shape = as_array(patches, "patches"), check_shape(image_shape, "image_shape")
    if values.ndim != len(shape) + 1:
        raise ValueError(
            f"Expected patches of {len(shape) + 1} dimensions for an image of shape {shape}, got shape {values.shape}."
        )
    assembly = Assembly(shape, values.shape[1:], stride=stride, dtype=common_dtype([values]))
    if positions is None:
        assembly.add(values, weights=weights)
    else:
        assembly.add_at(values, positions, weights=weights)
    return assembly.image(fill)


class Assembly:
    """An image that patches are added to, all at once, band by band, or at given positions.

    Sums run in the order of the rows of the grid, so the bits of the image do not depend on the bands.

    Parameters
    ----------
    image_shape, patch_size : tuple of int
        With channels, if the image has them.
    stride : int or tuple of int
    dtype : float32 or float64
    """

    def __init__(self, image_shape: Shape, patch_size: Shape, *, stride: Stride = 1, dtype: npt.DTypeLike) -> None:
        if any(size > room for size, room in zip(patch_size, image_shape, strict=True)):
            raise ValueError(f"Expected patches no larger than the image {image_shape}, got shape {patch_size}.")
        self.image_shape = image_shape
        self.patch_size = patch_size
        n_axes = len(image_shape)
        channels = isinstance(stride, Sequence) and len(stride) == n_axes - 1 and patch_size[-1] == image_shape[-1]
        self._stride = (*check_stride(stride, n_axes - channels), *(1,) * channels)
        self._sums = np.zeros(image_shape, dtype)
        self._weights = np.zeros(image_shape, dtype)

    def _check(self, patches: Array, weights: npt.ArrayLike | None) -> Array | None:
        """Check patches and weights; return weights of the shape of the patches, None for equal ones."""
        if patches.shape[1:] != self.patch_size:
            raise ValueError(f"Expected patches of shape {self.patch_size}, got {patches.shape[1:]}.")
        if patches.dtype.kind not in "fiub":
            raise TypeError(f"Expected patches to hold real numbers, got dtype {patches.dtype}.")
        if weights is None:
            return None
        given = as_array(weights, "weights").astype(self._sums.dtype, copy=False)
        if not np.isfinite(given).all() or np.any(given < 0):
            raise ValueError("Expected weights to be finite and not negative, got some that are not.")
        try:
            return np.broadcast_to(given, patches.shape)
        except ValueError:
            raise ValueError(
                f"Expected weights that broadcast to the patches, of shape {patches.shape}, got shape {given.shape}."
            ) from None

    def add(self, patches: Array, band: slice = slice(None), *, weights: npt.ArrayLike | None = None) -> None:
        """Add all patches of a band, or of the whole image."""
        sums, totals = self._sums[band], self._weights[band]
        grid = patch_grid(sums.shape, self.patch_size, stride=self._stride)
        sizes = tuple(map(len, grid))
        if len(patches) != math.prod(sizes):
            raise ValueError(
                f"Expected {math.prod(sizes)} patches of shape {self.patch_size} for an image of shape"
                f" {self.image_shape} and stride {self._stride}, got {len(patches)}."
            )
        factors = self._check(patches, weights)
        values = patches.reshape(*sizes, *self.patch_size)
        factors = None if factors is None else factors.reshape(values.shape)
        n_rows = max(1, SIZES.assembled_bytes * sizes[0] // values.nbytes)
        # With the pixels of a patch taken from last to first, the rows of the grid are added to each image pixel from
        # first to last: the order of summation is then the same for all blocks and bands.
        for start in range(0, sizes[0], n_rows):
            rows = slice(start, start + n_rows)
            places = _places(grid[0][rows], *grid[1:])
            for pixel in itertools.product(*(range(size - 1, -1, -1) for size in self.patch_size)):
                where = _shift(places, pixel)
                mine: Any = (rows, *(slice(None),) * (len(grid) - 1), *pixel)
                if factors is None:
                    sums[where] += values[mine]
                else:
                    sums[where] += values[mine] * factors[mine]
                    totals[where] += factors[mine]
        if factors is None:
            counts = [
                np.bincount((starts[:, None] + np.arange(size)).ravel(), minlength=room)
                for starts, size, room in zip(grid, self.patch_size, sums.shape, strict=True)
            ]
            totals += functools.reduce(np.multiply.outer, counts)

    def add_at(self, patches: Array, positions: npt.ArrayLike, *, weights: npt.ArrayLike | None = None) -> None:
        """Add patches that begin at these pixels; positions may leave out the channels."""
        places, n_axes = as_array(positions, "positions"), len(self.image_shape)
        channels = places.shape[1:] == (n_axes - 1,) and self.patch_size[-1] == self.image_shape[-1]
        if places.shape != (len(patches), n_axes - channels):
            raise ValueError(
                f"Expected positions of shape ({len(patches)}, {n_axes}), one row per patch, got {places.shape}."
            )
        if places.dtype.kind not in "iu":
            raise TypeError(f"Expected positions to be integers, got dtype {places.dtype}.")
        last = np.subtract(self.image_shape, self.patch_size)[: places.shape[1]]
        if np.any(places < 0) or np.any(places > last):
            raise ValueError(f"Expected positions from 0 to {last.tolist()}, got some outside.")
        factors = self._check(patches, weights)
        sums, totals = self._sums.reshape(-1), self._weights.reshape(-1)  # np.add.at is fast only with one flat index
        first = np.ravel_multi_index((*places.T, *([0],) * channels), self.image_shape)
        for pixel in itertools.product(*map(range, self.patch_size)):
            mine: Any = (slice(None), *pixel)
            where = first + np.ravel_multi_index(pixel, self.image_shape)
            weight = np.ones(len(patches), sums.dtype) if factors is None else factors[mine]
            np.add.at(sums, where, patches[mine] * weight)
            np.add.at(totals, where, weight)

    def image(self, fill: float | None = None) -> Array:
        """Return the weighted mean of the patches that were added."""
        empty = self._weights == 0
        n_empty = int(np.count_nonzero(empty))
        if n_empty and fill is None:
            raise ValueError(
                f"Expected patches that cover every pixel, got none with a positive weight for {n_empty} of"
                f" {empty.size}. Set fill to the value of such pixels."
            )
        return np.divide(self._sums, self._weights, out=np.full_like(self._sums, fill or 0), where=~empty)


def _places(*starts: Array) -> tuple[Any, ...]:
    """Return an index for all combinations of starts: slices if they are evenly spaced, else arrays."""
    steps = [int(s[1] - s[0]) if len(s) > 1 else 1 for s in starts]
    if all(s[-1] - s[0] == (len(s) - 1) * step for s, step in zip(starts, steps, strict=True)):
        return tuple(slice(int(s[0]), int(s[-1]) + 1, step) for s, step in zip(starts, steps, strict=True))
    return np.ix_(*starts)


def _shift(places: tuple[Any, ...], offset: Sequence[int]) -> tuple[Any, ...]:
    """Return an index shifted by an offset."""
    return tuple(
        slice(place.start + o, place.stop + o, place.step) if isinstance(place, slice) else place + o
        for place, o in zip(places, offset, strict=True)
    )
