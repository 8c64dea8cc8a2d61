import os
import stat
import sys
from pathlib import Path

import media
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms, ImageFile

from coupledict.foundation.block_sizes import SIZES
from coupledict.images._files import Picture, check_output, read_header, read_image, write_image
from support.deep_files import deep_png, lzw_tiff

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (9, 13), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (9, 13, 3), dtype=np.uint8)
ALPHA = RNG.integers(0, 256, (9, 13, 4), dtype=np.uint8)
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@pytest.mark.parametrize("suffix", [".png", ".tif", ".tiff", ".webp"])
@pytest.mark.parametrize("pixels", [GREY, COLOUR, ALPHA], ids=["grey", "colour", "alpha"])
def test_what_is_written_is_read(tmp_path, pixels, suffix):
    if suffix == ".webp":  # lossy, and without grey
        write_image(tmp_path / f"a{suffix}", Picture(pixels), quality=100)
        assert read_image(tmp_path / f"a{suffix}").pixels.shape == (9, 13, pixels.shape[2] if pixels.ndim == 3 else 3)
        return
    write_image(tmp_path / f"a{suffix}", Picture(pixels))
    np.testing.assert_array_equal(read_image(tmp_path / f"a{suffix}").pixels, pixels)


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_sixteen_bit_grey_keeps_its_bits(tmp_path, name):
    pixels = RNG.integers(0, 65536, (7, 5), dtype=np.uint16)
    write_image(tmp_path / name, Picture(pixels))
    found = read_image(tmp_path / name).pixels
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, pixels)


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_sixteen_bit_colour_keeps_its_bits(tmp_path, name, channels):
    pixels = RNG.integers(0, 65536, (7, 5, channels), dtype=np.uint16)
    write_image(tmp_path / name, Picture(pixels))
    np.testing.assert_array_equal(read_image(tmp_path / name).pixels, pixels)


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize(
    "more", [b"", media.chunk(b"gAMA", (30000).to_bytes(4, "big")), media.chunk(b"sBIT", bytes([12] * 3))]
)
def test_sixteen_bits_of_colour_in_png(tmp_path, more, interlaced):
    """Neither a gamma nor significant bits change the numbers, as Pillow and tifffile leave them, too."""
    file = tmp_path / "a.png"
    for colour, channels in ((2, 3), (4, 2), (6, 4)):
        pixels = RNG.integers(0, 65536, (9, 13, channels), dtype=np.uint16)
        file.write_bytes(deep_png(pixels, colour, more=more if colour == 2 else b"", interlaced=interlaced))
        expected = pixels[..., [0, 0, 0, 1]] if colour == 4 else pixels
        np.testing.assert_array_equal(read_image(file).pixels, expected)
    with Image.open(file) as image:
        assert image.mode == "RGBA"  # 8 bits are what Pillow makes of it


def test_a_transparent_colour_of_sixteen_bits(tmp_path, capfd):
    pixels = RNG.integers(0, 65536, (9, 13, 3), dtype=np.uint16)
    name = media.chunk(b"tRNS", pixels[2, 3].astype(">u2").tobytes())
    (tmp_path / "a.png").write_bytes(deep_png(pixels, 2, more=name))
    found = read_image(tmp_path / "a.png").pixels
    np.testing.assert_array_equal(found[..., :3], pixels)
    expected = np.full((9, 13), 65535)
    expected[2, 3] = 0
    np.testing.assert_array_equal(found[..., 3], expected)
    contents = deep_png(pixels, 2)
    (tmp_path / "late.png").write_bytes(contents[:-12] + name + contents[-12:])  # behind the pixels it does not count
    np.testing.assert_array_equal(read_image(tmp_path / "late.png").pixels, pixels)
    assert capfd.readouterr().err == ""


def test_what_is_written_with_sixteen_bits_is_right_for_others(tmp_path):
    """OpenCV wrote it, so others are asked: Pillow sees the upper 8 bits, and the bytes are those of the standard."""
    pixels = RNG.integers(0, 65536, (9, 13, 3), dtype=np.uint16)
    write_image(tmp_path / "a.png", Picture(pixels, PROFILE))
    with Image.open(tmp_path / "a.png") as image:
        np.testing.assert_array_equal(np.asarray(image), pixels >> 8)
        assert image.info["icc_profile"] == PROFILE
    with Image.open(tmp_path / "a.png") as image:
        image.verify()  # checksums of all chunks


def test_without_opencv_the_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    pixels = RNG.integers(0, 65536, (9, 13, 3), dtype=np.uint16)
    (tmp_path / "a.png").write_bytes(deep_png(pixels, 2))
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ImportError, match=r'pip install "coupledict\[images\]"'):
        read_image(tmp_path / "a.png")
    with pytest.raises(ImportError, match="opencv-python-headless"):
        write_image(tmp_path / "b.png", Picture(pixels))
    assert not (tmp_path / "b.png").exists()


ORDERS = [("<", 1), (">", 2), ("<", 2), (">", 1)]  # of bytes, and the predictor


@pytest.mark.parametrize(
    ("channels", "layout", "order", "predictor"),
    [
        (channels, layout, *ORDERS[(i + j) % 4])
        for i, layout in enumerate([{}, {"rows": 9}, {"rows": 1}, {"tile": 16}, {"planes": True}])
        for j, channels in enumerate([0, 3, 4])
    ],
    ids=str,
)
def test_sixteen_bit_tiff_packed_by_lzw(tmp_path, channels, layout, order, predictor):
    channels = 3 if layout.get("planes") and not channels else channels
    pixels = RNG.integers(0, 65536, (9, 21, channels) if channels else (9, 21), dtype=np.uint16)
    file = lzw_tiff(tmp_path / "a.tif", pixels, predictor=predictor, order=order, **layout)
    np.testing.assert_array_equal(read_image(file).pixels, pixels)


def test_the_lzw_of_another_library(tmp_path):
    cv2 = pytest.importorskip("cv2")
    pixels = np.cumsum(RNG.integers(0, 9, (50, 70, 3), dtype=np.uint16), axis=1, dtype=np.uint16)
    done, encoded = cv2.imencode(".tif", pixels[..., ::-1], [cv2.IMWRITE_TIFF_COMPRESSION, 5])
    assert done
    (tmp_path / "a.tif").write_bytes(encoded.tobytes())
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert (file.pages[0].compression, file.pages[0].predictor) == (5, 2)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif").pixels, pixels)


def test_lzw_that_counts_from_white(tmp_path):
    pixels = RNG.integers(0, 65536, (9, 21), dtype=np.uint16)
    np.testing.assert_array_equal(read_image(lzw_tiff(tmp_path / "a.tif", pixels, white=True)).pixels, ~pixels)


def test_many_strips_are_unpacked_in_groups(tmp_path):
    pixels = RNG.integers(0, 65536, (31, 9, 3), dtype=np.uint16)
    with SIZES.changed(unpacked_bytes=300):
        for rows in (1, 4, 31):
            np.testing.assert_array_equal(read_image(lzw_tiff(tmp_path / "a.tif", pixels, rows=rows)).pixels, pixels)


def test_previews_beside_the_picture_do_not_count(tmp_path):
    """Capture One and others put a small preview behind the picture; cameras put one into JPEG files."""
    deep = RNG.integers(0, 65536, (9, 13, 3), dtype=np.uint16)
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(deep, photometric="rgb", metadata=None)
        file.write(COLOUR[::3, ::3], photometric="rgb", subfiletype=1, metadata=None)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif").pixels, deep)
    with tifffile.TiffWriter(tmp_path / "b.tif") as file:
        file.write(COLOUR[::3, ::3], photometric="rgb", subfiletype=1, metadata=None)
        file.write(deep, photometric="rgb", metadata=None)
    np.testing.assert_array_equal(read_image(tmp_path / "b.tif").pixels, deep)
    Image.fromarray(COLOUR).save(
        tmp_path / "c.jpg",
        "MPO",
        save_all=True,
        append_images=[Image.fromarray(COLOUR[::2])],
        quality=100,
        subsampling=0,
    )
    assert np.abs(read_image(tmp_path / "c.jpg").pixels.astype(int) - COLOUR).max() <= 8


@pytest.mark.parametrize("name", media.make_images())
def test_the_header_tells_what_will_be_read(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(media.make_images()[name])
    try:
        picture = read_image(file)
    except OSError:
        return
    about = read_header(file)
    assert (about.shape, about.dtype) == (picture.pixels.shape, picture.pixels.dtype)
    assert (about.profile, about.exif) == (picture.profile, picture.exif)


def test_headers_are_read_without_pixels(tmp_path, monkeypatch):
    deep = RNG.integers(0, 65536, (9, 13, 3), dtype=np.uint16)
    write_image(tmp_path / "a.png", Picture(deep))
    write_image(tmp_path / "a.tif", Picture(deep))
    write_image(tmp_path / "b.png", Picture(COLOUR))
    write_image(tmp_path / "a.jpg", Picture(COLOUR))
    loaded = []
    monkeypatch.setattr(ImageFile.ImageFile, "load", loaded.append)
    monkeypatch.setattr(tifffile.TiffPage, "asarray", None)
    monkeypatch.setitem(sys.modules, "cv2", None)
    for name, bits in (("a.png", 16), ("a.tif", 16), ("b.png", 8), ("a.jpg", 8)):
        assert str(read_header(tmp_path / name)) == f"13 x 9 pixels of {bits}-bit colour"
    assert loaded == []


def test_good_jpeg_keeps_the_resolution_of_colour(tmp_path):
    stripes = np.zeros((16, 16, 3), np.uint8)
    stripes[:, ::2, 0] = 200
    write_image(tmp_path / "a.jpg", Picture(stripes))
    write_image(tmp_path / "b.jpg", Picture(stripes), quality=80)
    good, fair = (np.abs(read_image(tmp_path / name).pixels.astype(int) - stripes).max() for name in ("a.jpg", "b.jpg"))
    assert good < 30 < fair


def test_jpeg_has_no_alpha_and_few_bits(tmp_path):
    clear = ALPHA.copy()
    clear[..., 3] = 0
    write_image(tmp_path / "a.jpg", Picture(clear))
    found = read_image(tmp_path / "a.jpg").pixels
    assert found.shape == (9, 13, 3)
    assert found.min() > 250  # white, for all of it is transparent
    write_image(tmp_path / "b.jpg", Picture(np.full((8, 8), 0x80FF, np.uint16)))
    assert np.all(np.abs(read_image(tmp_path / "b.jpg").pixels.astype(int) - 0x80) <= 1)


def test_the_colour_profile_is_kept(tmp_path):
    for name in ("a.png", "a.jpg", "a.tif", "a.webp"):
        write_image(tmp_path / name, Picture(COLOUR, PROFILE))
        assert read_image(tmp_path / name).profile == PROFILE
    write_image(tmp_path / "deep.png", Picture(COLOUR.astype(np.uint16), PROFILE))
    assert read_image(tmp_path / "deep.png").profile == PROFILE


def test_a_picture_that_lies_on_its_side_is_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    Image.fromarray(GREY).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png").pixels, np.rot90(GREY, -1))


@pytest.mark.parametrize(
    ("mode", "shape"), [("1", (9, 13)), ("P", (9, 13, 3)), ("LA", (9, 13, 4)), ("CMYK", (9, 13, 3))]
)
def test_other_kinds_become_plain_ones(tmp_path, mode, shape):
    name = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    Image.fromarray(COLOUR).convert("RGB" if mode in ("P", "CMYK") else "L").convert(mode).save(name)
    assert read_image(name).pixels.shape == shape


def test_files_that_are_no_images_are_told_so(tmp_path):
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "text.tif").write_text("not an image")
    whole = tmp_path / "whole.png"
    Image.fromarray(RNG.integers(0, 256, (99, 99), dtype=np.uint8)).save(whole)
    (tmp_path / "cut.png").write_bytes(whole.read_bytes()[:-4000])
    for name in ("text.png", "empty.jpg", "text.tif", "cut.png"):
        with pytest.raises(OSError, match=f"'.*{name}' could not be read as an image: it is damaged or not an image"):
            read_image(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="Expected an image file, found none at"):
        read_image(tmp_path / "nothing.png")
    with pytest.raises(FileNotFoundError, match="found none"):
        read_image(tmp_path)


def test_files_that_may_not_be_read_are_told_so(tmp_path, monkeypatch):
    Image.fromarray(GREY).save(tmp_path / "a.png")

    def forbid(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbid)
    with pytest.raises(
        PermissionError, match=r"a\.png' could not be read: its permissions do not allow it; change them\."
    ):
        read_image(tmp_path / "a.png")


def test_frames_pages_and_float_pixels_are_refused(tmp_path):
    frames = [Image.fromarray(GREY), Image.fromarray(255 - GREY)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(OSError, match="it holds several frames"):
        read_image(tmp_path / "a.gif")
    frames[0].save(tmp_path / "a.tif", save_all=True, append_images=frames[1:])
    with pytest.raises(OSError, match="it holds 2 pages"):
        read_image(tmp_path / "a.tif")
    Image.fromarray(GREY.astype(np.float32)).save(tmp_path / "f.tif")
    with pytest.raises(OSError, match="float32; save it with 8 or 16 bits"):
        read_image(tmp_path / "f.tif")


def test_a_picture_that_claims_to_be_huge_is_refused(tmp_path, monkeypatch):
    Image.fromarray(GREY).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    with pytest.raises(OSError, match="could not be read"):
        read_image(tmp_path / "a.png")


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    file = tmp_path / "a.png"
    file.write_text("mine")
    with pytest.raises(FileExistsError, match="exists already; give another name, or force=True"):
        write_image(file, Picture(GREY))
    assert file.read_text() == "mine"
    write_image(file, Picture(GREY), force=True)
    np.testing.assert_array_equal(read_image(file).pixels, GREY)


def test_outputs_that_cannot_be_written_are_found_out_before_the_work(tmp_path):
    with pytest.raises(ValueError, match="Expected an output file ending in"):
        check_output(tmp_path / "a.xyz", force=True)
    with pytest.raises(FileNotFoundError, match="to exist; make it first"):
        check_output(tmp_path / "no" / "a.png", force=True)
    (tmp_path / "dir.png").mkdir()
    with pytest.raises(IsADirectoryError, match="got the folder"):
        check_output(tmp_path / "dir.png", force=True)


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    monkeypatch.setattr(os, "link", fail)
    for force in (False, True):
        with pytest.raises(OSError, match="No space left"):
            write_image(tmp_path / "a.png", Picture(GREY), force=force)
    assert list(tmp_path.iterdir()) == []


def test_others_may_read_what_is_written_as_far_as_the_umask_allows(tmp_path):
    mask = os.umask(0o027)
    try:
        write_image(tmp_path / "a.png", Picture(GREY))
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a.png").stat().st_mode) == 0o640
