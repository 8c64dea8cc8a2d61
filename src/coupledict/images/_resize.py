"""Resize images as MATLAB does: a cubic kernel, widened when an image shrinks.

Resizing is linear and separable: each axis is multiplied by a matrix with few nonzeros per row. A block of its rows
depends on a short range of the axis, so the product is computed as one small dense product per block.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..foundation.tensors import as_array
from ..parallel.blas import one_blas_thread
from ._grey import check_dtype

KERNEL_WIDTH = 4.0
Block: TypeAlias = tuple[slice, slice, Array]


def cubic(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the cubic convolution kernel with a = -1/2 (Keys, 1981), which reproduces parabolas."""
    x = np.abs(x)
    inner = (1.5 * x - 2.5) * x**2 + 1.0
    outer = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x <= 1, inner, np.where(x <= 2, outer, 0.0))


def contributions(
    n_in: int, n_out: int, scale: float, *, antialias: bool = True
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the inputs that each output depends on, and their weights, both of shape (n_out, n_taps).

    Beyond its ends, an axis repeats its outermost value.
    """
    stretch = min(scale, 1.0) if antialias else 1.0  # a shrinking image is smoothed: the kernel spans more inputs
    width = KERNEL_WIDTH / stretch
    centre = (np.arange(1, n_out + 1) / scale + 0.5 * (1 - 1 / scale))[:, None]  # counted from 1, as MATLAB does
    places = np.floor(centre - width / 2) + np.arange(math.ceil(width) + 2)
    weights = stretch * cubic(stretch * (centre - places))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.clip(places.astype(np.int64) - 1, 0, n_in - 1), weights


def dense(places: npt.NDArray[np.int64], weights: npt.NDArray[np.float64], first: int, last: int) -> Array:
    """Return the dense matrix that maps the inputs `first` to `last` to some outputs."""
    matrix = np.zeros((places.shape[0], last - first + 1))
    inside = (places >= first) & (places <= last)
    rows = np.broadcast_to(np.arange(places.shape[0])[:, None], places.shape)
    np.add.at(matrix, (rows[inside], places[inside] - first), weights[inside])
    return matrix


@lru_cache(maxsize=64)
def blocks(n_in: int, n_out: int, scale: float, antialias: bool, dtype: np.dtype[Any], size: int) -> tuple[Block, ...]:
    """Return the blocks of the resizing matrix: `size` outputs, the inputs they depend on, and the dense matrix."""
    places, weights = contributions(n_in, n_out, scale, antialias=antialias)
    found = []
    for start in range(0, n_out, size):
        some, values = places[start : start + size], weights[start : start + size]
        used = some[values != 0]
        first, last = int(used.min()), int(used.max())
        matrix = dense(some, values, first, last).astype(dtype)
        matrix.flags.writeable = False
        found.append((slice(start, start + some.shape[0]), slice(first, last + 1), matrix))
    return tuple(found)


def store(values: Array, out: Array) -> None:
    """Write floats into an array; for integers, round to nearest (halves up) and clip to their range.

    `values` may be overwritten.
    """
    if out.dtype.kind == "u":
        np.floor(np.add(values, 0.5, out=values), out=values)
        np.clip(values, 0, np.iinfo(out.dtype).max, out=values)
    out[...] = values


def _resize_axis(plane: Array, axis: int, n_out: int, scale: float, antialias: bool) -> Array:
    # The last bits of a float32 sum must not decide how it is rounded, so integers are summed in float64.
    dtype = np.dtype(np.float64) if plane.dtype.kind == "u" else plane.dtype
    out: Array = np.empty((n_out, plane.shape[1]) if axis == 0 else (plane.shape[0], n_out), plane.dtype)
    for outputs, inputs, matrix in blocks(plane.shape[axis], n_out, scale, antialias, dtype, SIZES.resized_pixels):
        if axis == 0:
            store(matrix @ plane[inputs].astype(dtype, copy=False), out[outputs])
        else:
            store(plane[:, inputs].astype(dtype, copy=False) @ matrix.T, out[:, outputs])
    return out


def _resize_plane(
    plane: Array, size: tuple[int, int], scales: tuple[float, float], antialias: bool, out: Array
) -> None:
    for axis in (0, 1) if scales[0] <= scales[1] else (1, 0):
        if plane.shape[axis] != size[axis] or scales[axis] != 1:
            plane = _resize_axis(plane, axis, size[axis], scales[axis], antialias)
    out[...] = plane


def _target(size: tuple[int, int], scale: object, shape: object) -> tuple[tuple[int, int], tuple[float, float]]:
    """Return the size of the result, and the scale of each axis."""
    if (scale is None) == (shape is None):
        raise ValueError(f"Expected either scale or shape, got {'neither' if scale is None else 'both'}.")
    if shape is not None:
        wanted = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else ()
        if len(wanted) != 2 or any(isinstance(n, bool) or not isinstance(n, numbers.Integral) for n in wanted):
            raise TypeError(f"Expected shape to be two integers (rows, columns), got {shape!r}.")
        if min(wanted) < 1:
            raise ValueError(f"Expected shape to be at least (1, 1), got {shape!r}.")
        return (int(wanted[0]), int(wanted[1])), (wanted[0] / size[0], wanted[1] / size[1])
    factors: Any = (scale, scale) if isinstance(scale, numbers.Real) else scale
    if (
        not isinstance(factors, Sequence)
        or len(factors) != 2
        or any(isinstance(factor, bool) or not isinstance(factor, numbers.Real) for factor in factors)
    ):
        raise TypeError(f"Expected scale to be a number or two numbers (rows, columns), got {scale!r}.")
    rows, columns = float(factors[0]), float(factors[1])
    if not (0 < rows < math.inf and 0 < columns < math.inf):
        raise ValueError(f"Expected scale to be positive and finite, got {scale!r}.")
    return (math.ceil(rows * size[0]), math.ceil(columns * size[1])), (rows, columns)


def imresize(
    image: npt.ArrayLike,
    scale: float | tuple[float, float] | None = None,
    *,
    shape: tuple[int, int] | None = None,
    antialias: bool = True,
) -> Array:
    """Resize an image by cubic interpolation, as MATLAB's ``imresize`` does.

    The kernel is Keys' cubic with a = -1/2 [1]_. When an image shrinks, the kernel is widened by the same factor, so
    that detail too fine for the small image is smoothed away. Beyond its edges, an image repeats its outermost pixels.
    The axis that shrinks most is resized first; integers are rounded after each axis. The low-resolution images of
    super-resolution benchmarks are made this way, and this function reproduces them to the last bit.

    Parameters
    ----------
    image : array of shape (rows, columns) or (rows, columns, channels)
        uint8, uint16, float32 or float64.
    scale : float or pair of float, optional
        Factor for both axes, or for rows and columns. The size of the result is rounded up.
    shape : pair of int, optional
        Rows and columns of the result, instead of `scale`.
    antialias : bool, default=True
        Widen the kernel where the image shrinks.

    Returns
    -------
    array
        Of the number type of `image`. Integers are clipped to their range, floats are not.

    References
    ----------
    .. [1] R. Keys, "Cubic Convolution Interpolation for Digital Image Processing", IEEE Transactions on Acoustics,
       Speech, and Signal Processing 29(6), 1981.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.images import imresize
    >>> ramp = np.arange(12, dtype=np.uint8).reshape(1, 12).repeat(6, axis=0)
    >>> imresize(ramp, 1 / 3)
    array([[ 1,  4,  7, 10],
           [ 1,  4,  7, 10]], dtype=uint8)
    >>> imresize(ramp, shape=(3, 6)).shape
    (3, 6)
    """
    array = as_array(image, "image")
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise ValueError(
            f"Expected image of shape (rows, columns) or (rows, columns, channels), all at least 1, got {array.shape}."
        )
    check_dtype(array, "image")
    size, scales = _target((array.shape[0], array.shape[1]), scale, shape)
    out: Array = np.empty(size + array.shape[2:], array.dtype)
    with one_blas_thread():
        if array.ndim == 2:
            _resize_plane(array, size, scales, antialias, out)
        else:
            for channel in range(array.shape[2]):
                _resize_plane(array[:, :, channel], size, scales, antialias, out[:, :, channel])
    return out
