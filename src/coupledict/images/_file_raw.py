"""HEIC files of telephones and raw files of cameras, read by packages of separate extras."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.packages import need_package
from ._file_limits import UnsupportedImageError, check_pixels, need_pillow
from ._file_metadata import clean_exif
from ._file_picture import ImageHeader
from ._file_profile import check_profile

HEIC = (".heic", ".heif", ".hif")
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
#: Suffixes of raw files. Most of them begin like TIFF files, so only their names identify them.
RAW: tuple[str, ...] = (
    *(".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dng", ".erf", ".fff", ".iiq", ".kdc", ".mef", ".mos", ".mrw", ".nef"),
    *(".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f"),
)
#: Development of raw files, the same for all pictures of a stack so that they match: neither brightness nor white
#: level depends on the brightest pixel. The tone curve is that of sRGB.
DEVELOPMENT = {
    "use_camera_wb": True,
    "no_auto_bright": True,
    "adjust_maximum_thr": 0.0,
    "output_bps": 16,
    "gamma": (2.4, 12.92),
}
SWAPPED = 4  # bit of LibRaw's orientation flag: height and width are swapped


def is_heic(head: bytes) -> bool:
    """Return whether the first bytes of a file are those of HEIC."""
    return head[4:8] == b"ftyp" and head[8:12] in HEIC_BRANDS


def read_heic(file: Path, *, decode: bool, keep_gps: bool) -> tuple[ImageHeader, npt.NDArray[Any] | None]:
    """Read a HEIC file; its own orientation, not that of EXIF, has already been applied."""
    heif = need_package("pillow_heif", "pillow-heif", f"'{file}' and other HEIC files", "heic")
    opened = heif.open_heif(file, convert_hdr_to_8bit=False)
    image = opened[opened.primary_index]
    width, height = image.size
    check_pixels(height, width)
    channels = {"L": (), "RGB": (3,), "RGBA": (4,)}
    mode, _, bits = image.mode.partition(";")
    if mode not in channels or bits not in ("", "16"):
        raise UnsupportedImageError(f"its pixels are of mode {image.mode!r}; save it as 8- or 16-bit grey or RGB.")
    given = image.info.get("icc_profile")
    profile = check_profile(given, len(mode))
    header = ImageHeader(
        (height, width, *channels[mode]),
        np.dtype(np.uint16 if bits else np.uint8),
        profile,
        clean_exif(image.info.get("exif"), keep_gps=keep_gps),
        lost_profile=bool(given) and profile is None,
    )
    return header, np.array(image) if decode else None


def read_raw(file: Path, *, decode: bool, keep_gps: bool) -> tuple[ImageHeader, npt.NDArray[Any] | None]:
    """Develop a raw file to 16 bits, with the white balance of the camera and without automatic brightness."""
    rawpy = need_package("rawpy", "rawpy", f"'{file}' and other raw files", "raw")
    with rawpy.imread(str(file)) as raw:
        sizes = raw.sizes
        check_pixels(sizes.raw_height, sizes.raw_width)
        check_pixels(sizes.iheight, sizes.iwidth)
        height, width = (sizes.iheight, sizes.iwidth)
        if sizes.flip & SWAPPED:
            height, width = width, height
        header = ImageHeader((height, width, 3), np.dtype(np.uint16), None, _raw_exif(file, raw, keep_gps=keep_gps))
        return header, raw.postprocess(**DEVELOPMENT) if decode else None


def _raw_exif(file: Path, raw: Any, *, keep_gps: bool) -> bytes | None:
    """Return the EXIF data of a raw file: its own if it begins like TIFF, else those of its preview."""
    with file.open("rb") as stream:
        found = clean_exif(stream, keep_gps=keep_gps, srgb=True)
    if found is None:
        with suppress(Exception):  # there need not be a preview
            preview = raw.extract_thumb()
            with need_pillow().open(io.BytesIO(preview.data), formats=["JPEG"]) as image:
                found = clean_exif(image.info.get("exif"), keep_gps=keep_gps, srgb=True)
    return found
