"""The proofs about pictures and commands in short, and that each of them can fail."""

from __future__ import annotations

import dataclasses

import fuzz_images
import kill_commands
import numpy as np
import pytest

from coupledict.images import Inpainting, MultiFocusFusion, StainSeparator
from support.careless import rename_early

pytestmark = pytest.mark.slow


def test_awkward_pictures():
    figures = fuzz_images.run(90, seed=1)
    assert figures["cases"] == 90
    assert min(figures[name] for name in ("fuse: fused", "fill: filled", "stain: separated")) >= 10


def brighter(fused):
    return dataclasses.replace(fused, image=fused.image * 3 + 1)


def not_a_number(fused):
    return dataclasses.replace(fused, depth=fused.depth * np.float32(np.nan))


def beyond_the_stack(fused):
    return dataclasses.replace(fused, depth=fused.depth + 9)


def filled_anew(picture):
    return 255 - picture if picture.dtype.kind == "u" else -picture - 1


def denser(densities):
    return densities * np.float32(1.2) + np.float32(0.1)


def below_0(densities):
    return -densities - 1


@pytest.mark.parametrize(
    ("place", "method", "fault"),
    [
        (MultiFocusFusion, "fuse", brighter),
        (MultiFocusFusion, "fuse", not_a_number),
        (MultiFocusFusion, "fuse", beyond_the_stack),
        (Inpainting, "fill", filled_anew),
        (StainSeparator, "transform", denser),
        (StainSeparator, "transform", below_0),
    ],
)
def test_wrong_pictures_are_noticed(monkeypatch, place, method, fault):
    right = getattr(place, method)
    monkeypatch.setattr(place, method, lambda self, *given: fault(right(self, *given)))
    with pytest.raises(AssertionError, match=r"number \d+ of seed 1"):
        fuzz_images.run(30, seed=1)


def test_threads_that_change_a_result_are_noticed(monkeypatch):
    right = Inpainting.fill
    monkeypatch.setattr(Inpainting, "fill", lambda self, *given: np.roll(right(self, *given), self.n_jobs - 1, axis=1))
    with pytest.raises(AssertionError, match="the number of threads changes the result"):
        fuzz_images.run(30, seed=1)


def test_killed_commands():
    figures = kill_commands.run(6, seed=1)
    assert figures["kills"] == 6


def test_outputs_that_are_not_written_whole_are_noticed(monkeypatch):
    rename_early(monkeypatch, 0.3)  # a slow disk, so that a kill in the midst is likely whatever the machine does
    with pytest.raises(AssertionError, match="is not whole"):
        kill_commands.run(40, seed=1)
