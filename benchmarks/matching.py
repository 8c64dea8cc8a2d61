"""Matching beside its rivals on data of several kinds, searches in a large gallery, and the cost of whiten=False.

The defaults of `CrossModalMatcher` (what validation chooses among, and by what rule) were set on the data of
``--parts tune``: faces and pieces of five photographs drawn in pencil, Fourier, pixel, Karhunen-Loeve and Zernike
features of multifeature, upper and lower halves of 1400 digits, and splits of Wikipedia's training set. ``--parts
report`` has other data: pieces of five other photographs drawn in charcoal, stereo pictures, colours of patches, left
and right halves of digits, profile features of multifeature with two others, and the test set of Wikipedia. Digits
and Wikipedia are known from ``_recognition_wiki.py``, whose test samples have been seen before. ``--parts labels`` does
the same with labels, on the sets to report that have some.

A rival's settings are chosen for each data set by three random splits of its training samples, one setting after the
other: its own ones, then how samples are prepared (not at all, centred, or centred and scaled), then the view in which
partners are compared. The measure is the mean reciprocal rank of partners, or the mAP of classes with labels.

``--parts speed`` searches 100,000 samples for batches of 100 queries; ``--parts whiten`` fits 8,000 features with and
without whitening. Both interleave what they compare.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import _recognition_wiki as rivals
import numpy as np
import numpy.typing as npt
from _main import Options, add_choice, duration, join, main, table
from _matching_data import Problem, to_report, to_tune

from coupledict.matching import CrossModalMatcher, mean_average_precision, mean_reciprocal_rank, rank_k

Array = npt.NDArray[np.float64]
Arrays = list[Array]
Similarities = Callable[[Arrays], Array]

PARTS = ("report", "labels", "speed", "whiten")
N_SPLITS = 3
KINDS = (None, "center", "standardize")


@dataclass(frozen=True)
class Rival:
    """A way to match, and the settings that a careful user would try; the first of each is the start."""

    name: str
    fit: rivals.Fit
    choices: dict[str, Sequence[Any]] = field(default_factory=dict)
    equal_widths: bool = False


def prepared(view: Array, kind: str | None) -> Array:
    """Return samples with the mean over features 0, and with norm 1 if they are to be standardized."""
    if kind is None:
        return view
    centred = view - view.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(centred if kind == "center" else centred / np.where(norms > 0, norms, 1))


def with_preparation(fit: rivals.Fit, *, in_span: bool = False) -> rivals.Fit:
    """Return a fit with one more setting, `prep`; `in_span` says that only the span of the samples counts."""

    def change(Xs: Arrays, y: Any, seed: int, *, prep: str | None, **setting: Any) -> Similarities:
        views = [prepared(X, prep) for X in Xs]
        axes = [span(view) if in_span else None for view in views]

        def turned(own: Arrays) -> Arrays:
            return [view if axis is None else view @ axis for view, axis in zip(own, axes, strict=True)]

        similarities = fit(turned(views), y, seed, **setting)
        return lambda test: similarities(turned([prepared(X, prep) for X in test]))

    return change


def span(view: Array) -> Array | None:
    """Return axes that span the samples of a view, where these are fewer than the features."""
    if view.shape[0] >= view.shape[1]:
        return None
    return np.asarray(np.linalg.svd(view, full_matrices=False)[2].T)


def as_they_are(Xs: Arrays, y: Any, seed: int) -> Similarities:
    """Compare samples feature by feature, less the mean sample of each view."""
    means = [X.mean(axis=0) for X in Xs]
    return lambda views: rivals.cosines(views[0] - means[0], views[1] - means[1])


def all_rivals(labelled: bool) -> list[Rival]:
    """Return the rivals, with their settings."""
    prep: dict[str, Sequence[Any]] = {"prep": KINDS}
    if labelled:
        product = {"product": (True, False)}
        return [
            Rival(
                "logistic regression",
                with_preparation(rivals.semantic(rivals.make_logistic)),
                {"c": (0.1, 0.001, 0.01, 1.0)} | prep | product,
            ),
            Rival(
                "SVM (RBF)",
                with_preparation(rivals.semantic(rivals.make_svc)),
                {"c": (10.0, 1.0), "width": (0.3, 1.0)} | prep | product,
            ),
        ]
    where: dict[str, Sequence[Any]] = {"compare": ("both", 0, 1)}
    return [
        Rival("features as they are", with_preparation(as_they_are), prep, equal_widths=True),
        Rival("PLS", with_preparation(rivals.pls, in_span=True), {"n": (20, 2, 5, 10, 40)} | prep),
        Rival(
            "CCA",
            with_preparation(rivals.cca, in_span=True),
            {"alpha": (0.3, 0.001, 0.01, 0.1, 1.0, 3.0, 10.0), "n": (200, 5, 9, 20, 50), "weighted": (True, False)}
            | prep,
        ),
        Rival(
            "ridge",
            with_preparation(rivals.regression(rivals.make_ridge)),
            {"alpha": (1.0, *rivals.RIDGES)} | prep | where,
        ),
        Rival(
            "kernel ridge (RBF)",
            with_preparation(rivals.regression(rivals.make_kernel_ridge)),
            {"width": (1.0, 0.1, 0.3, 3.0), "alpha": (0.1, 0.01, 0.3, 1.0)} | prep | where,
        ),
    ]


def rate(similarities: Array, problem: Problem) -> Array:
    """Return rank-1, the mean reciprocal rank and mAP (NaN without labels), as means of both directions."""
    ways = (similarities, similarities.T)
    labels = problem.test_labels
    precision = [np.nan if labels is None else mean_average_precision(way, labels, labels) for way in ways]
    return np.array([np.mean([f(way) for way in ways]) for f in (rank_k, mean_reciprocal_rank)] + [np.mean(precision)])


def choose(rival: Rival, problem: Problem, labelled: bool) -> dict[str, Any]:
    """Return the settings of a rival, chosen one after the other on splits of the training samples."""
    setting = {name: values[0] for name, values in rival.choices.items()}
    n = len(problem.train[0])
    parts = []
    for split in range(N_SPLITS):
        held, kept = np.split(np.random.default_rng(split).permutation(n), [n // 4])
        labels = [None if problem.train_labels is None else problem.train_labels[rows] for rows in (kept, held)]
        train, test = ([X[rows] for X in problem.train] for rows in (kept, held))
        parts.append(Problem(problem.name, train, test, *labels))

    def score(one: dict[str, Any]) -> float:
        tables = [rival.fit(part.train, part.train_labels, 0, **one)(part.test) for part in parts]
        found = [rate(own, part)[2 if labelled else 1] for own, part in zip(tables, parts, strict=True)]
        return float(np.mean(found))

    for name, values in rival.choices.items():
        candidates = [setting | {name: value} for value in values]
        setting = candidates[int(np.argmax([score(one) for one in candidates]))]
    return setting


def ours(problem: Problem, labelled: bool, seed: int, n_jobs: int, **fixed: Any) -> tuple[Array, float, str]:
    """Return the ratings of the matcher, the seconds of its fit and what validation chose."""
    model = CrossModalMatcher(n_jobs=n_jobs, random_state=seed, **fixed)
    if labelled:
        model.set_params(compare="labels")
    began = time.perf_counter()
    model.fit(problem.train, problem.train_labels if labelled else None)
    seconds = time.perf_counter() - began
    kinds = "/".join(str(kind) for kind in model.preprocess_)
    note = f"{kinds}, shrinkage {model.whiten_shrinkage_:g}, kernel {model.kernel_weight_:g}"
    note += f", direct {model.direct_weight_:g}, compared in {model._fitted.choice.comparison_weights}"
    return rate(model.similarity(*problem.test), problem), seconds, note


#: The matcher with its defaults, and as it was before anything was chosen by validation.
OURS: dict[str, dict[str, Any]] = {
    "CrossModalMatcher, defaults": {},
    "CrossModalMatcher, dictionaries only": {
        "compare": "both",
        "preprocess": None,
        "whiten_shrinkage": 3.0,
        "kernel_weight": 0.0,
        "direct_weight": 0.0,
    },
}


@cache
def load(part: str, data: Path | None, draw: int) -> list[Problem]:
    """Return the data sets of a part, in one draw."""
    return (to_tune if part == "tune" else to_report)(data, draw)


def first_samples(problem: Problem, n: int) -> Problem:
    """Return a data set with no more than n samples to learn from and to test."""
    labels = [None if own is None else own[:n] for own in (problem.train_labels, problem.test_labels)]
    return Problem(problem.name, [X[:n] for X in problem.train], [X[:n] for X in problem.test], *labels)


def compare(part: str, number: int, options: Options) -> dict[str, Any]:
    """Return a table for a data set: means over draws of the data, or of what is random."""
    labelled = part == "labels"
    draws = [load(part, options.data, draw)[number] for draw in range(options.draws)]
    if options.quick:
        draws = [first_samples(own, 200) for own in draws]
    problem = draws[0]
    sizes = " and ".join(str(view.shape[1]) for view in problem.train)
    rows = [
        row_of_rival(rival, draws, labelled)
        for rival in all_rivals(labelled)
        if not rival.equal_widths or problem.train[0].shape[1] == problem.train[1].shape[1]
    ]
    for name, fixed in OURS.items():
        found = [ours(own, labelled, draw, options.jobs, **fixed) for draw, own in enumerate(draws)]
        rows.append(row(name, [rating for rating, _, _ in found], [seconds for _, seconds, _ in found], found[0][2]))
    title = f"{problem.name}: {len(problem.train[0])} pairs, {len(problem.test[0])} to test, {sizes} features"
    return {"title": title, "heads": ["", "rank-1", "MRR", "mAP", "fit", "chosen (first draw)"], "rows": rows}


def row_of_rival(rival: Rival, draws: list[Problem], labelled: bool) -> list[str]:
    """Return a row of the table; data that are the same in every draw are fitted once."""
    same = all(np.array_equal(draws[0].test[0], other.test[0]) for other in draws[1:])
    found, seconds, first = [], [], ""
    for problem in draws[:1] if same else draws:
        setting = choose(rival, problem, labelled)
        began = time.perf_counter()
        similarities = rival.fit(problem.train, problem.train_labels, 0, **setting)
        seconds.append(time.perf_counter() - began)
        found.append(rate(similarities(problem.test), problem))
        first = first or ", ".join(f"{name} {value}" for name, value in setting.items())
    return row(rival.name, found, seconds, first)


def row(name: str, found: list[Array], seconds: list[float], note: str) -> list[str]:
    """Return a row of the table."""
    cells = ["" if np.isnan(value) else f"{value:.3f}" for value in np.mean(found, axis=0)]
    return [name, *cells, duration(float(np.median(seconds))), note]


# Speed


def wide_views(n: int, width: int, seed: int) -> list[npt.NDArray[np.float32]]:
    """Return two views of samples that lie near a space of 20 dimensions."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, 20))
    noise = [0.3 * rng.standard_normal((n, width)) for _ in range(2)]
    return [(common @ rng.standard_normal((20, width)) + more).astype(np.float32) for more in noise]


def plain_search(left: Any, right: Any) -> Any:
    """Return the 10 best by a matrix product and a partition of all similarities."""
    similarities = left @ right.T
    found = np.argpartition(-similarities, 10, axis=1)[:, :10]
    return np.take_along_axis(found, np.argsort(-np.take_along_axis(similarities, found, axis=1), axis=1), axis=1)


def search(options: Options) -> dict[str, Any]:
    """Return how long a batch of 100 queries takes in a large gallery, beside plain ways to search it."""
    from sklearn.neighbors import NearestNeighbors

    rows, n_gallery = [], 10_000 if options.quick else 100_000
    for entries in (128,) if options.quick else (128, 512):
        views = wide_views(n_gallery + 1500, entries // 2, 0)
        train, queries, gallery = [view[:1500] for view in views], views[0][1500:1600], views[1][1500:]
        model = CrossModalMatcher(n_dictionaries=5, n_jobs=options.jobs, random_state=0).fit(train)
        index = model.index(gallery)
        left = index._left(queries)
        brute = NearestNeighbors(n_neighbors=10, algorithm="brute", n_jobs=options.jobs).fit(index.vectors)

        ways: dict[str, Callable[[], Any]] = {
            "index.match, predictions of the queries included": partial(index.match, queries),
            "matrix product and argpartition of NumPy": partial(plain_search, left, index.vectors),
            "NearestNeighbors of scikit-learn, brute force": partial(brute.kneighbors, left, return_distance=False),
        }
        agree = [np.mean(way() == index.match(queries)) for way in ways.values()]
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(options.repeats):
            for name, way in ways.items():
                began, worked = time.perf_counter(), time.process_time()
                way()
                times[name].append((time.perf_counter() - began, time.process_time() - worked))
        for (name, seconds), same in zip(times.items(), agree, strict=True):
            clock, work = np.median(seconds, axis=0)
            rows.append([f"{index.vectors.shape[1]}", name, duration(clock), duration(work), f"{same:.4f}"])
    title = f"100 queries in a gallery of {n_gallery:,}, the 10 best; {options.jobs} threads"
    return {
        "title": title,
        "heads": ["entries", "", "median", "time of all cores", "same as index.match"],
        "rows": rows,
    }


def whitening(options: Options) -> dict[str, Any]:
    """Return how long fits of 8,000 features take, with the default and without whitening."""
    width = 1000 if options.quick else 8000
    views = [view.astype(np.float64) for view in wide_views(300, width, 1)]
    times: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for _ in range(options.repeats):
        for whiten, seconds in times.items():
            began, worked = time.perf_counter(), time.process_time()
            CrossModalMatcher(whiten=whiten, n_jobs=options.jobs, random_state=0).fit(views)
            seconds.append((time.perf_counter() - began, time.process_time() - worked))
    rows = [
        [f"whiten={whiten}", *(duration(float(value)) for value in np.median(seconds, axis=0))]
        for whiten, seconds in times.items()
    ]
    title = f"300 samples of {width:,} features in each view; {options.jobs} threads"
    return {"title": title, "heads": ["", "fit", "time of all cores"], "rows": rows}


def cases(options: Options) -> dict[str, tuple[str, int]]:
    """Return parts, and numbers of data sets."""
    if options.data is None:
        options.note("Neither --data nor COUPLEDICT_DATA is set: image pairs and digits only.")
    found: dict[str, tuple[str, int]] = {}
    for part in options.parts:
        if part in ("speed", "whiten"):
            found[part] = part, 0
            continue
        problems = [
            (f"{part}: {problem.name}", (part, number))
            for number, problem in enumerate(load(part, options.data, 0))
            if part != "labels" or problem.train_labels is not None
        ]
        found |= dict(problems[:1] if options.quick else problems)
    return found


def run(case: tuple[str, int], options: Options) -> dict[str, Any]:
    """Return a title and a table."""
    part, number = case
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        if part == "speed":
            return search(options)
        return whitening(options) if part == "whiten" else compare(part, number, options)


def report(results: Mapping[str, dict[str, Any]], options: Options) -> str:
    blocks = []
    for case, found in results.items():
        blocks += [f"{case.partition(':')[0]}: {found['title']}", table(found["heads"], found["rows"])]
    return join(*blocks)


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "parts", ("tune", "report", "labels", "speed", "whiten"), default=PARTS)
    parser.add_argument("--jobs", type=int, default=1, help="threads of coupledict (%(default)s)")
    parser.add_argument("--draws", type=int, default=3, help="draws of data, or of what is random (%(default)s)")


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with multifeature and wiki; without it there are image pairs and digits only",
        repeats=(7, "timed runs of speed and whiten"),
        extend=extend,
        quick={"repeats": 1, "draws": 1, "parts": ["labels", "speed", "whiten"]},
    )
