"""Sample files for users without files of their own, from scikit-image and from this package.

The photograph of a motorcycle has a disparity map, so it can be put out of focus as by a lens; the shipped models have
not learned from it.
"""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from ..images._files import Picture, write_image
from ..images._resize import imresize
from ._uploads import Upload

NEAR, FAR = 48.0, 18.0  # disparities in focus, in pixels: the motorcycle, and the wall behind it
IN_FOCUS, FADE = 16.0, 3.0  # range of disparities that is sharp, and disparities per level of blur
#: What the user should know about these pictures.
STACK_NOTE = "Our pictures are one photograph, put out of focus by a map of its distances."
SMALL_NOTE = "Our picture is part of a photograph, made half as large."
BLURS = (0.0, 0.7, 1.2, 1.8, 2.5, 3.2)  # standard deviations of the levels, in pixels


def _motorcycle() -> Any:
    try:
        from skimage import data
    except ImportError as error:
        raise ImportError(
            'Expected scikit-image to be installed, for its pictures. Install it: pip install "coupledict[images]"'
        ) from error
    return data.stereo_motorcycle()  # type: ignore[no-untyped-call]


def focus_stack(folder: Path) -> list[Upload]:
    """Write a photograph twice, in focus near and far."""
    sharp, _, disparity = _motorcycle()
    known = np.isfinite(disparity)
    nearest = ndimage.distance_transform_edt(~known, return_distances=False, return_indices=True)
    depth = ndimage.median_filter(disparity[tuple(nearest)], 9)
    levels = np.stack([ndimage.gaussian_filter(sharp, (sigma, sigma, 0)) for sigma in BLURS])
    made = []
    for name, focus in (("near.png", NEAR), ("far.png", FAR)):
        out = np.maximum(np.abs(depth - focus) - IN_FOCUS, 0) / FADE
        level = np.minimum(np.rint(out), len(BLURS) - 1).astype(np.intp)
        made.append(_write(folder, name, np.take_along_axis(levels, level[None, ..., None], 0)[0]))
    return made


def small_picture(folder: Path) -> list[Upload]:
    """Write a small part of a photograph, made smaller."""
    sharp, _, _ = _motorcycle()
    return [_write(folder, "motorcycle.png", imresize(sharp[50:450, 140:700], 1 / 2))]


def model(folder: Path) -> list[Upload]:
    """Copy the shipped model for fusion."""
    path = folder / "sample"
    with resources.as_file(resources.files("coupledict.images") / "models" / "fusion.safetensors") as shipped:
        shutil.copyfile(shipped, path)
    return [Upload(path, "fusion.safetensors")]


def _write(folder: Path, name: str, pixels: npt.NDArray[Any]) -> Upload:
    path = folder / f"sample-{name}"
    write_image(path, Picture(np.ascontiguousarray(pixels)))
    return Upload(path, name)
