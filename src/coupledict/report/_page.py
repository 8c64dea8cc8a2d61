"""The whole page: the run, the paper's claims and the results, the experiments, and how they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import _pairs, _time
from ._document import document
from ._explorer import Atoms
from ._figures import addresses, figure
from ._html import Html, definitions, element, join, paragraph
from ._numbers import NONE, date, entries, find, is_number, seconds, text
from ._pair_atoms import embed

PAPER_URL = "https://doi.org/10.1109/LSP.2019.2934045"
TITLE = "Coupled dictionaries, measured again"
SECTIONS = (
    ("first", "A first look"),
    ("summary", "The paper and this run"),
    ("pairs", "Paired atoms"),
    ("time", "Time"),
    ("method", "Method"),
)
VERDICTS = {True: ("holds", "Holds"), False: ("fails", "Does not hold"), None: ("open", "Too small to tell here")}
BESIDE = "In addition to the paper"  # replaces "The paper" for a claim that is not the paper's
MARKS = {"holds": "M5 10.5l3.2 3.2L15 7", "fails": "M6 6l8 8M14 6l-8 8", "open": "M5.5 10h9"}


def build(
    results: Any, dictionaries: dict[str, list[Atoms]], figures: dict[str, Path], folder: Path, data_file: str | None
) -> str:
    """Return the whole page."""
    regimes = entries(results, "time")
    sections = [
        _first_look(entries(results, "pictures"), figures, folder),
        _summary(results, regimes),
        _pairs.section(find(results, "pairs"), figures, folder),
        _time.section(regimes, figures, folder),
        _method(results, figures, folder, data_file),
    ]
    parts = [
        element("a", "Skip to the results", href="#summary", class_="skip"),
        _header(results, [section is not None for section in sections]),
        element("main", *sections),
        embed(dictionaries, find(results, "pairs")),
    ]
    return document(TITLE, parts)


def _header(results: Any, present: list[bool]) -> Html:
    started, took, cpu = date(find(results, "started")), find(results, "seconds"), text(results, "machine", "cpu")
    run = [f"Run on {started}" if started else None, f"took {seconds(took)}" if is_number(took) else None]
    run.append(f"on {cpu}" if cpu else None)
    line = ", ".join(part for part in run if part)
    links = [element("a", name, href=f"#{key}") for (key, name), there in zip(SECTIONS, present, strict=True) if there]
    return element(
        "header",
        element("p", f"coupledict {text(results, 'version')}", class_="eyebrow"),
        element("h1", TITLE),
        element(
            "p",
            "Both experiments of F. G. Veshki and S. A. Vorobyov, ",
            element("a", "“A Fast Dictionary Learning Method for Coupled Feature Space Learning”", href=PAPER_URL),
            ", IEEE Signal Processing Letters 26(10), 2019, run again.",
            class_="lede",
        ),
        _notice(results),
        paragraph(f"{line[:1].upper()}{line[1:]}." if line else None, class_="small"),
        element("nav", *links, aria_label="Sections"),
    )


def _notice(results: Any) -> Html | None:
    """Return what a reader must know first: the data, and whether the run was quick."""
    sentences = [element("p", str(sentence)) for sentence in entries(results, "data")]
    if find(results, "quick") is True:
        sentences.append(
            element(
                "p",
                element("strong", "A quick run"),
                " can show whether atoms that are learned together are partners. How soon a method reaches the level of"
                " K-SVD depends on the number of patches, and this run has a tenth of the paper's: its times are a"
                " preview, and its claims about them are left open. ",
                element("code", "coupledict reproduce"),
                " runs the experiments in full.",
            )
        )
    return element("div", element("h2", "Data"), *sentences, class_="notice") if sentences else None


def _first_look(pictures: list[Any], figures: dict[str, Path], folder: Path) -> Html | None:
    """Return pictures of what dictionaries can do, or None if the run made none."""
    shown = [
        figure(figures.get(text(picture, "name")), folder, alt=text(picture, "alt"), caption=caption, kind="picture")
        for picture in pictures
        if (caption := text(picture, "caption"))
    ]
    if not any(shown):
        return None
    return element("section", element("h2", "A first look"), *shown, id="first")


def _summary(results: Any, regimes: list[Any]) -> Html:
    """Return the claims of the paper with the measurements."""
    groups = [("", entries(results, "claims"))]
    groups += [(text(regime, "title") or text(regime, "key"), entries(regime, "claims")) for regime in regimes]
    parts: list[Html | None] = []
    for title, claims in groups:
        if claims:
            decided = [_claim(claim) for claim in claims if _verdict(claim) is not None]
            parts += [
                element("h3", title) if title else None,
                element("ul", *decided, class_="claims") if decided else None,
                _left_open([claim for claim in claims if _verdict(claim) is None]),
            ]
    return element(
        "section",
        element("h2", "The paper and this run"),
        _tally([claim for _, claims in groups for claim in claims if find(claim, "ours") is not True]),
        *(parts or [element("p", "This run tested no claim of the paper.")]),
        id="summary",
    )


def _left_open(claims: list[Any]) -> Html | None:
    """Return the claims that a run could not decide, folded below a line with their number."""
    if not claims:
        return None
    number = "1 claim" if len(claims) == 1 else f"{len(claims)} claims"
    return element(
        "details",
        element("summary", f"{number} that this run is too small to tell"),
        element("ul", *(_claim(claim) for claim in claims), class_="claims"),
        class_="left-open",
    )


def _verdict(claim: Any) -> bool | None:
    holds = find(claim, "holds")
    return holds if isinstance(holds, bool) else None


def _tally(claims: list[Any]) -> Html | None:
    """Return a sentence or two about how many of the claims that the run could decide hold."""
    if not claims:
        return None
    held, failed, undecided = (sum(_verdict(claim) is kind for claim in claims) for kind in VERDICTS)
    decided = held + failed
    sentences = []
    if decided == 1:
        sentences.append(f"The claim of the paper that this run can decide {'holds' if held else 'does not hold'}.")
    elif decided:
        sentences.append(f"Of the {decided} claims of the paper that this run can decide, {held or 'none'} hold.")
    if undecided:
        others = f"{undecided} {'claim' if undecided == 1 else 'claims'}"
        sentences.append(f"For {others}{' more' if decided else ' of the paper'} it is too small to tell.")
    return paragraph(" ".join(sentences), class_="lede")


def _claim(claim: Any) -> Html:
    kind, word = VERDICTS[_verdict(claim)]
    mark = element("svg", element("path", d=MARKS[kind]), viewBox="0 0 20 20", width=20, height=20, aria_hidden="true")
    sides = [
        (BESIDE if find(claim, "ours") is True else "The paper", text(claim, "paper") or NONE),
        ("This run", text(claim, "measured") or NONE),
        ("Decided by", text(claim, "why")),
    ]
    return element(
        "li",
        element("p", mark, word, class_="verdict"),
        element("p", text(claim, "claim"), class_="claim"),
        definitions(sides),
        class_=kind,
    )


def _method(results: Any, figures: dict[str, Path], folder: Path, data_file: str | None) -> Html:
    """Return everything needed to repeat the run."""
    machine, versions, command = find(results, "machine"), find(results, "versions"), text(results, "command")
    rows = [
        ("Processor", text(machine, "cpu")),
        ("Cores", text(machine, "cores")),
        ("Threads", text(machine, "threads")),
        ("Instruction set", text(machine, "simd")),
        ("System", text(machine, "system")),
        ("Python", text(machine, "python")),
        ("Seed", text(results, "seed")),
        ("Started", date(find(results, "started"))),
        ("Took", seconds(find(results, "seconds")) if is_number(find(results, "seconds")) else ""),
    ]
    installed = [(str(name), str(number)) for name, number in versions.items()] if isinstance(versions, Mapping) else []
    notes = [element("li", str(note)) for note in entries(results, "notes")]
    return element(
        "section",
        element("h2", "How it was measured"),
        element("pre", element("code", command), tabindex=0) if command else None,
        element(
            "div",
            element("div", element("h3", "Machine and run"), definitions(rows) or element("p", NONE)),
            element("div", element("h3", "Versions"), definitions(installed) or element("p", NONE)),
            class_="columns",
        ),
        join(element("h3", "Notes"), element("ul", *notes)) if notes else None,
        _files(figures, folder, data_file),
        id="method",
    )


def _files(figures: dict[str, Path], folder: Path, data_file: str | None) -> Html | None:
    """Return links to the files next to the page."""
    links = [element("a", data_file, href="./" + quote(data_file))] if data_file else []
    links += [
        element("a", name, href=address) for path in figures.values() for name, address in addresses(path, folder)
    ]
    if not links:
        return None
    items = [element("li", link) for link in links]
    return join(element("h3", "Files next to this page"), element("ul", *items, class_="files"))
