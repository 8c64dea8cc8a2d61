"""Curves of quality against time, one panel for each case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _plots import FAINT, INK


@dataclass(frozen=True)
class Style:
    """How the line of a learner looks."""

    colour: str
    width: float = 1.5
    dashes: str | tuple[int, tuple[float, ...]] = "-"
    order: int = 3


@dataclass(frozen=True)
class Curve:
    """Quality against seconds of one learner, and the point where it reached the target, if it did."""

    name: str
    seconds: Sequence[float]
    scores: Sequence[float]
    reached: tuple[float, float] | None = None
    faint: bool = False


@dataclass(frozen=True)
class CurvePanel:
    """The curves of one case, the quality at the start and the quality that is the target."""

    title: str
    measure: str
    start: float
    target: float
    curves: Sequence[Curve]


def curve_panels(
    panels: Sequence[CurvePanel], styles: Mapping[str, Style], path: Path, *, title: str, columns: int = 2
) -> None:
    """Draw one panel for each case on a logarithmic time axis, with one legend, and save them.

    Parameters
    ----------
    panels : sequence of CurvePanel
    styles : dict
        How each name is drawn; the legend has their order.
    path : Path
        File to write; its ending chooses the format.
    title : str
    columns : int
        Panels side by side.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    columns = min(columns, len(panels))
    n_rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        n_rows, columns, figsize=(max(6.6 * columns, 8.4), 3.7 * n_rows + 1.5), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        _draw(axis, panel, styles)
    shown = {curve.name for panel in panels for curve in panel.curves}
    handles = [
        Line2D([], [], color=style.colour, lw=style.width, ls=style.dashes, label=name)
        for name, style in styles.items()
        if name in shown
    ]
    handles.append(Line2D([], [], color=INK, lw=1, ls=(0, (1, 2)), label="target"))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=4 if columns > 1 else 3,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        handlelength=2.6,
    )
    figure.suptitle(title, fontsize=14 if columns > 1 else 12, fontweight="bold", color=INK, x=0.01, ha="left")
    figure.savefig(path, dpi=150, facecolor="white")
    plt.close(figure)


def _draw(axis: Any, panel: CurvePanel, styles: Mapping[str, Style]) -> None:
    axis.axhline(panel.target, color=INK, lw=1, ls=(0, (1, 2)), zorder=2)
    for curve in panel.curves:
        style = styles[curve.name]
        axis.plot(
            curve.seconds,
            curve.scores,
            color=style.colour,
            lw=0.7 if curve.faint else style.width,
            ls=style.dashes,
            alpha=0.5 if curve.faint else 1.0,
            marker="o" if len(curve.seconds) == 1 else None,
            ms=3,
            zorder=style.order,
        )
        if curve.reached is not None and not curve.faint:
            axis.plot(*curve.reached, "o", mfc="white", mec=style.colour, mew=1.4, ms=5.5, zorder=style.order + 5)
    _frame(axis, panel)


def _frame(axis: Any, panel: CurvePanel) -> None:
    """Show what happens around the target; curves that start far above it come in from the top."""
    lowest = min(min(curve.scores) for curve in panel.curves)
    above = max(1.5 * (panel.target - lowest), 0.25 * (panel.start - panel.target), 0.02 * panel.target)
    below = panel.target - lowest
    axis.set_ylim(lowest - 0.08 * (above + below), panel.target + above)
    axis.set_xscale("log")
    axis.set_title(panel.title, fontsize=11, loc="left", color=INK)
    axis.set_ylabel(f"held-out {panel.measure}", fontsize=9, color=INK)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g} s" if value >= 1 else f"{value * 1e3:g} ms")
    axis.minorticks_off()
    axis.grid(color=FAINT, linewidth=0.7, zorder=0)
    axis.tick_params(length=0, colors=INK, labelsize=9)
    for side in axis.spines.values():
        side.set_visible(False)
