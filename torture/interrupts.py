"""Ctrl-C at random moments: it takes effect within a second, and nothing is broken afterwards.

A second process runs fits, codings, predictions, file writers and the tasks, one after the other; this one sends it
SIGINT at a random moment of each. Afterwards the estimator must be unfitted or hold exactly the model of its last
complete iteration, files must be complete or absent, threads must have ended, the limits of BLAS and the processor
affinity must be restored, and the same work repeated must give the same bits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import gc
import hashlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _main import Figures, main
from threadpoolctl import threadpool_info

import coupledict
from coupledict import CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning, sparse_encode

PATIENCE_SECONDS = 60  # a child that does not answer for so long hangs: its stacks are printed
PROMISED_SECONDS = 1.0

Check = Callable[[Any, bool], None]
Work = tuple[Callable[[], Any], Check]


def digest(thing: Any) -> str:
    """Return a fingerprint of arrays, sparse arrays and lists of them, to the last bit."""
    found = hashlib.sha256()

    def add(part: Any) -> None:
        if hasattr(part, "indptr"):
            part = [part.indptr, part.indices, part.data]
        if isinstance(part, list | tuple):
            for entry in part:
                add(entry)
        else:
            array = np.ascontiguousarray(part)
            found.update(f"{array.dtype}{array.shape}".encode())
            found.update(array.tobytes())

    add(thing)
    return found.hexdigest()


def views(seed: int, n: int, widths: tuple[int, ...]) -> list[np.ndarray]:
    """Return views that have a little in common."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, 6))
    return [common @ rng.standard_normal((6, p)) + 0.3 * rng.standard_normal((n, p)) for p in widths]


def fitting(make: Callable[..., Any], Xs: Any, after: Check | None = None, **arguments: Any) -> Callable[[], Work]:
    """Return a fit; interrupted, it leaves no model or exactly that of an iteration."""
    states: dict[int, str] = {}

    def keep(state: Any) -> None:
        states[state.completed] = digest(state.components)

    def parts(learner: Any) -> list[np.ndarray]:
        return learner.components_ if isinstance(learner.components_, list) else [learner.components_]

    make(callback=keep).fit(Xs)

    def prepare() -> Work:
        learner = make()

        def check(result: Any, interrupted: bool) -> None:
            if hasattr(learner, "components_"):
                assert digest(parts(learner)) == states[learner.n_iter_], "the model is not that of its iteration"
                assert len(learner.history_) == learner.n_iter_, "the history is not that of the model"
                learner.transform(Xs)
            else:
                assert interrupted, "a fit that was not interrupted left no model"
            if after is not None:
                after(learner, interrupted)
            assert digest(parts(learner.fit(Xs))) == states[max(states)], "the next fit gives other bits"

        return lambda: learner.fit(Xs, **arguments), check

    return prepare


def repeating(work: Callable[[], Any]) -> Callable[[], Work]:
    """Return work without a state of its own; interrupted, it leaves nothing."""
    expected = digest(work())

    def prepare() -> Work:
        def check(result: Any, interrupted: bool) -> None:
            assert result is None or digest(result) == expected, "the result has other bits"
            assert digest(work()) == expected, "the same work done again gives other bits"

        return work, check

    return prepare


def streaming(Xs: list[np.ndarray]) -> Callable[[], Work]:
    """Return batches learned one after the other; an interrupted batch counts as a whole or not at all."""
    batches = [[X[i : i + 400] for X in Xs] for i in range(0, len(Xs[0]), 400)]
    learner = OnlineDictionaryLearning(40, n_nonzero_coefs=4, random_state=0)
    states = {k: digest(learner.partial_fit(batch).components_) for k, batch in enumerate(batches, 1)}

    def prepare() -> Work:
        learner = OnlineDictionaryLearning(40, n_nonzero_coefs=4, random_state=0)

        def learn() -> None:
            for batch in batches[getattr(learner, "n_iter_", 0) if hasattr(learner, "components_") else 0 :]:
                learner.partial_fit(batch)

        def check(result: Any, interrupted: bool) -> None:
            if hasattr(learner, "components_"):
                assert digest(learner.components_) == states[learner.n_iter_], "the model is not that of its batches"
            learn()
            assert digest(learner.components_) == states[len(batches)], "going on gives other bits"

        return learn, check

    return prepare


def writing(learner: Any, Xs: list[np.ndarray], folder: Path) -> Callable[[], Work]:
    """Return codes written to files, which are there as a whole or not at all."""
    expected = digest(learner.transform(Xs))

    def prepare() -> Work:
        place = folder / "codes"

        def check(result: Any, interrupted: bool) -> None:
            if place.exists():
                assert digest(coupledict.open_codes(place).load()) == expected, "the file is not whole"
                shutil.rmtree(place)
            else:
                assert interrupted
            assert not list(folder.iterdir()), f"left behind: {list(folder.iterdir())}"

        return lambda: learner.transform(Xs, out=place), check

    return prepare


def saving(learner: Any, folder: Path) -> Callable[[], Work]:
    """Return a model saved over an older one: one of the two is there."""
    place = folder / "model.safetensors"
    learner.save(place)
    both = {digest(learner.components_)}

    def prepare() -> Work:
        def work() -> None:
            for _ in range(20):
                learner.save(place)

        def check(result: Any, interrupted: bool) -> None:
            assert digest(coupledict.load(place).components_) in both, "the file is not whole"
            assert [file.name for file in folder.iterdir()] == [place.name], "a temporary file was left behind"

        return work, check

    return prepare


def tasks(seed: int) -> dict[str, Callable[[], Work]]:
    """Return the tasks, each made from a few seconds of anything."""
    from sklearn.datasets import load_digits

    from coupledict.audio import BandwidthExtension
    from coupledict.classification import CoupledClassifier
    from coupledict.images import Inpainting, MultiFocusFusion, StainSeparator, SuperResolution
    from coupledict.matching import CrossModalMatcher

    rng = np.random.default_rng(seed)
    picture = np.cumsum(rng.standard_normal((300, 300)), axis=1).astype(np.float32)
    X, y = load_digits(return_X_y=True)
    halves = [X[:, :32], X[:, 32:]]
    sound = (3000 * rng.standard_normal(160_000)).astype(np.int16)
    larger = SuperResolution.pretrained(2, n_jobs=2)
    wider = BandwidthExtension.pretrained()
    classifier = CoupledClassifier(n_jobs=1, random_state=0)
    matcher = CrossModalMatcher(n_dictionaries=2, n_jobs=2, random_state=0)
    enlarger = SuperResolution(2, n_components=64, max_samples=20_000, random_state=0)
    holes = rng.random((120, 120)) < 0.3
    filler = Inpainting(64, n_rounds=3, max_samples=2000, max_iter=3, n_jobs=2, random_state=0)
    densities = rng.exponential(0.6, (300, 300, 2))
    tissue = np.rint(255 * np.exp(-densities @ [[0.65, 0.70, 0.29], [0.21, 0.95, 0.22]])).astype(np.uint8)
    separator = StainSeparator(n_jobs=2)
    return {
        "fill": repeating(lambda: filler.fill(picture[:120, :120], holes)),
        "stain": repeating(lambda: separator.fit(tissue).normalize(tissue)),
        "fuse": repeating(lambda: MultiFocusFusion(n_jobs=2).fuse([picture, picture[::-1]]).image),
        "upscale": repeating(lambda: larger.upscale(picture)),
        "extend": repeating(lambda: wider.extend(sound)),
        "classifier.fit": repeating(lambda: classifier.fit(X[:600], y[:600]).decision_function(X[600:700])),
        "matcher.fit": repeating(
            lambda: matcher.fit([h[:600] for h in halves]).match(X[600:700, :32], X[600:700, 32:], n_matches=5)
        ),
        "upscaler.fit": repeating(lambda: enlarger.fit([picture]).upscale(picture[:50, :50])),
    }


def cases(seed: int, folder: Path) -> dict[str, Callable[[], Work]]:
    """Return everything that is interrupted, by name."""
    Xs = views(seed, 6000, (30, 20))
    D = np.random.default_rng(seed).standard_normal((300, 30))

    def coupled(**parameters: Any) -> Any:
        given = {"n_nonzero_coefs": 4, "max_iter": 20, "random_state": 0} | parameters
        return CoupledDictionaryLearning(60, **given)

    def single(**parameters: Any) -> Any:
        return DictionaryLearning(60, **({"n_nonzero_coefs": 4, "max_iter": 6, "random_state": 0} | parameters))

    gaps = [np.where(np.random.default_rng(seed).random(X.shape) < 0.2, np.nan, X) for X in Xs]
    kept, codes, models = (folder / name for name in ("checkpoints", "codes", "models"))
    for own in (kept, codes, models):
        own.mkdir()
    place = kept / "fit.safetensors"
    whole = digest(coupled().fit(Xs).components_)

    def resumed(learner: Any, interrupted: bool) -> None:
        if place.exists():
            assert digest(coupled().fit(Xs, resume=place).components_) == whole, "resumed to other bits"
            place.unlink()
        assert not list(kept.iterdir()), "a temporary file was left behind"

    fitted, masked = coupled(n_jobs=2).fit(Xs), coupled(missing="nan", max_iter=3).fit(gaps)
    chunks = [[X[i : i + 1500] for X in Xs] for i in range(0, 6000, 1500)]
    return {
        "encode": repeating(lambda: sparse_encode(Xs[0], D, n_nonzero_coefs=12)),
        "encode, n_jobs=2": repeating(lambda: sparse_encode(Xs[0], D, n_nonzero_coefs=12, n_jobs=2)),
        "fit": fitting(coupled, Xs),
        "fit, n_jobs=2": fitting(lambda **given: coupled(n_jobs=2, **given), Xs),
        "fit, support": fitting(lambda **given: coupled(coupling="support", max_iter=6, **given), Xs),
        "fit, sequential": fitting(lambda **given: coupled(update="sequential", max_iter=6, **given), Xs),
        "fit, lasso": fitting(
            lambda **given: coupled(pursuit="lasso", n_nonzero_coefs=None, alpha=2.0, max_iter=6, **given), Xs
        ),
        "fit, missing entries": fitting(lambda **given: coupled(missing="nan", max_iter=6, **given), gaps),
        "impute": repeating(lambda: masked.impute(gaps)),
        "fit, chunks": fitting(lambda **given: coupled(n_jobs=2, **given), chunks),
        "fit, K-SVD": fitting(lambda **given: single(update="ksvd", **given), Xs[0]),
        "fit, MOD": fitting(lambda **given: single(update="mod", **given), Xs[0]),
        "fit, checkpoint": fitting(coupled, Xs, resumed, checkpoint=place),
        "partial_fit": streaming(Xs),
        "predict": repeating(lambda: fitted.predict([Xs[0], None], view=1)),
        "transform to a folder": writing(fitted, Xs, codes),
        **tasks(seed),
        "save": saving(fitted, models),
    }


@dataclasses.dataclass(frozen=True)
class Machine:
    """What must be as before when an interrupt is over."""

    blas: tuple[int, ...]
    processors: frozenset[int]
    n_threads: int
    n_files: int

    @classmethod
    def now(cls) -> Machine:
        """Look."""
        counts = tuple(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        n_threads, n_files = (len(os.listdir(f"/proc/self/{name}")) for name in ("task", "fd"))
        return cls(counts, frozenset(os.sched_getaffinity(0)), n_threads, n_files)


def settled(before: Machine) -> Machine:
    """Return the machine as it is, after a moment for threads that are about to end."""
    deadline = time.monotonic() + PATIENCE_SECONDS / 2
    while (now := Machine.now()).n_threads > before.n_threads and time.monotonic() < deadline:
        time.sleep(0.001)
    return dataclasses.replace(now, n_threads=max(now.n_threads, before.n_threads))


def interrupted_once(work: Callable[[], Any], seconds: float) -> tuple[Any, float, str]:
    """Tell the parent to interrupt, work, and return the result, when it left, and how the interrupt was heard."""
    result, left, how = None, 0.0, "late"
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                print(json.dumps({"ready": seconds}), flush=True)
                result = work()
            finally:
                left = time.monotonic()
            if any("interrupted" in str(warning.message) for warning in caught):
                return result, left, "warned"
        time.sleep(PATIENCE_SECONDS / 2)
        how = "never"
    except KeyboardInterrupt:
        how = "raised" if result is None else "late"
    return result, left, how


def child(seed: int) -> None:
    """Do the work that is asked for on standard input, one name a line, and tell how it went."""
    faulthandler.dump_traceback_later(PATIENCE_SECONDS, exit=True)
    folder = Path(tempfile.mkdtemp(prefix="interrupts-"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        prepared, seconds = cases(seed, folder), {}
        for name, prepare in prepared.items():
            faulthandler.dump_traceback_later(PATIENCE_SECONDS, exit=True)
            work, check = prepare()
            began = time.monotonic()
            result = work()
            seconds[name] = time.monotonic() - began
            check(result, False)
        del work, check, result
        print(json.dumps({"names": list(prepared)}), flush=True)
        for line in sys.stdin:
            faulthandler.dump_traceback_later(PATIENCE_SECONDS, exit=True)
            name = json.loads(line)
            work, check = prepared[name]()
            before = Machine.now()
            began = time.monotonic()
            result, left, how = interrupted_once(work, seconds[name])
            if how == "late":  # the machine was slower when the time was taken
                seconds[name] = min(seconds[name], left - began)
            trouble = ""
            try:
                now = settled(before)
                assert now == before, f"{before} became {now}"
                check(result, how != "late")
            except AssertionError as error:
                trouble = str(error) or "a check failed"
            if how == "never":
                trouble = "the interrupt was lost"
            print(json.dumps({"left": left, "how": how, "trouble": trouble}), flush=True)
            del work, check, result
            gc.collect()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def started(seed: int) -> Iterator[subprocess.Popen[str]]:
    """Start the child, and end it whatever happens."""
    command = [sys.executable, __file__, "--child", str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def hear(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next message of the child."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("The process that was interrupted has ended; its stacks are above.")
    message: dict[str, Any] = json.loads(line)
    return message


def run(count: int, seed: int) -> Figures:
    """Interrupt `count` times; raises where anything was lost, different, left behind or late."""
    chance = random.Random(seed)
    heard: dict[str, list[float]] = {}
    troubles: list[str] = []
    late = 0
    with started(seed) as process:
        assert process.stdin is not None
        names = hear(process)["names"]
        for number in range(count):
            name = names[number % len(names)]
            print(json.dumps(name), file=process.stdin, flush=True)
            time.sleep(chance.uniform(0, 1.05) * hear(process)["ready"])
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            told = hear(process)
            if told["trouble"]:
                troubles.append(f"{name}: {told['trouble']}")
            if told["how"] == "late":
                late += 1
            else:
                heard.setdefault(name, []).append(told["left"] - sent)
    everything = [seconds for some in heard.values() for seconds in some]
    slowest = max(heard, key=lambda name: max(heard[name]))
    figures: Figures = {
        "interrupts": count,
        "in time": len(everything),
        "after the work": late,
        "median seconds": round(statistics.median(everything), 4),
        "slowest seconds": round(max(everything), 4),
        "slowest work": slowest,
        "troubles": troubles,
    }
    if troubles or max(everything) > PROMISED_SECONDS:
        raise AssertionError(json.dumps(figures))
    return figures


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(int(sys.argv[2]))
    else:
        main(run, 300)
