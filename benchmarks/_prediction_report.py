"""Tables and the figure of the benchmark of prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _main import duration, join, table
from scipy.stats import rankdata

OURS, RIDGE = "coupledict", "RidgeCV"
COLOURS = {OURS: "#c0392b", RIDGE: "#22303c", "kernel ridge": "#2e86c1", "kNN": "#8a9a5b"}
Result = Mapping[str, Any]


def report_parts(parts: Mapping[str, Mapping[str, Result]]) -> str:
    """Return the report of all parts that were measured."""
    tellers = {"sets": tell_sets, "curve": tell_curve, "imputation": tell_imputation, "time": tell_time}
    return join(*(join(f"## {part}", tellers[part](found)) for part, found in parts.items() if found))


# Sets


def tell_sets(found: Mapping[str, Result]) -> str:
    """Return R^2 of all sets, and what it comes to."""
    methods = list(next(iter(found.values()))["methods"])
    rows = []
    for name, result in found.items():
        scores = [result["methods"][method]["score"] for method in methods]
        sizes = [f"{result[key]:,}" for key in ("n", "p", "q")]
        rows.append([name, result["half"], *sizes, *_bold_best(scores)])
    blocks = [
        "R^2 on test rows; n training rows, p features predict q.",
        table(["set", "half", "n", "p", "q", *methods], rows, left=2),
    ]
    for half in ("chosen", "reported"):
        own = [result for result in found.values() if result["half"] == half]
        if own:
            blocks.append(_summary(half, own, methods))
    return join(*blocks)


def _bold_best(scores: Sequence[float]) -> list[str]:
    return [f"**{score:.3f}**" if score == max(scores) else f"{score:.3f}" for score in scores]


def _summary(half: str, results: Sequence[Result], methods: Sequence[str]) -> str:
    scores = np.array([[result["methods"][method]["score"] for method in methods] for result in results])
    ranks = np.mean([rankdata(-row) for row in scores], axis=0)
    near = np.sum(scores >= scores.max(axis=1, keepdims=True) - 0.01, axis=0)
    rows = [
        ["mean rank", *(f"{rank:.2f}" for rank in ranks)],
        [f"within .01 of the best, of {len(results)}", *(f"{count}" for count in near)],
    ]
    if RIDGE in methods:
        losses = scores[:, [list(methods).index(RIDGE)]] - scores
        many = np.array([result["n"] >= 1_000 for result in results])
        for told, chosen in (("n >= 1,000", many), ("n < 1,000", ~many)):
            if chosen.any():
                rows.append([f"largest loss to ridge, {told}", *(f"{loss:.3f}" for loss in losses[chosen].max(axis=0))])
    return table([f"sets {half}", *methods], rows)


# Curve


def tell_curve(found: Mapping[str, Result]) -> str:
    """Return R^2 by the number of rows."""
    methods = list(next(iter(found.values()))["methods"])
    rows = []
    for result in found.values():
        scores = [result["methods"][method]["score"] for method in methods]
        rows.append([result["set"], f"{result['n']:,}", *_bold_best(scores)])
    return join(table(["set", "n", *methods], rows), "Drawn in `prediction_curve.png`.")


def draw_curves(results: Sequence[Result], path: Path) -> None:
    """Draw R^2 by the number of rows, a panel for each set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(result["set"] for result in results))
    figure, axes = plt.subplots(1, len(names), figsize=(4.4 * len(names), 3.6), squeeze=False, layout="constrained")
    for axis, name in zip(axes.flat, names, strict=True):
        own = [result for result in results if result["set"] == name]
        for method in own[0]["methods"]:
            scores = [max(result["methods"][method]["score"], -0.2) for result in own]
            axis.plot([result["n"] for result in own], scores, "o-", ms=3, color=COLOURS[method], label=method)
        axis.set(xscale="log", title=name, xlabel="training rows", ylabel="$R^2$, test rows")
        axis.axhline(0, color="#d5dbe1", linewidth=0.8, zorder=0)
    axes.flat[0].legend(frameon=False)
    figure.savefig(path, dpi=150, facecolor="white")
    plt.close(figure)


# Imputation


def tell_imputation(found: Mapping[str, Result]) -> str:
    """Return the errors of imputers, and what they come to."""
    methods = list(dict.fromkeys(method for result in found.values() for method in result["methods"]))
    rows = []
    for result in found.values():
        scores = [result["methods"].get(method, {}).get("score") for method in methods]
        best = min(score for score in scores if score is not None)
        cells = ["-" if score is None else f"**{score:.3f}**" if score == best else f"{score:.3f}" for score in scores]
        rows.append([result["set"], result["missing"], f"{result['n']:,}", *cells])
    blocks = [
        "Root mean squared error of what is hidden, in standard deviations of the features; - where it takes too long.",
        table(["set", "missing", "n", *methods], rows, left=2),
    ]
    if OURS in methods:
        blocks.append(_imputation_summary(list(found.values()), methods))
    return join(*blocks)


def _imputation_summary(results: Sequence[Result], methods: Sequence[str]) -> str:
    """Compare the learner with each imputer where both are there."""
    rows = []
    for method in methods:
        both = [
            (result["methods"][OURS]["score"], result["methods"][method]["score"])
            for result in results
            if method in result["methods"]
        ]
        if method != OURS:
            ours, theirs = np.array(both).T
            ratios = ours / theirs
            means = [f"{ours.mean():.3f}", f"{theirs.mean():.3f}"]
            rows.append([method, f"{len(both)}", *means, f"{ratios.max():.3f}", f"{np.sum(ratios <= 1)}"])
    return table(["imputer", "cases", "our mean", "its mean", "largest ratio", "ours is not above it"], rows)


# Time


def tell_time(found: Mapping[str, Result]) -> str:
    """Return the times."""
    blocks = []
    if "patches" in found:
        result = found["patches"]
        rows = [[name, duration(own["fit"]), f"{own['predict_us']:.1f}"] for name, own in result["methods"].items()]
        told = f"{result['n']:,} pairs of 8 x 8 patches, one thread."
        blocks += [told, table(["", "fit", "predict, us per sample"], rows)]
    if "incomplete" in found:
        result = found["incomplete"]
        times = f"fit {duration(result['fit'])}, impute {duration(result['impute'])}"
        blocks.append(f"{result['n']:,} x 250 with 20 % of the entries missing: {times}.")
    return join(*blocks)
