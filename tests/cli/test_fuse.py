"""``coupledict fuse``: which pictures it takes, what it writes, and what it says."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms, ImageOps
from scipy.ndimage import gaussian_filter
from skimage import data

from coupledict import Progress
from coupledict.cli._stacks import natural_key
from coupledict.images import FusedSource, Fusion, MultiFocusFusion
from support.command import call, refused
from support.exif import LENS, MODEL, block, by_pillow
from support.outputs import pixels_of

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (12, 16, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """Two pictures that are in focus in one half each, and the one that is in focus everywhere."""
    folder = tmp_path_factory.mktemp("stack")
    sharp = data.astronaut()[:160, 130:330]
    soft = np.dstack([gaussian_filter(sharp[..., c].astype(float), 2.0) for c in range(3)]).astype(np.uint8)
    left, right = soft.copy(), soft.copy()
    left[:, :100], right[:, 100:] = sharp[:, :100], sharp[:, 100:]
    for name, pixels in (("sharp", sharp), ("left", left), ("right", right)):
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return folder


class Engine:
    """Stands in for the estimator: it takes paths, and says what was done to whom."""

    made: list[Engine]
    gains: tuple[float, ...] = ()
    shifts: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    cut = 0

    def __init__(self, **parameters):
        self.parameters = parameters
        type(self).made.append(self)

    def fuse(self, files):
        self.files = list(files)
        assert all(isinstance(file, Path) for file in files)
        n, reference = len(files), len(files) // 2
        if self.parameters["callback"] is not None:
            self.parameters["callback"](Progress("fusing", 1, 2))
        with Image.open(files[reference]) as picture:
            image = np.asarray(ImageOps.exif_transpose(picture))
        box = (self.cut, self.cut, image.shape[0] - self.cut, image.shape[1])
        image = image[box[0] : box[2], box[1] : box[3]]
        ramp = np.broadcast_to(np.linspace(0, n - 1, image.shape[1], dtype=np.float32), image.shape[:2])
        sources = [
            FusedSource(
                1 / n,
                k < len(self.shifts) and self.shifts[k] > 0,
                self.shifts[k] if k < len(self.shifts) else 0.0,
                np.eye(3),
                self.gains[k] if k < len(self.gains) else 1.0,
                (0.5, 1.0),
                self.notes[k] if k < len(self.notes) else "",
            )
            for k in range(n)
        ]
        return Fusion(image, np.rint(ramp).astype(np.uint8), ramp, reference, box, sources)


@pytest.fixture
def engine(monkeypatch):
    """A new engine, which the command uses; `engine.made` has those it made."""

    class Own(Engine):
        pass

    Own.made = []
    import coupledict.images

    monkeypatch.setattr(coupledict.images, "MultiFocusFusion", Own)
    return Own


def save(folder, *names, pixels=PICTURE, **options):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        Image.fromarray(pixels).save(folder / name, **options)


def taken(engine):
    """Return the names of the pictures that were fused."""
    return [file.name for file in engine.made[-1].files]


def good(done):
    assert done.returncode == 0, done.stderr
    return done


# The estimator itself


def test_a_stack_is_fused_into_a_sharp_picture_with_a_map_and_depth(stack, tmp_path):
    out, map_, depth = tmp_path / "out.png", tmp_path / "map.png", tmp_path / "depth.png"
    done = good(call("fuse", stack / "left.png", stack / "right.png", "-o", out, "--map", map_, "--depth", depth))
    files = (stack / "sharp.png", stack / "left.png", out)
    sharp, left, found = (pixels_of(path).astype(float) for path in files)
    assert np.abs(found - sharp).mean() < 0.15 * np.abs(left - sharp).mean()
    decision = pixels_of(map_)
    assert set(np.unique(decision)) == {0, 255}
    assert np.mean(decision[:, :90] == 0) > 0.95
    assert np.mean(decision[:, 110:] == 255) > 0.95
    levels = pixels_of(depth)
    assert levels.dtype == np.uint16
    assert levels[:, :60].mean() < 20_000 < 45_000 < levels[:, 140:].mean()
    assert "of the pixels are from" in done.stdout
    assert f"Wrote {out}, {map_} and {depth}." in done.stdout


def test_sixteen_bits_come_out_as_they_went_in(stack, tmp_path):
    for name in ("left", "right"):
        deep = pixels_of(stack / f"{name}.png").astype(np.uint16) * 257
        tifffile.imwrite(tmp_path / f"{name}.tif", deep, photometric="rgb")
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("a.tif", "a.png", "a.jpg"):
        good(call("fuse", tmp_path / "left.tif", tmp_path / "right.tif", "-o", folder / name))
    deep = tifffile.imread(folder / "a.tif")
    assert deep.dtype == np.uint16
    np.testing.assert_array_equal(pixels_of(folder / "a.png"), deep)
    eight = pixels_of(folder / "a.jpg")
    assert eight.dtype == np.uint8
    assert np.abs(eight.astype(int) - (deep >> 8)).mean() < 3


def test_an_existing_output_is_kept_unless_forced(stack, tmp_path):
    out = tmp_path / "out.png"
    out.write_text("mine")
    arguments = ("fuse", stack / "left.png", stack / "right.png", "-o", out)
    assert "--force" in refused(call(*arguments), code=3)
    assert out.read_text() == "mine"
    good(call(*arguments, "--force"))
    assert pixels_of(out).shape == (160, 200, 3)


# Which pictures


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["img10.png", "img2.png", "img1.png"], ["img1.png", "img2.png", "img10.png"]),
        (["B2.png", "a10.png", "A9.png"], ["A9.png", "a10.png", "B2.png"]),
        (["x1.5.png", "x1.10.png", "x.png", "x1.png"], ["x.png", "x1.png", "x1.5.png", "x1.10.png"]),
        (["01.png", "1.png", "001.png", "2.png"], ["001.png", "01.png", "1.png", "2.png"]),
        (["7.png", "a.png", "-.png", "10.png"], ["7.png", "10.png", "-.png", "a.png"]),
    ],
)
def test_natural_order(names, expected):
    for given in (names, names[::-1], sorted(names)):
        assert [path.name for path in sorted(map(Path, given), key=natural_key)] == expected


def test_a_folder_stands_for_its_pictures(engine, tmp_path):
    folder = tmp_path / "stack"
    save(folder, "img10.PNG", "img2.png", "IMG1.jpg", "img3.tiff", ".hidden.png", "._img2.png")
    save(folder / "sub.png", "img4.png")
    (folder / "notes.txt").write_text("focus from near to far")
    (folder / "IMG1.xmp").write_text("<x/>")
    done = good(call("fuse", folder, "-o", tmp_path / "out.png"))
    assert taken(engine) == ["IMG1.jpg", "img2.png", "img3.tiff", "img10.PNG"]
    assert done.stderr == ""


def test_files_that_look_like_pictures_are_named_if_they_are_left_out(engine, tmp_path):
    folder = tmp_path / "stack"
    save(folder, "1.png", "2.png")
    for name in ("a.psd", "b.xcf", "c.avif", "d.svg"):
        (folder / name).write_bytes(b"")
    (folder / "3.png").symlink_to(folder / "nowhere.png")
    done = good(call("fuse", folder, "-o", tmp_path / "out.png"))
    assert taken(engine) == ["1.png", "2.png"]
    expected = f"Left out files of '{folder}' that cannot be read as pictures: 3.png, a.psd, b.xcf and 2 more."
    assert done.stderr == f"Warning: {expected}\n"
    done = good(call("fuse", folder, "-o", tmp_path / "out.png", "--force", "--json"))
    assert json.loads(done.stdout)["warnings"] == [expected]
    assert done.stderr == ""


def test_the_output_in_the_folder_is_no_source(engine, tmp_path):
    save(tmp_path, "1.png", "2.png", "out.png", "map.png", "depth.png")
    outputs = ("-o", tmp_path / "out.png", "--map", tmp_path / "map.png", "--depth", tmp_path / "depth.png")
    good(call("fuse", tmp_path, *outputs, "--force"))
    assert taken(engine) == ["1.png", "2.png"]
    good(call("fuse", f"{tmp_path}/*.png", *outputs, "--force"))
    assert taken(engine) == ["1.png", "2.png"]
    (tmp_path / "link").symlink_to(tmp_path)
    good(call("fuse", tmp_path / "link", *outputs, "--force"))
    assert taken(engine) == ["1.png", "2.png"]
    sentence = refused(call("fuse", tmp_path / "out.png", tmp_path / "2.png", *outputs, "--force"), code=2)
    assert "Expected an output that is not a source" in sentence


def test_a_pattern_in_quotes(engine, tmp_path):
    save(tmp_path / "stack", *(f"img{k}.png" for k in range(8, 12)), "img.jpg", "other.png")
    good(call("fuse", f"{tmp_path}/stack/img*.png", "-o", tmp_path / "out.png"))
    assert taken(engine) == ["img8.png", "img9.png", "img10.png", "img11.png"]
    good(call("fuse", f"{tmp_path}/st?ck/img1[01].*", "-o", tmp_path / "out.png", "--force"))
    assert taken(engine) == ["img10.png", "img11.png"]
    assert "names like" in refused(call("fuse", f"{tmp_path}/*.PNG", "-o", tmp_path / "o.png"), code=1)


def test_names_with_brackets_are_names(engine, tmp_path):
    save(tmp_path, "a[1].png", "a1.png")
    good(call("fuse", tmp_path / "a[1].png", tmp_path / "a1.png", "-o", tmp_path / "out.png"))
    assert taken(engine) == ["a[1].png", "a1.png"]


def test_files_keep_their_order_unless_a_shell_has_sorted_them(engine, tmp_path):
    save(tmp_path, "img1.png", "img2.png", "img10.png", "near.png", "far.png")

    def order(*names):
        good(call("fuse", *(tmp_path / name for name in names), "-o", tmp_path / "out.png", "--force"))
        return taken(engine)

    assert order("near.png", "far.png") == ["near.png", "far.png"]
    assert order("img1.png", "img10.png", "img2.png") == ["img1.png", "img2.png", "img10.png"]
    assert order("img10.png", "img1.png", "img2.png") == ["img10.png", "img1.png", "img2.png"]


def test_files_folders_and_patterns_together(engine, tmp_path):
    save(tmp_path / "a", "2.png", "1.png")
    save(tmp_path / "b", "x10.png", "x9.png")
    save(tmp_path, "last.png", "first.png")
    arguments = (tmp_path / "last.png", tmp_path / "a", f"{tmp_path}/b/*.png", tmp_path / "first.png")
    good(call("fuse", *arguments, "-o", tmp_path / "out.png"))
    assert taken(engine) == ["last.png", "1.png", "2.png", "x9.png", "x10.png", "first.png"]


def test_what_is_given_twice_is_taken_once(engine, tmp_path):
    save(tmp_path / "stack", "1.png", "2.png")
    (tmp_path / "stack" / "3.png").symlink_to(tmp_path / "stack" / "1.png")
    (tmp_path / "other.png").symlink_to(tmp_path / "stack" / "2.png")
    done = good(call("fuse", tmp_path / "stack", tmp_path / "stack", tmp_path / "other.png", "-o", tmp_path / "o.png"))
    assert taken(engine) == ["1.png", "2.png"]
    assert "3.png' only once: it was already given as" in done.stderr
    assert "other.png' only once" in done.stderr
    one = tmp_path / "stack" / "1.png"
    assert "two or more pictures to fuse, got 1" in refused(call("fuse", one, one, "-o", tmp_path / "p.png"), code=2)


def test_raw_files_beside_jpeg_are_a_question(engine, tmp_path):
    save(tmp_path / "stack", "IMG_1.JPG", "IMG_2.JPG")
    (tmp_path / "stack" / "img_1.cr2").write_bytes(b"")
    sentence = refused(call("fuse", tmp_path / "stack", "-o", tmp_path / "out.png"), code=2)
    assert "one file for each picture" in sentence
    assert "'IMG_1.JPG'" in sentence
    assert "'img_1.cr2'" in sentence
    assert "/stack/*." in sentence
    good(call("fuse", f"{tmp_path}/stack/*.JPG", "-o", tmp_path / "out.png"))
    assert taken(engine) == ["IMG_1.JPG", "IMG_2.JPG"]


def test_folders_without_pictures(tmp_path):
    (tmp_path / "empty").mkdir()
    out = tmp_path / "out.png"
    assert "Expected pictures in the folder" in refused(call("fuse", tmp_path / "empty", "-o", out), code=1)
    save(tmp_path / "stacks" / "a", "1.png")
    assert "--batch treats each as a stack" in refused(call("fuse", tmp_path / "stacks", "-o", out), code=1)


def test_bad_stacks_are_one_sentence_each_and_nothing_is_written(stack, tmp_path):
    out = tmp_path / "out.png"
    Image.fromarray(data.camera()[:160, :200]).save(tmp_path / "grey.png")
    Image.fromarray(data.astronaut()[:50, :50]).save(tmp_path / "small.png")
    cv2.imwrite(str(tmp_path / "deep.png"), pixels_of(stack / "left.png").astype(np.uint16))
    (tmp_path / "broken.png").write_bytes((stack / "left.png").read_bytes()[:900])
    left, right = stack / "left.png", stack / "right.png"
    assert "two or more pictures" in refused(call("fuse", left, "-o", out))
    for name, words in (
        ("small.png", "50 x 50 pixels of 8-bit colour"),
        ("grey.png", "200 x 160 pixels of 8-bit grey"),
        ("deep.png", "200 x 160 pixels of 16-bit colour"),
    ):
        sentence = refused(call("fuse", left, right, tmp_path / name, "-o", out), code=1)
        assert f"got 200 x 160 pixels of 8-bit colour in '{left}' and {words} in '{tmp_path / name}'." in sentence
    assert "damaged or not an image" in refused(call("fuse", left, tmp_path / "broken.png", "-o", out))
    assert "found none" in refused(call("fuse", left, tmp_path / "nothing.png", "-o", out))
    assert "ending in" in refused(call("fuse", left, right, "-o", tmp_path / "out.xyz"))
    assert "make it first" in refused(call("fuse", left, right, "-o", tmp_path / "no" / "out.png"))
    for more in (("--map", out), ("--depth", out), ("--map", tmp_path / "a.png", "--depth", tmp_path / "a.png")):
        assert "different files" in refused(call("fuse", left, right, "-o", out, *more), code=2)
    assert "--format only with --batch" in refused(call("fuse", left, right, "-o", out, "--format", "tif"), code=2)
    never = ("--register", "never", "--motion", "shift")
    assert "which moves nothing" in refused(call("fuse", left, right, "-o", out, *never), code=2)
    assert not out.exists()


def test_all_outputs_are_checked_before_the_work(engine, tmp_path):
    save(tmp_path / "stack", "1.png", "2.png")
    for option in ("--map", "--depth"):
        taken_name = tmp_path / "there.png"
        taken_name.write_text("mine")
        assert "exists" in refused(
            call("fuse", tmp_path / "stack", "-o", tmp_path / "o.png", option, taken_name), code=3
        )
    assert engine.made == []


def test_pictures_that_lie_differently_are_turned(engine, tmp_path):
    exif = Image.Exif()
    save(tmp_path / "stack", "1.png")
    exif[0x0112] = 6
    Image.fromarray(np.rot90(PICTURE)).save(tmp_path / "stack" / "2.png", exif=exif)
    good(call("fuse", tmp_path / "stack", "-o", tmp_path / "out.png"))
    np.testing.assert_array_equal(pixels_of(tmp_path / "out.png"), PICTURE)


# What is asked of the engine, and what it says


def test_options_reach_the_engine(engine, tmp_path):
    save(tmp_path / "stack", "1.png", "2.png")
    arguments = ("fuse", tmp_path / "stack", "-o", tmp_path / "out.png", "--force")
    good(call(*arguments))
    plain = {"register": "auto", "motion": "affine", "keep_size": False, "slab": None, "n_jobs": -1}
    found = engine.made[-1].parameters
    assert {key: found[key] for key in plain} == plain
    more = ("--register", "always", "--motion", "projective", "--keep-size", "--slab", 8, "--threads", 3)
    good(call(*arguments, *more))
    found = engine.made[-1].parameters
    asked = {"register": True, "motion": "projective", "keep_size": True, "slab": 8, "n_jobs": 3}
    assert {key: found[key] for key in asked} == asked
    good(call(*arguments, "--register", "never"))
    assert engine.made[-1].parameters["register"] is False


def test_the_estimator_has_these_parameters():
    names = MultiFocusFusion().get_params()
    assert {"register", "motion", "keep_size", "slab", "n_jobs", "callback"} <= set(names)


def test_what_was_done_to_each_picture_is_said(engine, tmp_path):
    save(tmp_path / "stack", "1.png", "2.png", "3.png")
    engine.shifts, engine.gains, engine.cut = (3.14, 0.0, 0.0), (1.0, 1.0, 0.951), 2
    engine.notes = ("", "", "It could not be aligned.")
    done = good(call("fuse", tmp_path / "stack", "-o", tmp_path / "out.png"))
    folder = tmp_path / "stack"
    assert done.stdout.splitlines() == [
        f" 33.3% of the pixels are from {folder}/1.png, moved by up to 3.1 pixels",
        f" 33.3% of the pixels are from {folder}/2.png",
        f" 33.3% of the pixels are from {folder}/3.png, brightness times 0.951. It could not be aligned.",
        f"Aligned 1 of 3 pictures with {folder}/2.png.",
        "Kept the area that all pictures cover, 14 x 8 of 16 x 12 pixels; cropped 2 left, 2 top, 0 right, 2 bottom.",
        f"Wrote {tmp_path}/out.png.",
    ]
    done = good(call("fuse", folder, "-o", tmp_path / "out.png", "--force", "--json", "--depth", tmp_path / "d.tif"))
    found = json.loads(done.stdout)
    assert found["sources"][2] == {
        "file": f"{folder}/3.png",
        "share": 1 / 3,
        "aligned": False,
        "shift": 0.0,
        "gain": 0.951,
        "correlation": [0.5, 1.0],
        "note": "It could not be aligned.",
    }
    assert (found["reference"], found["box"]) == (f"{folder}/2.png", [2, 2, 10, 16])
    assert (found["width"], found["height"], found["reference_width"], found["reference_height"]) == (14, 8, 16, 12)
    assert (found["map"], found["depth"]) == (None, str(tmp_path / "d.tif"))


def test_nothing_was_moved(engine, tmp_path):
    save(tmp_path / "stack", "1.png", "2.png")
    done = good(call("fuse", tmp_path / "stack", "-o", tmp_path / "out.png"))
    assert f"No picture was moved; the reference is {tmp_path}/stack/2.png." in done.stdout
    assert "Kept" not in done.stdout


@pytest.mark.parametrize(("name", "most"), [("d.png", 65535), ("d.tif", 65535), ("d.jpg", 255), ("d.webp", 255)])
def test_depth_is_black_for_the_first_and_white_for_the_last(engine, tmp_path, name, most):
    save(tmp_path / "stack", *(f"{k}.png" for k in range(4)))
    good(call("fuse", tmp_path / "stack", "-o", tmp_path / "out.png", "--depth", tmp_path / name))
    levels = pixels_of(tmp_path / name)
    levels = levels if levels.ndim == 2 else levels[..., 0]
    expected = np.linspace(0, most, 16)
    assert np.abs(levels - expected).max() <= (0.5 if most > 255 or name.endswith("png") else 6)


# What goes with the picture


@pytest.mark.parametrize("name", ["out.jpg", "out.png", "out.tif", "out.webp"])
def test_the_reference_gives_profile_and_exif_data(engine, tmp_path, name):
    save(tmp_path / "stack", "1.jpg", "3.jpg", icc_profile=PROFILE)
    save(tmp_path / "stack", "2.jpg", icc_profile=PROFILE, pixels=np.rot90(PICTURE), exif=block())
    good(call("fuse", tmp_path / "stack", "-o", tmp_path / name))
    main, exposure, gps = by_pillow(tmp_path / name)
    assert (main[MODEL], exposure[LENS], gps) == ("Model 5", "90 mm macro", {})
    assert (exposure[0xA002], exposure[0xA003]) == (16, 12)
    with Image.open(tmp_path / name) as image:
        assert image.info["icc_profile"] == PROFILE
    good(call("fuse", tmp_path / "stack", "-o", tmp_path / name, "--keep-gps", "--force"))
    assert by_pillow(tmp_path / name)[2][1] == "N"


def test_different_profiles_are_said(engine, tmp_path):
    save(tmp_path / "stack", "1.jpg", icc_profile=PROFILE)
    save(tmp_path / "stack", "2.jpg")
    done = good(call("fuse", tmp_path / "stack", "-o", tmp_path / "out.jpg"))
    assert "different colour profiles" in done.stderr


def test_missing_extras_are_one_sentence(tmp_path, monkeypatch):
    save(tmp_path / "stack", "1.png")
    (tmp_path / "stack" / "2.nef").write_bytes(b"II*\0")
    monkeypatch.setitem(sys.modules, "rawpy", None)
    sentence = refused(call("fuse", tmp_path / "stack", "-o", tmp_path / "out.png"), code=1)
    assert 'pip install "coupledict[raw]"' in sentence


# Batches


def test_a_batch_of_stacks(engine, tmp_path):
    root, out = tmp_path / "stacks", tmp_path / "results"
    for name in ("b10", "b9", "with.dot"):
        save(root / name, "1.png", "2.png", "10.png")
    save(root / ".hidden", "1.png", "2.png")
    save(root, "loose.png")
    (root / "notes").mkdir()
    done = good(call("fuse", "--batch", root, "-o", out, "--format", "tif"))
    assert [engine.made[k].files[0].parent.name for k in range(3)] == ["b9", "b10", "with.dot"]
    assert taken(engine) == ["1.png", "2.png", "10.png"]
    assert sorted(os.listdir(out)) == ["b10.tif", "b9.tif", "with.dot.tif"]
    assert f"b9: wrote {out}/b9.tif, 16 x 12 pixels from 3 pictures." in done.stdout
    assert done.stdout.splitlines()[-1] == f"Fused 3 of 3 stacks into {out}."
    assert "notes': it has no pictures" in done.stderr


def test_a_stack_that_fails_does_not_end_the_others(engine, tmp_path):
    root, out = tmp_path / "stacks", tmp_path / "results"
    for name in ("a", "c", "e"):
        save(root / name, "1.png", "2.png")
    save(root / "b", "1.png")
    save(root / "d", "1.png")
    (root / "d" / "2.png").write_text("no picture")
    (root / "e" / "x.psd").write_text("")
    done = call("fuse", "--batch", root, "-o", out)
    assert done.returncode == 1
    assert sorted(os.listdir(out)) == ["a.jpg", "c.jpg", "e.jpg"]
    lines = done.stdout.splitlines()
    assert "b: failed. Expected two or more pictures to fuse, got 1." in lines
    assert [line for line in lines if line.startswith(f"d: failed. '{root}/d/2.png' could not be read as an image")]
    assert "x.psd" in done.stdout
    assert lines[-1] == f"Fused 3 of 5 stacks into {out}."
    done = call("fuse", "--batch", root, "-o", out, "--force", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["command"], found["fused"], found["failed"]) == ("fuse", 3, 2)
    assert [stack["name"] for stack in found["stacks"]] == list("abcde")
    assert [("error" in stack, "warnings" in stack) for stack in found["stacks"]] == [
        (False, False),
        (True, False),
        (False, False),
        (True, False),
        (False, True),
    ]


def test_results_beside_the_stacks_are_no_stack(engine, tmp_path):
    save(tmp_path / "a", "1.png", "2.png")
    save(tmp_path / "results", "1.png", "2.png")
    good(call("fuse", "--batch", tmp_path, "-o", tmp_path / "results"))
    assert len(engine.made) == 1
    good(call("fuse", "--batch", tmp_path, "-o", tmp_path))
    assert (tmp_path / "a.jpg").exists()


def test_bad_batches_are_refused_before_the_work(engine, tmp_path):
    root, out = tmp_path / "stacks", tmp_path / "results"
    save(root / "a", "1.png", "2.png")
    save(root / "b", "1.png", "2.png")
    save(out, "b.jpg")
    before = (out / "b.jpg").read_bytes()
    assert "b.jpg' exists already" in refused(call("fuse", "--batch", root, "-o", out), code=3)
    assert (out / "b.jpg").read_bytes() == before
    file = out / "b.jpg"
    assert "got the file" in refused(call("fuse", "--batch", root, "-o", file), code=1)
    assert "make it first" in refused(call("fuse", "--batch", root, "-o", tmp_path / "no" / "no"), code=1)
    assert "one folder with --batch" in refused(call("fuse", "--batch", root, root, "-o", out), code=2)
    assert "--map" in refused(call("fuse", "--batch", root, "-o", out, "--map", tmp_path / "m.png"), code=2)
    assert "found none" in refused(call("fuse", "--batch", tmp_path / "absent", "-o", out), code=1)
    assert "sub-folder" in refused(call("fuse", "--batch", root / "a", "-o", out), code=1)
    assert engine.made == []
    assert os.listdir(out) == ["b.jpg"]
    good(call("fuse", "--batch", root, "-o", out, "--force"))


def test_a_fault_of_ours_ends_a_batch(engine, tmp_path):
    """Only errors that a user can mend belong to one stack."""
    save(tmp_path / "stacks" / "a", "1.png", "2.png")

    def fail(self, files):
        raise KeyError("a fault")

    engine.fuse = fail
    assert "fault in coupledict" in refused(call("fuse", "--batch", tmp_path / "stacks", "-o", tmp_path / "o"), code=70)
