"""Stacks of files and arrays: read one by one, in slabs, with hot pixels, and with errors."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from coupledict import StoppedByCallback
from coupledict.images import MultiFocusFusion
from coupledict.images._fusion_passes import fuse_stack, measure_stack
from coupledict.images._fusion_passes import place as place_pictures
from coupledict.images._fusion_slabs import slab_size, split
from coupledict.images._fusion_stack import Stack
from support.inner import Meter
from support.stacks import motion, moved_strips, psnr, strips, texture

SHARP = texture((96, 120), finest=1.0).round().astype(np.uint8)
FIELDS = ("image", "decision", "depth")


def assert_same(one, other):
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    assert (one.box, one.reference) == (other.box, other.reference)
    assert [source.share for source in one.sources] == [source.share for source in other.sources]


@pytest.fixture
def files(tmp_path):
    """Five files, moved from one to the next."""
    pictures, _ = moved_strips((96, 120), [motion((96, 120), shift=(2.0 * k, 0.5 * k)) for k in range(5)])
    paths = [tmp_path / f"{number}.png" for number in range(5)]
    for path, picture in zip(paths, pictures, strict=True):
        Image.fromarray(picture).save(path)
    return paths, pictures


def test_files_and_arrays_give_the_same(files):
    paths, pictures = files
    for slab, ways in (
        (None, (paths, [pictures[0], *paths[1:]], np.stack(pictures))),
        (2, ([str(path) for path in paths], tuple(pictures))),
    ):
        expected = MultiFocusFusion(slab=slab).fuse(pictures)
        for images in ways:
            assert_same(MultiFocusFusion(slab=slab).fuse(images), expected)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_files_of_8_and_16_bits_are_on_their_own_scale(tmp_path, kind):
    sources, _ = strips(SHARP)
    pictures = [source.astype(kind) * kind(257 if kind is np.uint16 else 1) for source in sources]
    for number, picture in enumerate(pictures):
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
    fused = MultiFocusFusion().fuse([tmp_path / "0.png", tmp_path / "1.png"])
    assert fused.image.dtype == kind
    assert_same(fused, MultiFocusFusion().fuse(pictures))


@pytest.fixture
def nine(tmp_path):
    names = [tmp_path / f"{number}.png" for number in range(9)]
    for number, name in enumerate(names):
        Image.fromarray(np.roll(SHARP, number, axis=1)).save(name)
    return names


@pytest.fixture
def opened(monkeypatch):
    """How often Pillow has opened each file."""
    counts, plain = Counter(), Image.open
    monkeypatch.setattr(Image, "open", lambda file, **more: (counts.update([file]), plain(file, **more))[1])
    return counts


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("slab", [None, 3])
def test_files_are_read_twice(nine, opened, n_jobs, slab):
    MultiFocusFusion(n_jobs=n_jobs, slab=slab).fuse(nine)
    assert opened == dict.fromkeys(nine, 2)


class WatchedStack(Stack):
    """Knows how many of the pictures that were read are still held."""

    most = 0

    def __init__(self, *given):
        super().__init__(*given)
        self._lock, self._held = threading.Lock(), []

    def read(self, number):
        pixels = super().read(number)
        with self._lock:
            self._held = [*(other for other in self._held if other() is not None), weakref.ref(pixels)]
            self.most = max(self.most, len(self._held))
        return pixels


@pytest.mark.parametrize(("n_jobs", "most"), [(1, 2), (2, 3)])
def test_pictures_are_hardly_held(nine, n_jobs, most):
    stack, watched = WatchedStack(nine, 8), {"n_jobs": n_jobs, "meter": Meter(None, "fusing")}
    gc.collect()
    measures = measure_stack(stack, MultiFocusFusion()._focus_measure(), "affine", **watched)
    placement = place_pictures(stack, measures, 4, always=False, keep_size=False)
    fuse_stack(stack, measures, placement, smoothness=0.1, **watched)
    assert 0 < stack.most <= most


def test_memory_hardly_grows_with_the_number_of_files(tmp_path):
    names = [tmp_path / f"{number}.png" for number in range(12)]
    for number, name in enumerate(names):
        Image.fromarray(np.roll(np.dstack([SHARP] * 3), number, axis=1)).save(name)
    fusion, peaks = MultiFocusFusion(slab=3, register=False, n_scales=2), []
    for n_files in (2, 6, 12):  # the first makes what is made once
        tracemalloc.start()
        fusion.fuse(names[:n_files])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 0.5 * 6 * 3 * SHARP.size


def test_a_stopped_fusion_reads_no_further(files, opened):
    with pytest.raises(StoppedByCallback):
        MultiFocusFusion(callback=lambda progress: True).fuse(files[0])
    assert opened == {}
    with pytest.raises(StoppedByCallback):
        MultiFocusFusion(callback=lambda progress: progress.completed > 0).fuse(files[0])
    assert 0 < opened.total() < 5


def test_wrong_files_are_named(tmp_path, files):
    paths, pictures = files
    Image.fromarray(pictures[0][:-8]).save(tmp_path / "small.png")
    Image.fromarray(pictures[0].astype(np.uint16)).save(tmp_path / "deep.png")
    (tmp_path / "text.png").write_bytes(b"no picture")
    cases = [
        (
            tmp_path / "small.png",
            ValueError,
            r"one shape, got \(96, 120\) in .*0\.png' and \(88, 120\) in .*small\.png'",
        ),
        (tmp_path / "deep.png", ValueError, r"one number type, got uint8 in .*0\.png' and uint16 in .*deep\.png'"),
        (tmp_path / "text.png", OSError, r"text\.png"),
        (tmp_path / "none.png", FileNotFoundError, r"none\.png"),
    ]
    for odd, error, message in cases:
        for n_jobs in (1, 2):
            with pytest.raises(error, match=message):
                MultiFocusFusion(n_jobs=n_jobs).fuse([*paths[:3], odd, paths[4]])
        with pytest.raises(error, match=odd.name):
            MultiFocusFusion(slab=2).fuse([*paths[:3], odd, paths[4]])


def test_slabs_of_different_shapes_are_told_by_their_pictures(tmp_path, files):
    """Each slab is right by itself; still the message is about pictures, not about slabs."""
    paths, pictures = files
    for number in range(3):
        Image.fromarray(pictures[0][:-8]).save(tmp_path / f"small{number}.png")
    with pytest.raises(
        ValueError, match=r"one shape.*\(96, 120\), uint8 in images 0 to 2 and \(88, 120\), uint8 in images 3 to 5"
    ):
        MultiFocusFusion(slab=3).fuse([*paths[:3], *(tmp_path / f"small{number}.png" for number in range(3))])


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        ([SHARP], ValueError, "at least two images to fuse, got 1"),
        ([], ValueError, "at least two images to fuse, got 0"),
        ([SHARP, SHARP[:-1]], ValueError, r"one shape, got \(96, 120\) in images\[0\] and \(95, 120\) in images\[1\]"),
        ([SHARP, SHARP, SHARP[..., None]], ValueError, r"one shape.*images\[2\]"),
        ([SHARP, SHARP.astype(np.uint16)], ValueError, r"one number type, got uint8 in images\[0\] and uint16"),
        ([SHARP[:5], SHARP[:5]], ValueError, "at least as large as a patch, 8 x 8 pixels, got 5 x 120"),
        ([np.full((20, 20), np.nan), np.zeros((20, 20))], ValueError, r"images\[0\] to be finite"),
        ([np.zeros((20, 20)), np.full((20, 20), -np.inf)], ValueError, r"images\[1\] to be finite"),
        ([np.zeros((0, 20)), np.zeros((0, 20))], ValueError, "at least one pixel"),
        ([np.zeros((20, 20, 0))] * 2, ValueError, "at least one pixel"),
        ([np.zeros(20), np.zeros(20)], ValueError, r"images\[0\] to have the shape"),
        ([np.zeros((2, 9, 9, 3))] * 2, ValueError, r"images\[0\] to have the shape"),
        ([SHARP > 9, SHARP > 9], TypeError, "integers or floating-point numbers, got bool"),
        ([SHARP * 1j] * 2, TypeError, "integers or floating-point numbers, got complex128"),
        ("near.jpg", TypeError, "a list of images or of files, got str"),
        (b"near.jpg", TypeError, "a list of images or of files, got bytes"),
        (None, TypeError, "a list of images or of files, got NoneType"),
        ({"near": SHARP, "far": SHARP}, TypeError, "a list of images or of files, got dict"),
        ((SHARP for _ in range(2)), TypeError, "a list of images or of files, got generator"),
    ],
)
def test_bad_stacks_are_told_what_is_wrong(images, error, message):
    with pytest.raises(error, match=message):
        MultiFocusFusion().fuse(images)


def test_a_single_path_is_no_list(tmp_path):
    with pytest.raises(TypeError, match="a list of images or of files, got PosixPath"):
        MultiFocusFusion().fuse(tmp_path)


def test_the_scale_of_a_stack_is_that_of_its_brightest_picture():
    dim, bright = np.full((9, 9), 0.25), np.full((9, 9), -2.0)
    assert Stack([dim, bright], 8).scale == pytest.approx(255 / 2)
    assert Stack([SHARP, SHARP // 3], 8).scale == 1
    assert Stack([np.zeros((9, 9))] * 2, 8).scale > 0
    assert np.isfinite(Stack([np.zeros((9, 9))] * 2, 8).scale)


@pytest.mark.parametrize("size", [2, 3, 7, 50])
def test_slabs_are_about_equally_long_and_never_single(size):
    for n_sources in (*range(2, 30), 101, 250, 1000):
        slabs = split(n_sources, size)
        assert [number for slab in slabs for number in slab] == list(range(n_sources))
        lengths = [len(slab) for slab in slabs]
        assert min(lengths) >= 2
        assert max(lengths) - min(lengths) <= 1
        if slab_size(n_sources, size) is not None:
            assert len(slabs) >= 2, "one slab is no slab"
            assert max(lengths) <= max(size, 3)


def test_short_stacks_are_fused_at_once():
    assert slab_size(5, 5) is None
    assert slab_size(5, 9) is None
    assert slab_size(100, None) is None
    assert slab_size(101, None) is not None
    sources, _ = strips(SHARP, 3)
    assert_same(MultiFocusFusion(slab=3).fuse(sources), MultiFocusFusion().fuse(sources))
    assert_same(MultiFocusFusion(slab=2).fuse(sources[:2]), MultiFocusFusion().fuse(sources[:2]))


@pytest.mark.parametrize(("n_sources", "slab"), [(3, 2), (4, 2), (5, 2), (7, 3), (8, 4)])
def test_slabs_give_nearly_the_picture_of_the_whole_stack(n_sources, slab):
    sharp = texture((96, 210), finest=1.0).round().astype(np.uint8)
    sources, owner = strips(sharp, n_sources)
    whole, found = MultiFocusFusion().fuse(sources), MultiFocusFusion(slab=slab).fuse(sources)
    assert found.image.shape == whole.image.shape
    assert psnr(sharp, found.image) > psnr(sharp, whole.image) - 2
    assert psnr(sharp, found.image) > max(psnr(sharp, source) for source in sources) + 6
    assert np.mean(found.decision == owner) > np.mean(whole.decision == owner) - 0.05
    assert np.mean(found.decision == owner) > 0.8
    assert found.decision.max() < n_sources
    assert found.depth.min() >= 0
    assert found.depth.max() <= n_sources - 1
    assert len(found.sources) == n_sources
    np.testing.assert_allclose(
        [np.mean(found.decision == k) for k in range(n_sources)], [s.share for s in found.sources]
    )
    slabs = split(n_sources, slab)
    assert found.reference in slabs[len(slabs) // 2]


def test_slabs_of_a_moved_stack_know_where_their_pictures_are():
    shape = (120, 160)
    true = [motion(shape, shift=(1.5 * k, -k), scale=1.003**k) for k in range(7)]
    pictures, _ = moved_strips(shape, true)
    found = MultiFocusFusion(slab=3).fuse(pictures)
    ends = np.array([[20, 15, 1.0], [140, 100, 1], [80, 60, 1]]).T
    for number, source in enumerate(found.sources):
        expected = true[number] @ np.linalg.inv(true[found.reference]) @ ends
        moved = source.matrix @ ends
        assert np.abs(moved[:2] / moved[2] - expected[:2] / expected[2]).max() < 0.6
        assert source.aligned == (number != found.reference)


def test_hot_pixels_are_removed_and_bright_points_are_not():
    """A hot pixel stands out in the same place of every picture; a real point is in focus in one of them."""
    sources, _ = strips((40 + SHARP // 4).astype(np.uint8), 3)
    clean = MultiFocusFusion().fuse(sources)
    hot, point = [(20, 30), (50, 60), (0, 0), (95, 119), (40, 0)], (70, 20)
    for source in sources:
        source[tuple(np.transpose(hot))] = 255
    sources[0][point] = 255
    fused = MultiFocusFusion().fuse(sources)
    for place in hot:
        assert abs(int(fused.image[place]) - int(clean.image[place])) < 25
    assert fused.image[point] > 200


def test_dead_pixels_and_pixels_hot_in_one_colour_are_removed():
    sources, _ = strips((120 + SHARP // 4).astype(np.uint8), 3)
    colours = [np.stack([source] * 3, axis=2) for source in sources]
    clean = MultiFocusFusion().fuse(colours).image.astype(int)
    for colour in colours:
        colour[20, 30] = 0
        colour[60, 40, 1] = 255
    found = MultiFocusFusion().fuse(colours).image.astype(int)
    assert np.abs(found - clean)[[20, 60], [30, 40]].max() < 40


def test_two_pictures_are_too_few_to_call_a_pixel_hot():
    sources, _ = strips((40 + SHARP // 4).astype(np.uint8), 2)
    for source in sources:
        source[50, 60] = 255
    assert MultiFocusFusion().fuse(sources).image[50, 60] > 200


def test_hot_pixels_of_moved_pictures_stay_on_the_sensor():
    shape = (96, 120)
    pictures, _ = moved_strips(shape, [motion(shape, shift=(3.0 * k, 0)) for k in (-1, 0, 1)], sigma=1.5)
    clean = MultiFocusFusion().fuse(pictures)
    for picture in pictures:
        picture[40, 30] = picture[50, 60] = 255
    fused = MultiFocusFusion().fuse(pictures)
    assert fused.box == clean.box
    assert np.abs(fused.image.astype(int) - clean.image).max() < 30
