"""Thousands of fits and codings in one process: memory stays flat, and no thread, file or object is left behind.

Every round fits one learner (coupled, single, from batches, from chunks, with a checkpoint, saved and loaded again) and
codes fifty times; now and then a task runs. Memory is the resident set after garbage collection and ``malloc_trim``,
which returns free pages to the system, so that the allocator's reserve does not count. The mean over the last tenth of
the rounds must be within 5 % of that over the first tenth.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _main import Figures, main

import coupledict
from coupledict import CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning, sparse_encode

ENCODES_PER_FIT = 50
MOST_GROWTH = 0.05
MOST_OBJECTS = 0.01  # objects that the collector knows
PATIENCE_SECONDS = 300
N, WIDTHS = 120, (10, 7)
TASK_EVERY = 50  # rounds

Fit = Callable[[list[np.ndarray], int, Path], Any]


def parameters(seed: int) -> dict[str, Any]:
    """Return what all learners are given."""
    return {"n_nonzero_coefs": 2, "max_iter": 3, "random_state": seed, "n_jobs": 1 + seed % 2}


def coupled(Xs: list[np.ndarray], seed: int, folder: Path) -> Any:
    """Fit two views and predict one from the other."""
    learner = CoupledDictionaryLearning(12, **parameters(seed)).fit(Xs)
    learner.predict([Xs[0], None], view=1)
    return learner.components_[0]


def support(Xs: list[np.ndarray], seed: int, folder: Path) -> Any:
    """Fit two views that have only their supports in common."""
    return CoupledDictionaryLearning(12, coupling="support", **parameters(seed)).fit(Xs).components_[0]


def single(Xs: list[np.ndarray], seed: int, folder: Path) -> Any:
    """Fit one view by each update in turn."""
    update = ("statistics", "sequential", "ksvd", "mod")[seed % 4]
    return DictionaryLearning(12, update=update, **parameters(seed)).fit(Xs[0]).components_


def online(Xs: list[np.ndarray], seed: int, folder: Path) -> Any:
    """Learn from batches."""
    learner = OnlineDictionaryLearning(12, n_nonzero_coefs=2, random_state=seed)
    for start in range(0, N, 40):
        learner.partial_fit([X[start : start + 40] for X in Xs])
    return learner.components_[0]


def chunked(Xs: list[np.ndarray], seed: int, folder: Path) -> Any:
    """Fit samples that come in chunks, and write their codes to a file."""
    chunks = [[X[i : i + 40] for X in Xs] for i in range(0, N, 40)]
    learner = CoupledDictionaryLearning(12, **parameters(seed)).fit(chunks)
    place = folder / f"codes-{seed}"
    learner.transform(chunks, out=place).load()
    for file in place.iterdir():
        file.unlink()
    place.rmdir()
    return learner.components_[0]


def kept(Xs: list[np.ndarray], seed: int, folder: Path) -> Any:
    """Fit with a checkpoint, resume it, save and load."""
    place, model = folder / "checkpoint.safetensors", folder / "model.safetensors"
    CoupledDictionaryLearning(12, **parameters(seed)).fit(Xs, checkpoint=place, checkpoint_every=2)
    learner = CoupledDictionaryLearning(12, **parameters(seed)).fit(Xs, resume=place)
    learner.save(model)
    return coupledict.load(model).components_[0]


def failing(Xs: list[np.ndarray], seed: int, folder: Path) -> Any:
    """Fit samples that cannot be fitted: errors must not hold on to what they saw."""
    spoiled = [X.copy() for X in Xs]
    spoiled[1][N // 2, 0] = np.nan
    learner = CoupledDictionaryLearning(12, **parameters(seed))
    try:
        learner.fit(spoiled)
    except ValueError:
        return learner.fit(Xs).components_[0]
    raise AssertionError("A NaN was fitted.")


FITS: list[Fit] = [coupled, support, single, online, chunked, kept, failing]


def tasks() -> list[Callable[[], Any]]:
    """Return the tasks, as small as they come."""
    from coupledict.audio import BandwidthExtension
    from coupledict.classification import CoupledClassifier
    from coupledict.images import MultiFocusFusion, SuperResolution
    from coupledict.matching import CrossModalMatcher

    rng = np.random.default_rng(0)
    picture = rng.uniform(0, 255, (40, 40)).astype(np.float32)
    sound = (3000 * rng.standard_normal(4000)).astype(np.int16)
    X, y = rng.standard_normal((80, 12)), np.arange(80) % 3
    halves = [X[:, :6], X[:, 6:]]
    matcher = CrossModalMatcher(n_components=8, n_dictionaries=1, random_state=0)
    return [
        lambda: MultiFocusFusion().fuse([picture, picture[::-1]]),
        lambda: SuperResolution.pretrained(2).upscale(picture),
        lambda: BandwidthExtension.pretrained().extend(sound),
        lambda: CoupledClassifier(random_state=0).fit(X, y).predict(X),
        lambda: matcher.fit(halves).match(*halves, n_matches=3),
    ]


def resident_bytes() -> int:
    """Return the memory that the process holds, after a collection."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def census() -> tuple[int, int, int]:
    """Return how many threads, open files and objects there are."""
    return (
        len(os.listdir("/proc/self/task")),
        len(os.listdir("/proc/self/fd")),
        len(gc.get_objects()),
    )


def run(count: int, seed: int) -> Figures:
    """Fit `count` times and code fifty times as often; raises where memory grew or anything was left behind."""
    rng = np.random.default_rng(seed)
    began, memory, counts, answers = time.perf_counter(), [], [], {}
    some_tasks = tasks()
    tenth = max(count // 10, 1)
    with tempfile.TemporaryDirectory() as folder:
        for work in some_tasks:  # what is loaded once, and kept, is loaded before the first measurement
            work()
        for number in range(count):
            faulthandler.dump_traceback_later(PATIENCE_SECONDS, exit=True)
            Xs = [rng.standard_normal((N, p)) for p in WIDTHS]
            atoms = FITS[number % len(FITS)](Xs, number, Path(folder))
            for _ in range(ENCODES_PER_FIT):
                codes = sparse_encode(Xs[0][:20], atoms, n_nonzero_coefs=2, n_jobs=1 + number % 2)
            if number % TASK_EVERY == TASK_EVERY - 1:
                some_tasks[number // TASK_EVERY % len(some_tasks)]()
            if number < tenth or number >= count - tenth:
                memory.append(resident_bytes())
                counts.append(census())
            answers[number % len(FITS)] = float(codes.data.sum())
        assert all(np.isfinite(value) for value in answers.values())
        assert len(os.listdir(folder)) == 2, f"files were left behind: {os.listdir(folder)}"
    faulthandler.cancel_dump_traceback_later()
    first, last = float(np.mean(memory[:tenth])), float(np.mean(memory[-tenth:]))
    early, late = np.median(counts[:tenth], axis=0), np.median(counts[-tenth:], axis=0)
    figures: Figures = {
        "fits": count,
        "codings": count * ENCODES_PER_FIT,
        "seconds": round(time.perf_counter() - began, 1),
        "MiB, first tenth": round(first / 2**20, 2),
        "MiB, last tenth": round(last / 2**20, 2),
        "growth of memory": round(last / first - 1, 4),
        "threads, open files, objects, first tenth": early.tolist(),
        "threads, open files, objects, last tenth": late.tolist(),
    }
    assert last <= first * (1 + MOST_GROWTH), f"memory grew: {figures}"
    assert (late[:2] <= early[:2]).all(), f"threads or files were left behind: {figures}"
    assert late[2] <= early[2] * (1 + MOST_OBJECTS), f"objects were left behind: {figures}"
    return figures


if __name__ == "__main__":
    main(run, 2000)
