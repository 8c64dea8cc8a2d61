"""HEIC files of telephones and raw files of cameras."""

from __future__ import annotations

import sys

import media
import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from coupledict.images import _file_raw
from coupledict.images._file_metadata import clean_exif
from coupledict.images._files import Picture, read_header, read_image, write_image
from support.exif import EXPOSURE_IFD, GPS_IFD, LENS, MODEL, block, by_pillow

RNG = np.random.default_rng(0)
SMOOTH = gaussian_filter(RNG.uniform(0, 255, (40, 64, 3)), (6, 6, 0))
SMOOTH = (255 * (SMOOTH - SMOOTH.min()) / np.ptp(SMOOTH)).astype(np.uint8)


def heic(path, pixels=SMOOTH, *, exif=None, **options):
    heif = pytest.importorskip("pillow_heif")
    mode = {np.uint8: "RGB", np.uint16: "RGB;16"}[pixels.dtype.type]
    made = heif.from_bytes(mode=mode, size=(pixels.shape[1], pixels.shape[0]), data=pixels.tobytes())
    made.save(path, quality=100, chroma=444, **({} if exif is None else {"exif": exif}), **options)
    return path


def test_heic(tmp_path):
    file = heic(tmp_path / "a.heic")
    found = read_image(file)
    assert (found.pixels.shape, found.pixels.dtype) == (SMOOTH.shape, np.uint8)
    assert np.abs(found.pixels.astype(int) - SMOOTH).max() <= 6
    about = read_header(file)
    assert (about.shape, about.dtype, about.exif) == (SMOOTH.shape, np.uint8, None)
    file.rename(tmp_path / "a.jpg")  # some telephones call them so
    np.testing.assert_array_equal(read_image(tmp_path / "a.jpg").pixels, found.pixels)


def test_heic_of_ten_bits_keeps_them(tmp_path):
    deep = SMOOTH.astype(np.uint16) * 257
    found = read_image(heic(tmp_path / "a.heic", deep)).pixels
    assert found.dtype == np.uint16
    assert np.abs(found.astype(int) - deep).max() < 1200
    assert len(np.unique(found)) > 256


def test_heic_is_turned_once(tmp_path):
    """Its own description turns it; EXIF data say the same again, and are not to be followed."""
    turned = read_image(heic(tmp_path / "a.heic", exif=block()))
    expected = read_image(write_jpeg(tmp_path / "a.jpg")).pixels
    assert turned.pixels.shape == expected.shape == (64, 40, 3)
    assert np.abs(turned.pixels.astype(int) - expected).max() <= 12


def write_jpeg(path):
    Image.fromarray(SMOOTH).save(path, exif=block(), quality=100, subsampling=0)
    return path


def test_what_a_telephone_said_is_kept(tmp_path):
    file = heic(tmp_path / "a.heic", exif=block())
    for keep_gps in (False, True):
        found = read_image(file, keep_gps=keep_gps)
        write_image(tmp_path / "a.jpg", Picture(found.pixels, found.profile, found.exif), force=True)
        main, exposure, gps = by_pillow(tmp_path / "a.jpg")
        assert (main[MODEL], exposure[LENS], bool(gps)) == ("Model 5", "90 mm macro", keep_gps)
        assert main.get(0x0112, 1) == 1


def test_a_huge_or_damaged_heic_file_is_refused(tmp_path, monkeypatch):
    file = heic(tmp_path / "a.heic")
    contents = file.read_bytes()
    file.write_bytes(contents[: len(contents) // 2])
    with pytest.raises(OSError, match="damaged or not an image"):
        read_image(file)
    file.write_bytes(contents)
    monkeypatch.setenv("COUPLEDICT_MAX_PIXELS", "2000")
    with pytest.raises(OSError, match="64 x 40 pixels are more than the limit"):
        read_image(file)


MOSAIC = (np.repeat(np.repeat(SMOOTH[::2, ::2, 1], 2, 0), 2, 1).astype(np.uint16) * 180) + 500


def raw(path, mosaic=MOSAIC, **options):
    pytest.importorskip("rawpy")
    path.write_bytes(media.raw_image(mosaic, **options))
    return path


def test_raw_files_are_developed_to_sixteen_bits(tmp_path):
    found = read_image(raw(tmp_path / "a.dng"))
    assert (found.pixels.shape, found.pixels.dtype) == ((40, 64, 3), np.uint16)
    about = read_header(tmp_path / "a.dng")
    assert (about.shape, about.dtype) == (found.pixels.shape, found.pixels.dtype)
    green = found.pixels[4:-4, 4:-4, 1].astype(float)
    assert np.corrcoef(green.ravel(), MOSAIC[4:-4, 4:-4].ravel())[0, 1] > 0.95


def test_raw_files_of_a_stack_match(tmp_path):
    """No automatic brightness: a picture that is half as bright is developed half as bright, as its curve has it."""
    flat = np.full((40, 64), 20_000, np.uint16)
    bright, dark = (read_image(raw(tmp_path / f"{f}.dng", flat // f)).pixels[20, 30].astype(float) for f in (1, 2))
    lit = flat.copy()
    lit[:8, :8] = 65_000  # a light in the corner changes nothing elsewhere
    np.testing.assert_allclose(read_image(raw(tmp_path / "lit.dng", lit)).pixels[30, 50], bright, rtol=1e-3)

    def linear(values):
        return ((values / 65535 + 0.055) / 1.055) ** 2.4

    np.testing.assert_allclose(linear(dark) / linear(bright), 0.5, rtol=0.02)


def test_the_white_balance_is_that_of_the_camera(tmp_path):
    """What the camera calls neutral (1/2, 1, 2/3) comes out grey."""
    neutral = np.empty((40, 64), np.uint16)
    neutral[::2, ::2], neutral[1::2, 1::2] = 10_000, 13_333
    neutral[::2, 1::2] = neutral[1::2, ::2] = 20_000
    pixel = read_image(raw(tmp_path / "a.dng", neutral)).pixels[20, 30].astype(float)
    assert np.ptp(pixel) < 0.02 * pixel.mean()


def test_raw_files_are_turned_upright(tmp_path):
    upright = read_image(raw(tmp_path / "a.dng")).pixels.astype(float)
    turned = raw(tmp_path / "b.dng", orientation=6)
    assert read_header(turned).shape == (64, 40, 3)
    found = read_image(turned).pixels.astype(float)
    expected = np.rot90(upright, -1)
    assert np.abs(found - expected)[4:-4, 4:-4].mean() < 0.02 * expected.mean()


def test_what_the_camera_said_of_a_raw_file_is_kept(tmp_path):
    found = read_image(raw(tmp_path / "a.dng", more=((306, "s", 0, "2026:01:02 03:04:05", True),)))
    write_image(tmp_path / "a.tif", found)
    main, _, _ = by_pillow(tmp_path / "a.tif")
    assert (main[MODEL], main[306]) == ("Model", "2026:01:02 03:04:05")
    assert 50706 not in main  # it is no raw file any more


def test_boxes_of_canon_are_read(tmp_path):
    """Each directory is a block of its own; the last one is the position."""
    boxes = b""
    for name, tags in (
        (b"CMT1", {MODEL: "Model 5"}),
        (b"CMT2", {LENS: "90 mm macro"}),
        (b"CMT4", {0x001D: "2026:01:02"}),
    ):
        exif = Image.Exif()
        exif.update(tags)
        contents = exif.tobytes()[6:]
        boxes += (len(contents) + 8).to_bytes(4, "big") + name + contents
    (tmp_path / "a.cr3").write_bytes(b"\0\0\0\x18ftypcrx \0\0\0\1crx isom" + bytes(50) + boxes)
    for keep_gps in (False, True):
        with (tmp_path / "a.cr3").open("rb") as file:
            found = clean_exif(file, keep_gps=keep_gps)
        write_image(tmp_path / "a.jpg", Picture(SMOOTH, None, found), force=True)
        main, exposure, gps = by_pillow(tmp_path / "a.jpg")
        assert (main[MODEL], exposure[LENS]) == ("Model 5", "90 mm macro")
        assert gps == ({0x001D: "2026:01:02"} if keep_gps else {})
    whole = (tmp_path / "a.cr3").read_bytes()
    assert {len(clean_exif(whole[:length]) or b"") for length in range(len(whole))} >= {0, len(clean_exif(whole))}


def test_the_preview_tells_where_the_file_does_not(tmp_path):
    """Raw files of Fujifilm and Canon do not begin as TIFF; their previews have EXIF data."""
    write_jpeg(tmp_path / "preview.jpg")
    (tmp_path / "a.raf").write_bytes(b"FUJIFILMCCD-RAW 0201")

    class Opened:
        def extract_thumb(self):
            return type("Thumb", (), {"data": (tmp_path / "preview.jpg").read_bytes()})

    found = _file_raw._raw_exif(tmp_path / "a.raf", Opened(), keep_gps=False)
    write_image(tmp_path / "a.jpg", Picture(SMOOTH, None, found))
    main, exposure, gps = by_pillow(tmp_path / "a.jpg")
    assert (main[MODEL], exposure[LENS], exposure[0xA001], gps) == ("Model 5", "90 mm macro", 1, {})
    assert {EXPOSURE_IFD, GPS_IFD} & set(main) == {EXPOSURE_IFD}


def test_a_huge_or_damaged_raw_file_is_refused(tmp_path, monkeypatch):
    file = raw(tmp_path / "a.nef")
    assert read_image(file).pixels.shape == (40, 64, 3)
    monkeypatch.setenv("COUPLEDICT_MAX_PIXELS", "2000")
    with pytest.raises(OSError, match="64 x 40 pixels are more than the limit"):
        read_image(file)
    file.write_text("no raw file")
    with pytest.raises(OSError, match="damaged or not an image"):
        read_image(file)


@pytest.mark.parametrize(
    ("name", "module", "package", "extra"),
    [("a.heic", "pillow_heif", "pillow-heif", "heic"), ("a.CR2", "rawpy", "rawpy", "raw")],
)
def test_missing_packages_are_named_with_the_command(tmp_path, monkeypatch, name, module, package, extra):
    (tmp_path / name).write_bytes(b"\0\0\0\x1cftypheic" + bytes(20))
    monkeypatch.setitem(sys.modules, module, None)
    sentence = rf"""Expected {package} to be installed, for '.*{name}'.*: pip install "coupledict\[{extra}\]"$"""
    for read in (read_image, read_header):
        with pytest.raises(ImportError, match=sentence):
            read(tmp_path / name)
