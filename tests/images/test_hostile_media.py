"""Hostile image files: the right result or an error of one sentence, in bounded memory."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zlib

import media
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from coupledict.images import SuperResolution
from coupledict.images import _files as images
from coupledict.images._files import Picture, read_image, write_image
from support.command import call, refused
from support.damage import unreadable

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (9, 13), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (9, 13, 3), dtype=np.uint8)
ALPHA = RNG.integers(0, 256, (9, 13, 4), dtype=np.uint8)
DEEP = RNG.integers(0, 65536, (9, 13), dtype=np.uint16)
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def pillow(path, image, **options):
    image.save(path, **options)
    return read_image(path)


def tiff(path, pixels, **options):
    tifffile.imwrite(path, pixels, metadata=None, **options)
    return path


def test_random_damage():
    found = media.run(600, 11)
    assert found["mutations"] == 600 == found["read"] + found["refused"]
    assert found["read"] > 100
    assert found["refused"] > 200


# What claims to be huge


@pytest.mark.parametrize("side", [30_000, 100_000, 2**31 - 1])
@pytest.mark.parametrize("colour", [0, 2, 6])
def test_small_files_that_claim_many_pixels(tmp_path, side, colour):
    (tmp_path / "a.png").write_bytes(media.png_that_claims(side, side, colour=colour))
    unreadable(tmp_path / "a.png", "more than the limit of 170 million; set COUPLEDICT_MAX_PIXELS to a larger number")


def test_a_real_picture_of_900_million_pixels(tmp_path):
    """It is whole, and its file is of a hundred kilobytes."""
    packer = zlib.compressobj(1)
    row = bytes(1 + 30_000 // 8)
    data = b"".join(packer.compress(row * 500) for _ in range(60)) + packer.flush()
    (tmp_path / "a.png").write_bytes(media.png_that_claims(30_000, 30_000, depth=1, data=data))
    assert (tmp_path / "a.png").stat().st_size < 600_000
    unreadable(tmp_path / "a.png", "it claims to have more than the limit")


def test_other_formats_that_claim_many_pixels(tmp_path):
    gif = b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0)
    (tmp_path / "a.gif").write_bytes(
        gif + b"," + struct.pack("<HHHHB", 0, 0, 65535, 65535, 0) + b"\x02\x02\x44\x01\x00;"
    )
    unreadable(tmp_path / "a.gif", "more than the limit")
    chunk = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (16383).to_bytes(3, "little") * 2
    (tmp_path / "a.webp").write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk)
    unreadable(tmp_path / "a.webp", "16384 x 16384 pixels are more than the limit")
    chunk = b"VP8L" + struct.pack("<I", 5) + b"\x2f" + ((1 << 28) - 1).to_bytes(4, "little") + bytes(6)
    (tmp_path / "a.webp").write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk)
    unreadable(tmp_path / "a.webp", "16384 x 16384 pixels are more than the limit")
    chunk = b"VP8 " + struct.pack("<I", 10) + b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 16000, 15000)
    (tmp_path / "a.webp").write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk)
    unreadable(tmp_path / "a.webp", "16000 x 15000 pixels are more than the limit")
    (tmp_path / "a.bmp").write_bytes(
        b"BM"
        + struct.pack("<IHHI", 100, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, 10**6, 10**6, 1, 24, 0, 0, 0, 0, 0, 0)
    )
    unreadable(tmp_path / "a.bmp", "more than the limit")
    (tmp_path / "a.ppm").write_bytes(b"P6 1000000 1000000 255\n")
    unreadable(tmp_path / "a.ppm", "more than the limit")


def test_the_size_of_a_webp_file_is_known_before_it_is_opened(tmp_path):
    for name, options in (("a", {}), ("b", {"lossless": True}), ("c", {"exif": Image.Exif(), "icc_profile": PROFILE})):
        Image.fromarray(COLOUR).save(tmp_path / f"{name}.webp", **options)
        assert images._webp_size((tmp_path / f"{name}.webp").read_bytes()[:30]) == (9, 13)


def patched_tiff(path, pixels, tag, value, **options):
    """Write a TIFF file in which one number of its directory is a lie."""
    tiff(path, pixels, **options)
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages[0].tags[tag].overwrite(value)
    return path


@pytest.mark.parametrize(
    ("tag", "value"), [("ImageWidth", 2**31), ("ImageLength", 2**31), ("ImageWidth", 10**8), ("ImageLength", 10**8)]
)
def test_tiff_files_that_claim_many_pixels(tmp_path, tag, value):
    unreadable(patched_tiff(tmp_path / "a.tif", GREY, tag, value), "pixels are more than the limit")


@pytest.mark.parametrize("tag", ["TileWidth", "TileLength"])
def test_tiff_files_of_huge_tiles(tmp_path, tag):
    file = patched_tiff(tmp_path / "a.tif", GREY, tag, 2**30, tile=(16, 16), compression="zlib")
    unreadable(file, "pixels are more than the limit")


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        ("StripOffsets", 10**9),
        ("StripByteCounts", 2**32 - 1),
        ("StripOffsets", 0),
        ("BitsPerSample", 7),
        ("SamplesPerPixel", 60_000),
        ("Compression", 60_000),
    ],
)
def test_tiff_directories_that_lie(tmp_path, tag, value):
    file = patched_tiff(tmp_path / "a.tif", GREY, tag, value)
    try:
        assert read_image(file).pixels.shape[:2] == GREY.shape
    except OSError as error:
        media.check_refusal(error, file)


def test_strips_that_unpack_to_more_than_they_claim(tmp_path):
    """64 MB of zeros in a strip of 117 bytes."""
    tiff(tmp_path / "a.tif", np.zeros((9, 13), np.uint8), compression="zlib")
    bomb = zlib.compress(bytes(64 << 20), 9)
    contents = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(contents + bomb)
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as file:
        file.pages[0].tags["StripOffsets"].overwrite(len(contents))
        file.pages[0].tags["StripByteCounts"].overwrite(len(bomb))
    unreadable(tmp_path / "a.tif", "it decompresses to more bytes than it declares")


def test_the_limit_is_one_number_that_can_be_set(tmp_path, monkeypatch):
    Image.fromarray(GREY).save(tmp_path / "a.png")
    tiff(tmp_path / "a.tif", GREY)
    monkeypatch.setenv("COUPLEDICT_MAX_PIXELS", "116")
    for name in ("a.png", "a.tif"):
        unreadable(tmp_path / name, r"13 x 9 pixels are more than the limit of 0\.000116 million")
    with pytest.raises(ValueError, match="13 x 9 pixels are more than the limit"):
        write_image(tmp_path / "b.png", Picture(GREY))
    assert not (tmp_path / "b.png").exists()
    monkeypatch.setenv("COUPLEDICT_MAX_PIXELS", "117")
    for name in ("a.png", "a.tif"):
        assert read_image(tmp_path / name).pixels.shape == GREY.shape
    monkeypatch.setenv("COUPLEDICT_MAX_PIXELS", "many")
    with pytest.raises(ValueError, match="Expected COUPLEDICT_MAX_PIXELS to be a number of pixels, got 'many'"):
        read_image(tmp_path / "a.png")


def test_the_limit_can_be_lifted_beyond_that_of_pillow(tmp_path, monkeypatch):
    Image.fromarray(GREY).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    monkeypatch.setenv("COUPLEDICT_MAX_PIXELS", "100")
    unreadable(tmp_path / "a.png", "could not be read: it claims to have more than the limit")
    monkeypatch.setenv("COUPLEDICT_MAX_PIXELS", "1000")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png").pixels, GREY)


@pytest.mark.parametrize("name", ["a.jpg", "a.webp"])
def test_formats_without_room(tmp_path, capfd, name):
    with pytest.raises(
        ValueError, match=r"Expected at most \d+ pixels in width and height .* Use a name ending in \.png"
    ):
        write_image(tmp_path / name, Picture(np.zeros((1, 70_000), np.uint8)))
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


# Kinds of pictures


def test_one_pixel(tmp_path):
    for name in ("a.png", "a.tif", "a.jpg", "a.bmp", "a.webp"):
        write_image(tmp_path / name, Picture(np.full((1, 1, 3), 200, np.uint8)))
        assert np.abs(read_image(tmp_path / name).pixels.astype(int) - 200).max() <= 3
    large = SuperResolution.pretrained(2).upscale(np.full((1, 1, 3), 200, np.uint8))
    assert large.shape == (2, 2, 3)
    assert np.abs(large.astype(int) - 200).max() <= 1


UPRIGHT = {
    1: lambda x: x,
    2: np.fliplr,
    3: lambda x: np.rot90(x, 2),
    4: np.flipud,
    5: lambda x: x.swapaxes(0, 1),
    6: lambda x: np.rot90(x, -1),
    7: lambda x: np.rot90(x, 2).swapaxes(0, 1),
    8: np.rot90,
}


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("pixels", [GREY, COLOUR], ids=["grey", "colour"])
def test_every_orientation(tmp_path, orientation, pixels):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    Image.fromarray(pixels).save(tmp_path / "lzw.tif", exif=exif, compression="tiff_lzw")
    tiff(
        tmp_path / "a.tif",
        pixels,
        photometric="rgb" if pixels.ndim == 3 else "minisblack",
        extratags=[(274, 3, 1, orientation, True)],
    )
    for name in ("a.png", "a.tif", "lzw.tif"):
        np.testing.assert_array_equal(read_image(tmp_path / name).pixels, UPRIGHT[orientation](pixels), err_msg=name)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=100, subsampling=0)
    found = read_image(tmp_path / "a.jpg").pixels.astype(int)
    assert np.abs(found - UPRIGHT[orientation](pixels)).max() <= 8


def test_palettes_and_transparency(tmp_path):
    palette = Image.new("P", (13, 9))
    palette.putdata((GREY % 4).ravel().tolist())
    colours = RNG.integers(0, 256, (4, 3), np.uint8)
    palette.putpalette(colours.tobytes())
    plain = pillow(tmp_path / "plain.png", palette).pixels
    np.testing.assert_array_equal(plain, colours[GREY % 4])
    clear = pillow(tmp_path / "clear.png", palette, transparency=bytes([0, 100, 200, 255])).pixels
    np.testing.assert_array_equal(clear[..., 3], np.array([0, 100, 200, 255])[GREY % 4])
    np.testing.assert_array_equal(clear[..., :3], plain)
    np.testing.assert_array_equal(pillow(tmp_path / "a.gif", palette).pixels, plain)
    np.testing.assert_array_equal(pillow(tmp_path / "a.tif", palette).pixels, plain)


def test_one_colour_that_is_transparent(tmp_path):
    grey = pillow(tmp_path / "grey.png", Image.fromarray(GREY), transparency=int(GREY[0, 0])).pixels
    np.testing.assert_array_equal(grey[..., 3], 255 * (GREY[0, 0] != GREY))
    colour = pillow(tmp_path / "a.png", Image.fromarray(COLOUR), transparency=tuple(map(int, COLOUR[0, 0]))).pixels
    assert colour[0, 0, 3] == 0
    assert np.count_nonzero(colour[..., 3] == 0) == 1


def test_grey_with_alpha(tmp_path):
    two = Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(GREY[::-1])])
    for name in ("a.png", "a.tif"):
        found = pillow(tmp_path / name, two).pixels
        np.testing.assert_array_equal(found, np.dstack([GREY, GREY, GREY, GREY[::-1]]), err_msg=name)


def test_bits(tmp_path):
    bits = GREY > 100
    for name in ("a.png", "a.tif", "a.bmp"):
        found = pillow(tmp_path / name, Image.fromarray(bits)).pixels
        np.testing.assert_array_equal(found if found.ndim == 2 else found[..., 0], bits * 255, err_msg=name)
    np.testing.assert_array_equal(
        pillow(tmp_path / "f.tif", Image.fromarray(bits), compression="group4").pixels, bits * 255
    )
    np.testing.assert_array_equal(
        read_image(tiff(tmp_path / "t.tif", bits, photometric="minisblack")).pixels, bits * 255
    )


@pytest.mark.parametrize("pixels", [GREY, DEEP], ids=["8 bits", "16 bits"])
def test_tiff_that_counts_from_white(tmp_path, pixels):
    file = tiff(tmp_path / "a.tif", pixels, photometric="miniswhite")
    np.testing.assert_array_equal(read_image(file).pixels, np.iinfo(pixels.dtype).max - pixels)


@pytest.mark.parametrize(
    "options", [{}, {"compression": "zlib"}, {"tile": (16, 16)}, {"bigtiff": True}, {"byteorder": ">"}]
)
def test_tiff_keeps_sixteen_bits_of_colour(tmp_path, options):
    deep = RNG.integers(0, 65536, (9, 13, 3), dtype=np.uint16)
    np.testing.assert_array_equal(read_image(tiff(tmp_path / "a.tif", deep, photometric="rgb", **options)).pixels, deep)
    planes = tiff(tmp_path / "b.tif", deep.transpose(2, 0, 1), photometric="rgb", planarconfig="separate", **options)
    np.testing.assert_array_equal(read_image(planes).pixels, deep)


def test_four_inks_are_not_taken_for_alpha(tmp_path):
    inks = Image.fromarray(COLOUR).convert("CMYK")
    expected = np.asarray(inks.convert("RGB"))
    for name, options in (("a.tif", {}), ("lzw.tif", {"compression": "tiff_lzw"})):
        np.testing.assert_array_equal(pillow(tmp_path / name, inks, **options).pixels, expected, err_msg=name)
    smooth = Image.fromarray(np.full((16, 16, 3), (200, 40, 90), np.uint8)).convert("CMYK")
    found = pillow(tmp_path / "a.jpg", smooth, quality=100).pixels
    assert np.abs(found.astype(int) - (200, 40, 90)).max() <= 4


def test_a_tiff_file_by_another_name_is_read_as_one(tmp_path):
    deep = RNG.integers(0, 65536, (9, 13, 3), dtype=np.uint16)
    tiff(tmp_path / "a.tif", deep, photometric="rgb").rename(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png").pixels, deep)
    Image.fromarray(COLOUR).save(tmp_path / "b.png")
    (tmp_path / "b.png").rename(tmp_path / "b.tif")
    np.testing.assert_array_equal(read_image(tmp_path / "b.tif").pixels, COLOUR)


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "uint32", "complex64"])
def test_tiff_of_other_numbers(tmp_path, kind):
    pixels = np.full((9, 13), np.nan if kind.startswith("f") else 1).astype(kind)
    unreadable(tiff(tmp_path / "a.tif", pixels, photometric="minisblack"), "save it with 8 or 16 bits")


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp", "a.tif"])
def test_animations(tmp_path, name):
    frames = [Image.fromarray(frame) for frame in (COLOUR, 255 - COLOUR, COLOUR[::-1])]
    frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
    unreadable(tmp_path / name, "it holds (several frames|3 pages); save the one you want as a separate picture")


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
def test_pictures_that_break_off(tmp_path, suffix):
    whole = tmp_path / f"a{suffix}"
    write_image(whole, Picture(RNG.integers(0, 256, (40, 50, 3), dtype=np.uint8)))
    contents, cut = whole.read_bytes(), tmp_path / f"cut{suffix}"
    # The last bytes of a PNG file only say that it ends, and libwebp takes what it has.
    for length in np.linspace(0, len(contents) - 300, 12).astype(int):
        cut.write_bytes(contents[:length])
        unreadable(cut, "damaged or not an image")


@pytest.mark.parametrize("profile", [b"", b"no profile", PROFILE[:-5], b"\xff" * 3000, bytes(200)])
def test_a_damaged_colour_profile_is_left_behind(tmp_path, profile):
    for name in ("a.png", "a.jpg", "lzw.tif"):
        options = {"compression": "tiff_lzw"} if name == "lzw.tif" else {}
        found = pillow(tmp_path / name, Image.fromarray(COLOUR), icc_profile=profile, **options)
        assert found.pixels.shape == COLOUR.shape
        assert found.profile is None
    assert pillow(tmp_path / "good.png", Image.fromarray(COLOUR), icc_profile=PROFILE).profile == PROFILE


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + b"\xee" * 40]
)
def test_damaged_exif_data_say_nothing(tmp_path, exif):
    found = pillow(tmp_path / "a.jpg", Image.fromarray(COLOUR), exif=exif, quality=100, subsampling=0)
    assert np.abs(found.pixels.astype(int) - COLOUR).max() <= 8
    np.testing.assert_array_equal(pillow(tmp_path / "a.png", Image.fromarray(COLOUR), exif=exif[6:]).pixels, COLOUR)


def test_chunks_that_unpack_to_much(tmp_path):
    bomb = zlib.compress(bytes(64 << 20), 9)
    plain = io.BytesIO()
    Image.fromarray(GREY).save(plain, "PNG")
    head, rest = plain.getvalue()[:33], plain.getvalue()[33:]
    for kind, start in ((b"zTXt", b"a\0\0"), (b"iCCP", b"a\0\0"), (b"iTXt", b"a\0\1\0\0\0")):
        (tmp_path / "a.png").write_bytes(head + media.chunk(kind, start + bomb) + rest)
        tracemalloc.start()
        try:
            found = read_image(tmp_path / "a.png")
            np.testing.assert_array_equal(found.pixels, GREY)
        except OSError as error:
            media.check_refusal(error, tmp_path / "a.png")
        finally:
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
            tracemalloc.stop()


def test_programs_are_not_called_to_read_a_picture(tmp_path):
    (tmp_path / "a.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n%%EOF\n")
    unreadable(tmp_path / "a.png", "damaged or not an image")


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").mkdir()
    for name in ("pipe.png", "folder.png", "nothing.png"):
        with pytest.raises(FileNotFoundError, match="found none"):
            read_image(tmp_path / name)


# The command line


HOSTILE = {
    "text.jpg": (b"no picture", "damaged or not an image"),
    "cut.png": (media.png_that_claims(40, 40, data=zlib.compress(bytes(100))), "damaged or not an image"),
    "deep.png": (media.png_that_claims(40, 40, depth=16, colour=2)[:-14], "damaged or not an image"),
    "wide.png": (media.png_that_claims(30_000, 30_000), "more than the limit of 170 million"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_picture_that_cannot_be_enlarged_or_fused(tmp_path, name):
    contents, words = HOSTILE[name]
    source, out = tmp_path / name, tmp_path / "out.png"
    source.write_bytes(contents)
    assert words in refused(call("upscale", source, "-o", out))
    other = tmp_path / f"other{source.suffix}"
    other.write_bytes(contents)
    assert words in refused(call("fuse", source, other, "-o", out))
    assert {file.name for file in tmp_path.iterdir()} == {name, other.name}


def test_a_bomb_at_the_command_line(tmp_path):
    (tmp_path / "a.png").write_bytes(media.png_that_claims(100_000, 100_000))
    done = call("upscale", tmp_path / "a.png", "-o", tmp_path / "out.png")
    assert "more than the limit of 170 million" in refused(done)
    assert len(done.stderr.splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]


def test_a_model_that_is_none_at_the_command_line(tmp_path):
    Image.fromarray(GREY).save(tmp_path / "a.png")
    (tmp_path / "model").write_bytes((2**63).to_bytes(8, "little") + b"{}")
    done = call("upscale", tmp_path / "a.png", "-o", tmp_path / "out.png", "--model", tmp_path / "model")
    assert "truncated at 10 bytes" in refused(done)
    assert not (tmp_path / "out.png").exists()
