"""Experiment 2 of the page: error and sparsity against time, regime by regime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._figures import figure, side_by_side
from ._html import Html, definitions, element, join, paragraph, scrolling
from ._numbers import NONE, count, entries, find, fixed, is_number, seconds, significant, text, times
from ._pairs import amount, setup

ERROR_DIGITS = 4  # errors of good methods differ in the third digit


def section(regimes: list[Any], figures: dict[str, Path], folder: Path) -> Html | None:
    """Return the whole section, or None if no regime was run."""
    if not regimes:
        return None
    return element(
        "section",
        element("p", "Experiment 2", class_="eyebrow"),
        element("h2", "Error and sparsity against time"),
        paragraph(
            "How long does each method take to reach the final level of exact K-SVD, in error and in nonzeros alike?"
            " All methods share one coder, so that methods are compared rather than programs."
        ),
        *(_regime(regime, figures, folder) for regime in regimes),
        id="time",
    )


def _regime(regime: Any, figures: dict[str, Path], folder: Path) -> Html:
    key = text(regime, "key")
    title = text(regime, "title") or key
    limit, tol = find(regime, "n_nonzero_coefs"), find(regime, "tol")
    return element(
        "article",
        element("h3", title, id=f"time-{key}"),
        setup(
            [
                amount(find(regime, "n_patches"), "patches"),
                amount(find(regime, "n_held_out"), "held out"),
                amount(find(regime, "n_components"), "atoms"),
                f"T = {count(limit)}" if is_number(limit) else None,
                f"ε = {tol:g}" if is_number(tol) else None,
                _repeats(find(regime, "repeats")),
            ]
        ),
        paragraph(text(regime, "target", "sentence")),
        side_by_side(
            figure(
                figures.get(f"time_{key}"),
                folder,
                alt=f"Curves for each method: mean nonzeros and average error against seconds. {title}.",
                caption="Codes made during learning, as in the paper's figure.",
            ),
            figure(
                figures.get(f"time_{key}_fresh"),
                folder,
                alt=f"The same for patches that were held out. {title}.",
                caption="Fresh patches, coded with the full number of atoms.",
            ),
        ),
        _methods(regime, title),
        _descriptions(entries(regime, "methods")),
        _peers(
            regime,
            title,
            figure(
                figures.get(f"peers_{key}"),
                folder,
                alt="Other implementations and ours: mean nonzeros on held-out patches against seconds.",
                caption="Other implementations, each with its own coder, on held-out patches.",
            ),
        ),
        class_="regime",
    )


def _repeats(repeats: Any) -> str | None:
    if not is_number(repeats):
        return None
    return "one run" if repeats == 1 else f"medians of up to {count(repeats)} runs"


def _last(curve: list[Any], *keys: str) -> Any:
    """Return the last value of a curve, under the first of these keys that has any."""
    for key in keys:
        for point in reversed(curve):
            if is_number(find(point, key)):
                return find(point, key)
    return None


def _table(groups: list[tuple[str, int]], heads: list[str], rows: list[list[str]], label: str) -> Html:
    """Return a table whose first header row names groups of columns; the first column names the rows."""
    top = [
        element("th", name, colspan=span, scope="colgroup") if name else element("td", colspan=span)
        for name, span in groups
    ]
    second = [element("th", head, scope="col") for head in heads]
    body = [
        element(
            "tr",
            element("th", first, scope="row"),
            *(element("td", cell, class_="none" if cell == NONE else None) for cell in rest),
        )
        for first, *rest in rows
    ]
    head = element("thead", element("tr", *top, class_="groups"), element("tr", *second))
    return scrolling(element("table", head, element("tbody", *body)), label, "table")


def _methods(regime: Any, title: str) -> Html | None:
    """Return the final state of every method, and when it reached the final level of K-SVD."""
    methods = entries(regime, "methods")
    if not methods:
        return None
    reached = {text(entry, "key"): entry for entry in entries(regime, "reached")}
    longest = max((s for entry in reached.values() if is_number(s := find(entry, "seconds"))), default=0)
    rows = []
    for method in methods:
        curve = entries(method, "curve")
        arrival = reached.get(text(method, "key"))
        rows.append(
            [
                text(method, "name") or text(method, "key") or NONE,
                count(find(method, "iterations")),
                count(find(method, "runs")),
                significant(find(method, "seconds")),
                fixed(_last(curve, "train_nonzeros", "nonzeros")),
                significant(_last(curve, "train_error", "error"), ERROR_DIGITS),
                fixed(_last(curve, "held_nonzeros")),
                significant(_last(curve, "held_error"), ERROR_DIGITS),
                _arrival(arrival, longest),
                times(find(arrival, "ratio")),
                times(find(arrival, "held", "ratio")),
            ]
        )
    groups = [("", 4), ("training patches", 2), ("held-out patches", 2), ("level of K-SVD", 3)]
    heads = [
        "Method",
        "iterations",
        "runs",
        "seconds",
        *["nonzeros", "error"] * 2,
        "reached after",
        "sooner",
        "held-out",
    ]
    return _table(groups, heads, rows, f"Methods: {title}")


def _arrival(arrival: Any, longest: float) -> Html | str:
    """Return when a method reached the level of K-SVD, with a bar proportional to the time."""
    if arrival is None:
        return NONE
    after = find(arrival, "seconds")
    if not is_number(after):
        return element("span", "not reached", class_="never")
    part = after / longest if longest > 0 else 0.0
    return element(
        "span",
        element("span", element("i", style=f"--share: {part:.4f}"), class_="bar"),
        element("b", seconds(after)),
        class_="arrival",
    )


def _descriptions(methods: list[Any]) -> Html | None:
    return definitions([(text(m, "name"), text(m, "description")) for m in methods], class_="glossary small")


def _peers(regime: Any, title: str, picture: Html | None) -> Html | None:
    """Return the other implementations of a regime, and which were not installed."""
    peers, missing = entries(regime, "peers"), entries(regime, "peers_missing")
    absent = f"Not installed, so not measured: {', '.join(str(name) for name in missing)}." if missing else ""
    if not peers and not missing:
        return None
    parts: list[Html | None] = [element("h4", "Other implementations")]
    if peers:
        rows = [
            [
                text(peer, "name") or NONE,
                significant(find(peer, "seconds")),
                fixed(find(peer, "nonzeros")),
                significant(find(peer, "error"), ERROR_DIGITS),
                fixed(find(peer, "held_nonzeros")),
                significant(find(peer, "held_error"), ERROR_DIGITS),
            ]
            for peer in peers
        ]
        groups = [("", 2), ("training patches", 2), ("held-out patches", 2)]
        heads = ["Program", "seconds", *["nonzeros", "error"] * 2]
        parts += [picture, _table(groups, heads, rows, f"Other implementations: {title}"), _descriptions(peers)]
    return join(*parts, paragraph(absent, class_="small"))
