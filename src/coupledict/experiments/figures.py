"""The pictures of the two experiments, each as PNG and as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..foundation.arrays import Array
from ..foundation.drawing import describe_norms
from ..plotting import COLOURS, plot_atoms
from .methods import (
    CONSTANT_METHOD,
    DEFAULT_METHOD,
    KSVD_METHOD,
    PAPER_KEEP_METHOD,
    PAPER_METHOD,
    SAMPLES_METHOD,
)
from .steps import BeginStep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 130
WIDE = 5.0  # values that span more than this factor are drawn on a logarithmic scale
#: Ticks of logarithmic scales within a power of ten: the first of these with four or more visible ticks.
TICKS = ((1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), tuple(np.arange(1.0, 10.0, 0.5)))
#: Methods that the paper compares, and ours: drawn with strong lines, the others with thin ones.
LEADING = (KSVD_METHOD, PAPER_METHOD, DEFAULT_METHOD)
#: Colour and marker of a method; those of other packages follow.
STYLES = {
    DEFAULT_METHOD: ("#0072B2", "o"),
    PAPER_METHOD: ("#D55E00", "s"),
    KSVD_METHOD: ("#000000", "X"),
    CONSTANT_METHOD: ("#009E73", "^"),
    "mod": ("#CC79A7", "D"),
    "odl": ("#E69F00", "v"),
    PAPER_KEEP_METHOD: ("#8C564B", "P"),
    SAMPLES_METHOD: ("#7F7F7F", "x"),
}
PEER_STYLES = (("#CC79A7", "D"), ("#009E73", "^"), ("#E69F00", "v"))


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, without a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'Expected matplotlib to be installed for the figures. Install it with: pip install "coupledict[plot]"'
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, folder: Path, name: str) -> Path:
    figure.savefig(folder / f"{name}.png", dpi=DPI)
    figure.set_layout_engine("none")  # keep the layout of the PNG file for the SVG file
    figure.savefig(folder / f"{name}.svg")
    return folder / f"{name}.png"


def draw_pairs(dictionaries: dict[str, list[Array]], uses: dict[str, Sequence[int]], folder: Path) -> Path:
    """Draw the four dictionaries: learned together above, separately below; the most used atoms first.

    Each atom has its own grey scale; with the paper's method all have norm 1 in each view.
    """
    figure = new_figure(9.6, 10.2)
    axes = figure.subplots(2, 2)
    titles = {"together": "learned together", "separate": "learned separately"}
    for row, (how, title) in enumerate(titles.items()):
        order = np.argsort(-np.asarray(uses[how]), kind="stable")
        for column, view in enumerate(("focused", "blurred")):
            name = f"({'abcd'[2 * row + column]}) {view}, {title}"
            plot_atoms(dictionaries[how][column], order=order, ax=axes[row, column], title=name)
    norms = describe_norms([atoms for pair in dictionaries.values() for atoms in pair])
    figure.supxlabel(f"atoms of {norms}, each drawn on its own scale", fontsize="small")
    return _save(figure, folder, "pairs")


def draw_correlations(pairs: dict[str, Any], folder: Path) -> Path:
    """Draw the correlations of atoms of equal number, learned together and separately."""
    figure = new_figure(6.6, 3.4)
    axis = figure.subplots()
    bins = np.linspace(0, 1, 26).tolist()
    for how, colour, label in (("together", COLOURS[0], "learned together"), ("separate", COLOURS[1], "separately")):
        values = pairs[how]["atoms"]["correlation"]
        axis.hist(values, bins, alpha=0.6, color=colour, label=f"{label}: median {np.median(values):.2f}")
    axis.set_xlabel("correlation with the partner of the same number")
    axis.set_ylabel("atoms")
    axis.set_xlim(0, 1)
    axis.legend(frameon=False, loc="upper left")
    _plain(axis)
    return _save(figure, folder, "correlations")


def draw_time(regime: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Draw nonzeros and error against seconds: during learning, and on held-out patches with all atoms allowed.

    They are separate pictures, so that a narrow page can show one below the other.
    """
    name = f"time_{regime['key']}"
    return {
        name: _draw_curves(regime, "", "codes as learning makes them", folder, name),
        f"{name}_fresh": _draw_curves(regime, "held_", "fresh patches, all atoms allowed", folder, f"{name}_fresh"),
    }


def _draw_curves(regime: dict[str, Any], prefix: str, title: str, folder: Path, name: str) -> Path:
    figure = new_figure(6.2, 7.6)
    axes = figure.subplots(2, 1, sharex=True)
    for axis, (key, label) in zip(axes, (("nonzeros", "mean nonzeros"), ("error", "average error")), strict=True):
        for method in regime["methods"]:
            colour, marker = STYLES[method["key"]]
            strong = method["key"] in LEADING
            axis.plot(
                [point["seconds"] for point in method["curve"]],
                [point[prefix + key] for point in method["curve"]],
                color=colour,
                marker=marker,
                markersize=4 if strong else 2.5,
                linewidth=1.8 if strong else 0.9,
                alpha=1.0 if strong else 0.75,
                label=method["name"],
            )
        _logarithmic(axis, "x")
        low, high = axis.get_ylim()
        if high > WIDE * max(low, 1e-300):
            _logarithmic(axis, "y")
        axis.set_ylabel(label)
        _plain(axis)
    axes[0].set_title(f"{regime['title']}: {title}", fontsize="medium")
    axes[-1].set_xlabel("seconds")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return _save(figure, folder, name)


def draw_peers(regime: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Draw other packages, if there are any, with the default and K-SVD, on held-out patches."""
    if not regime["peers"]:
        return {}
    figure = new_figure(7.6, 4.4)
    axis = figure.subplots()
    ours = [method for method in regime["methods"] if method["key"] in LEADING]
    entries = [(method, STYLES[method["key"]]) for method in ours]
    entries += list(zip(regime["peers"], PEER_STYLES, strict=False))
    for entry, (colour, marker) in entries:
        axis.plot(
            [point["seconds"] for point in entry["curve"]],
            [point["held_nonzeros"] for point in entry["curve"]],
            color=colour,
            marker=marker,
            markersize=3.5,
            linewidth=1.4,
            linestyle="-" if "key" in entry else "--",
            label=entry["name"],
        )
    _logarithmic(axis, "x")
    axis.set_xlabel("seconds")
    axis.set_ylabel("mean nonzeros, fresh patches")
    axis.set_title(regime["title"], fontsize="medium")
    _plain(axis)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    name = f"peers_{regime['key']}"
    return {name: _save(figure, folder, name)}


def draw_all(
    results: dict[str, Any], dictionaries: dict[str, list[Array]], folder: Path, begin: BeginStep
) -> dict[str, Path]:
    """Draw every picture into a folder; return their PNG files by name."""
    begin("drawing the figures")
    uses = {how: results["pairs"][how]["atoms"]["use"] for how in ("together", "separate")}
    figures = {
        "pairs": draw_pairs(dictionaries, uses, folder),
        "correlations": draw_correlations(results["pairs"], folder),
    }
    for regime in results["time"]:
        figures |= draw_time(regime, folder) | draw_peers(regime, folder)
    return figures


def _logarithmic(axis: Axes, which: str) -> None:
    """Make one scale logarithmic, with plain numbers at 1, 2 and 5, or at more if few of these are visible."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

    (axis.set_xscale if which == "x" else axis.set_yscale)("log")
    scale = axis.xaxis if which == "x" else axis.yaxis
    low, high = axis.get_xlim() if which == "x" else axis.get_ylim()
    locators = [LogLocator(subs=subs) for subs in TICKS]
    enough = (one for one in locators if np.count_nonzero([low <= t <= high for t in one.tick_values(low, high)]) >= 4)
    scale.set_major_locator(next(enough, locators[-1]))
    scale.set_minor_locator(NullLocator())
    scale.set_major_formatter(FormatStrFormatter("%g"))


def _plain(axis: Axes) -> None:
    axis.grid(color="0.9")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
