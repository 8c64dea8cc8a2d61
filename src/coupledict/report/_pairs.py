"""Experiment 1 of the page: atoms learned together and separately, and how well they match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._figures import figure, side_by_side
from ._html import Html, definitions, element, paragraph, scrolling
from ._numbers import NONE, TIMES, count, entries, find, fixed, is_number, seconds, share, text
from ._pair_atoms import explorer

COLUMNS = {"together": "together", "separate": "separately"}
ROWS = (
    ("same_index_share", "Atoms whose best partner has the same number", share),
    ("median_same", "Median correlation with the partner of the same number", fixed),
    ("median_matched", "Median correlation with the best partner", fixed),
    ("median_rank", "Blurred atoms that match better than the one of the same number, median", count),
    ("positive_share", "Partners of the same number that agree in sign", share),
    ("explained", "Energy of the patches that the codes explain", share),
    ("seconds", "Time to learn", seconds),
)


def setup(entries: list[str | None]) -> Html | None:
    """Return the settings of an experiment, in one line."""
    items = [element("li", entry) for entry in entries if entry]
    return element("ul", *items, class_="setup") if items else None


def amount(value: Any, unit: str) -> str | None:
    """Return a count with its unit, or None if it is unknown."""
    return f"{count(value)} {unit}" if is_number(value) else None


def section(pairs: Any, figures: dict[str, Path], folder: Path) -> Html:
    """Return the whole section."""
    size = find(pairs, "patch_size")
    return element(
        "section",
        element("p", "Experiment 1", class_="eyebrow"),
        element("h2", "Paired atoms"),
        paragraph(
            "Do dictionaries that are learned together consist of pairs, atom by atom? The blur that maps focused"
            " patches to blurred ones is applied to every focused atom. If the atoms are pairs, the result looks like"
            " the blurred atom of the same number. Shares and correlations complement the picture, so that the answer"
            " is not left to the eye."
        ),
        setup(
            [
                amount(find(pairs, "n_patches"), "pairs of patches"),
                f" {TIMES} ".join(str(side) for side in size) + " pixels" if isinstance(size, list | tuple) else None,
                amount(find(pairs, "n_components"), "atoms"),
                amount(find(pairs, "n_nonzero_coefs"), "atoms per patch at most"),
                amount(find(pairs, "max_iter"), "iterations"),
            ]
        ),
        _bars(pairs),
        _table(pairs),
        _variants(pairs),
        paragraph(_how_blurred(pairs), class_="small"),
        figure(
            figures.get("pairs"),
            folder,
            alt="Four grids of atoms: focused and blurred, learned together; focused and blurred, learned separately.",
            caption="The four dictionaries, by the paper's method: atoms have norm 1 in each view. Mid-grey is zero;"
            " each atom has its own scale.",
            kind="picture",
        ),
        side_by_side(
            figure(
                figures.get("correlations"),
                folder,
                alt="Histograms of the correlation of atoms with their partners, learned together and separately.",
                caption="Correlation between each focused atom after the blur and the blurred atom of its number.",
            )
        ),
        element("h3", "Atom explorer", id="explorer-title"),
        element(
            "noscript",
            element("p", "The explorer needs JavaScript. The figure above shows the same atoms.", class_="notice"),
        ),
        explorer(),
        _glossary(),
        id="pairs",
    )


def _bars(pairs: Any) -> Html | None:
    """Return the share of atoms whose best partner has their number, as bars, with that of chance."""
    values = [(f"Learned {name}", find(pairs, key, "same_index_share"), key) for key, name in COLUMNS.items()]
    values.append(("By chance", _chance(pairs), "chance"))
    rows = [
        element(
            "li",
            element("span", name, class_="name"),
            element("span", element("i", style=f"--share: {min(max(value, 0), 1):.4f}"), class_="bar"),
            element("strong", share(value)),
            class_=key,
        )
        for name, value, key in values
        if is_number(value)
    ]
    if not rows:
        return None
    title = "Atoms whose best partner is the one with the same number"
    return element("div", element("p", title, class_="bars-title"), element("ul", *rows), class_="bars")


def _chance(pairs: Any) -> Any:
    found = find(pairs, "together", "chance")
    return find(pairs, "separate", "chance") if found is None else found


def _table(pairs: Any) -> Html:
    """Return the numbers of both ways of learning, with those of chance."""
    head = [element("th", text, scope="col") for text in ("Learned …", *COLUMNS.values(), "chance")]
    body = []
    for key, name, write in ROWS:
        cells = [write(find(pairs, mode, key)) for mode in COLUMNS]
        cells.append(share(_chance(pairs)) if key == "same_index_share" else NONE)
        row = [element("td", cell, class_="none" if cell == NONE else None) for cell in cells]
        body.append(element("tr", element("th", name, scope="row"), *row))
    table = element("table", element("thead", element("tr", *head)), element("tbody", *body))
    return scrolling(table, "Atoms learned together and separately, in numbers", "table narrow")


def _variants(pairs: Any) -> Html | None:
    """Return a table of all compared methods, or None if there are none."""
    variants = entries(pairs, "variants")
    if not variants:
        return None
    heads = (
        "Method",
        "learned",
        "same number",
        "correlation",
        "match better",
        "twins, focused",
        "twins, blurred",
        "explained",
    )
    body = []
    for row in variants:
        twins = entries(row, "twins") or [None, None]
        cells = [
            COLUMNS.get(text(row, "how"), text(row, "how")),
            share(find(row, "same_index_share")),
            fixed(find(row, "median_same")),
            count(find(row, "median_rank")),
            count(twins[0]),
            count(twins[-1]),
            share(find(row, "explained")),
        ]
        body.append(element("tr", element("th", text(row, "method"), scope="row"), *(element("td", c) for c in cells)))
    head = element("tr", *(element("th", head, scope="col") for head in heads))
    return element(
        "div",
        paragraph(
            "The same for the default settings of coupledict. Atoms that the default learns together have norm 1 over"
            " both views, all others norm 1 in each view; correlations do not depend on it. Twins are atoms that nearly"
            " equal another atom of their dictionary, up to the sign; the rule for unused atoms can make many of them.",
        ),
        scrolling(element("table", element("thead", head), element("tbody", *body)), "All methods", "table"),
    )


def _how_blurred(pairs: Any) -> str:
    blur, explained = text(pairs, "blur"), find(pairs, "map_explained")
    rest = f" It explains {share(explained)} of the energy of held-out blurred patches."
    return blur + rest if blur and is_number(explained) else blur


def _glossary() -> Html | None:
    return definitions(
        [
            ("Number", "the row of the atom in the dictionary, counted from 0."),
            ("Used in patches", "the number of patches that have this atom in their code, and their share."),
            ("Norm", "1 for every atom: the paper's method gives atoms norm 1 in each view."),
            ("Gain", "the share of the focused atom's norm that remains after the blur."),
            (
                "Correlation",
                "absolute correlation between the focused atom after the blur and the blurred atom of its number.",
            ),
            ("Best partner", "the blurred atom with the largest such correlation."),
        ],
        class_="glossary small",
    )
