"""Image files in and out: what is read keeps its bits, what is written appears whole or not at all.

TIFF goes through tifffile, which knows 16-bit colour; everything else through Pillow. Both come with scikit-image.
"""

from __future__ import annotations

import io
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _whole_file
from .._whole_file import replace_file

TIFF = (".tif", ".tiff")
#: Suffixes that images can be written with, and the Pillow format of each.
FORMATS = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".webp": "WEBP",
    ".bmp": "BMP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
}
WITHOUT_ALPHA = (".jpg", ".jpeg", ".bmp")
EIGHT_BIT_ONLY = (".jpg", ".jpeg", ".webp", ".bmp")
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Picture:
    """The pixels of a file: (height, width) or (height, width, 3 or 4), 8 or 16 bit, and its colour profile."""

    pixels: npt.NDArray[Any]
    profile: bytes | None = None


def _pillow() -> Any:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError(
            'Expected Pillow to be installed, for image files. Install it with: pip install "coupledict[images]"'
        ) from error
    return Image, ImageOps


def _tifffile() -> Any:
    try:
        import tifffile
    except ImportError as error:
        raise ImportError(
            'Expected tifffile to be installed, for TIFF files. Install it with: pip install "coupledict[images]"'
        ) from error
    return tifffile


def read_image(path: str | os.PathLike[str]) -> Picture:
    """Read a grey or colour image of 8 or 16 bits; turn it upright where the camera says it lies on its side.

    Raises
    ------
    OSError
        Where there is no such file, or where it is no image, truncated, or of a kind that would lose bits.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"Expected an image file, found none at '{file}'.")
    try:
        picture = _read_tiff(file) if file.suffix.lower() in TIFF else _read_with_pillow(file)
    except (ImportError, MemoryError):
        raise
    except _Unsupported as error:
        raise OSError(f"'{file}' cannot be used: {error}") from error
    except Exception as error:  # decoders raise whatever a broken file leads them to
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise OSError(f"'{file}' could not be read as an image: it is damaged or no image ({reason}).") from error
    if picture.pixels.size == 0:
        raise OSError(f"Expected '{file}' to have pixels, got an image of shape {picture.pixels.shape}.")
    return picture


class _Unsupported(Exception):  # noqa: N818
    """A sound file of a kind that is not handled."""


def _read_with_pillow(file: Path) -> Picture:
    Image, ImageOps = _pillow()
    with file.open("rb") as stream:
        head = stream.read(26)
    if head.startswith(PNG_SIGNATURE) and len(head) == 26 and head[24] == 16 and head[25] not in (0, 4):
        raise _Unsupported("16-bit colour PNG would be cut to 8 bits; save it as TIFF.")
    with warnings.catch_warnings():
        # A picture that claims to be huge is an error, not a warning that scrolls by.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file) as image:
            if getattr(image, "n_frames", 1) > 1:
                raise _Unsupported(f"it holds {image.n_frames} frames; save the one you want.")
            upright = ImageOps.exif_transpose(image)
            profile = image.info.get("icc_profile")
            return Picture(np.asarray(_plain_mode(upright)), profile if isinstance(profile, bytes) else None)


def _plain_mode(image: Any) -> Any:
    """Return an image as grey, grey of 16 bits, colour, or colour with alpha."""
    if image.mode in ("L", "RGB", "RGBA", "I;16"):
        return image
    if image.mode in ("1",):
        return image.convert("L")
    if image.mode in ("P", "PA", "LA", "La", "RGBa"):
        transparent = image.mode != "P" or "transparency" in image.info
        return image.convert("RGBA" if transparent else "RGB")
    if image.mode in ("CMYK", "YCbCr", "HSV", "LAB", "RGBX"):
        return image.convert("RGB")
    raise _Unsupported(f"its pixels are of the kind {image.mode!r}; save it as 8- or 16-bit grey or RGB.")


def _read_tiff(file: Path) -> Picture:
    tifffile = _tifffile()
    with tifffile.TiffFile(file) as tiff:
        if len(tiff.pages) != 1:
            raise _Unsupported(f"it holds {len(tiff.pages)} pages; save the one you want.")
        page = tiff.pages[0]
        pixels = page.asarray()
        tag = page.tags.get("InterColorProfile")
        profile = bytes(tag.value) if tag is not None else None
    if page.planarconfig == 2 and pixels.ndim == 3 and pixels.shape[0] in (3, 4):
        pixels = np.moveaxis(pixels, 0, -1)
    if pixels.dtype == bool:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    if pixels.dtype not in (np.uint8, np.uint16):
        raise _Unsupported(f"its pixels are {pixels.dtype}; save it with 8 or 16 bits.")
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim != 2 and not (pixels.ndim == 3 and pixels.shape[2] in (3, 4)):
        raise _Unsupported(f"its shape is {pixels.shape}; expected a grey or RGB image.")
    return Picture(pixels, profile)


def check_output(path: str | os.PathLike[str], *, force: bool) -> Path:
    """Say before the work begins whether an image can be written to a path."""
    return _whole_file.check_output(path, FORMATS, force=force)


def write_image(path: str | os.PathLike[str], picture: Picture, *, force: bool = False, quality: int = 95) -> None:
    """Write an image; the file appears whole or not at all.

    Alpha is put on white where the format has none, and 16 bits are cut to 8 where it has no more; 16-bit colour needs
    TIFF.
    """
    file = check_output(path, force=force)
    suffix = file.suffix.lower()
    pixels = np.ascontiguousarray(picture.pixels)
    if pixels.dtype == np.uint16 and suffix == ".png" and pixels.ndim == 3:
        raise ValueError(f"16-bit colour is not written as PNG; use a name ending in .tif instead of '{file.name}'.")
    if pixels.dtype == np.uint16 and suffix in EIGHT_BIT_ONLY:
        pixels = (pixels >> 8).astype(np.uint8)
    if pixels.ndim == 3 and pixels.shape[2] == 4 and suffix in WITHOUT_ALPHA:
        pixels = _on_white(pixels)
    encoded = io.BytesIO()
    if suffix in TIFF:
        _write_tiff(encoded, pixels, picture.profile)
    else:
        Image, _ = _pillow()
        options: dict[str, Any] = {"quality": quality} if suffix in (".jpg", ".jpeg", ".webp") else {}
        if picture.profile is not None:
            options["icc_profile"] = picture.profile
        Image.fromarray(pixels).save(encoded, FORMATS[suffix], **options)
    replace_file(file, [encoded.getbuffer()])


def _write_tiff(file: io.BytesIO, pixels: npt.NDArray[Any], profile: bytes | None) -> None:
    settings: dict[str, Any] = {"photometric": "rgb" if pixels.ndim == 3 else "minisblack", "compression": "zlib"}
    if pixels.ndim == 3 and pixels.shape[2] == 4:
        settings["extrasamples"] = ["unassalpha"]
    _tifffile().imwrite(file, pixels, iccprofile=profile, metadata=None, **settings)


def _on_white(pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    alpha = pixels[..., 3:].astype(np.float64) / 255
    mixed: npt.NDArray[Any] = np.rint(alpha * pixels[..., :3] + (1 - alpha) * 255).astype(pixels.dtype)
    return mixed
