"""Colour profiles of pictures: which are passed on, and what each command does with them and with EXIF data."""

from __future__ import annotations

import io
import struct
from itertools import product

import numpy as np
import pytest
from PIL import Image, ImageCms

from coupledict.images._file_profile import check_profile
from coupledict.images._files import Picture, read_header, read_image, write_image
from support.cases import first_and_slow
from support.command import call, refused
from support.exif import EXPOSURE_IFD, GPS_IFD, LENS, MAKER_NOTE, MODEL, block
from support.tissue import OTHER_LOOK, eight_bits, light, tissue

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
LAB = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf exif:GPSLatitude="48,51.5N" dc:title="secret title"/></x:xmpmeta>'
IPTC = b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x10\x1c\x02\x78\0\x0bsecret note\0"


def grey_profile():
    """Return a profile of grey with a gamma of 2.2."""
    curve = b"curv\0\0\0\0\0\0\0\x01\x02\x33\0\0"
    white = b"XYZ \0\0\0\0" + struct.pack(">iii", 63190, 65536, 54061)
    start = 132 + 2 * 12
    table = struct.pack(">4sII4sII", b"kTRC", start, len(curve), b"wtpt", start + len(curve), len(white))
    head = struct.pack(
        ">I4sB3x4s4s4s12s4s88s", start + len(curve + white), b"test", 2, b"mntr", b"GRAY", b"XYZ ", b"", b"acsp", b""
    )
    return head + struct.pack(">I", 2) + table + curve + white


GREY_PROFILE = grey_profile()


def changed(profile, place, contents):
    return profile[:place] + contents + profile[place + len(contents) :]


def resized(profile):
    return changed(profile, 0, struct.pack(">I", len(profile)))


def test_whole_profiles_are_passed_on():
    assert check_profile(PROFILE, 3) == check_profile(PROFILE, 4) == PROFILE
    assert check_profile(GREY_PROFILE, 1) == GREY_PROFILE
    ImageCms.ImageCmsProfile(io.BytesIO(GREY_PROFILE))  # Little CMS takes it as well


@pytest.mark.parametrize(
    "profile",
    [
        None,
        "text",
        b"",
        resized(PROFILE[:128]),
        resized(PROFILE[:131]),
        PROFILE[:-1],
        PROFILE + b"\0",
        changed(PROFILE, 36, b"abcd"),
        changed(PROFILE, 8, b"\x01"),
        changed(PROFILE, 8, b"\xff"),
        changed(PROFILE, 12, b"link"),
        changed(PROFILE, 16, b"CMYK"),
        changed(PROFILE, 20, b"RGB "),
        changed(PROFILE, 128, struct.pack(">I", 0)),
        changed(PROFILE, 128, struct.pack(">I", 101)),
        changed(PROFILE, 128, struct.pack(">I", 2**32 - 1)),
        changed(PROFILE, 136, struct.pack(">I", 2**32 - 1)),
        changed(PROFILE, 136, struct.pack(">I", 0)),
        changed(PROFILE, 140, struct.pack(">I", 2**32 - 1)),
        changed(PROFILE, 140, struct.pack(">I", 0)),
        changed(PROFILE, 132, PROFILE[144:148]),  # a tag twice
        resized(changed(bytes(5000), 36, b"acsp")),  # what was enough before: a size, a signature and any bytes
        resized(PROFILE[:128] + bytes(4000)),
        resized(PROFILE + bytes(5 << 20)),
        PROFILE.replace(b"rTRC", b"xTRC"),
        LAB,
        GREY_PROFILE,
    ],
)
def test_other_bytes_are_not(profile):
    assert check_profile(profile, 3) is None


def test_a_profile_of_other_pixels_is_not_passed_on():
    assert check_profile(PROFILE, 1) is None
    assert check_profile(GREY_PROFILE.replace(b"kTRC", b"xTRC"), 1) is None


def test_no_byte_of_the_table_makes_the_check_fail(rng):
    """Whatever the bytes are, the answer is the profile or None."""
    found = set()
    for _ in range(3000):
        spoiled = bytearray(PROFILE)
        for place in rng.integers(0, 132 + 12 * 20, size=int(rng.integers(1, 4))):
            spoiled[place] = rng.integers(256)
        answer = check_profile(bytes(spoiled), 3)
        found.add(answer is None)
        assert answer in (None, bytes(spoiled))
    assert found == {True, False}


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.webp"])
def test_bytes_that_are_no_profile_do_not_come_into_a_result(tmp_path, rng, name):
    secret = resized(changed(bytes(1000) + b"secret bytes" * 300, 36, b"acsp"))
    pixels = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / name, icc_profile=secret)
    with Image.open(tmp_path / name) as image:
        assert image.info["icc_profile"] == secret
    found = read_image(tmp_path / name)
    assert (found.profile, found.lost_profile) == (None, True)
    assert read_header(tmp_path / name).lost_profile
    done = call("upscale", tmp_path / name, "-o", tmp_path / f"out-{name}", "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert "Warning: The colour profile of" in done.stderr
    assert read_image(tmp_path / f"out-{name}").profile is None
    assert not read_image(tmp_path / f"out-{name}").lost_profile


def test_a_profile_of_inks_does_not_describe_the_colours_that_are_read(tmp_path, rng):
    inks = Image.frombytes("CMYK", (30, 20), rng.bytes(20 * 30 * 4))
    inks.save(tmp_path / "a.jpg", icc_profile=changed(PROFILE, 16, b"CMYK"))
    found = read_image(tmp_path / "a.jpg")
    assert found.pixels.shape == (20, 30, 3)
    assert (found.profile, found.lost_profile) == (None, True)


def test_profiles_of_grey_are_kept_where_files_have_grey(tmp_path, rng):
    grey = rng.integers(0, 256, (20, 30), dtype=np.uint8)
    for name in ("a.png", "a.jpg", "a.tif", "a.webp"):
        write_image(tmp_path / name, Picture(grey, GREY_PROFILE))
        found = read_image(tmp_path / name)
        assert found.profile == (None if name == "a.webp" else GREY_PROFILE)  # WebP has colours only
        assert not found.lost_profile


# Commands


def photograph(path, pixels):
    """Write a picture with everything that a photograph can have."""
    small = block()
    options = {"xmp": XMP} if path.suffix == ".jpg" else {}
    Image.fromarray(pixels).save(path, exif=small, icc_profile=PROFILE, quality=95, **options)
    if path.suffix == ".jpg":  # Pillow does not write IPTC
        contents, segment = path.read_bytes(), b"\xff\xed" + struct.pack(">H", 2 + len(IPTC)) + IPTC
        path.write_bytes(contents[:2] + segment + contents[2:])
    return path


def described(path):
    """Return whether a file has a profile, EXIF data, and a position; none has what may never be passed on."""
    contents = path.read_bytes()
    with Image.open(path) as image:
        exif = image.getexif()
        exposure, gps = exif.get_ifd(EXPOSURE_IFD), exif.get_ifd(GPS_IFD)
        assert MAKER_NOTE not in exposure
        assert not any(key in image.info for key in ("xmp", "photoshop", "XML:com.adobe.xmp"))
        for secret in (b"secret", b"GPSLatitude"):
            assert secret not in contents
        assert (MODEL in exif) == (LENS in exposure)
        return image.info.get("icc_profile") == PROFILE, MODEL in exif, bool(gps)


@pytest.fixture
def sources(tmp_path, rng):
    stained = eight_bits(light(tissue(5), OTHER_LOOK, (0.95, 0.94, 0.9), noise=0.005))
    photograph(tmp_path / "stained.jpg", stained)
    blocks = np.kron(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8), np.ones((6, 6, 1), np.uint8))
    for name in ("near", "far", "small"):
        photograph(tmp_path / f"{name}.jpg", blocks)
    mask = np.zeros((48, 48), np.uint8)
    mask[10:13, 5:40] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    return tmp_path


def test_the_sources_have_what_the_results_have_not(sources):
    contents = (sources / "near.jpg").read_bytes()
    for secret in (b"secret notes", b"secret title", b"secret note", b"GPSLatitude"):
        assert secret in contents
    with Image.open(sources / "near.jpg") as image:
        assert image.getexif().get_ifd(GPS_IFD)[1] == "N"


KEPT = {
    "fuse near.jpg far.jpg": (True, True, False),
    "fuse near.jpg far.jpg --keep-gps": (True, True, True),
    "fill small.jpg --mask mask.png": (True, True, False),
    "upscale small.jpg": (True, False, False),
    "stain stained.jpg --target stained.jpg": (True, False, False),
}
SUFFIXES = (".jpg", ".png", ".tif")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "suffix"), first_and_slow(zip(KEPT, (2 * SUFFIXES)[:5], strict=True), product(KEPT, SUFFIXES))
)
def test_what_each_command_keeps(sources, monkeypatch, command, suffix):
    monkeypatch.chdir(sources)
    done = call(*command.split(), "-o", f"out{suffix}", "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert described(sources / f"out{suffix}") == KEPT[command]


def test_maps_and_densities_have_nothing(sources, monkeypatch):
    monkeypatch.chdir(sources)
    call("fuse", "near.jpg", "far.jpg", "-o", "out.png", "--map", "map.png", "--depth", "depth.png", "--threads", 1)
    call("stain", "stained.jpg", "--target", "stained.jpg", "-o", "normal.png", "--densities", "d.png", "--threads", 1)
    for name in ("map.png", "depth.png", *(file.name for file in sources.glob("d*.png"))):
        assert described(sources / name) == (False, False, False)


def test_predicted_pictures_have_nothing(sources, monkeypatch):
    monkeypatch.chdir(sources)
    for folder in ("one", "two"):
        (sources / folder).mkdir()
        (sources / folder / "a.jpg").write_bytes((sources / "near.jpg").read_bytes())
    asked = ("--patch", 4, "-T", 2, "--iterations", 2, "--components", 20, "--threads", 1)
    done = call("learn", "one", "two", "-o", "model", *asked)
    assert done.returncode == 0, done.stderr
    done = call("predict", "model", "--view", 1, "near.jpg", "none", "-o", "out.png", "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert described(sources / "out.png") == (False, False, False)


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp", "a.tif"])
def test_no_command_takes_the_first_of_several_frames(sources, monkeypatch, rng, name):
    monkeypatch.chdir(sources)
    frames = [Image.fromarray(rng.integers(0, 256, (48, 48, 3), dtype=np.uint8)) for _ in range(3)]
    frames[0].save(name, save_all=True, append_images=frames[1:])
    for command in (
        ["fuse", "near.jpg", name],
        ["fill", name, "--mask", "mask.png"],
        ["fill", "small.jpg", "--mask", name],
        ["upscale", name],
        ["stain", name, "--target", "stained.jpg"],
        ["stain", "stained.jpg", "--target", name],
    ):
        said = refused(call(*command, "-o", "out.png"), code=1)
        assert f"{name}' cannot be used: it holds" in said
        assert said.endswith("save the one you want as a separate picture.")
    assert not (sources / "out.png").exists()


def test_frames_of_a_film_are_not_counted(tmp_path, monkeypatch):
    """A small GIF file can have millions of them."""
    frames = [Image.fromarray(np.full((2, 2), shade, np.uint8)) for shade in range(200)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    from PIL.GifImagePlugin import GifImageFile

    seek, seen = GifImageFile._seek, []
    monkeypatch.setattr(
        GifImageFile, "_seek", lambda self, frame, *more: (seen.append(frame), seek(self, frame, *more))[1]
    )
    with pytest.raises(OSError, match="it holds several frames"):
        read_image(tmp_path / "a.gif")
    assert len(seen) < 10
