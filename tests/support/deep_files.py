"""Files of 16 bits, written by the book: PNG with colours, TIFF packed by LZW."""

import io
import struct
import zlib

import media
import numpy as np
import tifffile
from PIL import Image

PASSES = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def deep_png(pixels, colour, *, more=b"", interlaced=False):
    """Return a PNG file of 16 bits, written by the book."""
    parts = [pixels[y::down, x::across] for y, x, down, across in PASSES] if interlaced else [pixels]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for part in parts if part.size for row in part)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, colour, 0, 0, int(interlaced))
    data = zlib.compress(rows)
    half = len(data) // 2
    chunks = [media.chunk(b"IHDR", head), more, media.chunk(b"IDAT", data[:half]), media.chunk(b"IDAT", data[half:])]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + media.chunk(b"IEND", b"")


def lzw_tiff(path, pixels, *, predictor=1, order="<", rows=4, tile=None, planes=False, white=False):
    """Write a TIFF file of 16 bits packed by LZW, as Lightroom does; libtiff packs the bytes, called a grey image."""
    height, width = pixels.shape[:2]
    samples = pixels.shape[2] if pixels.ndim == 3 else 1
    cube = pixels.reshape(height, width, samples)
    cube = np.moveaxis(cube, 2, 0)[..., None] if planes else cube[None]
    parts = []
    for plane in cube:
        if tile:
            down, across = -(-height // tile), -(-width // tile)
            padded = np.zeros((down * tile, across * tile, plane.shape[2]), np.uint16)
            padded[:height, :width] = plane
            parts += [padded[y * tile :, x * tile :][:tile, :tile] for y in range(down) for x in range(across)]
        else:
            parts += [plane[y : y + rows] for y in range(0, height, rows)]
    packed = []
    for part in parts:
        if predictor == 2:
            part = np.diff(part, axis=1, prepend=np.zeros_like(part[:, :1]))
        out = io.BytesIO()
        grey = np.ascontiguousarray(part.astype(f"{order}u2")).view(np.uint8).reshape(len(part), -1)
        Image.fromarray(grey).save(out, "TIFF", compression="tiff_lzw", tiffinfo={278: len(part)})
        with tifffile.TiffFile(io.BytesIO(out.getvalue())) as file:
            (offset,), (count,) = file.pages[0].dataoffsets, file.pages[0].databytecounts
        packed.append(out.getvalue()[offset : offset + count])
    shape = {"tile": (tile, tile)} if tile else {"rowsperstrip": rows}
    kind = "rgb" if pixels.ndim == 3 else "miniswhite" if white else "minisblack"
    more = {"extrasamples": ["unassalpha"]} if samples == 4 else {}
    # tifffile writes what is given as packed already if it comes one by one.
    tifffile.imwrite(
        path,
        iter(packed),
        shape=(samples, height, width) if planes else pixels.shape,
        dtype=np.uint16,
        photometric=kind,
        planarconfig="separate" if planes else "contig" if samples > 1 else None,
        compression="zlib",  # it cannot write LZW; the name is corrected below
        predictor=predictor if predictor > 1 else False,
        byteorder=order,
        metadata=None,
        **shape,
        **more,
    )
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages[0].tags["Compression"].overwrite(5)
    return path
