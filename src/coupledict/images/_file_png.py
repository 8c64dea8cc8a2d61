"""PNG files with 16 bits of colour, which Pillow would reduce to 8: OpenCV decodes and encodes their pixels.

OpenCV gets a file rebuilt from the chunks that the pixels need, all with valid checksums, so that it sees the checked
header and nothing else. Colour profile and EXIF data are read and written here.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..foundation.packages import need_package

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LARGEST_EXIF = 1 << 20


def _opencv() -> Any:
    return need_package("cv2", "opencv-python-headless", "PNG files with 16 bits of colour", "images")


def is_deep(head: bytes) -> bool:
    """Return whether the first 30 bytes of a file are those of PNG with 16 bits of colour, or of grey with alpha."""
    return head.startswith(SIGNATURE) and len(head) == 30 and head[24] == 16 and head[25] in (2, 4, 6)


def find_exif(file: IO[bytes]) -> bytes | None:
    """Return the EXIF block of a PNG file, which may follow the pixels; nothing is decoded."""
    try:
        for kind, length in _chunks(file):
            if kind == b"eXIf":
                return file.read(length) if length <= LARGEST_EXIF else None
    except ValueError:  # the file is truncated: reading the pixels will report it
        pass
    return None


def read_deep(path: Path, channels: int) -> npt.NDArray[np.uint16]:
    """Return the pixels of a PNG file with 16 bits of colour: red, green, blue and, if it has 4 channels, alpha."""
    cv2 = _opencv()
    clean, wanted = bytearray(SIGNATURE), [b"IHDR", b"tRNS", b"IDAT"]
    with path.open("rb") as file:
        for kind, length in _chunks(file):
            if kind == b"IDAT":
                wanted = [b"IDAT", b"IEND"]  # a transparent colour that follows pixels does not count
            if kind in wanted:
                contents, checksum = file.read(length), file.read(4)
                if len(checksum) != 4 or zlib.crc32(kind + contents) != int.from_bytes(checksum, "big"):
                    raise ValueError(f"its chunk {kind.decode()} is damaged")
                clean += length.to_bytes(4, "big") + kind + contents + checksum
    pixels = cv2.imdecode(np.frombuffer(clean, np.uint8), cv2.IMREAD_UNCHANGED)
    del clean
    if pixels is None or pixels.dtype != np.uint16 or pixels.shape[2:] != (channels,):
        raise ValueError("its pixels are damaged")
    turned: npt.NDArray[np.uint16] = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB if channels == 3 else cv2.COLOR_BGRA2RGBA)
    return turned


def encode_deep(pixels: npt.NDArray[np.uint16], profile: bytes | None, exif: bytes | None) -> bytes:
    """Return a PNG file with 16 bits of colour."""
    cv2 = _opencv()
    turned = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR if pixels.shape[2] == 3 else cv2.COLOR_RGBA2BGRA)
    done, encoded = cv2.imencode(".png", turned)
    if not done:
        raise OSError("The picture could not be encoded as PNG.")
    contents: bytes = encoded.tobytes()
    more = b""
    if profile is not None:
        more += _chunk(b"iCCP", b"ICC Profile\0\0" + zlib.compress(profile))
    if exif is not None:
        more += _chunk(b"eXIf", exif)
    head = len(SIGNATURE) + 25  # the signature and the chunk IHDR
    return contents[:head] + more + contents[head:]


def _chunk(kind: bytes, contents: bytes) -> bytes:
    return len(contents).to_bytes(4, "big") + kind + contents + zlib.crc32(kind + contents).to_bytes(4, "big")


def _chunks(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the kind and length of each chunk, with the file at its contents, which need not be read."""
    end = file.seek(0, io.SEEK_END)
    place, kind = len(SIGNATURE), b""
    while kind != b"IEND":
        file.seek(place)
        head = file.read(8)
        length, kind = int.from_bytes(head[:4], "big"), head[4:]
        place += 12 + length
        if place > end:  # checked before memory is allocated for missing bytes
            raise ValueError("it is truncated")
        yield kind, length
