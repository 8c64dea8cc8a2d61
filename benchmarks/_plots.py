"""Bar charts of benchmark times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _main import duration

INK, FAINT = "#22303c", "#d5dbe1"


@dataclass(frozen=True)
class Bar:
    """One bar: whose it is, its series, its time and, if there is one, the time of a marker."""

    group: str
    series: str
    seconds: float
    marker: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class Panel:
    """The bars of one case, under a title."""

    title: str
    bars: Sequence[Bar]


def bar_panels(
    panels: Sequence[Panel],
    colours: Mapping[str, tuple[str, ...]],
    path: Path,
    *,
    title: str,
    marker_label: str,
    columns: int = 2,
) -> None:
    """Draw panels of grouped horizontal bars on a logarithmic time axis and save them.

    Parameters
    ----------
    panels : sequence of Panel
        Bars with the same `group` stand together, in the order given.
    colours : dict
        For each group, the colours of its series in their order.
    path : Path
        File to write; its ending chooses the format.
    title : str
    marker_label : str
        What the markers mean.
    columns : int
        Panels side by side.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    columns = min(columns, len(panels))
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    heights = [max(len(panel.bars) for panel in row) * 0.29 + 0.95 for row in rows]
    figure, axes = plt.subplots(
        len(rows),
        columns,
        figsize=(6.6 * columns, sum(heights) + 1.0),
        squeeze=False,
        gridspec_kw={"height_ratios": heights},
        layout="constrained",
    )
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        _draw(axis, panel, colours)
    figure.suptitle(title, fontsize=14, fontweight="bold", color=INK, x=0.01, ha="left")
    figure.supxlabel(f"time (log scale); {marker_label}", fontsize=10, color=INK)
    figure.savefig(path, dpi=150, facecolor="white")
    plt.close(figure)


def _draw(axis: Any, panel: Panel, colours: Mapping[str, tuple[str, ...]]) -> None:
    series = list(dict.fromkeys(bar.series for bar in panel.bars))
    position, ticks, names, previous = 0.0, [], [], ""
    for bar in panel.bars:
        if previous and bar.group != previous:
            position += 0.45
        previous = bar.group
        colour = colours[bar.group][series.index(bar.series) % len(colours[bar.group])]
        axis.barh(position, bar.seconds, height=0.86, color=colour, zorder=2)
        _label(axis, bar, position)
        ticks.append(position)
        names.append(f"{bar.group}, {bar.series}")
        position += 1.0
    axis.set_xscale("log")
    ends = [bar.seconds for bar in panel.bars] + [bar.marker for bar in panel.bars if bar.marker]
    axis.set_xlim(min(ends) / 3, max(ends) * 25)
    axis.set_yticks(ticks, names, fontsize=9, color=INK)
    axis.invert_yaxis()
    axis.set_title(panel.title, fontsize=11, loc="left", color=INK)
    axis.xaxis.set_major_formatter(lambda value, _: _short(value))
    axis.minorticks_off()
    axis.grid(axis="x", color=FAINT, linewidth=0.7, zorder=0)
    axis.tick_params(length=0, colors=INK, labelsize=9)
    for side in axis.spines.values():
        side.set_visible(False)


def _label(axis: Any, bar: Bar, position: float) -> None:
    if bar.marker is not None:
        axis.plot(bar.marker, position, "o", mfc="white", mec=INK, ms=4.5, zorder=3)
    end = max(bar.seconds, bar.marker or 0.0)
    text = duration(bar.seconds) + (f"   {bar.remark}" if bar.remark else "")
    axis.annotate(
        text, (end, position), xytext=(7, 0), textcoords="offset points", va="center", fontsize=8.5, color=INK
    )


def _short(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:g} s"
    return f"{seconds * 1e3:g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:g} us"
