"""Progress of image tasks: reported step by step up to the total; a callback stops them at once."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from scipy import ndimage
from skimage import data

from coupledict import StoppedByCallback
from coupledict.foundation.block_sizes import SIZES
from coupledict.images import MultiFocusFusion, SuperResolution
from coupledict.images._sr_geometry import Geometry
from coupledict.images._sr_pipeline import predict_patches
from support.inner import Meter
from support.listening import Listener, check_course

SHARP = data.coins()[40:140, 30:150]
SOFT = ndimage.gaussian_filter(SHARP, 2.0)
STACK = [np.where(np.arange(SHARP.shape[1]) < 60, *pair) for pair in ((SHARP, SOFT), (SOFT, SHARP))]
SMALL = {"n_components": 24, "max_samples": 2000, "max_iter": 3, "random_state": 0}


def make(kind, **parameters):
    if kind == "fusion":
        return MultiFocusFusion(**(SMALL | {"patch_size": 6} | parameters))
    return SuperResolution(2, method=kind, **(SMALL | parameters))


def samples(kind):
    return [SHARP, SOFT] if kind == "fusion" else [SHARP]


def use(kind, model):
    return model.fuse(STACK).image if kind == "fusion" else model.upscale(SHARP)


@pytest.fixture(scope="module")
def models():
    return {kind: make(kind).fit(samples(kind)) for kind in ("fusion", "anchored", "coupled")}


@pytest.fixture
def small_tiles():
    with SIZES.changed(upscaled_pixels=300, detail_samples=100):
        yield


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize(
    ("kind", "stages"),
    [("fusion", ["learning"]), ("anchored", ["learning", "fitting maps"]), ("coupled", ["learning"])],
)
def test_fits_tell_how_far_they_have_come(kind, stages, n_jobs):
    listener = Listener()
    make(kind, n_jobs=n_jobs, callback=listener).fit(samples(kind))
    check_course(listener.reports, stages)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("kind", ["fusion", "anchored", "coupled"])
def test_tasks_tell_how_far_they_have_come(models, kind, n_jobs):
    listener = Listener()
    model = with_parameters(models[kind], n_jobs=n_jobs, callback=listener)
    np.testing.assert_array_equal(use(kind, model), use(kind, models[kind]))
    check_course(listener.reports, ["fusing" if kind == "fusion" else "upscaling"])
    assert len(listener.reports) >= (5 if kind == "fusion" else 10)


def with_parameters(model, **parameters):
    other = type(model)(**(model.get_params() | parameters))
    other.__dict__.update({name: value for name, value in vars(model).items() if name.endswith("_")})
    return other


@pytest.mark.parametrize(
    ("register", "slab", "n_jobs"),
    [
        (register, slab, (1, 3)[(i + j) % 2])
        for i, register in enumerate(["auto", True, False])
        for j, slab in enumerate([None, 2, 3])
    ],
)
def test_one_count_runs_through_a_whole_fusion(register, slab, n_jobs):
    """From 0 at the beginning to the total at the very end, in steps of at most a third, slabs or not."""
    listener = Listener()
    MultiFocusFusion(register=register, slab=slab, n_scales=2, n_jobs=n_jobs, callback=listener).fuse([*STACK] * 2)
    check_course(listener.reports, ["fusing"])
    shares = [completed / total for _, completed, total in listener.reports]
    assert shares[0] == 0
    assert max(after - before for before, after in pairwise(shares)) < 1 / 3


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize(
    ("kind", "stop_at"),
    [("fusion", 1), ("fusion", 2), ("anchored", 1), ("anchored", 2), ("anchored", 4), ("coupled", 1), ("coupled", 2)],
)
def test_a_stopped_fit_leaves_the_model_as_it_was(models, kind, stop_at, n_jobs):
    listener = Listener(stop_at)
    model = with_parameters(models[kind], n_jobs=n_jobs, callback=listener, random_state=5)
    before = dict(vars(model))
    with pytest.raises(StoppedByCallback):
        model.fit(samples(kind)[::-1])
    assert len(listener.reports) == stop_at, "a callback that has asked to stop is not called again"
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("kind", ["fusion", "anchored", "coupled"])
def test_a_stopped_task_is_not_told_more(models, kind, n_jobs):
    listener = Listener(stop_at=2)
    with pytest.raises(StoppedByCallback):
        use(kind, with_parameters(models[kind], n_jobs=n_jobs, callback=listener))
    assert len(listener.reports) == 2


class Counting:
    """A predictor of patches that are 0; counts the tiles that it is asked for."""

    geometry, n_layers = Geometry(2, 3), 1

    def __init__(self):
        self.n_tiles = 0

    def pad(self, plane):
        return np.pad(plane, self.geometry.radius, mode="edge")

    def patches(self, near):
        self.n_tiles += 1
        margin = 2 * self.geometry.radius
        n_patches = (near.shape[0] - margin) * (near.shape[1] - margin)
        return np.zeros((n_patches, self.geometry.side**2), np.float32)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_stopped_task_ends_at_once(n_jobs):
    counting, listener = Counting(), Listener(stop_at=2)
    with pytest.raises(StoppedByCallback):
        predict_patches(counting, SHARP.astype(np.float32), n_jobs=n_jobs, meter=Meter(listener, "upscaling"))
    assert len(listener.reports) == 2
    n_done = counting.n_tiles
    assert n_done <= 2 + 5 * n_jobs, "no more than what was under way, of some forty tiles"
    time.sleep(0.05)
    assert counting.n_tiles == n_done, "no thread goes on"


@pytest.mark.parametrize("kind", ["fusion", "anchored"])
def test_an_error_of_the_callback_goes_on(models, kind):
    def broken(progress):
        raise RuntimeError("the window was closed")

    with pytest.raises(RuntimeError, match="the window was closed"):
        use(kind, with_parameters(models[kind], n_jobs=2, callback=broken))
    with pytest.raises(TypeError, match="Expected callback to be None or a callable, got 3"):
        use(kind, with_parameters(models[kind], callback=3))


def test_verbose_shows_the_stages(capsys):
    MultiFocusFusion(n_scales=1, verbose=1).fuse(STACK)
    assert "MultiFocusFusion, fusing: " in capsys.readouterr().out
    make("anchored", verbose=1).fit([SHARP])
    printed = capsys.readouterr().out
    assert "SuperResolution, learning: 3/3" in printed
    assert "SuperResolution, fitting maps: " in printed
