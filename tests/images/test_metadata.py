"""EXIF data of pictures: what is kept, what is dropped, and whether other programs can read the result."""

from __future__ import annotations

import io
import struct
import tracemalloc

import media
import numpy as np
import pytest
import tifffile
from PIL import Image, TiffImagePlugin
from PIL.TiffImagePlugin import IFDRational

from coupledict.images._file_metadata import clean_exif
from coupledict.images._files import Picture, read_header, read_image, write_image
from support.command import call
from support.exif import (
    APERTURE,
    ARTIST,
    COMMENT,
    DATE,
    EXPOSURE_IFD,
    GPS_IFD,
    HIGH,
    ISO,
    LENS,
    MAKE,
    MAKER_NOTE,
    MODEL,
    ORIENTATION,
    SOFTWARE,
    TAKEN,
    TIME,
    UNIQUE,
    WIDE,
    block,
    by_pillow,
)

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(0, 256, (20, 30, 3), dtype=np.uint8)
NAMES = ["a.jpg", "a.png", "a.tif", "a.webp", "deep.png", "deep.tif"]


def write(path, exif=None, **options):
    """Write a picture with EXIF data by Pillow, which knows nothing of ours."""
    Image.fromarray(COLOUR).save(path, exif=exif or block(), **options)
    return path


def pixels(name):
    return COLOUR.astype(np.uint16) * 257 if name.startswith("deep") else COLOUR


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("name", NAMES)
def test_what_the_camera_said_is_kept(tmp_path, name, order):
    source = read_image(write(tmp_path / "source.jpg", block(order)))
    write_image(tmp_path / name, Picture(pixels(name), source.profile, source.exif))
    main, exposure, gps = by_pillow(tmp_path / name)
    assert (main[MAKE], main[MODEL], main[DATE], main[ARTIST]) == (
        "Maker",
        "Model 5",
        "2026:01:02 03:04:05",
        "Somebody",
    )
    assert main[SOFTWARE].startswith("coupledict ")
    assert (main[0x011A], main[0x011B], main[0x0128]) == (240, 240, 2)
    assert (exposure[TIME], exposure[APERTURE], exposure[ISO]) == (IFDRational(1, 250), 2.8, 400)
    assert (exposure[TAKEN], exposure[LENS]) == ("2026:01:02 03:04:05", "90 mm macro")
    assert exposure[COMMENT] == b"ASCII\0\0\0a comment"
    assert gps == {}
    assert GPS_IFD not in main


@pytest.mark.parametrize("name", NAMES)
def test_what_no_longer_holds_is_not(tmp_path, name):
    source = read_image(write(tmp_path / "source.jpg"))
    write_image(tmp_path / name, Picture(pixels(name), None, source.exif))
    main, exposure, _ = by_pillow(tmp_path / name)
    assert main.get(ORIENTATION, 1) == 1
    assert (exposure[WIDE], exposure[HIGH]) == (30, 20)
    assert MAKER_NOTE not in exposure
    assert UNIQUE not in exposure
    contents = (tmp_path / name).read_bytes()
    assert b"secret" not in contents
    assert b"Firmware" not in contents
    assert read_image(tmp_path / name).pixels.shape == COLOUR.shape  # not turned a second time


@pytest.mark.parametrize("name", NAMES)
def test_the_position_is_kept_only_if_asked_for(tmp_path, name):
    source = write(tmp_path / "source.jpg")
    picture = read_image(source, keep_gps=True)
    assert read_header(source, keep_gps=True).exif == picture.exif
    write_image(tmp_path / name, Picture(pixels(name), None, picture.exif))
    assert by_pillow(tmp_path / name)[2] == {1: "N", 2: (48.0, 51.0, 30.0), 3: "E", 4: (2.0, 17.0, 40.0)}
    assert by_pillow(write(tmp_path / "again.jpg", read_image(tmp_path / name).exif))[2] == {}
    write_image(tmp_path / f"plain.{name}", Picture(pixels(name), None, read_image(source).exif))
    assert struct.pack("<II", 48, 1) not in (tmp_path / f"plain.{name}").read_bytes()


@pytest.mark.parametrize("name", ["a.tif", "deep.tif"])
def test_tifffile_reads_the_same(tmp_path, name):
    exif = read_image(write(tmp_path / "source.jpg"), keep_gps=True).exif
    write_image(tmp_path / name, Picture(pixels(name), None, exif))
    with tifffile.TiffFile(tmp_path / name) as file:
        tags = file.pages[0].tags
        assert (tags["Make"].value, tags["DateTime"].value) == ("Maker", "2026:01:02 03:04:05")
        assert tags["ExifTag"].value["ExposureTime"] == (1, 250)
        assert tags["ExifTag"].value["LensModel"] == "90 mm macro"
        assert tags["ExifTag"].value["PixelXDimension"] == 30
        assert tags["GPSTag"].value["GPSLatitude"] == (48, 1, 51, 1, 30, 1)
        np.testing.assert_array_equal(file.pages[0].asarray(), pixels(name))


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "a.tif"])
def test_every_format_is_a_source(tmp_path, name):
    found = read_image(write(tmp_path / name))
    write_image(tmp_path / "out.jpg", Picture(COLOUR, None, found.exif))
    main, exposure, gps = by_pillow(tmp_path / "out.jpg")
    assert (main[MODEL], exposure[LENS], exposure[TIME], gps) == ("Model 5", "90 mm macro", IFDRational(1, 250), {})


def test_tiff_that_pillow_reads_is_a_source(tmp_path):
    Image.fromarray(COLOUR).save(tmp_path / "a.tif", compression="tiff_lzw", tiffinfo={MODEL: "Model 5"})
    write_image(tmp_path / "out.jpg", Picture(COLOUR, None, read_image(tmp_path / "a.tif").exif))
    assert by_pillow(tmp_path / "out.jpg")[0][MODEL] == "Model 5"


def test_a_block_behind_the_pixels_of_png(tmp_path):
    """Its place is free; what it says of the orientation counts, too."""
    plain = io.BytesIO()
    Image.fromarray(COLOUR).save(plain, "PNG")
    contents = plain.getvalue()
    (tmp_path / "a.png").write_bytes(contents[:-12] + media.chunk(b"eXIf", block()[6:]) + contents[-12:])
    found = read_image(tmp_path / "a.png")
    np.testing.assert_array_equal(found.pixels, np.rot90(COLOUR, -1))
    assert read_header(tmp_path / "a.png").shape == (30, 20, 3)
    assert b"90 mm macro" in found.exif


@pytest.mark.parametrize("name", NAMES)
def test_adobe_rgb_without_a_profile_is_still_told(tmp_path, name):
    """Cameras tell it by the letters R03 in a directory of its own."""
    exif = Image.Exif()
    exif[MAKE] = "Maker"
    exif.get_ifd(EXPOSURE_IFD)[0xA001] = 65535
    exif.get_ifd(EXPOSURE_IFD)[0xA005] = {1: "R03", 2: b"0100"}
    write_image(tmp_path / name, Picture(pixels(name), None, read_image(write(tmp_path / "s.jpg", exif)).exif))
    with Image.open(tmp_path / name) as image:
        found = image.getexif()
        assert found.get_ifd(EXPOSURE_IFD)[0xA001] == 65535
        assert dict(found.get_ifd(0xA005)) == {1: "R03", 2: b"0100"}


def test_the_small_preview_is_left_behind(tmp_path):
    small = io.BytesIO()
    Image.fromarray(COLOUR[::2, ::2]).save(small, "JPEG")
    exif = block()[6:]
    # A second directory, to which the first points, has the preview.
    order = "<" if exif[:2] == b"II" else ">"
    (start,) = struct.unpack_from(order + "I", exif, 4)
    (count,) = struct.unpack_from(order + "H", exif, start)
    place = len(exif)
    second = struct.pack(order + "H", 2)
    second += struct.pack(order + "HHII", 0x0201, 4, 1, place + 30) + struct.pack(order + "HHII", 0x0202, 4, 1, 600)
    changed = bytearray(exif + second + bytes(4) + small.getvalue())
    struct.pack_into(order + "I", changed, start + 2 + 12 * count, place)
    found = read_image(write(tmp_path / "a.jpg", b"Exif\0\0" + bytes(changed)))
    assert b"90 mm macro" in found.exif
    assert small.getvalue()[:50] not in found.exif
    assert len(found.exif) < 1000


def test_xmp_is_not_copied(tmp_path):
    """It may tell the position in ways of its own."""
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf exif:GPSLatitude="48,51.5N"/></x:xmpmeta>'
    write(tmp_path / "a.jpg", xmp=xmp)
    assert b"GPSLatitude" in (tmp_path / "a.jpg").read_bytes()
    picture = read_image(tmp_path / "a.jpg", keep_gps=True)
    for name in NAMES:
        write_image(tmp_path / f"out-{name}", Picture(pixels(name), picture.profile, picture.exif))
        assert b"GPSLatitude" not in (tmp_path / f"out-{name}").read_bytes()


def test_pictures_without_data_get_none(tmp_path):
    Image.fromarray(COLOUR).save(tmp_path / "plain.jpg")
    found = read_image(tmp_path / "plain.jpg")
    assert found.exif is None
    for name in NAMES:
        write_image(tmp_path / name, Picture(pixels(name), None, found.exif))
        assert by_pillow(tmp_path / name)[1:] == ({}, {})


def test_bmp_has_no_room_for_data(tmp_path):
    write_image(tmp_path / "a.bmp", Picture(COLOUR, None, read_image(write(tmp_path / "a.jpg")).exif))
    np.testing.assert_array_equal(read_image(tmp_path / "a.bmp").pixels, COLOUR)


def test_fill_keeps_them_and_never_the_position(tmp_path):
    photograph = np.kron(RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8), np.ones((6, 6, 1), np.uint8))
    holes = RNG.random(photograph.shape[:2]) < 0.1
    Image.fromarray(np.dstack([photograph, np.where(holes, 0, 255).astype(np.uint8)])).save(
        tmp_path / "holes.png", exif=block()
    )
    done = call("fill", tmp_path / "holes.png", "-o", tmp_path / "whole.png", "--threads", 1)
    assert done.returncode == 0, done.stderr
    main, exposure, gps = by_pillow(tmp_path / "whole.png")
    assert (main[MODEL], exposure[LENS], gps) == ("Model 5", "90 mm macro", {})


def test_values_begin_at_even_places(tmp_path):
    """TIFF asks for it, and some readers insist."""
    odd = block().replace(b"Somebody\0", b"Somebod\0\0")
    for length in (8, 9):
        exif = Image.Exif()
        exif[MAKE], exif[ARTIST] = "M" * length, "A" * length
        exif.get_ifd(EXPOSURE_IFD)[LENS] = "L" * length
        for found in (clean_exif(exif.tobytes()), clean_exif(odd, keep_gps=True)):
            (start,) = struct.unpack_from("<I", found, 4)
            (count,) = struct.unpack_from("<H", found, start)
            for place in range(start + 2, start + 2 + 12 * count, 12):
                tag, kind, number, value = struct.unpack_from("<HHII", found, place)
                if tag in (EXPOSURE_IFD, GPS_IFD) or number * {2: 1, 5: 8}.get(kind, 1) > 4:
                    assert value % 2 == 0, hex(tag)


# Damaged data


def test_damage_is_dropped_in_silence(tmp_path):
    """Cut and changed blocks: the picture is read and written, and what is kept is kept whole."""
    whole = block()[6:]
    rng = np.random.default_rng(1)
    for number in range(400):
        damaged = bytearray(whole)
        if number % 2:
            damaged = damaged[: int(rng.integers(len(whole)))]
        for _ in range(int(rng.integers(1, 6))):
            if damaged:
                damaged[int(rng.integers(len(damaged)))] = int(rng.integers(256))
        for keep_gps in (False, True):
            found = clean_exif(bytes(damaged), keep_gps=keep_gps)
            assert found is None or clean_exif(found, keep_gps=keep_gps) == found
        if found is not None:
            write_image(tmp_path / "a.tif", Picture(COLOUR, None, found), force=True)
            np.testing.assert_array_equal(read_image(tmp_path / "a.tif").pixels, COLOUR)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"Exif\0\0",
        b"II*\0",
        b"II*\0\xff\xff\xff\xff",
        b"XX*\0\x08\0\0\0",
        b"II*\0\x08\0\0\0\xff\xff" + b"\xee" * 400,
    ],
)
def test_what_is_no_block(damaged):
    assert clean_exif(damaged) is None
    assert clean_exif(None) is None


def test_huge_values_are_left_out(tmp_path):
    """A comment of half a megabyte, claims of gigabytes, and directories that point to themselves."""
    for length in (5000, 500_000):
        exif = Image.Exif()
        exif[MAKE], exif[0x010E] = "Maker", "x" * length
        Image.fromarray(COLOUR).save(tmp_path / "a.png", exif=exif)
        found = read_image(tmp_path / "a.png").exif
        assert len(found) < 200
        assert b"Maker" in found
    entries = [(0x010F, 2, 2**31, 8), (EXPOSURE_IFD, 4, 1, 8), (GPS_IFD, 4, 1, 8), (0x0110, 2, 6, 62)]
    hostile = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(entries))
    hostile += b"".join(struct.pack("<HHII", *entry) for entry in entries) + bytes(4) + b"Model\0" * 9
    tracemalloc.start()
    found = clean_exif(hostile, keep_gps=True)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert b"Model" in found
    assert len(found) < 200


def test_many_values_fit_a_jpeg_file(tmp_path):
    """Each is short enough, and all together are not."""
    entries = [(tag, 1, 4096) for tag in range(0x9C9B, 0x9CA0)] + [(tag, 7, 4096) for tag in range(0x9201, 0x9217)]
    start = 8 + 2 + 12 * (5 + 1) + 4
    second = 2 + 12 * 22 + 4
    place = start + second
    table = b""
    for tag, kind, length in entries[:5]:
        table += struct.pack("<HHII", tag, kind, length, place)
    table = struct.pack("<HHII", EXPOSURE_IFD, 4, 1, start) + table
    inner = b"".join(struct.pack("<HHII", tag, kind, length, place) for tag, kind, length in entries[5:])
    data = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", 6) + table + bytes(4)
    data += struct.pack("<H", 22) + inner + bytes(4) + bytes(range(256)) * 16
    found = clean_exif(data)
    assert 40_000 < len(found) < 61_000
    write_image(tmp_path / "a.jpg", Picture(COLOUR, None, found))
    assert by_pillow(tmp_path / "a.jpg")[0][0x9C9B] == bytes(range(256)) * 16


def test_odd_resolutions_do_not_break_tiff(tmp_path):
    for across in (IFDRational(0, 1), IFDRational(1, 0)):
        exif = Image.Exif()
        exif[MAKE], exif[0x011A], exif[0x011B], exif[0x0128] = "Maker", across, across, 2
        source = tmp_path / "a.png"
        Image.fromarray(COLOUR).save(source, exif=exif)
        write_image(tmp_path / "a.tif", Picture(COLOUR, None, read_image(source).exif), force=True)
        assert by_pillow(tmp_path / "a.tif")[0][MAKE] == "Maker"


def test_letters_beyond_ascii_are_kept(tmp_path):
    exif = Image.Exif()
    exif.load(block())
    contents = block().replace(b"Somebody", "Jérôme".encode())  # as many bytes
    source = write(tmp_path / "a.jpg", contents)
    for name in NAMES:
        write_image(tmp_path / f"out-{name}", Picture(pixels(name), None, read_image(source).exif))
        assert "Jérôme".encode() in (tmp_path / f"out-{name}").read_bytes()


def test_pillow_is_the_judge_of_tiff_types(tmp_path):
    """Types are those of the source: a rational number does not become two."""
    write_image(tmp_path / "a.tif", Picture(COLOUR, None, read_image(write(tmp_path / "a.jpg")).exif))
    with Image.open(tmp_path / "a.tif") as image:
        exposure = image.getexif().get_ifd(EXPOSURE_IFD)
        assert isinstance(exposure[TIME], TiffImagePlugin.IFDRational)
        assert isinstance(exposure[ISO], int)
