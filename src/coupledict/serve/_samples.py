"""Sample files for users without files of their own, from scikit-image and from this package.

The voice is synthetic. The rights of all photographs are stated in ``images/models/CREDITS.md``. The shipped models
have not learned from the picture that is enlarged.
"""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from ..audio._files import write_blocks
from ..foundation.packages import broken_package, is_missing
from ..images._files import Picture, write_image
from ..images._resize import imresize
from ._uploads import Upload
from ._voice import TELEPHONE_RATE, telephone_voice

#: Notes for the user about these files.
STACK_NOTE = "Our pictures are one photograph, defocused according to an invented depth map."
SMALL_NOTE = "Our picture is part of a photograph of tissue under a microscope, reduced to half its size."
VOICE_NOTE = "Our recording is a synthetic voice without words, as it sounds over a telephone."
NEAR, FAR = 0.8, 0.2  # what is in focus: the front of the table, and its back
IN_FOCUS, FADE = 0.32, 0.06  # depth of field on either side, and distance per level of blur
BLURS = (0.0, 0.5, 1.0, 1.6, 2.3, 3.0, 3.8)  # standard deviations of the levels, in pixels


def _photographs() -> Any:
    try:
        from skimage import data
    except ImportError as error:
        if not is_missing(error, "skimage"):
            raise broken_package(error, "scikit-image", "images") from error
        raise ImportError(
            'Expected scikit-image to be installed, for its pictures. Install it: pip install "coupledict[images]"'
        ) from error
    return data


def focus_stack(folder: Path) -> list[Upload]:
    """Write a photograph of a cup on a table twice, in focus near and far.

    The table is seen from above and in front, so points lower in the picture are taken to be nearer.
    """
    data = _photographs()
    sharp = data.coffee()
    nearness = np.linspace(0, 1, sharp.shape[0])  # of each row
    levels = np.stack([ndimage.gaussian_filter(sharp, (sigma, sigma, 0)) for sigma in BLURS])
    made = []
    for name, focus in (("near.png", NEAR), ("far.png", FAR)):
        out = np.maximum(np.abs(nearness - focus) - IN_FOCUS, 0) / FADE
        level = np.minimum(np.rint(out), len(BLURS) - 1).astype(np.intp)
        made.append(_write(folder, name, levels[level, np.arange(len(level))]))
    return made


def small_picture(folder: Path) -> list[Upload]:
    """Write a part of a photograph, reduced in size."""
    data = _photographs()
    return [_write(folder, "tissue.png", imresize(data.immunohistochemistry()[50:450], 1 / 2))]


def telephone_call(folder: Path) -> list[Upload]:
    """Write a synthetic voice with the band of a telephone."""
    path = folder / "sample.wav"
    write_blocks(path, [telephone_voice()[:, None]], TELEPHONE_RATE, 1, "PCM_16")
    return [Upload(path, "call.wav")]


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
