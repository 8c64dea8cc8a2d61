import os
import stat

import numpy as np
import pytest
from PIL import Image

from coupledict.images._files import Picture, check_output, read_image, write_image

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (9, 13), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (9, 13, 3), dtype=np.uint8)
ALPHA = RNG.integers(0, 256, (9, 13, 4), dtype=np.uint8)


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


def test_sixteen_bit_colour_keeps_its_bits_in_tiff_and_is_refused_as_png(tmp_path):
    pixels = RNG.integers(0, 65536, (7, 5, 3), dtype=np.uint16)
    write_image(tmp_path / "a.tif", Picture(pixels))
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif").pixels, pixels)
    with pytest.raises(ValueError, match=r"16-bit colour is not written as PNG; use a name ending in \.tif"):
        write_image(tmp_path / "a.png", Picture(pixels))
    assert not (tmp_path / "a.png").exists()


def test_sixteen_bit_colour_png_is_not_cut_in_silence(tmp_path):
    import zlib

    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes([16, 2, 0, 0, 0])
    file = tmp_path / "deep.png"
    data = chunk(b"IDAT", zlib.compress(b"\0" + bytes(12)))
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b""))
    with Image.open(file) as image:
        assert image.mode == "RGB"  # what Pillow makes of it
    with pytest.raises(OSError, match="would be cut to 8 bits; save it as TIFF"):
        read_image(file)


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
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for name in ("a.png", "a.jpg", "a.tif"):
        write_image(tmp_path / name, Picture(COLOUR, profile))
        assert read_image(tmp_path / name).profile == profile


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
        with pytest.raises(OSError, match=f"'.*{name}' could not be read as an image: it is damaged or no image"):
            read_image(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="Expected an image file, found none at"):
        read_image(tmp_path / "nothing.png")
    with pytest.raises(FileNotFoundError, match="found none"):
        read_image(tmp_path)


def test_frames_pages_and_float_pixels_are_refused(tmp_path):
    frames = [Image.fromarray(GREY), Image.fromarray(255 - GREY)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(OSError, match="it holds 2 frames"):
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
    with pytest.raises(FileExistsError, match="exists already; give another name, or --force"):
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
    with pytest.raises(OSError, match="No space left"):
        write_image(tmp_path / "a.png", Picture(GREY))
    assert list(tmp_path.iterdir()) == []


def test_others_may_read_what_is_written_as_far_as_the_umask_allows(tmp_path):
    mask = os.umask(0o027)
    try:
        write_image(tmp_path / "a.png", Picture(GREY))
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a.png").stat().st_mode) == 0o640
