"""Coding, learning, prediction and imputation where entries or views are missing, beside rivals in one run.

The parts (``--parts``) are:

`coding`: 10,000 8 x 8 patches with 25 and 50 % of the entries masked, 256 atoms, T = 10, two threads, beside
``spams.ompMask``; the error is the squared residual over known entries, per patch.

`learning`: the error of complete held-out patches over dictionaries learned from patches with 20 and 50 % of the
entries missing, relative to a dictionary learned from complete ones, with the times; beside it zeros in place of what
is missing. The way of learning was chosen on ``--half first`` of the Lytro images; report ``--half second``.

`pairs`: a sharp patch predicted from a blurred one, and back, where only some training samples are pairs and the others
have one view. Learning from the pairs alone and a ridge regression on them stand beside it. Two sets: regions of the
Lytro pairs, on which the way of learning was chosen, and bundled photographs, which had no part in it.

`imputation`: the root mean squared error of missing entries of standardised features where 30 % of the views, or of the
entries, are missing; beside means, ``KNNImputer``, ``IterativeImputer`` (Bayesian ridge regression on the 100 nearest
features, two rounds: more would take hours) and MOFA, if it is installed. Two sets: six views of handwritten digits
(folder ``multifeature``), on which the way of imputing was chosen, and the quarters of scikit-learn's digits.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _main import Options, add_choice, duration, join, main, table
from _timing import Entry, measure
from missing_recognition import load_six_views, lose
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  # it has this effect only
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import RidgeCV

from coupledict import CoupledDictionaryLearning, DictionaryLearning, sparse_encode
from coupledict.experiments.sources import distinct_patches, load_images, load_pairs

N_ATOMS, LIMIT, N_JOBS = 256, 5, 2
Row = dict[str, Any]


def knock_out(X: Array, share: float, seed: int) -> Array:
    """Return samples with NaN for a share of their entries."""
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def patches(data: Path | None, half: Any, count: int, seed: int) -> Array:
    """Return centred patches of the Lytro images, or of bundled ones."""
    images, _ = load_images(data, half=half)
    return distinct_patches([images], count, seed=seed)[0]


# Coding


def run_coding(options: Options) -> list[Row]:
    """Time the coder beside SPAMS."""
    if importlib.util.find_spec("spams") is None:
        options.note("SPAMS is left out: it is not installed (pip install spams-bin).")
    n = 500 if options.quick else 10_000
    X = patches(options.data, options.half, 3 * n, 3)
    atoms = DictionaryLearning(N_ATOMS, n_nonzero_coefs=LIMIT, random_state=0, n_jobs=N_JOBS).fit(X[n:])
    return [
        _time_coding(X[:n], np.asarray(atoms.components_), share, dtype)
        for share in (0.25, 0.5)
        for dtype in (np.float32, np.float64)
    ]


def tell_coding(found: list[Row]) -> str:
    """Return the table of the coder."""
    rows = []
    for row in found:
        times = [f"{row[key]:.4g}" for key in ("ms", "spams_ms", "ratio")]
        errors = [f"{row[key]:.1f}" for key in ("error", "spams_error", "spams_refitted_error")]
        rows.append([f"{row['missing']:.0%}", row["dtype"], *times, *errors])
    heads = ["missing", "type", "ours, ms", "SPAMS, ms", "ratio", "our error", "SPAMS' error", "refitted"]
    return table(heads, rows, left=2)


def _time_coding(X: Array, atoms: Array, share: float, dtype: Any) -> dict[str, Any]:
    table_ = knock_out(X, share, 5).astype(dtype)
    known = ~np.isnan(table_)
    atoms = atoms.astype(dtype)

    def error(codes: Any) -> float:
        return float(np.sum(((X - codes @ atoms) * known) ** 2) / len(X))

    def ours() -> Any:
        return sparse_encode(table_, atoms, n_nonzero_coefs=10, missing="nan", n_jobs=N_JOBS)

    entries = [Entry("ours", ours, N_JOBS)]
    if importlib.util.find_spec("spams") is not None:
        import spams

        given = np.asfortranarray(np.where(known, table_, 0).T), np.asfortranarray(atoms.T), np.asfortranarray(known.T)
        entries.append(Entry("SPAMS", lambda: spams.ompMask(*given, L=10, numThreads=N_JOBS).T, N_JOBS))
    timings = measure(entries, repeats=7)
    row: dict[str, Any] = {"missing": share, "dtype": np.dtype(dtype).name, "ms": 1e3 * timings[0].median}
    row |= {"error": error(timings[0].result), "spams_ms": np.nan, "ratio": np.nan}
    row |= {"spams_error": np.nan, "spams_refitted_error": np.nan}
    if len(timings) > 1:
        codes = timings[1].result.tocsr()
        row |= {"spams_ms": 1e3 * timings[1].median, "ratio": timings[1].median / timings[0].median}
        row |= {"spams_error": error(codes), "spams_refitted_error": _refitted_error(X, codes, known, atoms)}
    return row


def _refitted_error(X: Array, codes: Any, known: Array, atoms: Array) -> float:
    """Return the error of the best coefficients for the atoms that were chosen."""
    total = 0.0
    for i, (x, mask) in enumerate(zip(X, known, strict=True)):
        chosen = atoms[codes.indices[codes.indptr[i] : codes.indptr[i + 1]]][:, mask].astype(np.float64)
        total += float(np.sum((x[mask] - np.linalg.lstsq(chosen.T, x[mask], rcond=None)[0] @ chosen) ** 2))
    return total / len(X)


# Learning


def run_learning(options: Options) -> list[Row]:
    """Learn from incomplete patches, beside complete ones and zeros."""
    found: list[Row] = []
    for n_train, n_atoms in ((1_000, 64),) if options.quick else ((20_000, 256), (6_000, 128)):
        X = patches(options.data, options.half, n_train + 10_000, 7)
        train, held_out = X[:n_train], X[n_train:]
        kinds = {"complete": train}
        for share in (0.2, 0.5):
            kinds[f"{share:.0%} missing"] = knock_out(train, share, 1)
            kinds[f"{share:.0%} taken for 0"] = np.nan_to_num(knock_out(train, share, 1))
        figures: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for seed in range(options.repeats):
            for kind, given in kinds.items():
                learner = DictionaryLearning(
                    n_atoms, n_nonzero_coefs=LIMIT, missing="nan" if "missing" in kind else "error", random_state=seed
                ).set_params(n_jobs=N_JOBS)
                began = time.perf_counter()
                atoms = learner.fit(given).components_
                seconds = time.perf_counter() - began
                codes = sparse_encode(held_out, atoms, n_nonzero_coefs=LIMIT, n_jobs=N_JOBS)
                figures[kind].append((float(np.sqrt(np.sum((held_out - codes @ atoms) ** 2) / len(held_out))), seconds))
        base, base_seconds = np.median(figures["complete"], axis=0)
        for kind, pairs in figures.items():
            error, seconds = np.median(pairs, axis=0)
            row = {"samples": n_train, "atoms": n_atoms, "kind": kind, "error": error, "seconds": seconds}
            found.append(row | {"error_ratio": error / base, "time_ratio": seconds / base_seconds})
    return found


def tell_learning(found: list[Row]) -> str:
    """Return the table of learning."""
    rows = []
    for row in found:
        title = f"{row['samples']:,}, K = {row['atoms']}"
        quality = [f"{row['error']:.2f}", f"{row['error_ratio']:.3f}"]
        rows.append([title, row["kind"], *quality, duration(row["seconds"]), f"{row['time_ratio']:.1f}"])
    return table(["patches", "learned from", "held-out error", "ratio", "time", "ratio"], rows, left=2)


# Pairs


def run_pairs(options: Options) -> list[Row]:
    """Predict a view from the other where few training samples have both."""
    found: list[Row] = []
    sources: list[tuple[str, Path | None]] = [("bundled photographs, blurred", None)]
    if options.data is not None and not options.quick:
        sources.append(("Lytro regions", options.data))
    n_train = 2_000 if options.quick else 20_000
    for title, folder in sources:
        train = distinct_patches(load_pairs(folder, half="second")[:2], n_train, seed=1)
        test = distinct_patches(load_pairs(folder, half="first")[:2], 5_000, seed=2)
        for share in (0.05, 0.2, 1.0):
            n_pairs = round(share * len(train[0]))
            pairs = [view[:n_pairs] for view in train]
            semi = [view.copy() for view in train]
            semi[0][n_pairs::2], semi[1][n_pairs + 1 :: 2] = np.nan, np.nan
            kinds: dict[str, Callable[[int], list[float]]] = {
                "pairs alone": partial(_predict, pairs, test, "error"),
                "ridge on the pairs": partial(_ridge, pairs, test),
            }
            if share < 1:
                kinds["all samples"] = partial(_predict, semi, test, "nan")
            for kind, predict in kinds.items():
                errors = np.mean([predict(seed) for seed in range(options.repeats)], axis=0)
                found.append({"data": title, "pairs": n_pairs, "kind": kind, "sharp": errors[0], "blurred": errors[1]})
    return [row | {"samples": n_train} for row in found]


def tell_pairs(found: list[Row]) -> str:
    """Return the table of pairs."""
    rows = [
        [
            row["data"],
            f"{row['pairs']:,} of {row['samples']:,}",
            row["kind"],
            f"{row['sharp']:.2f}",
            f"{row['blurred']:.2f}",
        ]
        for row in found
    ]
    return table(["data", "pairs", "learned from", "error of sharp", "error of blurred"], rows, left=3)


def _predict(given: Sequence[Array], test: Sequence[Array], missing: Any, seed: int) -> list[float]:
    learner = CoupledDictionaryLearning(
        N_ATOMS, n_nonzero_coefs=LIMIT, view_weights="balanced", missing=missing, random_state=seed, n_jobs=N_JOBS
    ).fit(list(given))
    guesses = learner.predict([None, test[1]], view=0), learner.predict([test[0], None], view=1)
    return [rmse(guess, truth) for guess, truth in zip(guesses, test, strict=True)]


def _ridge(given: Sequence[Array], test: Sequence[Array], seed: int) -> list[float]:
    errors = []
    for target in (0, 1):
        model = RidgeCV(np.logspace(-2, 6, 17)).fit(given[1 - target], given[target])
        errors.append(rmse(model.predict(test[1 - target]), test[target]))
    return errors


def rmse(guess: Array, truth: Array) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(np.mean((guess - truth) ** 2)))


# Imputation


def run_imputation(options: Options) -> list[Row]:
    """Fill in missing views and entries, beside imputers of scikit-learn and MOFA."""
    if importlib.util.find_spec("mofapy2") is None:
        options.note("MOFA is left out: it is not installed (pip install mofapy2).")
    found: list[Row] = []
    for folder in [None] if options.data is None or options.quick else [options.data, None]:
        title, views, _ = load_six_views(folder)
        if options.quick:
            views = [view[:200, :4] for view in views]
        for what in ("views", "entries"):
            errors: dict[str, list[tuple[float, float]]] = {}
            for seed in range(options.repeats):
                shown, truth = _standardize(lose(views, what, seed), views)
                holes = np.isnan(np.hstack(shown))
                for name, impute in _imputers(seed).items():
                    began = time.perf_counter()
                    filled = impute(shown)
                    seconds = time.perf_counter() - began
                    errors.setdefault(name, []).append((rmse(filled[holes], np.hstack(truth)[holes]), seconds))
            for name, figures in errors.items():
                mean, spread = np.mean(figures, axis=0), np.std(figures, axis=0)
                row = {"data": title, "missing": what, "imputer": name, "rmse": mean[0], "spread": spread[0]}
                found.append(row | {"seconds": mean[1]})
    return found


def tell_imputation(found: list[Row]) -> str:
    """Return the table of imputers."""
    rows = []
    for row in found:
        names = [row[key] for key in ("data", "missing", "imputer")]
        rows.append([*names, f"{row['rmse']:.3f}", f"{row['spread']:.3f}", duration(row["seconds"])])
    return table(["data", "missing", "imputer", "RMSE", "+-", "time"], rows, left=3)


def _standardize(shown: Sequence[Array], views: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Return incomplete and complete views, standardised by what is known."""
    pairs = []
    for part, whole in zip(shown, views, strict=True):
        center, spread = np.nanmean(part, axis=0), np.nanstd(part, axis=0)
        spread[spread == 0] = 1
        pairs.append(((part - center) / spread, (whole - center) / spread))
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _imputers(seed: int) -> dict[str, Callable[[list[Array]], Array]]:
    def coupled(views: list[Array]) -> Array:
        learner = CoupledDictionaryLearning(
            128, n_nonzero_coefs=10, missing="nan", random_state=seed, n_jobs=N_JOBS
        ).fit(views)
        return np.hstack(learner.impute(views))

    imputers: dict[str, Callable[[list[Array]], Array]] = {
        "coupledict": coupled,
        "means": lambda views: np.nan_to_num(np.hstack(views)),
        "KNNImputer, 20 neighbours": lambda views: KNNImputer(n_neighbors=20).fit_transform(np.hstack(views)),
        "IterativeImputer": lambda views: impute_iteratively(views, seed),
    }
    if importlib.util.find_spec("mofapy2") is not None:
        imputers["MOFA, 30 factors"] = lambda views: mofa(views, seed)
    return imputers


def impute_iteratively(views: list[Array], seed: int) -> Array:
    """Impute by ``IterativeImputer`` in two rounds, on the 100 nearest features."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that two rounds are few
        nearest = min(100, sum(view.shape[1] for view in views) - 1)
        model = IterativeImputer(max_iter=2, n_nearest_features=nearest, random_state=seed)
        return np.asarray(model.fit_transform(np.hstack(views)))


def mofa(views: list[Array], seed: int) -> Array:
    """Impute by MOFA with 30 factors."""
    from mofapy2.run.entry_point import entry_point  # type: ignore[import-untyped,import-not-found,unused-ignore]

    with contextlib.redirect_stdout(io.StringIO()):
        model = entry_point()
        model.set_data_options(scale_views=False)
        model.set_data_matrix([[view.copy()] for view in views])
        model.set_model_options(factors=30)
        model.set_train_options(iter=200, convergence_mode="fast", seed=seed, verbose=False, quiet=True)
        model.build()
        model.run()
        factors = model.model.nodes["Z"].getExpectation()
        weights = model.model.nodes["W"].getExpectation()
    return np.hstack([factors @ weight.T + np.nanmean(view, 0) for weight, view in zip(weights, views, strict=True)])


PARTS: dict[str, tuple[Callable[[Options], list[Row]], Callable[[list[Row]], str]]] = {
    "coding": (run_coding, tell_coding),
    "learning": (run_learning, tell_learning),
    "pairs": (run_pairs, tell_pairs),
    "imputation": (run_imputation, tell_imputation),
}


def cases(options: Options) -> dict[str, str]:
    """Return the parts that were asked for."""
    if options.data is None:
        options.note("Neither --data nor COUPLEDICT_DATA is set: bundled photographs and digits stand in.")
    return {part: part for part in options.parts}


def run(part: str, options: Options) -> list[Row]:
    """Return the rows of a part."""
    return PARTS[part][0](options)


def report(results: Mapping[str, list[Row]], options: Options) -> str:
    return join(*(join(f"## {part}", PARTS[part][1](found)) for part, found in results.items()))


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "parts", list(PARTS))
    parser.add_argument("--half", choices=("all", "first", "second"), default="second", help="of the Lytro images")


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with lytro and multifeature; bundled photographs and digits stand in",
        repeats=(5, "random states, and patterns of holes; coding is timed 7 times"),
        extend=extend,
        quick={"repeats": 1},
    )
