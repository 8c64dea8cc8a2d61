"""Image files: reading keeps all bits, and a written file appears whole or not at all.

Pillow reads most formats; files that it would reduce to 8 bits are read by tifffile (TIFF, `_file_tiff`), OpenCV (PNG,
`_file_png`), pillow-heif and rawpy (`_file_raw`). The number of pixels is read from the header before any of them is
decoded, and files with too many are refused. `_file_metadata` says which EXIF data are kept.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..files import whole
from ..files.whole import write_file
from ..foundation.quiet import without_warnings
from ..foundation.version import __version__
from ..foundation.warning import warn
from . import _file_png as png
from . import _file_tiff as tiff
from ._file_limits import (
    MAX_PIXELS,
    MAX_PIXELS_VARIABLE,
    TooManyPixelsError,
    UnsupportedImageError,
    beyond_limit,
    check_pixels,
    max_pixels,
    need_pillow,
)
from ._file_limits import need_tifffile as _tifffile
from ._file_metadata import build_block, clean_exif, sized_block
from ._file_picture import ImageHeader, Picture
from ._file_profile import check_profile
from ._file_raw import HEIC, RAW, is_heic, read_heic, read_raw

__all__ = [
    "ImageHeader",
    "FORMATS",
    "MAX_PIXELS",
    "MAX_PIXELS_VARIABLE",
    "Picture",
    "TooManyPixelsError",
    "check_output",
    "check_pixels",
    "max_pixels",
    "read_header",
    "read_image",
    "warn_of_lost_profile",
    "write_image",
    "_tifffile",
]

TIFF = (".tif", ".tiff")
#: Suffixes of files that can be written, and their Pillow formats.
FORMATS = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".webp": "WEBP",
    ".bmp": "BMP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
}
#: Suffixes of files that are read as pictures when a folder is given.
SUFFIXES = (*FORMATS, ".jpe", ".jp2", ".ppm", ".pgm", ".dib", *HEIC, *RAW)
#: Formats that Pillow may read. It supports more, but runs other programs for some of them.
READABLE = ("PNG", "JPEG", "WEBP", "BMP", "DIB", "GIF", "PPM", "JPEG2000", "TIFF")
WITHOUT_ALPHA = (".jpg", ".jpeg", ".bmp")
EIGHT_BIT_ONLY = (".jpg", ".jpeg", ".webp", ".bmp")
LONGEST_SIDES = {".jpg": 65_500, ".jpeg": 65_500, ".webp": 16_383}  # largest width or height, in pixels
FULL_COLOUR = 90  # JPEG quality from which on colour is stored at full resolution
#: EXIF orientations, and the transpositions of Pillow that undo them.
TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
SIDEWAYS = (5, 6, 7, 8)
#: Modes of Pillow, and those that their images are converted to unless a colour is transparent.
PLAIN_MODES = {"1": "L", "P": "RGB"} | {mode: mode for mode in ("L", "I;16", "RGB", "RGBA")}
PLAIN_MODES |= dict.fromkeys(("PA", "LA", "La", "RGBa"), "RGBA")
PLAIN_MODES |= dict.fromkeys(("CMYK", "YCbCr", "HSV", "LAB", "RGBX"), "RGB")
ORIENTATION = 0x0112

Found = tuple[ImageHeader, npt.NDArray[Any] | None]


def read_image(path: str | os.PathLike[str], *, keep_gps: bool = False) -> Picture:
    """Read a grey or colour image of 8 or 16 bits, and turn it upright as its EXIF orientation says.

    Parameters
    ----------
    path : str or path
    keep_gps : bool
        Whether the EXIF data keep the GPS position, if there is one.

    Raises
    ------
    OSError
        If the file does not exist, is not an image, is truncated, has more pixels than :func:`max_pixels`, or is of a
        kind whose bits could not all be kept.
    """
    with _errors_about(path) as file:
        header, pixels = _read(file, decode=True, keep_gps=keep_gps)
        assert pixels is not None
        if pixels.size == 0:
            raise UnsupportedImageError(f"it has no pixels, its shape is {pixels.shape}.")
    return Picture(pixels, header.profile, header.exif, lost_profile=header.lost_profile)


def read_header(path: str | os.PathLike[str], *, keep_gps: bool = False) -> ImageHeader:
    """Return the header of the image that :func:`read_image` would return; no pixels are decoded."""
    with _errors_about(path) as file:
        return _read(file, decode=False, keep_gps=keep_gps)[0]


@contextmanager
def _errors_about(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Turn all errors about a file into errors with one sentence that names it."""
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"Expected an image file, found none at '{file}'.")
    max_pixels()  # raises if the limit is not a number, which is not an error of the file
    try:
        yield file
    except ImportError:
        raise
    except PermissionError as error:
        raise PermissionError(f"'{file}' could not be read: its permissions do not allow it; change them.") from error
    except MemoryError as error:
        raise OSError(f"'{file}' could not be read: there is not enough memory for its pixels.") from error
    except TooManyPixelsError as error:
        raise OSError(f"'{file}' could not be read: {error}") from error
    except UnsupportedImageError as error:
        raise OSError(f"'{file}' cannot be used: {error}") from error
    except Exception as error:  # decoders of damaged files may raise anything
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise OSError(f"'{file}' could not be read as an image: it is damaged or not an image ({reason}).") from error


def warn_of_lost_profile(found: ImageHeader | Picture, path: str | os.PathLike[str]) -> None:
    """Warn if the colour profile of a file is not passed on."""
    if found.lost_profile:
        warn(f"The colour profile of '{path}' is damaged or does not fit its pixels; the result has no profile.")


def _read(file: Path, *, decode: bool, keep_gps: bool) -> Found:
    with file.open("rb") as stream:
        head = stream.read(30)
    if file.suffix.lower() in RAW:
        return read_raw(file, decode=decode, keep_gps=keep_gps)
    if is_heic(head):
        return read_heic(file, decode=decode, keep_gps=keep_gps)
    if head.startswith(tiff.SIGNATURES):
        return _read_tiff(file, decode=decode, keep_gps=keep_gps)
    if head[:4] == b"RIFF" and head[8:15] == b"WEBPVP8" and len(head) == 30:
        check_pixels(*_webp_size(head))  # opening it takes much memory
    return _read_with_pillow(file, decode=decode, keep_gps=keep_gps, deep=png.is_deep(head))


def _webp_size(head: bytes) -> tuple[int, int]:
    """Return height and width from the first bytes of a WebP file, in any of its three variants."""
    if head[15:16] == b"X":
        return 1 + int.from_bytes(head[27:30], "little"), 1 + int.from_bytes(head[24:27], "little")
    if head[15:16] == b"L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits >> 14) % (1 << 14), 1 + bits % (1 << 14)
    return int.from_bytes(head[28:30], "little") % (1 << 14), int.from_bytes(head[26:28], "little") % (1 << 14)


def _read_with_pillow(file: Path, *, decode: bool, keep_gps: bool, deep: bool = False, page: Any = None) -> Found:
    """Read a file with Pillow; of PNG with 16 bits of colour (`deep`), which it would reduce to 8, only the header.

    `page` is the page of tifffile if the file is TIFF, because Pillow may or may not have turned it upright.
    """
    Image = need_pillow()
    if MAX_PIXELS_VARIABLE in os.environ and 2 * (Image.MAX_IMAGE_PIXELS or max_pixels()) < max_pixels():
        Image.MAX_IMAGE_PIXELS = max_pixels()  # Pillow has its own limit
    with without_warnings():  # about unusual metadata, and about large images within our limit
        try:
            image = Image.open(file, formats=READABLE)
        except Image.DecompressionBombError as error:
            raise TooManyPixelsError(f"it claims to have {beyond_limit()}") from error
        with image:
            check_pixels(image.height, image.width)
            # The pages of TIFF are already counted; JPEG files of many cameras have previews after the picture (MPO).
            if page is None and getattr(image, "is_animated", False) and image.format != "MPO":
                # Frames are not counted: a small GIF file can have millions.
                raise UnsupportedImageError("it holds several frames; save the one you want as a separate picture.")
            exif = _raw_block(image, file)
            orientation = _orientation(image) if page is None else page.tags.valueof("Orientation")
            mode = _plain_mode(image)
            channels = 1 if mode in ("L", "I;16") else len(mode)
            size = (image.height, image.width) if page is None else (int(page.imagelength), int(page.imagewidth))
            if orientation in SIDEWAYS:
                size = size[::-1]
            given = image.info.get("icc_profile")
            profile = check_profile(given, channels)
            header = ImageHeader(
                (*size, channels) if channels > 1 else size,
                np.dtype(np.uint16 if deep or mode == "I;16" else np.uint8),
                profile,
                clean_exif(exif, keep_gps=keep_gps),
                lost_profile=bool(given) and profile is None,
            )
            if not decode:
                return header, None
            if deep:
                return header, np.ascontiguousarray(_upright(png.read_deep(file, channels), orientation))
            image.load()
            turn = TURNS.get(_orientation(image))  # read again: some versions of Pillow turn TIFF files themselves
            upright = image if turn is None else image.transpose(Image.Transpose[turn])
            return header, np.asarray(upright if upright.mode == mode else upright.convert(mode))


def _raw_block(image: Any, file: Path) -> bytes | None:
    """Return the EXIF block of an open image as it is in the file."""
    if image.format == "PNG":
        with file.open("rb") as stream:
            found = png.find_exif(stream)
        if "Raw profile type exif" not in image.info:
            image.info["exif"] = found or b""  # else Pillow would decode the pixels to search after them
        return found
    if image.format == "TIFF":
        with file.open("rb") as stream:
            return clean_exif(stream, keep_gps=True)
    block = image.info.get("exif")
    return block if isinstance(block, bytes) else None


def _orientation(image: Any) -> Any:
    """Return the EXIF orientation of an image, or None if its EXIF data are missing or damaged."""
    try:
        return image.getexif().get(ORIENTATION)
    except Exception:
        return None


def _plain_mode(image: Any) -> str:
    """Return the mode that an image is converted to: grey, grey of 16 bits, colour, or colour with alpha."""
    plain = PLAIN_MODES.get(image.mode)
    if plain is None:
        raise UnsupportedImageError(f"its pixels are of mode {image.mode!r}; save it as 8- or 16-bit grey or RGB.")
    return "RGBA" if "transparency" in image.info and image.mode in ("1", "L", "RGB", "P") else plain


def _read_tiff(file: Path, *, decode: bool, keep_gps: bool) -> Found:
    with _tifffile().TiffFile(file) as opened:
        page = tiff.main_page(opened)
        if not tiff.is_plain(page):
            if page.index != 0:
                raise UnsupportedImageError("a preview precedes the picture; save it with zlib as grey or RGB.")
            return _read_with_pillow(file, decode=decode, keep_gps=keep_gps, page=page)
        given, orientation = (page.tags.valueof(name) for name in ("InterColorProfile", "Orientation"))
        shape = tiff.plain_shape(page)
        profile = check_profile(given, 1 if len(shape) == 2 else shape[2])
        if orientation in SIDEWAYS:
            shape = (shape[1], shape[0], *shape[2:])
        with file.open("rb") as stream:
            exif = clean_exif(stream, keep_gps=keep_gps)
        dtype = np.dtype(np.uint16 if page.bitspersample == 16 else np.uint8)
        header = ImageHeader(shape, dtype, profile, exif, lost_profile=bool(given) and profile is None)
        if not decode:
            return header, None
        pixels = tiff.read_plain(page, opened.filehandle)
    return header, np.ascontiguousarray(_upright(pixels, orientation))


def _upright(pixels: npt.NDArray[Any], orientation: object) -> npt.NDArray[Any]:
    """Return pixels turned upright according to their EXIF orientation."""
    if orientation in SIDEWAYS:
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
    """Write an image with its colour profile and EXIF data; the file appears whole or not at all.

    Formats without alpha get the image on a white background, and formats of 8 bits get the upper 8 of 16 bits; PNG and
    TIFF keep alpha and 16 bits. The EXIF data state the size of this image and the name of this package; BMP has none.
    """
    file = check_output(path, force=force)
    suffix = file.suffix.lower()
    pixels = np.ascontiguousarray(picture.pixels)
    check_pixels(*pixels.shape[:2])
    longest = LONGEST_SIDES.get(suffix, max(pixels.shape))
    if max(pixels.shape) > longest:
        raise ValueError(
            f"Expected at most {longest} pixels in width and height for {suffix} files, got {pixels.shape[1]} x"
            f" {pixels.shape[0]}. Use a name ending in .png or .tif."
        )
    if pixels.dtype == np.uint16 and suffix in EIGHT_BIT_ONLY:
        pixels = (pixels >> 8).astype(np.uint8)
    if pixels.ndim == 3 and pixels.shape[2] == 4 and suffix in WITHOUT_ALPHA:
        pixels = _on_white(pixels)
    exif, profile = None, picture.profile
    if suffix == ".webp" and pixels.ndim == 2:
        profile = None  # the file is in colour, which a grey profile does not describe
    if picture.exif is not None:
        exif = sized_block(picture.exif, pixels.shape[0], pixels.shape[1], f"coupledict {__version__}")
    if suffix in TIFF:
        encoded = tiff.encode_tiff(pixels, profile, exif)
        write_file(file, [encoded.getbuffer()], replace=force)
        return
    block = None if exif is None else build_block(exif)
    if suffix == ".png" and pixels.dtype == np.uint16 and pixels.ndim == 3:
        write_file(file, [png.encode_deep(pixels, profile, block)], replace=force)
        return
    options: dict[str, Any] = {"quality": quality} if suffix in (".jpg", ".jpeg", ".webp") else {}
    if FORMATS[suffix] == "JPEG" and quality >= FULL_COLOUR:
        options["subsampling"] = 0
    if profile is not None:
        options["icc_profile"] = profile
    if block is not None:
        options["exif"] = b"Exif\0\0" + block
    encoded = io.BytesIO()
    need_pillow().fromarray(pixels).save(encoded, FORMATS[suffix], **options)
    write_file(file, [encoded.getbuffer()], replace=force)


def _on_white(pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    alpha = pixels[..., 3:].astype(np.float64) / 255
    mixed: npt.NDArray[Any] = np.rint(alpha * pixels[..., :3] + (1 - alpha) * 255).astype(pixels.dtype)
    return mixed
