"""TIFF files of 8 and 16 bits, as cameras, raw converters and editors write them.

tifffile reads uncompressed pixels and those compressed by zlib or PackBits. It cannot decode LZW by itself; Pillow's
libtiff can, but would reduce 16-bit colours to 8 bits. So the compressed strips or tiles are written after a new
directory that declares them as grey bytes: libtiff decodes them, to a size known in advance, and the bytes are
assembled here. Other compressions and 8-bit colours are left to Pillow.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..foundation.block_sizes import SIZES
from ..foundation.packages import need_package
from ._file_limits import UnsupportedImageError, check_pixels, need_tifffile
from ._file_metadata import LONG, SHORT, Exif, Value, build_directory, build_inner

SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
ZLIB, LZW = (8, 32946), 5
TIFFFILE_COMPRESSIONS = (1, *ZLIB, 32773)  # none, zlib, PackBits: those for which tifffile needs no other packages
BLACK_IS_ZERO, RGB, WHITE_IS_ZERO = 1, 2, 0  # values of PhotometricInterpretation
UNASSOCIATED_ALPHA = 2
HORIZONTAL = 2  # the predictor that stores differences between neighbours
MOST_PAGES = 16
LARGEST_CLASSIC = (1 << 32) - (1 << 26)  # bytes of pixels; larger files have longer addresses and get no EXIF data


def main_page(tiff: Any) -> Any:
    """Return the only page of a TIFF file; previews do not count."""
    n_pages = len(tiff.pages)
    pages = [page for page in tiff.pages if not page.is_reduced] if n_pages <= MOST_PAGES else []
    if len(pages) != 1 and n_pages != 1:
        raise UnsupportedImageError(f"it holds {n_pages} pages; save the one you want as a separate picture.")
    return pages[0] if pages else tiff.pages[0]


def is_plain(page: Any) -> bool:
    """Return whether the pixels of a page are read here; raise if Pillow cannot read them either."""
    check_pixels(page.imagelength, page.imagewidth)
    if page.is_tiled:
        check_pixels(page.tilelength, page.tilewidth)
    bits, depth = page.bitspersample, page.imagedepth
    if page.dtype not in (np.dtype(bool), np.dtype(np.uint8), np.dtype(np.uint16)) or bits not in (1, 8, 16):
        kind = "of an unknown type" if page.dtype is None else str(page.dtype)
        raise UnsupportedImageError(f"its pixels are {kind}; save it with 8 or 16 bits.")
    samples, extra = page.samplesperpixel, tuple(page.extrasamples)
    if depth != 1 or (page.is_tiled and page.tiledepth != 1) or not 1 <= samples <= 5:
        raise UnsupportedImageError(f"its shape is {page.shape}; expected a grey or RGB image.")
    grey = page.photometric in (BLACK_IS_ZERO, WHITE_IS_ZERO) and samples == 1
    colour = (
        page.photometric == RGB and bits > 1 and (samples == 3 or (samples == 4 and extra == (UNASSOCIATED_ALPHA,)))
    )
    if (grey or colour) and page.compression in TIFFFILE_COMPRESSIONS:
        return True
    if bits == 16 and (grey or colour) and page.compression == LZW and page.fillorder == 1:
        return True
    if bits == 16:
        raise UnsupportedImageError(
            "it has 16 bits and is compressed or coloured in an unusual way; save it with zlib or LZW as grey or RGB."
        )
    return False


def plain_shape(page: Any) -> tuple[int, ...]:
    """Return the shape of the result of :func:`read_plain`, before the picture is turned upright."""
    channels = () if page.samplesperpixel == 1 else (int(page.samplesperpixel),)
    return (int(page.imagelength), int(page.imagewidth), *channels)


def read_plain(page: Any, file: Any) -> npt.NDArray[Any]:
    """Return the pixels of a plain page."""
    if page.compression == LZW:
        pixels = _read_lzw(page, file)
    else:
        if page.compression in ZLIB:
            _check_segments(page, file)
        pixels = page.asarray()
        if page.planarconfig == 2 and pixels.ndim == 3:
            pixels = np.moveaxis(pixels, 0, -1)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.shape != plain_shape(page):
        raise UnsupportedImageError(f"its shape is {pixels.shape}; expected a grey or RGB image.")
    if pixels.dtype == bool:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    return ~pixels if page.photometric == WHITE_IS_ZERO else pixels


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
            raise ValueError("it decompresses to more bytes than it declares")


def _read_lzw(page: Any, file: Any) -> npt.NDArray[np.uint16]:
    """Return the pixels of a 16-bit page compressed by LZW."""
    height, width, together = page.imagelength, page.imagewidth, page.planarconfig == 1
    planes, samples = (1, page.samplesperpixel) if together else (page.samplesperpixel, 1)
    if page.is_tiled:
        rows, columns = page.tilelength, page.tilewidth
    else:
        rows, columns = min(max(page.rowsperstrip, 1), height), width
    down, across = -(-height // rows), -(-width // columns)
    check_pixels(down * rows, across * columns)
    if not len(page.dataoffsets) == len(page.databytecounts) == planes * down * across:
        raise ValueError("the number of its strips or tiles is wrong")
    heights = [rows] * (down * across)
    if not page.is_tiled:
        heights[-1] = height - (down - 1) * rows
    data = np.concatenate(
        list(_decode_segments(file, page.dataoffsets, page.databytecounts, heights * planes, columns * samples * 2))
    )
    words = data.view(np.dtype(np.uint16).newbyteorder(page.parent.byteorder))
    shape = (planes, down, across, rows, columns) if page.is_tiled else (planes, 1, 1, height, columns)
    parts = words.reshape(*shape, samples)
    if page.predictor == HORIZONTAL:
        parts = np.cumsum(parts, axis=4, dtype=np.uint16)
    elif page.predictor not in (None, 1):
        raise UnsupportedImageError(f"its predictor is number {page.predictor}; save it without one.")
    whole = parts.transpose(0, 1, 3, 2, 4, 5).reshape(planes, -1, across * columns, samples)[:, :height, :width]
    return np.asarray(whole[0] if together else np.moveaxis(whole[..., 0], 0, -1), np.uint16)


def _decode_segments(
    file: IO[bytes], offsets: tuple[int, ...], counts: tuple[int, ...], heights: list[int], width: int
) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the bytes of LZW segments, several at a time; `heights` are their numbers of rows of `width` bytes."""
    TiffImageFile = need_package("PIL.TiffImagePlugin", "Pillow", "TIFF files", "images").TiffImageFile
    end = file.seek(0, io.SEEK_END)
    start = 0
    while start < len(heights):
        stop = start + 1
        while (
            stop < len(heights)
            and heights[stop] == heights[start]
            and (stop + 1 - start) * heights[start] * width <= SIZES.unpacked_bytes
        ):
            stop += 1
        segments = []
        for offset, count in zip(offsets[start:stop], counts[start:stop], strict=True):
            if offset + count > end:
                raise ValueError("it is truncated")
            file.seek(offset)
            segments.append(file.read(count))
        # Image.open would count these bytes as pixels and apply its limit to them.
        with TiffImageFile(io.BytesIO(_as_grey_bytes(segments, heights[start], width))) as image:
            yield np.asarray(image).ravel()
        start = stop


def _as_grey_bytes(segments: list[bytes], rows: int, width: int) -> bytes:
    """Return a TIFF file with compressed segments as the strips of an image of bytes."""
    lengths = np.array([len(segment) for segment in segments], "<u4")
    tags = {256: width, 257: rows * len(segments), 258: 8, 259: LZW, 262: BLACK_IS_ZERO, 277: 1, 278: rows}
    directory = {tag: Value(LONG, struct.pack("<I", number)) for tag, number in tags.items()}
    directory[258], directory[259], directory[262], directory[277] = (
        Value(SHORT, struct.pack("<H", tags[tag])) for tag in (258, 259, 262, 277)
    )
    directory[279] = Value(LONG, lengths.tobytes())
    directory[273] = directory[279]  # a placeholder of the right length
    first = 8 + len(build_directory(directory, 8))
    places = first + np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64)])
    directory[273] = Value(LONG, places.astype("<u4").tobytes())
    return b"".join([b"II*\0", struct.pack("<I", 8), build_directory(directory, 8), *segments])


def encode_tiff(pixels: npt.NDArray[Any], profile: bytes | None, exif: Exif | None) -> io.BytesIO:
    """Return a TIFF file, compressed by zlib."""
    settings: dict[str, Any] = {"photometric": "rgb" if pixels.ndim == 3 else "minisblack", "compression": "zlib"}
    if pixels.ndim == 3 and pixels.shape[2] == 4:
        settings["extrasamples"] = ["unassalpha"]
    file = io.BytesIO()
    need_tifffile().imwrite(file, pixels, byteorder="<", iccprofile=profile, metadata=None, **settings)
    if exif is not None and pixels.nbytes < LARGEST_CLASSIC:
        _add_exif(file, exif)
    return file


def _add_exif(file: io.BytesIO, exif: Exif) -> None:
    """Append a new first directory to a TIFF file: the old one plus EXIF data, which tifffile does not write."""
    with file.getbuffer() as view:
        (start,) = struct.unpack_from("<I", view, 4)
        (count,) = struct.unpack_from("<H", view, start)
        places = range(start + 2, start + 2 + 12 * count, 12)
        entries = {struct.unpack_from("<H", view, place)[0]: bytes(view[place : place + 12]) for place in places}
        end = len(view)
    inner, pointers = build_inner(exif, end + end % 2)
    file.seek(end + end % 2)
    file.write(inner)
    for tag, value in (exif.main | pointers).items():
        kept = value.contents
        if len(kept) > 4:
            kept = struct.pack("<I", file.tell())
            file.write(value.contents + bytes(len(value.contents) % 2))
        entries[tag] = struct.pack("<HHI", tag, value.kind, value.count) + kept.ljust(4, b"\0")
    first = file.tell()
    file.write(struct.pack("<H", len(entries)) + b"".join(entries[tag] for tag in sorted(entries)) + bytes(4))
    file.seek(4)
    file.write(struct.pack("<I", first))
