"""The pictures of a stack, read one at a time: arrays, or files that are opened when they are needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..foundation.arrays import Array
from ..foundation.tensors import as_numpy
from ._files import read_image
from ._fusion_pictures import as_image, check_size, unit_scale

MOST_SOURCES = 65535


class Stack:
    """The sources of a fusion.

    Parameters
    ----------
    images : list of arrays or paths
        Arrays are checked at once, files when they are read.
    side : int
        Side of a patch; pictures must be at least as large.

    Attributes
    ----------
    shape, dtype
        Shape and number type of all sources; known once the first one has been read.
    """

    def __init__(self, images: Any, side: int) -> None:
        images = as_numpy(images, "images")
        if isinstance(images, str | bytes | os.PathLike) or not isinstance(images, Sequence | np.ndarray):
            raise TypeError(f"Expected images to be a list of images or of files, got {type(images).__name__}.")
        if not 2 <= len(images) <= MOST_SOURCES:
            raise ValueError(f"Expected at least two images to fuse, got {len(images)}.")
        self._side = side
        self._sources: list[Any] = [
            image if isinstance(image, str | os.PathLike) else as_image(image, f"images[{number}]")
            for number, image in enumerate(images)
        ]
        self._first: tuple[str, tuple[int, ...], np.dtype[Any]] | None = None
        self._scale: float | None = None
        arrays = [source for source in self._sources if isinstance(source, np.ndarray)]
        for number, source in enumerate(self._sources):
            if isinstance(source, np.ndarray):
                self._check(number, source)
        if arrays:
            self._scale = 255 * unit_scale(arrays)

    def __len__(self) -> int:
        return len(self._sources)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of every source."""
        assert self._first is not None
        return self._first[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type of every source."""
        assert self._first is not None
        return self._first[2]

    @property
    def scale(self) -> float:
        """Factor that maps the values of sources to 0 to 255."""
        if self._scale is None:
            self._scale = 255 / float(np.iinfo(self.dtype).max)  # files hold 8 or 16 bits
        return self._scale

    def read(self, number: int) -> Array:
        """Return a source; raise unless it has the shape and number type of the others."""
        source = self._sources[number]
        pixels: Array = source if isinstance(source, np.ndarray) else read_image(source).pixels
        self._check(number, pixels)
        return pixels

    def name(self, number: int) -> str:
        """Return the name of a source in messages."""
        source = self._sources[number]
        return f"images[{number}]" if isinstance(source, np.ndarray) else f"'{os.fspath(source)}'"

    def _check(self, number: int, pixels: Array) -> None:
        if self._first is None:
            check_size(pixels, self.name(number), self._side)
            self._first = (self.name(number), pixels.shape, pixels.dtype)
            return
        name, shape, dtype = self._first
        if pixels.shape != shape:
            raise ValueError(
                f"Expected images of one shape, got {shape} in {name} and {pixels.shape} in {self.name(number)}."
                " Crop or convert them first."
            )
        if pixels.dtype != dtype:
            raise ValueError(
                f"Expected images of one number type, got {dtype} in {name} and {pixels.dtype} in"
                f" {self.name(number)}. Convert them first."
            )
