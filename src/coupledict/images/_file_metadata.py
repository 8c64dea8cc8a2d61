"""EXIF data of photographs: what is kept of a source, and how it is written with a picture made from it.

A block is parsed, and rebuilt from those tags that still hold for a new picture: camera, lens, date, exposure, author.
Dropped are the GPS position (unless it is requested), the preview, maker notes (whose internal addresses would break)
and everything that describes how pixels were stored. XMP and IPTC blocks are not copied: they can hold the position,
too, in many places.

Blocks here are little-endian and begin like a TIFF file; sizes are bounded, and damaged data are dropped.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

SOFTWARE, EXIF_IFD, GPS_IFD, RULES_IFD = 0x0131, 0x8769, 0x8825, 0xA005
COLOUR_SPACE, PIXELS_WIDE, PIXELS_HIGH = 0xA001, 0xA002, 0xA003
#: Tags of the first directory that are kept: description, maker, model, resolution, software, date, author, computer,
#: rating, copyright, and what file managers call title, comment, author, keywords and subject.
MAIN_TAGS = frozenset(
    {0x010E, 0x010F, 0x0110, 0x011A, 0x011B, 0x0128, SOFTWARE, 0x0132, 0x013B, 0x013C, 0x4746, 0x4749, 0x8298}
    | set(range(0x9C9B, 0x9CA0))
)
#: Ranges of the exposure directory that are kept, and tags in them that are not: tables with their own byte order,
#: maker notes, pointers to other directories, the unique name of the source.
EXPOSURE_RANGES = ((0x829A, 0x829D), (0x8822, 0x8835), (0x9000, 0x9292), (0xA000, 0xA43F), (0xA500, 0xA500))
EXPOSURE_DROPPED = frozenset({0x8825, 0x8828, 0x927C, 0xA005, 0xA20C, 0xA302, 0xA40B, 0xA420})
EXPOSURE_TAGS = frozenset(tag for first, last in EXPOSURE_RANGES for tag in range(first, last + 1)) - EXPOSURE_DROPPED
GPS_TAGS = frozenset(range(0x20))
RULES_TAGS = frozenset({1, 2})  # cameras indicate Adobe RGB without a profile by "R03" in the first
#: Bytes of a value of each TIFF type, and of the numbers in it, which are swapped if a file has the other byte order.
TYPES = {1: (1, 1), 2: (1, 1), 3: (2, 2), 4: (4, 4), 5: (8, 4), 6: (1, 1), 7: (1, 1), 8: (2, 2), 9: (4, 4)}
TYPES |= {10: (8, 4), 11: (4, 4), 12: (8, 8)}
BYTE, ASCII, SHORT, LONG, RATIONAL = 1, 2, 3, 4, 5
MAGICS = (42, 0x4F52, 0x5352, 0x55)  # TIFF, and the similar raw files of Olympus and Panasonic
LARGEST_VALUE, LARGEST_TOTAL = 4096, 60_000  # bytes that are kept; a JPEG file has room for 65,533
MOST_ENTRIES = 1000  # of a directory
CR3_HEAD = 1 << 18  # bytes at the start of a Canon raw file that are searched for its boxes


@dataclass(frozen=True)
class Value:
    """The value of a tag: its TIFF type and its bytes, little-endian."""

    kind: int
    contents: bytes

    @property
    def count(self) -> int:
        """Number of values or characters."""
        return len(self.contents) // TYPES[self.kind][0]

    def first(self) -> int | None:
        """Return the first value as an integer; None if it is not one."""
        if self.kind not in (BYTE, SHORT, LONG) or not self.contents:
            return None
        return int.from_bytes(self.contents[: TYPES[self.kind][0]], "little")


Directory = dict[int, Value]


@dataclass
class Exif:
    """The directories of a block: the main one, exposure, interoperability rules, and GPS position."""

    main: Directory = field(default_factory=dict)
    exposure: Directory = field(default_factory=dict)
    rules: Directory = field(default_factory=dict)
    position: Directory = field(default_factory=dict)


def clean_exif(source: bytes | IO[bytes] | None, *, keep_gps: bool = False, srgb: bool = False) -> bytes | None:
    """Return the EXIF data for a picture made from a source; None if there are none or they are damaged.

    Parameters
    ----------
    source : bytes, file or None
        An EXIF block, with or without a leading "Exif", or a file that begins like TIFF or CR3.
    keep_gps : bool
        Whether the GPS position is kept.
    srgb : bool
        Whether the new picture is in sRGB, whatever the source says.
    """
    try:
        if isinstance(source, bytes):
            source = io.BytesIO(source[6:] if source.startswith(b"Exif\0\0") else source) if source else None
        if source is None or source.seek(0, io.SEEK_END) < 8:
            return None
        exif = (_parse_cr3 if _is_cr3(source) else _parse)(source, keep_gps=keep_gps)
        if srgb:
            exif.rules.clear()
            exif.exposure |= {COLOUR_SPACE: _short(1)} if exif.exposure else {}
        return build_block(exif) if exif.main or exif.exposure or exif.position else None
    except Exception:  # a damaged block must not prevent reading the picture
        return None


def sized_block(block: bytes, height: int, width: int, software: str) -> Exif:
    """Return the data of a clean block, completed for a picture of this size."""
    exif = _parse(io.BytesIO(block), keep_gps=True)
    exif.main[SOFTWARE] = Value(ASCII, software.encode("ascii", "replace") + b"\0")
    exif.exposure[PIXELS_WIDE], exif.exposure[PIXELS_HIGH] = _long(width), _long(height)
    exif.exposure.setdefault(0x9000, Value(7, b"0232"))  # the version of EXIF, which some readers require
    return exif


def build_block(exif: Exif) -> bytes:
    """Return the bytes of an EXIF block, little-endian, without a leading "Exif"."""
    start = 8
    _, pointers = build_inner(exif, 0)
    inner, pointers = build_inner(exif, start + len(build_directory(exif.main | pointers, 0)))
    return b"II*\0" + struct.pack("<I", start) + build_directory(exif.main | pointers, start) + inner


def build_inner(exif: Exif, start: int) -> tuple[bytes, Directory]:
    """Return all directories except the main one, placed at `start`, which is even, and the pointers to them."""
    inner, exposure, pointers = b"", dict(exif.exposure), Directory()
    if exif.rules:
        exposure[RULES_IFD] = _long(start)
        inner += build_directory(exif.rules, start)
    for tag, directory in ((EXIF_IFD, exposure), (GPS_IFD, exif.position)):
        if directory:
            pointers[tag] = _long(start + len(inner))
            inner += build_directory(directory, start + len(inner))
    return inner, pointers


def build_directory(directory: Directory, start: int) -> bytes:
    """Return a TIFF directory and its values, placed at `start`, which is even; the length is even too."""
    entries, values = b"", b""
    after = start + 2 + 12 * len(directory) + 4
    for tag, value in sorted(directory.items()):
        kept = value.contents
        if len(kept) > 4:
            kept = struct.pack("<I", after + len(values))
            values += value.contents + bytes(len(value.contents) % 2)
        entries += struct.pack("<HHI", tag, value.kind, value.count) + kept.ljust(4, b"\0")
    return struct.pack("<H", len(directory)) + entries + bytes(4) + values


def _parse(file: IO[bytes], *, keep_gps: bool) -> Exif:
    order, start = _open(file)
    pointers = frozenset({EXIF_IFD, GPS_IFD})
    main = dict(_entries(file, order, start, MAIN_TAGS | pointers))
    exif, room = Exif(), LARGEST_TOTAL
    room = _keep(exif.main, {tag: value for tag, value in main.items() if tag not in pointers}, room)
    inner = main.get(EXIF_IFD, _short(0)).first()
    if inner:
        exposure = dict(_entries(file, order, inner, EXPOSURE_TAGS | {RULES_IFD}))
        rules = exposure.pop(RULES_IFD, _short(0)).first()
        room = _keep(exif.exposure, exposure, room)
        if rules:
            room = _keep(exif.rules, dict(_entries(file, order, rules, RULES_TAGS)), room)
    inner = main.get(GPS_IFD, _short(0)).first()
    if inner and keep_gps:
        _keep(exif.position, dict(_entries(file, order, inner, GPS_TAGS)), room)
    return exif


def _is_cr3(file: IO[bytes]) -> bool:
    file.seek(4)
    return file.read(8) == b"ftypcrx "


def _parse_cr3(file: IO[bytes], *, keep_gps: bool) -> Exif:
    """Return the data of a Canon raw file, which holds each directory as a block in a box of its own."""
    file.seek(0)
    head = file.read(CR3_HEAD)
    exif, room = Exif(), LARGEST_TOTAL
    wanted: list[tuple[bytes, Directory, frozenset[int]]] = [
        (b"CMT1", exif.main, MAIN_TAGS),
        (b"CMT2", exif.exposure, EXPOSURE_TAGS),
    ]
    if keep_gps:
        wanted.append((b"CMT4", exif.position, GPS_TAGS))
    for name, directory, tags in wanted:
        place = head.find(name)
        if place >= 4:
            length = int.from_bytes(head[place - 4 : place], "big")
            box = io.BytesIO(head[place + 4 : place - 4 + length])
            room = _keep(directory, dict(_entries(box, *_open(box), tags)), room)
    return exif


def _keep(directory: Directory, found: Directory, room: int) -> int:
    """Add values while there is room for them; return the remaining room."""
    for tag, value in sorted(found.items()):
        size = 12 + len(value.contents)
        if size <= room:
            directory[tag] = value
            room -= size
    return room


def _open(file: IO[bytes]) -> tuple[Any, int]:
    """Return the byte order of a block and the offset of its first directory."""
    file.seek(0)
    head = file.read(8)
    order = {b"II": "<", b"MM": ">"}[head[:2]]
    magic, start = struct.unpack(order + "HI", head[2:8])
    if magic not in MAGICS:
        raise ValueError("no EXIF block")
    return order, start


def _entries(file: IO[bytes], order: str, start: int, wanted: frozenset[int]) -> Iterator[tuple[int, Value]]:
    """Yield the wanted values of a directory that lie within the file and are not too long."""
    file.seek(start)
    (count,) = struct.unpack(order + "H", file.read(2))
    table = file.read(12 * min(count, MOST_ENTRIES))
    for place in range(0, len(table) - 11, 12):
        tag, kind, number = struct.unpack(order + "HHI", table[place : place + 8])
        if tag not in wanted or kind not in TYPES:
            continue
        size, word = TYPES[kind]
        length = size * number
        if not 0 < length <= LARGEST_VALUE:
            continue
        contents = table[place + 8 : place + 8 + length]
        if length > 4:
            file.seek(struct.unpack(order + "I", table[place + 8 : place + 12])[0])
            contents = file.read(length)
        if len(contents) != length:
            continue
        if order == ">" and word > 1:
            contents = np.frombuffer(contents, f">u{word}").astype(f"<u{word}").tobytes()
        yield tag, Value(kind, contents)


def _short(number: int) -> Value:
    return Value(SHORT, struct.pack("<H", number))


def _long(number: int) -> Value:
    return Value(LONG, struct.pack("<I", number))
