"""How well one view is predicted from another, and holes are filled in, beside tuned rivals in one run.

The learner is as it comes: ``CoupledDictionaryLearning(random_state=0)``. The parts (``--parts``) are:

`sets`: R^2 on test rows (one minus the squared error over that of the training mean, all outputs together) of paired
sets of 20 to 20,000 rows, which ``_prediction_sets`` describes, beside the regressions of ``_prediction_rivals``.
Settings of the learner may be chosen on ``--half chosen``; report ``--half reported``.

`curve`: the same for three sets and 30 to 50,000 of their rows, beside RidgeCV, kernel ridge and neighbours. Below
1,000 rows it is the mean over ``--repeats`` draws.

`imputation`: the root mean squared error of hidden entries of standardised features where 30 % of the views, or of the
entries, are missing, beside the imputers of ``_prediction_imputers``: six views of handwritten digits, the quarters of
scikit-learn's digits and bands of speech. Multidrug has holes of its own, and a tenth of the known entries is hidden.

`time`: seconds to learn from 20,000 pairs of 8 x 8 patches and microseconds to predict one, on one thread, in turns
with ``predictor="ridge"``; and the seconds that a table of 10,000 x 250 with a fifth of the entries missing takes on
two threads.

Rivals do not change: ``--known FILE`` takes their figures from the ``prediction.json`` of an earlier run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _main import Options, add_choice, main, plain, progress
from _prediction_imputers import imputers
from _prediction_report import draw_curves, report_parts
from _prediction_rivals import RIVALS, Predict
from _prediction_sets import LARGE_SETS, SETS, PairedSet, Split, speech_bands, split_pictures
from _timing import Entry, measure
from missing import rmse
from missing_recognition import load_six_views, lose
from scipy import ndimage

from coupledict import CoupledDictionaryLearning
from coupledict.datasets import make_coupled_signals
from coupledict.experiments.sources import bundled_image

OURS = "coupledict"
PARTS = ("sets", "curve", "imputation", "time")
SIZES = (30, 100, 300, 1_000, 3_000, 10_000, 30_000, 50_000)
CURVES = (OURS, "RidgeCV", "kernel ridge", "kNN")
INCOMPLETE = {"six views": "multifeature", "quarters": "", "speech bands": "speech"}
INCOMPLETE_SIZES = (40, 100, 400, 1_600)
RARE = 0.02  # the share of samples in which a feature must differ from its median
Views = list[Array]


@dataclass(frozen=True)
class Case:
    """What is measured: a part, a set, the number of its rows or 0 for all, and what is missing."""

    title: str
    part: str
    name: str
    n_rows: int = 0
    missing: str = ""


def cases(options: Options) -> dict[str, Case]:
    """Return the cases of all parts that were asked for."""
    options.earlier = json.loads(options.known.read_text(encoding="utf-8"))["results"] if options.known else {}
    found: list[Case] = []
    for part in options.parts:
        found += {"sets": _sets, "curve": _curve, "imputation": _imputation, "time": _time}[part](options)
    return {case.title: case for case in found}


def _sets(options: Options) -> list[Case]:
    names = ("linnerud", "wine") if options.quick else options.sets
    kept = [one for one in SETS if one.name in names and options.half in ("all", one.half) and _there(one, options)]
    return [Case(f"sets: {one.name}", "sets", one.name) for one in kept]


def _curve(options: Options) -> list[Case]:
    found = []
    for one in LARGE_SETS[:1] if options.quick else LARGE_SETS:
        if _there(one, options):
            most = len(load(one, options.data)[0].x)
            sizes = [size for size in SIZES if size < 0.95 * most and (size <= 100 or not options.quick)]
            sizes += [] if options.quick else [most]
            found += [Case(f"curve: {one.name}, {size}", "curve", one.name, size) for size in sizes]
    return found


def _imputation(options: Options) -> list[Case]:
    if options.quick:
        return [_incomplete("quarters", what, 40) for what in ("entries", "views")]
    found = [
        _incomplete(name, what, size)
        for name, folder in INCOMPLETE.items()
        if not folder or _has(folder, options)
        for what in ("entries", "views")
        for size in INCOMPLETE_SIZES
    ]
    return [*found, _incomplete("multidrug", "entries", 60)] if _has("paired", options) else found


def _incomplete(name: str, what: str, size: int) -> Case:
    return Case(f"imputation: {name}, {what}, {size}", "imputation", name, size, what)


def _time(options: Options) -> list[Case]:
    sizes = {"patches": 20_000, "incomplete": 10_000}
    return [Case(f"time: {name}", "time", name, 500 if options.quick else size) for name, size in sizes.items()]


def _there(one: PairedSet, options: Options) -> bool:
    return not one.folder or _has(one.folder, options)


def _has(folder: str, options: Options) -> bool:
    there = options.data is not None and (options.data / folder).is_dir()
    if not there:
        options.note(f"What needs the folder {folder} of --data or COUPLEDICT_DATA is left out.")
    return there


def run(case: Case, options: Options) -> dict[str, Any]:
    """Measure one case: what it is and the figures of all methods."""
    return {"sets": run_set, "curve": run_curve, "imputation": run_imputation, "time": run_time}[case.part](
        case, options
    )


@lru_cache(maxsize=1)
def load(one: PairedSet, data: Path | None) -> list[Split]:
    """Load the splits of a set."""
    return one.load(data or Path())


# Prediction


def run_set(case: Case, options: Options) -> dict[str, Any]:
    """Return the R^2 of all methods for a set."""
    one = next(one for one in SETS if one.name == case.name)
    splits = load(one, options.data)
    first = splits[0]
    found = {"half": one.half, "split": one.split, "n": len(first.x), "p": first.x.shape[1], "q": first.y.shape[1]}
    names = [name for name in (OURS, *RIVALS) if name in options.methods]
    return found | {"methods": predict_all(case, names, splits, options)}


def run_curve(case: Case, options: Options) -> dict[str, Any]:
    """Return the R^2 of some methods for some rows of a set."""
    (whole,) = load(next(one for one in LARGE_SETS if one.name == case.name), options.data)
    splits = []
    for seed in range(options.repeats if case.n_rows < 1_000 else 1):
        rows = np.sort(np.random.default_rng(seed).choice(len(whole.x), size=case.n_rows, replace=False))
        splits.append(Split(whole.x[rows], whole.y[rows], whole.x_test, whole.y_test))
    names = [name for name in CURVES if name in options.methods]
    return {"set": case.name, "n": case.n_rows, "methods": predict_all(case, names, splits, options)}


def predict_all(case: Case, names: list[str], splits: list[Split], options: Options) -> dict[str, Any]:
    """Return mean R^2, the R^2 of all splits and the mean seconds of each method."""

    def score(name: str) -> dict[str, Any]:
        scores, seconds, settings = [], [], []
        for split in splits:
            began = time.perf_counter()
            setting, predict = fit(name, split)
            guess = predict(split.x_test)
            seconds.append(time.perf_counter() - began)
            error = np.sum((guess - split.y_test) ** 2)
            scores.append(float(1 - error / np.sum((split.y_test - split.y.mean(axis=0)) ** 2)))
            settings.append(setting)
        return {"score": np.mean(scores), "scores": scores, "seconds": np.mean(seconds), "settings": settings}

    return known_or_new(case, {name: partial(score, name) for name in names}, options)


def fit(name: str, split: Split) -> tuple[Any, Predict]:
    """Fit the learner or a rival; return what was chosen, and the function that predicts."""
    if name != OURS:
        return RIVALS[name].tuned(split.x, split.y)
    learner = CoupledDictionaryLearning(random_state=0).fit([split.x, split.y])
    return None, lambda given: np.asarray(learner.predict([given, None], view=1))


def known_or_new(case: Case, methods: Mapping[str, Callable[[], Any]], options: Options) -> dict[str, Any]:
    """Measure methods, but for rivals whose figures an earlier run has found."""
    earlier = options.earlier.get(case.title, {}).get("methods", {})
    found = {}
    for name, call in methods.items():
        reuse = name != OURS and name in earlier
        found[name] = earlier[name] if reuse else plain(call())
        progress(f"    {name}: {found[name]['score']:.4f}, {found[name]['seconds']:.1f} s{' before' if reuse else ''}")
    return found


# Imputation


def run_imputation(case: Case, options: Options) -> dict[str, Any]:
    """Return the errors of all imputers for some rows of a set."""
    draws = []
    for seed in range(options.repeats if case.n_rows < 1_000 else 1):
        truth = _incomplete_rows(case, options.data, seed)
        draws.append((truth, lose(truth, case.missing, seed, share=0.1 if case.name == "multidrug" else 0.3)))
    n_entries = sum(view.size for view in draws[0][0])

    def score(impute: Callable[[Views, str], Array]) -> dict[str, Any]:
        errors, seconds = [], []
        for truth, shown in draws:
            table, given = np.hstack(truth), np.hstack(shown)
            hidden = np.isnan(given) & ~np.isnan(table)
            began = time.perf_counter()
            filled = impute(shown, case.missing)
            seconds.append(time.perf_counter() - began)
            errors.append(rmse(filled[hidden], table[hidden]))
        return {"score": np.mean(errors), "scores": errors, "seconds": np.mean(seconds)}

    methods = {name: partial(score, impute) for name, impute in imputers(n_entries).items()}
    kept = {name: call for name, call in methods.items() if name != OURS or OURS in options.methods}
    what = {"set": case.name, "missing": case.missing, "n": case.n_rows}
    return what | {"methods": known_or_new(case, kept, options)}


@lru_cache(maxsize=1)
def load_incomplete(name: str, data: Path | None) -> Views:
    """Load the views of a set, standardised by all samples, without features that hardly ever differ from one value."""
    if name == "multidrug":
        with np.load((data or Path()) / "paired" / "multidrug.npz") as found:
            views = [found[key].astype(np.float64) for key in ("transporters", "compounds")]
    elif name == "speech bands":
        (split,) = speech_bands(data or Path(), place="audiomnist", n_test=4, hop=160, n_train=20_000)
        views = [split.x, split.y]
    else:
        views = load_six_views(data if name == "six views" else None)[1]
    kept = [view[:, np.mean(view != np.nanmedian(view, axis=0), axis=0) > RARE] for view in views]
    return [(view - np.nanmean(view, axis=0)) / np.nanstd(view, axis=0) for view in kept]


def _incomplete_rows(case: Case, data: Path | None, seed: int) -> Views:
    views = load_incomplete(case.name, data)
    n_rows = min(case.n_rows, len(views[0]))
    rows = np.sort(np.random.default_rng(seed).choice(len(views[0]), size=n_rows, replace=False))
    return [view[rows] for view in views]


# Time


def run_time(case: Case, options: Options) -> dict[str, Any]:
    """Return seconds of learning, and of prediction or imputation."""
    return _time_patches(case, options) if case.name == "patches" else _time_table(case)


def _time_patches(case: Case, options: Options) -> dict[str, Any]:
    image = bundled_image("camera")
    pair = (ndimage.gaussian_filter(image, 1.5) + np.random.default_rng(0).normal(0, 5, image.shape), image)
    (split,) = split_pictures([pair], [pair], case.n_rows)

    def learn(**settings: Any) -> CoupledDictionaryLearning:
        return CoupledDictionaryLearning(n_jobs=1, random_state=0, **settings).fit([split.x, split.y])

    fits = measure(
        [Entry("as it comes", learn), Entry("ridge", lambda: learn(predictor="ridge"))],
        repeats=options.repeats,
        at_least=1,
        progress=progress,
    )

    def predicting(learner: CoupledDictionaryLearning) -> Callable[[], Any]:
        return lambda: learner.predict([split.x_test, None], view=1)

    predictions = measure([Entry(fit.name, predicting(fit.result)) for fit in fits], repeats=7)
    return {
        "n": case.n_rows,
        "methods": {
            fit.name: {"fit": fit.median, "predict_us": 1e6 * prediction.median / len(split.x_test)}
            for fit, prediction in zip(fits, predictions, strict=True)
        },
    }


def _time_table(case: Case) -> dict[str, Any]:
    signals = make_coupled_signals(
        case.n_rows,
        n_components=128,
        n_features=(125, 125),
        n_nonzero_coefs=5,
        noise=0.1,
        missing=0.2,
        random_state=0,
    )
    views = list(signals.views.values())
    learner = CoupledDictionaryLearning(missing="nan", n_jobs=2, random_state=0)
    began = time.perf_counter()
    learner.fit(views)
    learned = time.perf_counter()
    learner.impute(views)
    return {"n": case.n_rows, "fit": learned - began, "impute": time.perf_counter() - learned}


def report(results: Mapping[str, dict[str, Any]], options: Options) -> str:
    by_part = {
        part: {title.partition(": ")[2]: result for title, result in results.items() if title.startswith(f"{part}: ")}
        for part in options.parts
    }
    if by_part.get("curve"):
        draw_curves(list(by_part["curve"].values()), options.output / "prediction_curve.png")
    return report_parts(plain(by_part))


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "parts", PARTS)
    add_choice(parser, "sets", [one.name for one in SETS])
    add_choice(parser, "methods", [OURS, *RIVALS])
    parser.add_argument(
        "--half", choices=("all", "chosen", "reported"), default="all", help="of the sets (%(default)s)"
    )
    parser.add_argument(
        "--known", metavar="FILE", type=Path, help="prediction.json with figures of rivals to take over"
    )


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with lytro, sr, speech and others; sets whose folder is absent are left out",
        repeats=(3, "draws of the curve and of holes, and timed fits"),
        extend=extend,
        quick={"repeats": 1},
    )
