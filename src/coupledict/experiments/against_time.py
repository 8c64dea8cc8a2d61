"""The paper's second experiment: error and sparsity against time, one dictionary, a tolerance.

All methods share one coder and, unless they say otherwise, start from the same cosine dictionary, so that methods are
compared and not programs. While a learner is timed, its dictionaries are only copied; they are evaluated afterwards, by
coding the patches it learned from, and held-out patches, with the full number of atoms.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..coding.encode import sparse_encode
from ..estimators.coupled import PAPER, CoupledDictionaryLearning
from ..estimators.online import OnlineDictionaryLearning
from ..foundation.arrays import Array
from ..learning.start import dct_dictionary
from .levels import Level, codes_level, first_reaching
from .machine import limit_threads
from .peers import DICTLEARN, SKLEARN, SPAMS, available_peers
from .sources import distinct_patches
from .steps import BeginStep
from .watching import Point, Recorder

#: Keys of methods that are used elsewhere.
KSVD_METHOD, DEFAULT_METHOD, PAPER_METHOD, PAPER_KEEP_METHOD = "ksvd", "default", "paper", "paper-keep"
SAMPLES_METHOD, CONSTANT_METHOD = "ksvd-samples", "aksvd"
START_NONZEROS = 13.2  # atoms that the cosine start needs if K-SVD ends near 12.5: the paper's regime
PEERS = {
    SPAMS: "trainDL: online learning, coded by orthogonal least squares, no limit but the tolerance",
    DICTLEARN: "approximate K-SVD with its own orthogonal matching pursuit; unused atoms become random",
    SKLEARN: "MiniBatchDictionaryLearning: online learning with the lasso, its penalty set for as many atoms as ours",
}
PEER_POINTS = 12  # dictionaries of a peer that are evaluated
PAUSE = 0.05  # seconds to wait before a run, until library threads of the one before stop spinning


@dataclass(frozen=True)
class TimeSizes:
    """How much the experiment learns from, and how often it is timed."""

    n_patches: int = 10_000
    n_held_out: int = 10_000
    n_components: int = 256
    n_nonzero_coefs: int = 32
    side: int = 8
    repeats: int = 5
    peer_seconds: float = 6.0
    thinning: int = 1


@dataclass(frozen=True)
class Regime:
    """Patches, a starting dictionary, and the stopping rule of codes: a ``watching.Problem``."""

    key: str
    title: str
    train: tuple[Array, ...]
    held_out: Array
    start: tuple[Array, ...]
    n_nonzero_coefs: int
    tol: float
    threads: int

    @property
    def n_components(self) -> int:
        """Number of atoms."""
        return len(self.start[0])

    def __post_init__(self) -> None:
        for array in (*self.train, self.held_out, *self.start):
            array.flags.writeable = False  # all methods and regimes share these arrays

    def stacked(self) -> Array:
        """Return a copy of the patches."""
        return self.train[0].copy()

    def stacked_start(self) -> Array:
        """Return a copy of the starting dictionary: some packages change it in place."""
        return self.start[0].copy()

    def level(self, X: Array, dictionary: Array) -> Level:
        """Return the sparsity and error that a dictionary gives for patches."""
        return codes_level(X, dictionary, self.n_nonzero_coefs, self.tol, self.threads)


@dataclass(frozen=True)
class Method:
    """A way to learn a dictionary; results of every `curve_step`-th iteration are kept."""

    key: str
    name: str
    description: str
    max_iter: int
    settings: dict[str, Any] = field(default_factory=dict)
    own_start: bool = False
    curve_step: int = 1
    repeated: bool = True

    def run(self, regime: Regime, seed: int) -> tuple[list[Point], list[dict[str, Any]]]:
        """Learn; return the dictionary after each iteration with its time, and the history of the fit."""
        common: dict[str, Any] = {
            "n_components": regime.n_components,
            "n_nonzero_coefs": regime.n_nonzero_coefs,
            "tol": regime.tol,
            "n_jobs": regime.threads,
            "random_state": seed,
        }
        settings = (
            self.settings | ({} if self.own_start else {"init": list(regime.start)}) | {"predictor": "dictionary"}
        )
        recorder = Recorder()
        if self.key == "odl":
            online = OnlineDictionaryLearning(**common, **settings)
            recorder.start()
            for batch in _batches(regime.train[0], online.batch_size, self.max_iter, seed):
                online.partial_fit([batch])
                recorder.note(online.components_)
            return recorder.points, online.history_
        learner = CoupledDictionaryLearning(**common, **settings, max_iter=self.max_iter, callback=recorder.callback)
        recorder.start()
        learner.fit([regime.train[0]])
        return recorder.points, learner.history_


CONSTANT = {"schedule": "constant", "growth": None}
#: The paper's settings, except the start, which all methods share, and prediction, which is not used.
PAPER_SETTINGS = {key: value for key, value in PAPER.items() if key not in ("init", "predictor")}
METHODS = (
    Method(
        KSVD_METHOD,
        "K-SVD",
        "exact K-SVD: a singular value decomposition for each atom",
        16,
        CONSTANT | {"update": "ksvd"},
    ),
    Method(
        CONSTANT_METHOD,
        "approximate K-SVD",
        "one power step for each atom instead of the decomposition; the number of nonzeros is constant",
        32,
        CONSTANT | {"update": "sequential"},
        repeated=False,
    ),
    Method("mod", "MOD", "all atoms at once by least squares", 32, CONSTANT | {"update": "mod"}, repeated=False),
    Method("odl", "online learning", "batches of 256 patches and running sums", 256, curve_step=8, repeated=False),
    Method(
        PAPER_METHOD,
        "the paper, to the letter",
        "rank-1 updates, growing number of nonzeros, mean residual for unused atoms",
        32,
        PAPER_SETTINGS,
    ),
    Method(
        PAPER_KEEP_METHOD,
        "the paper, unused atoms kept",
        "the paper's method but for its rule for unused atoms",
        32,
        PAPER_SETTINGS | {"unused_atoms": "keep"},
        repeated=False,
    ),
    Method(
        SAMPLES_METHOD,
        "K-SVD from samples",
        "exact K-SVD that starts from random patches instead of cosines",
        16,
        CONSTANT | {"update": "ksvd", "init": "samples"},
        own_start=True,
        repeated=False,
    ),
    Method(DEFAULT_METHOD, "coupledict's default", "sums over codes, samples that grow in number", 32, own_start=True),
)


def regimes(images: list[Array], *, sizes: TimeSizes, seed: int, threads: int) -> list[Regime]:
    """Cut the patches, and choose the tolerance of the sparse regime."""
    (patches,) = distinct_patches([images], sizes.n_patches + sizes.n_held_out, side=sizes.side, seed=seed)
    train = np.ascontiguousarray(patches[: sizes.n_patches])
    held_out = np.ascontiguousarray(patches[sizes.n_patches :])
    start = np.ascontiguousarray(dct_dictionary((sizes.side, sizes.side), sizes.n_components))
    sparse = sparse_tolerance(train, start, sizes.n_nonzero_coefs, threads)
    return [
        Regime(key, title, (train,), held_out, (start,), sizes.n_nonzero_coefs, tol, threads)
        for key, title, tol in (
            ("eps4", "the paper's tolerance, eps = 4", 4.0),
            ("sparse", f"about 12 atoms per patch, eps = {sparse:g}", sparse),
        )
    ]


def sparse_tolerance(X: Array, start: Array, n_nonzero_coefs: int, threads: int) -> float:
    """Return the smallest integer tolerance at which the start needs at most 13.2 atoms per patch."""
    low, high = 0, 16
    while _mean_nonzeros(X, start, n_nonzero_coefs, high, threads) > START_NONZEROS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        above = _mean_nonzeros(X, start, n_nonzero_coefs, middle, threads) > START_NONZEROS
        low, high = (middle, high) if above else (low, middle)
    return float(high)


def _mean_nonzeros(X: Array, D: Array, n_nonzero_coefs: int, tol: float, threads: int) -> float:
    return float(sparse_encode(X, D, n_nonzero_coefs=n_nonzero_coefs, tol=tol, n_jobs=threads).nnz / len(X))


def _batches(X: Array, size: int, number: int, seed: int) -> Iterator[Array]:
    """Draw batches in random order; every patch is drawn once before any is drawn again."""
    rng = np.random.default_rng(seed)
    order = np.empty(0, np.intp)
    for _ in range(number):
        if order.size < size:
            order = np.concatenate([order, rng.permutation(len(X))])
        yield X[order[:size]]
        order = order[size:]


def against_time(regime: Regime, *, sizes: TimeSizes, seed: int, begin: BeginStep) -> dict[str, Any]:
    """Run all methods in rotating order, evaluate them, and compare them with K-SVD; return plain numbers."""
    runs: dict[str, tuple[list[Point], list[dict[str, Any]]]] = {}
    times: dict[str, list[list[float]]] = {method.key: [] for method in METHODS}
    for round_ in range(sizes.repeats):
        for place in range(len(METHODS)):
            method = METHODS[(place + round_) % len(METHODS)]
            if round_ > 0 and not method.repeated:
                continue
            begin(f"{regime.key}: {method.name}, run {round_ + 1} of {sizes.repeats if method.repeated else 1}")
            with limit_threads(regime.threads):
                time.sleep(PAUSE)
                points, history = method.run(regime, seed)
            times[method.key].append([point.seconds for point in points])
            runs.setdefault(method.key, (points, history))
    methods = []
    for method in METHODS:
        begin(f"{regime.key}: judging {method.name}")
        seconds = np.median(times[method.key], axis=0)
        figures = _judge(regime, method, sizes, *runs[method.key], seconds.tolist())
        methods.append(figures | {"runs": len(times[method.key])})
    return {
        "key": regime.key,
        "title": regime.title,
        "n_patches": len(regime.train[0]),
        "n_held_out": len(regime.held_out),
        "n_components": regime.n_components,
        "n_nonzero_coefs": regime.n_nonzero_coefs,
        "tol": regime.tol,
        "repeats": sizes.repeats,
        "methods": methods,
        **_compare(regime, methods, {key: points for key, (points, _) in runs.items()}, begin),
        **run_peers(regime, sizes.peer_seconds, begin),
    }


def _kept(step: int, n_points: int) -> range:
    """Return the indices of the iterations that are kept: every `step`-th, the last included."""
    return range((n_points - 1) % step, n_points, step)


def _judge(
    regime: Regime,
    method: Method,
    sizes: TimeSizes,
    points: list[Point],
    history: list[dict[str, Any]],
    seconds: list[float],
) -> dict[str, Any]:
    n_patches = len(regime.train[0])
    curve = []
    for k in _kept(method.curve_step * sizes.thinning, len(points)):
        train = regime.level(regime.train[0], points[k].dictionary)
        held_out = regime.level(regime.held_out, points[k].dictionary)
        curve.append(
            {
                "iteration": k + 1,
                "seconds": seconds[k],
                "limit": history[k]["limit"],
                "nonzeros": history[k]["mean_nonzeros"],
                # The paper's error, scaled to the number of patches: some passes see only a part of them.
                "error": history[k]["rms"] / np.sqrt(n_patches),
                "train_nonzeros": train.nonzeros,
                "train_error": train.error,
                "held_nonzeros": held_out.nonzeros,
                "held_error": held_out.error,
                "unused": history[k]["unused"],
            }
        )
    return {
        "key": method.key,
        "name": method.name,
        "description": method.description,
        "iterations": len(points),
        "seconds": seconds[-1],
        "curve": curve,
    }


def _compare(
    regime: Regime, methods: list[dict[str, Any]], points: dict[str, list[Point]], begin: BeginStep
) -> dict[str, Any]:
    """Find out when each method reaches the final level of K-SVD, on training patches and on held-out ones."""
    ksvd = next(method for method in methods if method["key"] == KSVD_METHOD)
    last = ksvd["curve"][-1]
    reached = []
    for method in methods:
        begin(f"{regime.key}: when {method['name']} reaches K-SVD's level")
        dictionaries = [points[method["key"]][point["iteration"] - 1].dictionary for point in method["curve"]]
        moments: dict[str, dict[str, Any] | None] = {}
        for side, X in (("train", regime.train[0]), ("held", regime.held_out)):
            target = Level(last[f"{side}_nonzeros"], last[f"{side}_error"])
            levels = [Level(point[f"{side}_nonzeros"], point[f"{side}_error"]) for point in method["curve"]]
            strict = next((k for k, level in enumerate(levels) if level.at_least(target)), None)
            equal = first_reaching(X, dictionaries, levels, target, regime.n_nonzero_coefs, regime.tol, regime.threads)
            moments[side] = _moment(method, equal, last["seconds"])
            moments[f"{side}_strict"] = _moment(method, strict, last["seconds"])
        first = moments.pop("train") or {"iteration": None, "seconds": None, "ratio": None}
        reached.append({"key": method["key"], "name": method["name"], **first, **moments})
    end = {
        "method": KSVD_METHOD,
        "seconds": last["seconds"],
        "iterations": last["iteration"],
        "nonzeros": last["train_nonzeros"],
        "error": last["train_error"],
        "held_nonzeros": last["held_nonzeros"],
        "held_error": last["held_error"],
        "sentence": (
            "A method stands where K-SVD ends once its codes are as sparse as K-SVD's last ones when they are made just"
            " exact enough to have the same average error; 'strictly' means both figures at the same tolerance."
        ),
    }
    return {"target": end, "reached": reached, "from_samples": _against_samples(regime, methods, points)}


def _against_samples(regime: Regime, methods: list[dict[str, Any]], points: dict[str, list[Point]]) -> dict[str, Any]:
    """Find out when the paper's method reaches the final level of a K-SVD that starts from patches, not cosines."""
    paper, rival = (next(m for m in methods if m["key"] == key) for key in (PAPER_METHOD, SAMPLES_METHOD))
    last = rival["curve"][-1]
    levels = [Level(point["train_nonzeros"], point["train_error"]) for point in paper["curve"]]
    dictionaries = [points[PAPER_METHOD][point["iteration"] - 1].dictionary for point in paper["curve"]]
    target = Level(last["train_nonzeros"], last["train_error"])
    index = first_reaching(
        regime.train[0], dictionaries, levels, target, regime.n_nonzero_coefs, regime.tol, regime.threads
    )
    return {"seconds": last["seconds"], "moment": _moment(paper, index, last["seconds"])}


def _moment(method: dict[str, Any], index: int | None, ksvd_seconds: float) -> dict[str, Any] | None:
    """Return when a method reached the level, and how many times sooner than K-SVD."""
    if index is None:
        return None
    point = method["curve"][index]
    seconds = point["seconds"]
    return {"iteration": point["iteration"], "seconds": seconds, "ratio": ksvd_seconds / seconds}


def run_peers(regime: Regime, seconds: float, begin: BeginStep) -> dict[str, Any]:
    """Let other packages learn for some seconds from the same start; evaluate them as our own methods are."""
    peers, missing = available_peers()
    results = []
    for peer in peers:
        if peer.name not in PEERS:
            continue
        begin(f"{regime.key}: {peer.name}")
        with limit_threads(regime.threads):
            time.sleep(PAUSE)
            points = peer.run(regime, patience=seconds)
        chosen = np.unique(np.geomspace(1, len(points), PEER_POINTS).round().astype(int)) - 1
        curve = []
        for k in chosen:
            train = regime.level(regime.train[0], points[k].dictionary)
            held_out = regime.level(regime.held_out, points[k].dictionary)
            curve.append(
                {
                    "seconds": points[k].seconds,
                    "nonzeros": train.nonzeros,
                    "error": train.error,
                    "held_nonzeros": held_out.nonzeros,
                    "held_error": held_out.error,
                }
            )
        results.append({"name": peer.name, "description": PEERS[peer.name], **curve[-1], "curve": curve})
    absent = [name for name in PEERS if any(line.startswith(f"{name} is") for line in missing)]
    return {"peers": results, "peers_missing": absent}
