"""Read and write image files: reading keeps all bits, and a written file appears whole or not at all.

tifffile reads TIFF, because it supports 16-bit colour; Pillow reads TIFF files with unusual compression or colours, and
all other formats. Both come with scikit-image. The header tells the number of pixels before any of them is decoded, and
files with too many are refused.
"""

from __future__ import annotations

import io
import logging
import os
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..files import whole
from ..files.whole import replace_file

TIFF = (".tif", ".tiff")
TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
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
#: Formats that are read. Pillow supports more, but runs other programs for some of them.
READABLE = ("PNG", "JPEG", "WEBP", "BMP", "DIB", "GIF", "PPM", "JPEG2000", "TIFF")
WITHOUT_ALPHA = (".jpg", ".jpeg", ".bmp")
EIGHT_BIT_ONLY = (".jpg", ".jpeg", ".webp", ".bmp")
LONGEST_SIDES = {".jpg": 65_500, ".jpeg": 65_500, ".webp": 16_383}  # largest width or height, in pixels
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Most pixels of a file that is read or written; the environment variable overrides it.
MAX_PIXELS, MAX_PIXELS_VARIABLE = 170_000_000, "COUPLEDICT_MAX_PIXELS"
LARGEST_PROFILE = 1 << 22
#: Orientations as EXIF numbers them, and the transpositions of Pillow that undo them.
TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
ORIENTATION = 0x0112
PLAIN_COMPRESSIONS = (1, 8, 32946, 32773)  # none, zlib (two numbers), PackBits: tifffile needs no other packages
ZLIB = (8, 32946)
BLACK_IS_ZERO, RGB, WHITE_IS_ZERO = 1, 2, 0  # values of PhotometricInterpretation in TIFF
UNASSOCIATED_ALPHA = 2


@dataclass(frozen=True)
class Picture:
    """The pixels of a file: (height, width) or (height, width, 3 or 4), 8 or 16 bit, and its colour profile."""

    pixels: npt.NDArray[Any]
    profile: bytes | None = None


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            'Expected Pillow to be installed, for image files. Install it with: pip install "coupledict[images]"'
        ) from error
    return Image


def _tifffile() -> Any:
    try:
        import tifffile
    except ImportError as error:
        raise ImportError(
            'Expected tifffile to be installed, for TIFF files. Install it with: pip install "coupledict[images]"'
        ) from error
    # Without a handler, its warnings about odd files would be printed on the screen.
    logging.getLogger("tifffile").addHandler(logging.NullHandler())
    return tifffile


def max_pixels() -> int:
    """Return the largest number of pixels that a file may have."""
    told = os.environ.get(MAX_PIXELS_VARIABLE)
    if told is None:
        return MAX_PIXELS
    if not (told.isascii() and told.isdigit()):
        raise ValueError(f"Expected {MAX_PIXELS_VARIABLE} to be a number of pixels, got {told!r}.")
    return int(told)


def check_pixels(height: int, width: int) -> None:
    """Raise if an image has more pixels than :func:`max_pixels`."""
    if height * width > max_pixels():
        raise TooManyPixelsError(f"{width} x {height} pixels are {_beyond()}")


def _beyond() -> str:
    limit = f"{max_pixels() / 1e6:g} million"
    return f"more than the limit of {limit}; set {MAX_PIXELS_VARIABLE} to a larger number to allow it."


class TooManyPixelsError(ValueError):
    """An image has more pixels than :func:`max_pixels`."""


def read_image(path: str | os.PathLike[str]) -> Picture:
    """Read a grey or colour image of 8 or 16 bits, and turn it upright as its EXIF orientation says.

    Raises
    ------
    OSError
        If the file does not exist, is not an image, is truncated, has more pixels than :func:`max_pixels`, or is of a
        kind that would lose bits.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"Expected an image file, found none at '{file}'.")
    max_pixels()  # raises here if the limit is not a number: that is not an error of the file
    try:
        with file.open("rb") as stream:
            head = stream.read(30)
        if head.startswith(TIFF_SIGNATURES):
            picture = _read_tiff(file)
        else:
            _check_head(head)
            picture = _read_with_pillow(file)
    except ImportError:
        raise
    except MemoryError as error:
        raise OSError(f"'{file}' could not be read: there is not enough memory for its pixels.") from error
    except TooManyPixelsError as error:
        raise OSError(f"'{file}' could not be read: {error}") from error
    except _Unsupported as error:
        raise OSError(f"'{file}' cannot be used: {error}") from error
    except Exception as error:  # a broken file can make a decoder raise anything
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise OSError(f"'{file}' could not be read as an image: it is damaged or no image ({reason}).") from error
    if picture.pixels.size == 0:
        raise OSError(f"Expected '{file}' to have pixels, got an image of shape {picture.pixels.shape}.")
    return picture


class _Unsupported(Exception):  # noqa: N818
    """An image file of a kind that is not handled."""


def _check_head(head: bytes) -> None:
    """Refuse, by its first bytes, a file that Pillow would cut to 8 bits, or that takes much memory once opened."""
    if head.startswith(PNG_SIGNATURE) and len(head) == 30 and head[24] == 16 and head[25] != 0:
        raise _Unsupported("16-bit colour PNG would be cut to 8 bits; save it as TIFF.")
    if head[:4] == b"RIFF" and head[8:15] == b"WEBPVP8" and len(head) == 30:
        check_pixels(*_webp_size(head))


def _webp_size(head: bytes) -> tuple[int, int]:
    """Return height and width from the first bytes of a WebP file, in any of its three variants."""
    if head[15:16] == b"X":
        return 1 + int.from_bytes(head[27:30], "little"), 1 + int.from_bytes(head[24:27], "little")
    if head[15:16] == b"L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits >> 14) % (1 << 14), 1 + bits % (1 << 14)
    return int.from_bytes(head[28:30], "little") % (1 << 14), int.from_bytes(head[26:28], "little") % (1 << 14)


def _read_with_pillow(file: Path) -> Picture:
    Image = _pillow()
    if MAX_PIXELS_VARIABLE in os.environ and 2 * (Image.MAX_IMAGE_PIXELS or max_pixels()) < max_pixels():
        Image.MAX_IMAGE_PIXELS = max_pixels()  # Pillow has a limit of its own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about odd metadata, and about large images that are within our limit
        try:
            image = Image.open(file, formats=READABLE)
        except Image.DecompressionBombError as error:
            raise TooManyPixelsError(f"it claims to have {_beyond()}") from error
        with image:
            check_pixels(image.height, image.width)
            if getattr(image, "is_animated", False):
                raise _Unsupported(f"it holds {image.n_frames} frames; save the one you want.")
            image.load()
            profile = image.info.get("icc_profile")
            turn = TURNS.get(_orientation(image))
            upright = image if turn is None else image.transpose(Image.Transpose[turn])
            return Picture(np.asarray(_plain_mode(upright)), _check_profile(profile))


def _orientation(image: Any) -> Any:
    """Return the EXIF orientation of an image, or None if its EXIF data are missing or damaged."""
    try:
        return image.getexif().get(ORIENTATION)
    except Exception:
        return None


def _check_profile(profile: object) -> bytes | None:
    """Return a colour profile if its length and signature are right, else None."""
    if not isinstance(profile, bytes) or not 128 <= len(profile) <= LARGEST_PROFILE:
        return None
    whole = int.from_bytes(profile[:4], "big") == len(profile) and profile[36:40] == b"acsp"
    return profile if whole else None


def _plain_mode(image: Any) -> Any:
    """Return an image as grey, grey of 16 bits, colour, or colour with alpha."""
    if image.mode in ("1", "L", "RGB") and "transparency" in image.info:
        return image.convert("RGBA")
    if image.mode in ("L", "RGB", "RGBA", "I;16"):
        return image
    if image.mode == "1":
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
        if not _is_plain(page):
            return _read_with_pillow(file)
        if page.compression in ZLIB:
            _check_segments(page, tiff.filehandle)
        pixels = page.asarray()
        profile, orientation = (page.tags.valueof(name) for name in ("InterColorProfile", "Orientation"))
    if page.planarconfig == 2 and pixels.ndim == 3:
        pixels = np.moveaxis(pixels, 0, -1)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    expected = (page.imagelength, page.imagewidth)
    if pixels.shape[:2] != expected or pixels.shape[2:] not in ((), (3,), (4,)):
        raise _Unsupported(f"its shape is {pixels.shape}; expected a grey or RGB image.")
    if pixels.dtype == bool:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    if page.photometric == WHITE_IS_ZERO:
        pixels = ~pixels
    return Picture(np.ascontiguousarray(_upright(pixels, orientation)), _check_profile(profile))


def _is_plain(page: Any) -> bool:
    """Tell whether tifffile reads the pixels of a TIFF file correctly; raise if Pillow cannot read them either."""
    check_pixels(page.imagelength, page.imagewidth)
    if page.is_tiled:
        check_pixels(page.tilelength, page.tilewidth)
    bits, depth = page.bitspersample, page.imagedepth
    if page.dtype not in (np.dtype(bool), np.dtype(np.uint8), np.dtype(np.uint16)) or bits not in (1, 8, 16):
        kind = "of an unknown kind" if page.dtype is None else str(page.dtype)
        raise _Unsupported(f"its pixels are {kind}; save it with 8 or 16 bits.")
    samples, extra = page.samplesperpixel, tuple(page.extrasamples)
    if depth != 1 or (page.is_tiled and page.tiledepth != 1) or not 1 <= samples <= 5:
        raise _Unsupported(f"its shape is {page.shape}; expected a grey or RGB image.")
    grey = page.photometric in (BLACK_IS_ZERO, WHITE_IS_ZERO) and samples == 1
    colour = (
        page.photometric == RGB and bits > 1 and (samples == 3 or (samples == 4 and extra == (UNASSOCIATED_ALPHA,)))
    )
    if (grey or colour) and page.compression in PLAIN_COMPRESSIONS:
        return True
    if bits == 16:
        raise _Unsupported(
            "it has 16 bits and is compressed or coloured in an unusual way; save it with zlib as grey or RGB."
        )
    return False


def _check_segments(page: Any, file: Any) -> None:
    """Refuse strips or tiles that decompress to more bytes than their size allows."""
    rows, columns = (page.tilelength, page.tilewidth) if page.is_tiled else (page.rowsperstrip, page.imagewidth)
    samples = page.samplesperpixel if page.planarconfig == 1 else 1
    largest = min(rows, max(page.imagelength, rows if page.is_tiled else 0)) * -(
        -columns * samples * page.bitspersample // 8
    )
    for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True):
        file.seek(offset)
        unpacked = zlib.decompressobj().decompress(file.read(count), largest + 1)
        if len(unpacked) > largest:
            raise ValueError("it unpacks to more than it claims")


def _upright(pixels: npt.NDArray[Any], orientation: object) -> npt.NDArray[Any]:
    """Return pixels turned upright according to their EXIF orientation."""
    if orientation in (5, 6, 7, 8):
        pixels = np.swapaxes(pixels, 0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels


def check_output(path: str | os.PathLike[str], *, force: bool) -> Path:
    """Return the path of an image to write; raise, before the work begins, if it cannot be written."""
    return whole.check_output(path, FORMATS, force=force)


def write_image(path: str | os.PathLike[str], picture: Picture, *, force: bool = False, quality: int = 95) -> None:
    """Write an image; the file appears whole or not at all.

    Formats without alpha get the image on a white background, and formats of 8 bits get the upper 8 of 16 bits. Only
    TIFF keeps 16-bit colour.
    """
    file = check_output(path, force=force)
    suffix = file.suffix.lower()
    pixels = np.ascontiguousarray(picture.pixels)
    check_pixels(*pixels.shape[:2])
    longest = LONGEST_SIDES.get(suffix, max(pixels.shape))
    if max(pixels.shape) > longest:
        raise ValueError(
            f"{suffix} files are at most {longest} pixels wide and high; use a name ending in .png or .tif."
        )
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
        Image = _pillow()
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
