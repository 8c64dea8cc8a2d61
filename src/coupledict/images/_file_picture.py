"""The contents of an image file: pixels, colour profile and EXIF data, and what its header says about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Picture:
    """The pixels of a file: (height, width) or (height, width, 3 or 4), 8 or 16 bit, its colour profile and EXIF data.

    The EXIF data are clean: see :mod:`coupledict.images._file_metadata`. `lost_profile` is true if the file has a
    profile that is not passed on: see :mod:`coupledict.images._file_profile`.
    """

    pixels: npt.NDArray[Any]
    profile: bytes | None = None
    exif: bytes | None = None
    lost_profile: bool = False


@dataclass(frozen=True)
class ImageHeader:
    """The header of a file: shape and number type of the pixels as they will be read, colour profile and EXIF data."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    profile: bytes | None = None
    exif: bytes | None = None
    lost_profile: bool = False

    def __str__(self) -> str:
        kind = {2: "grey"}.get(len(self.shape)) or {3: "colour", 4: "colour with alpha"}[self.shape[2]]
        return f"{self.shape[1]} x {self.shape[0]} pixels of {8 * self.dtype.itemsize}-bit {kind}"
