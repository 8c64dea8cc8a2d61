"""Fits that are killed at random moments, again and again, and resumed from their checkpoints to the same bits.

Every kill is a SIGKILL, which nothing can catch: half of them at a random moment, half while a checkpoint is being
written. After each kill the checkpoint must be complete, hold every iteration that the fit has reported, and lead to
the dictionaries of an uninterrupted fit. Between kills, fits meet a full disk.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from _main import Figures, main

import coupledict
from coupledict import CoupledDictionaryLearning, DictionaryLearning

N_SAMPLES, WIDTHS, EVERY = 1500, (64, 36), (1, 2, 5)
FULL = 2  # how a fit ends that could not write its checkpoint
LEARNERS: dict[str, Callable[..., Any]] = {
    "statistics": lambda **given: CoupledDictionaryLearning(96, n_nonzero_coefs=4, max_iter=24, **given),
    "sequential": lambda **given: CoupledDictionaryLearning(
        48, n_nonzero_coefs=3, max_iter=12, update="sequential", **given
    ),
    "mod, support": lambda **given: CoupledDictionaryLearning(
        32, n_nonzero_coefs=3, max_iter=12, update="mod", coupling="support", **given
    ),
    "tolerance": lambda **given: CoupledDictionaryLearning(64, tol=5.0, max_iter=15, unused_atoms="late", **given),
    "one view": lambda **given: DictionaryLearning(96, n_nonzero_coefs=4, max_iter=20, **given),
}


def make_samples(seed: int) -> list[Any]:
    """Return two views that a few sources make, and noise."""
    rng = np.random.default_rng(seed)
    sources = rng.standard_normal((N_SAMPLES, 40)) * (rng.random((N_SAMPLES, 40)) < 0.1)
    return [
        (sources @ rng.standard_normal((40, p)) + 0.1 * rng.standard_normal((N_SAMPLES, p))).astype(np.float32)
        for p in WIDTHS
    ]


def arrange(views: list[Any], learner: str, how: str) -> Any:
    """Return the samples as the learner takes them, in memory or in chunks."""
    if learner == "one view":
        return views[0]
    if how == "chunks" and learner in ("statistics", "tolerance"):
        return [[view[start : start + 200] for view in views] for start in range(0, N_SAMPLES, 200)]
    return views


def unfinished(folder: Path) -> list[Path]:
    """Return the files that are being written, or whose writing was cut off."""
    return [folder / name for name in os.listdir(folder) if name.endswith(".tmp")]


class Fit:
    """A fit in a child process, which reports each iteration when it is over."""

    def __init__(self, make: Callable[..., Any], samples: Any, path: Path, every: int, room: int | None = None) -> None:
        self._news, write = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(self._news)
            self._run(make, samples, path, every, write, room)
        os.close(write)
        self.reported = 0

    @staticmethod
    def _run(make: Callable[..., Any], samples: Any, path: Path, every: int, write: int, room: int | None) -> NoReturn:
        code = 1
        try:
            if room is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
            learner = make(callback=lambda state: os.write(write, bytes([state.completed])) and None)
            learner.fit(samples, checkpoint=path, checkpoint_every=every, resume=path if path.exists() else None)
            code = 0
        except OSError as error:
            code = FULL if "Could not write the checkpoint" in str(error) else 1
        finally:
            os._exit(code)

    def wait_for_write(self, folder: Path, seconds: float) -> None:
        """Wait until a checkpoint is being written, but not for ever."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not unfinished(folder):
            pass

    def end(self, kill: bool) -> int:
        """Return the status with which the child ended, after a kill or on its own."""
        if kill:
            os.kill(self.child, signal.SIGKILL)
        status = os.waitpid(self.child, 0)[1]
        while select.select([self._news], [], [], 0)[0] and (news := os.read(self._news, 256)):
            self.reported = max(self.reported, *news)
        os.close(self._news)
        return status


def check_file(path: Path, fit: Fit, every: int, least: int) -> int:
    """Return the iterations that the checkpoint holds; it must be whole, and hold what was reported."""
    n_iter = int(coupledict.load(path).n_iter_) if path.exists() else 0
    promised = max(least, fit.reported - fit.reported % every)
    assert n_iter >= promised, f"the checkpoint holds {n_iter} iterations, {promised} were promised"
    return n_iter


def finished(make: Callable[..., Any], samples: Any, path: Path) -> list[Any]:
    """Return the dictionaries of the fit, taken up from its checkpoint and brought to its end."""
    learner = make().fit(samples, resume=path if path.exists() else None)
    return learner.components_ if isinstance(learner.components_, list) else [learner.components_]


def one_fit(name: str, how: str, n_kills: int, rng: Any, expected: Any, samples: Any, seen: Counter[str]) -> None:
    """Kill a fit `n_kills` times on its way, and see that it comes to the expected end."""

    def make(**given: Any) -> Any:
        return LEARNERS[name](random_state=3, n_jobs=int(rng.integers(1, 3)), **given)

    every, kept = int(rng.choice(EVERY)), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.safetensors"
        for _ in range(n_kills):
            if path.exists() and rng.random() < 0.15:
                full = Fit(make, samples, path, every, room=int(rng.integers(0, path.stat().st_size)))
                ended = os.waitstatus_to_exitcode(full.end(kill=False))
                assert ended in (0, FULL), f"{name}, {how}: a fit ended with {ended} on a full disk"
                seen["stopped by a full disk"] += ended == FULL
                kept = check_file(path, full, every, kept)
            fit = Fit(make, samples, path, every)
            if during_write := rng.random() < 0.5:
                time.sleep(rng.uniform(0, 0.1))
                fit.wait_for_write(Path(folder), 0.5)
                time.sleep(rng.uniform(0, 0.002))
            else:
                time.sleep(rng.uniform(0, 0.25))
            ended = os.waitstatus_to_exitcode(fit.end(kill=True))
            assert ended in (0, -signal.SIGKILL), f"{name}, {how}: a fit ended with {ended}"
            killed = ended != 0
            seen["kills"] += killed
            seen["kills aimed at a write"] += killed and during_write
            for left in unfinished(Path(folder)):
                seen["unfinished files left"] += 1
                left.unlink()
            kept = check_file(path, fit, every, kept)
            seen["kills after a checkpoint"] += killed and kept > 0
        found = finished(make, samples, path)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True)), f"{name}, {how}: other dictionaries"
    seen["fits brought to the same end"] += 1


def run(count: int, seed: int) -> Figures:
    """Kill fits `count` times or a few times more."""
    rng = np.random.default_rng(seed)
    views, expected = make_samples(seed), {}
    seen: Counter[str] = Counter()
    while seen["kills"] < count or (not seen["kills after a checkpoint"] and seen["kills"] < 20 * count):
        name, how = str(rng.choice(list(LEARNERS))), str(rng.choice(["memory", "chunks"]))
        samples = arrange(views, name, how)
        if (name, how) not in expected:
            expected[name, how] = finished(
                lambda name=name, **given: LEARNERS[name](random_state=3, **given), samples, Path("no such file")
            )
        one_fit(name, how, int(rng.integers(1, 6)), rng, expected[name, how], samples, seen)
    assert seen["kills after a checkpoint"] > 0, "no fit got as far as its first checkpoint"
    return dict(seen)


if __name__ == "__main__":
    main(run, 200)
