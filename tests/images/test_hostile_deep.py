"""Hostile files of 16 bits: PNG in colour, TIFF compressed by LZW."""

from __future__ import annotations

import sys
import zlib

import media
import numpy as np
import pytest
import tifffile

from coupledict.images._files import read_image
from support.damage import unreadable
from support.deep_files import deep_png, lzw_tiff

resource = pytest.importorskip("resource", reason="Windows does not tell the most memory that a process had")

RNG = np.random.default_rng(0)


SAMPLES = {2: 3, 4: 2, 6: 4}


@pytest.mark.parametrize("colour", SAMPLES)
def test_deep_png_that_breaks_off_or_lies(tmp_path, colour, capfd):
    file = tmp_path / "a.png"
    whole = deep_png(RNG.integers(0, 65536, (9, 13, SAMPLES[colour]), np.uint16), colour)
    file.write_bytes(whole)
    assert read_image(file).pixels.dtype == np.uint16
    for length in np.linspace(9, len(whole) - 1, 12).astype(int):
        file.write_bytes(whole[:length])
        unreadable(file, "damaged or not an image")
    for place in (20, 45, len(whole) // 2, len(whole) - 14):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        unreadable(file, "damaged or not an image|more than the limit")
    assert capfd.readouterr().err == ""  # what breaks off is found before libpng sees it, which would print a line
    file.write_bytes(media.png_that_claims(13, 9, depth=16, colour=colour, data=zlib.compress(bytes(99))))
    unreadable(file, "damaged or not an image")


def test_deep_png_that_claims_or_unpacks_to_much(tmp_path):
    file = tmp_path / "a.png"
    for side in (30_000, 2**31 - 1):
        file.write_bytes(media.png_that_claims(side, side, depth=16, colour=2))
        unreadable(file, "more than the limit of 170 million")
    bomb = zlib.compress(bytes(64 << 20), 9)
    top = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    file.write_bytes(media.png_that_claims(13, 9, depth=16, colour=2, data=bomb))
    assert read_image(file).pixels.shape == (9, 13, 3)  # what is too much is not unpacked
    plain = media.png_that_claims(13, 9, depth=16, colour=2, data=zlib.compress(bytes(9 * 79)))
    for kind, start in ((b"zTXt", b"a\0\0"), (b"iTXt", b"a\0\1\0\0\0")):
        file.write_bytes(plain[:33] + media.chunk(kind, start + bomb) + plain[33:])
        try:
            assert read_image(file).pixels.shape == (9, 13, 3)
        except OSError as error:
            media.check_refusal(error, file)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - top
    assert grown < 32 << (20 if sys.platform == "darwin" else 10)


def test_lzw_strips_that_unpack_to_more_than_they_claim(tmp_path):
    """64 MB of zeros for an image of 18 bytes."""
    big = lzw_tiff(tmp_path / "big.tif", np.zeros((1 << 12, 1 << 13), np.uint16), rows=1 << 12)
    with tifffile.TiffFile(big) as file:
        (offset,), (count,) = file.pages[0].dataoffsets, file.pages[0].databytecounts
    bomb = big.read_bytes()[offset : offset + count]
    assert len(bomb) < 200_000
    file = lzw_tiff(tmp_path / "a.tif", np.zeros((1, 9), np.uint16))
    contents = file.read_bytes()
    file.write_bytes(contents + bomb)
    with tifffile.TiffFile(file, mode="r+b") as opened:
        opened.pages[0].tags["StripOffsets"].overwrite(len(contents))
        opened.pages[0].tags["StripByteCounts"].overwrite(len(bomb))
    top = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        np.testing.assert_array_equal(read_image(file).pixels, np.zeros((1, 9), np.uint16))
    except OSError as error:
        media.check_refusal(error, file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - top < 16 << (20 if sys.platform == "darwin" else 10)


@pytest.mark.parametrize(
    ("tag", "value", "words"),
    [
        ("ImageWidth", 2**31, "more than the limit"),
        ("ImageLength", 10**8, "more than the limit"),
        ("ImageWidth", 10_000, "damaged"),
        ("ImageLength", 10_000, "the number of its strips or tiles is wrong"),
        ("StripOffsets", [10**9] * 9, "it is truncated"),
        ("StripByteCounts", [65535] * 9, "it is truncated"),
        ("RowsPerStrip", 9, "damaged or not an image"),
        ("Predictor", 7, "its predictor is number 7"),
    ],
)
def test_lzw_directories_that_lie(tmp_path, tag, value, words):
    file = lzw_tiff(tmp_path / "a.tif", RNG.integers(0, 65536, (9, 13, 3), np.uint16), rows=1, predictor=2)
    with tifffile.TiffFile(file, mode="r+b") as opened:
        assert len(opened.pages[0].dataoffsets) == 9
        opened.pages[0].tags[tag].overwrite(value)
    unreadable(file, words)


def test_lzw_tiles_with_much_beyond_the_picture(tmp_path, monkeypatch):
    """Neither the picture nor a tile has too many pixels, but all tiles together have."""
    file = lzw_tiff(tmp_path / "a.tif", RNG.integers(0, 65536, (9, 21), np.uint16), tile=16)
    monkeypatch.setenv("COUPLEDICT_MAX_PIXELS", "512")
    assert read_image(file).pixels.shape == (9, 21)
    monkeypatch.setenv("COUPLEDICT_MAX_PIXELS", "511")
    unreadable(file, "32 x 16 pixels are more than the limit")


def test_lzw_that_breaks_off(tmp_path):
    file = lzw_tiff(tmp_path / "a.tif", RNG.integers(0, 65536, (9, 13, 3), np.uint16), rows=1, predictor=2)
    with tifffile.TiffFile(file, mode="r+b") as opened:
        counts = opened.pages[0].databytecounts
        opened.pages[0].tags["StripByteCounts"].overwrite([*counts[:4], 20, *counts[5:]])
    unreadable(file, "damaged or not an image")
