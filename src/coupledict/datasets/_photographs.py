"""Views of photographs that ship with scikit-image: nothing is downloaded."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from ..foundation.arrays import Array
from ..foundation.checks import check_count, check_non_negative, check_truth, make_generator
from ._patches import check_enough, draw_places, patches_at, possible_starts
from ._results import MultiviewDataset, check_float_dtype, description

#: Photographs in the scikit-image wheel that are in the public domain or CC0.
PHOTOGRAPHS = ("astronaut", "camera", "chelsea", "coffee")

STEREO = (
    "The pictures and the disparity are 'motorcycle' of the Middlebury 2014 stereo data, reduced fourfold, as"
    " bundled with scikit-image (skimage.data.stereo_motorcycle).",
    "Please cite D. Scharstein et al., High-resolution stereo datasets with subpixel-accurate ground truth, GCPR 2014."
    " Neither Middlebury nor scikit-image states a licence.",
)


def load_stereo_patches(
    n_samples: int = 2000,
    *,
    patch_size: int = 8,
    center: bool = True,
    dtype: npt.DTypeLike = np.float64,
    random_state: Any = 0,
) -> MultiviewDataset:
    """Load patches of the same surface, seen by the left and the right camera of a stereo pair.

    A patch of the right picture is centred, to the nearest pixel, where the right camera sees the centre of the left
    patch. The pictures ship with scikit-image.

    Parameters
    ----------
    n_samples : int, default=2000
        Number of pairs of patches, at different positions; they may overlap.
    patch_size : int, default=8
        Side of the square patches.
    center : bool, default=True
        Whether to subtract the mean of each patch.
    dtype : {float64, float32}, default=float64
        Number type of the views; grey values are from 0 to 1.
    random_state : int, RandomState, Generator or None, default=0
        Determines the positions.

    Returns
    -------
    MultiviewDataset
        With the views ``left`` and ``right``.

    Examples
    --------
    >>> from coupledict.datasets import load_stereo_patches
    >>> data = load_stereo_patches(500)
    >>> data
    MultiviewDataset: left (500, 64), right (500, 64)
    >>> data.shapes["left"]
    (8, 8)
    """
    side, number_type, rng = _settings(patch_size, center, dtype, random_state)
    left, right, disparity = _stereo()
    starts = possible_starts(left.shape, side)
    rows, columns = np.nonzero(starts)
    # Disparity is the distance to the left, in columns, at which the right camera sees a point.
    shifts = disparity[rows + side // 2, columns + side // 2]
    inside = np.isfinite(shifts) & (columns - np.rint(np.where(np.isfinite(shifts), shifts, 0)) >= 0)
    starts[rows[~inside], columns[~inside]] = False
    rows, columns = draw_places(starts, n_samples, rng)
    shifts = np.rint(disparity[rows + side // 2, columns + side // 2]).astype(np.intp)
    views = {
        "left": patches_at(left, (rows, columns), side, center=center, dtype=number_type),
        "right": patches_at(right, (rows, columns - shifts), side, center=center, dtype=number_type),
    }
    summary = f"{n_samples} pairs of patches of {side} x {side} pixels of a stereo pair; each shows the same surface."
    return MultiviewDataset(views, description(summary, *STEREO), dict.fromkeys(views, (side, side)))


def load_image_depth(
    n_samples: int = 2000,
    *,
    patch_size: int = 8,
    center: bool = True,
    missing: bool = False,
    dtype: npt.DTypeLike = np.float64,
    random_state: Any = 0,
) -> MultiviewDataset:
    """Load patches of a picture and of its depth.

    Depth is given as disparity: the distance, in pixels, between the two positions at which a pair of cameras sees a
    point, which is large for near points. The picture and its disparity ship with scikit-image.

    Parameters
    ----------
    n_samples : int, default=2000
        Number of patches, at different positions; they may overlap.
    center : bool, default=True
        Whether to subtract the mean of each patch, in both views.
    missing : bool, default=False
        Whether to include patches with unmeasured disparities: 7 % of the pixels, NaN in the view.
        Learners then need ``missing="nan"``.
    patch_size, dtype, random_state
        As in :func:`load_stereo_patches`.

    Returns
    -------
    MultiviewDataset
        With the views ``image`` and ``disparity``.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.datasets import load_image_depth
    >>> data = load_image_depth(500)
    >>> data
    MultiviewDataset: image (500, 64), disparity (500, 64)
    >>> gaps = np.isnan(load_image_depth(500, missing=True).views["disparity"])
    >>> bool(gaps.any())
    True
    """
    side, number_type, rng = _settings(patch_size, center, dtype, random_state)
    check_truth(missing, "missing")
    left, _, disparity = _stereo()
    known = np.isfinite(disparity)
    starts = possible_starts(left.shape, side)
    if not missing:
        whole = np.lib.stride_tricks.sliding_window_view(known, (side, side)).all(axis=(2, 3))
        starts[: whole.shape[0], : whole.shape[1]] &= whole
    places = draw_places(starts, n_samples, rng)
    views = {
        "image": patches_at(left, places, side, center=center, dtype=number_type),
        "disparity": patches_at(np.where(known, disparity, np.nan), places, side, center=center, dtype=number_type),
    }
    summary = f"{n_samples} patches of {side} x {side} pixels of a picture, and of its disparity in pixels."
    return MultiviewDataset(views, description(summary, *STEREO), dict.fromkeys(views, (side, side)))


def load_sharp_blurred(
    n_samples: int = 2000,
    *,
    patch_size: int = 8,
    sigma: float = 2.0,
    center: bool = True,
    dtype: npt.DTypeLike = np.float64,
    random_state: Any = 0,
) -> MultiviewDataset:
    """Load patches of photographs, and the same patches out of focus.

    The photographs ship with scikit-image; a Gaussian filter blurs them.

    Parameters
    ----------
    n_samples : int, default=2000
        Number of patches, divided evenly among four photographs, at different positions; they may overlap.
    sigma : float, default=2.0
        Width of the Gaussian, in pixels.
    patch_size, center, dtype, random_state
        As in :func:`load_stereo_patches`.

    Returns
    -------
    MultiviewDataset
        With the views ``sharp`` and ``blurred``; `target` is the number of the photograph, and `target_names` has
        their names.

    Examples
    --------
    >>> from coupledict.datasets import load_sharp_blurred
    >>> data = load_sharp_blurred(500, sigma=1.5)
    >>> data
    MultiviewDataset: sharp (500, 64), blurred (500, 64); 4 classes
    >>> bool(data.views["sharp"].std() > data.views["blurred"].std())
    True
    """
    side, number_type, rng = _settings(patch_size, center, dtype, random_state)
    width = check_non_negative(sigma, "sigma")
    pictures = [_grey(getattr(_need("skimage.data"), name)()) for name in PHOTOGRAPHS]
    starts = [possible_starts(picture.shape, side) for picture in pictures]
    check_enough(n_samples, len(PHOTOGRAPHS) * min(int(places.sum()) for places in starts))
    target = np.arange(n_samples) % len(PHOTOGRAPHS)
    views = {name: np.empty((n_samples, side * side), number_type) for name in ("sharp", "blurred")}
    for number in np.unique(target):
        picture, mine = pictures[number], target == number
        places = draw_places(starts[number], int(mine.sum()), rng)
        for view, shown in zip(views.values(), (picture, ndimage.gaussian_filter(picture, width)), strict=True):
            view[mine] = patches_at(shown, places, side, center=center, dtype=number_type)
    summary = (
        f"{n_samples} patches of {side} x {side} pixels of four photographs, and of copies blurred by a Gaussian of"
        f" width {width:g}: {', '.join(PHOTOGRAPHS)}, as bundled with scikit-image."
    )
    rights = "astronaut (NASA) is in the public domain; camera, chelsea and coffee are CC0."
    return MultiviewDataset(
        views, description(summary, rights), dict.fromkeys(views, (side, side)), target, list(PHOTOGRAPHS)
    )


def _settings(
    patch_size: int, center: bool, dtype: npt.DTypeLike, random_state: Any
) -> tuple[int, np.dtype[Any], np.random.Generator]:
    """Check the parameters that all loaders of patches share."""
    check_truth(center, "center")
    return check_count(patch_size, "patch_size"), check_float_dtype(dtype), make_generator(random_state)


def _stereo() -> tuple[Array, Array, Array]:
    """Return the left and the right picture in grey, and the disparity of the left one; infinite where unknown."""
    left, right, disparity = _need("skimage.data").stereo_motorcycle()
    return _grey(left), _grey(right), np.asarray(disparity, np.float64)


def _grey(picture: Array) -> Array:
    """Return a picture in grey values from 0 to 1."""
    if picture.ndim == 3:
        return np.asarray(_need("skimage.color").rgb2gray(picture), np.float64)
    return np.asarray(picture, np.float64) / 255


def _need(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            "Expected scikit-image to be installed, for its bundled pictures. Install it with: pip install"
            ' "coupledict[images]"'
        ) from error
