"""The pictures of a job: stored whole on disk, and served smaller, in tiles, or in another format on request.

A picture is stored as a NumPy file, which is mapped into memory: a tile costs only its own pixels, however large the
picture is. Formats and the views of all sources are made on request.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.packages import need_package
from ..images._files import Picture, write_image
from ._lazy_files import LazyFiles

Pixels = npt.NDArray[Any]
Loader = Callable[[], Picture]

#: Formats of results as the page names them, and their suffixes.
FORMATS = {"JPEG": ".jpg", "PNG": ".png", "TIFF": ".tif"}
MOST_LOADED = 2  # pictures on disk that were loaded for viewing; older ones are removed
FAST = 1  # compression level of pictures for display, which only go to this machine's browser
VIEW_QUALITY = 92


@dataclass(frozen=True)
class DisplaySize:
    """The parts in which the page gets a picture.

    Attributes
    ----------
    most_pixels : int
        Most pixels shown at once; larger pictures are shown smaller, and in tiles.
    tile : int
        Side of a tile, in pixels.
    """

    most_pixels: int = 4_000_000
    tile: int = 512


class Pictures:
    """The pictures of one job.

    Parameters
    ----------
    folder : Path
        For their files.
    files : LazyFiles
        Makes views and formats.
    display : DisplaySize
    """

    def __init__(self, folder: Path, files: LazyFiles, display: DisplaySize) -> None:
        self.display = display
        self._folder = folder
        self._files = files
        self._like: dict[str, Picture] = {}  # profile and other metadata of the pictures on disk, without pixels
        self._loaders: dict[str, Loader] = {}
        self._loaded: list[str] = []  # by loaders, the latest last

    def keep(self, name: str, picture: Picture) -> dict[str, Any]:
        """Store a picture; return what the page needs to show it, as JSON."""
        self._write(name, picture)
        return self._describe(name, picture.pixels.shape)

    def promise(self, name: str, shape: tuple[int, ...], load: Loader) -> dict[str, Any]:
        """Register a picture of this shape that is loaded when viewed; return as `keep` does.

        It has 8 bits, and stays on disk only until a few others of its kind are viewed.
        """
        self._loaders[name] = load
        return self._describe(name, shape)

    @property
    def promised(self) -> bool:
        """Whether there are pictures that will be loaded when viewed."""
        return bool(self._loaders)

    def offer(self, name: str, download: str) -> list[dict[str, str]]:
        """Offer a stored picture for download in all formats; return them, as JSON."""
        for suffix in FORMATS.values():
            self._files.offer(name + suffix, lambda path: write_image(path, self._read(name)))
        return [{"format": kind, "file": name + suffix, "name": download + suffix} for kind, suffix in FORMATS.items()]

    def tile(self, name: str, row: int, column: int) -> bytes | None:
        """Return a tile of a picture as PNG; None if there is no such tile."""
        with self._files.display_lock:
            if name not in self._like and name not in self._loaders:
                return None
            self._ensure(name)
            part = self._read_tile(name, row, column)
        if row < 0 or column < 0 or part.size == 0:
            return None
        out = io.BytesIO()
        _save(out, replace(self._like[name], pixels=_eight_bits(part)), "PNG")
        return out.getvalue()

    def _describe(self, name: str, shape: tuple[int, ...]) -> dict[str, Any]:
        height, width = shape[:2]
        exact = height * width <= self.display.most_pixels or shape[2:] == (4,)  # JPEG has no transparency
        view = f"{name}-view{'.png' if exact else '.jpg'}"
        self._files.offer(view, lambda path: self._make_view(name, path), shown=True)
        return {"picture": name, "view": view, "width": width, "height": height, "tile": self.display.tile}

    def _make_view(self, name: str, path: Path) -> None:
        self._ensure(name)
        picture = self._read(name)
        picture = replace(picture, pixels=shrink(_eight_bits(picture.pixels), self.display.most_pixels))
        with path.open("wb") as file:
            _save(file, picture, "PNG" if path.suffix == ".png" else "JPEG")

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.npy"

    def _write(self, name: str, picture: Picture) -> None:
        np.save(self._path(name), picture.pixels)
        self._like[name] = replace(picture, pixels=np.empty((0, 0), np.uint8))

    def _read(self, name: str) -> Picture:
        return replace(self._like[name], pixels=np.load(self._path(name), allow_pickle=False))

    def _read_tile(self, name: str, row: int, column: int) -> Pixels:
        """Return a copy of some pixels: Windows does not remove a file that is mapped."""
        pixels = np.load(self._path(name), mmap_mode="r", allow_pickle=False)
        side = self.display.tile
        return np.array(pixels[row * side : (row + 1) * side, column * side : (column + 1) * side])

    def _ensure(self, name: str) -> None:
        """Load a registered picture unless it is on disk; remove those viewed long ago."""
        if name not in self._loaders:
            return
        if name in self._loaded:
            self._loaded.remove(name)
        else:
            picture = self._loaders[name]()
            self._write(name, replace(picture, pixels=_eight_bits(picture.pixels)))
        self._loaded.append(name)
        while len(self._loaded) > MOST_LOADED:
            self._path(self._loaded.pop(0)).unlink(missing_ok=True)


def _eight_bits(pixels: Pixels) -> Pixels:
    return (pixels >> 8).astype(np.uint8) if pixels.dtype == np.uint16 else np.ascontiguousarray(pixels)


def shrink(pixels: Pixels, most: int) -> Pixels:
    """Return an 8-bit picture with at most this many pixels, for display."""
    height, width = pixels.shape[:2]
    share = math.sqrt(most / (height * width))
    if share >= 1:
        return pixels
    size = (max(1, int(share * width)), max(1, int(share * height)))
    cv2 = _opencv()
    small: Pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return small


def _opencv() -> Any:
    return need_package("cv2", "OpenCV", "views of large pictures", "images")


def align(picture: Picture, matrix: npt.NDArray[np.float64], box: tuple[int, int, int, int]) -> Picture:
    """Return a source aligned with the fused picture, in 8 bits.

    Parameters
    ----------
    picture : Picture
    matrix : array of shape (3, 3)
        Maps positions (x, y, 1) in the reference to positions in the source; centres of pixels are whole numbers.
    box : tuple of int
        Top, left, bottom and right of the fused picture in the reference.
    """
    top, left, bottom, right = box
    pixels = _eight_bits(picture.pixels)
    if np.array_equal(matrix, np.eye(3)):
        return replace(picture, pixels=np.ascontiguousarray(pixels[top:bottom, left:right]))
    corner = np.eye(3)
    corner[:2, 2] = left, top
    cv2 = _opencv()
    size, how = (right - left, bottom - top), cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    return replace(picture, pixels=cv2.warpPerspective(pixels, matrix @ corner, size, flags=how))


def _save(file: Any, picture: Picture, kind: str) -> None:
    """Encode a picture for display only."""
    from PIL import Image

    options: dict[str, Any] = {} if picture.profile is None else {"icc_profile": picture.profile}
    options |= {"compress_level": FAST} if kind == "PNG" else {"quality": VIEW_QUALITY, "subsampling": 0}
    Image.fromarray(picture.pixels).save(file, kind, **options)
