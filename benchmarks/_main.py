"""The shape of a benchmark: its options, the run of its cases one after the other, and its report.

A benchmark is a module with a docstring, whose first line says what it measures, and three functions:

* ``cases(options)`` returns what is measured, by title, in the order of the run;
* ``run(case, options)`` measures one case and returns the result as plain data, dataclasses or arrays;
* ``report(results, options)`` makes Markdown of the results, by title; it may also draw into ``options.output``.

`main` gives it its options and runs it. The report goes to the standard output and to ``NAME.md`` in the folder
``--output``, all results to ``NAME.json``, which is written after each case so that a run that is stopped leaves what
it has found.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from coupledict.experiments.machine import load_average, machine
from coupledict.experiments.sources import data_directory

DISTRIBUTIONS = (
    "coupledict", "numpy", "scipy", "scikit-learn", "scikit-image", "opencv-python-headless", "spams-bin", "dictlearn",
    "numba", "torch", "dask", "distributed", "zarr", "chemotools", "statsmodels",
)  # fmt: skip
QUICK = "A quick run of the smallest case: it shows that the benchmark works, and its figures mean nothing."

Case = TypeVar("Case")
Result = TypeVar("Result")


class Options(argparse.Namespace):
    """The options of a run: those that all benchmarks have, and those of one benchmark as further attributes."""

    data: Path | None
    output: Path
    repeats: int
    quick: bool
    notes: list[str]

    def note(self, sentence: str) -> None:
        """Say something that readers of the report must know, such as a peer that is left out; once."""
        if sentence not in self.notes:
            self.notes.append(sentence)
            print(sentence, file=sys.stderr, flush=True)


def main(
    cases: Callable[[Options], Mapping[str, Case]],
    run: Callable[[Case, Options], Result],
    report: Callable[[Mapping[str, Result], Options], str],
    *,
    data: str | None,
    repeats: tuple[int, str],
    extend: Callable[[argparse.ArgumentParser], None] | None = None,
    quick: Mapping[str, Any] | None = None,
    arguments: Sequence[str] | None = None,
) -> None:
    """Read the options, run all cases, and write the report.

    Parameters
    ----------
    cases, run, report : callable
        The benchmark.
    data : str or None
        What the folder ``--data`` holds and what stands in for it; None where the benchmark makes its data itself.
    repeats : (int, str)
        The default of ``--repeats``, and what is repeated. 0 means that there is nothing to repeat, and why.
    extend : callable, optional
        Adds the options of this benchmark to the parser.
    quick : dict, optional
        Options that ``--quick`` changes; ``options.quick`` is there for the rest.
    arguments : sequence of str, optional
        The command line.
    """
    module = sys.modules[run.__module__]
    parser = make_parser(module.__doc__ or "", data=data, repeats=repeats, extend=extend)
    options = parser.parse_args(arguments, Options(notes=[]))
    if data is None and options.data is not None:
        parser.error("argument --data: this benchmark makes its data itself")
    if not repeats[0] and options.repeats != 1:
        parser.error(f"argument --repeats: {repeats[1]}")
    given: Any = options.data
    options.data = None if data is None else data_directory(given)
    if options.quick:
        options.note(QUICK)
        vars(options).update(quick or {})
    options.output.mkdir(parents=True, exist_ok=True)
    _run(cases, run, report, options, Path(module.__file__ or "benchmark").stem, _first_line(module.__doc__ or ""))


def make_parser(
    doc: str,
    *,
    data: str | None,
    repeats: tuple[int, str],
    extend: Callable[[argparse.ArgumentParser], None] | None = None,
    **_: Any,
) -> argparse.ArgumentParser:
    """Return the parser of a benchmark; `main` tells what the arguments are, and takes some more."""
    parser = argparse.ArgumentParser(description=_first_line(doc), epilog="The head of the file tells more.")
    what = f"{data} (default: COUPLEDICT_DATA)" if data else "not used: the benchmark makes its data itself"
    parser.add_argument("--data", metavar="DIR", help=what)
    parser.add_argument(
        "--output",
        metavar="DIR",
        type=Path,
        default=Path("output", "benchmarks"),
        help="folder for the report, figures and all numbers (%(default)s)",
    )
    count, what = repeats
    parser.add_argument(
        "--repeats",
        metavar="N",
        type=_positive,
        default=count or 1,
        help=f"{what} (%(default)s)" if count else f"only 1: {what}",
    )
    parser.add_argument("--quick", action="store_true", help="the smallest case, to see that everything works")
    if extend is not None:
        extend(parser)
    return parser


def add_choice(
    parser: argparse.ArgumentParser,
    name: str,
    known: Sequence[str],
    *,
    default: Sequence[str] | None = None,
    separator: str = ",",
) -> None:
    """Add an option that takes some of the known names, all by default."""

    def read(text: str) -> list[str]:
        chosen = [part.strip() for part in text.split(separator)]
        if unknown := [part for part in chosen if part not in known]:
            raise argparse.ArgumentTypeError(
                f"expected some of {f'{separator} '.join(known)}, got {f'{separator} '.join(unknown)}"
            )
        return chosen

    shown = "all" if default is None else separator.join(default)
    parser.add_argument(
        f"--{name}",
        metavar=f"A{separator}B",
        type=read,
        default=list(known if default is None else default),
        help=f"some of {f'{separator} '.join(known)} ({shown})".replace("%", "%%"),
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text}")
    return int(text)


def _first_line(doc: str) -> str:
    return doc.strip().partition("\n")[0]


def _run(
    cases: Callable[[Options], Mapping[str, Case]],
    run: Callable[[Case, Options], Result],
    report: Callable[[Mapping[str, Result], Options], str],
    options: Options,
    name: str,
    title: str,
) -> None:
    here, before = machine(DISTRIBUTIONS), load_average()
    command = shlex.join(["python", *sys.argv])
    results: dict[str, Result] = {}
    seconds: dict[str, float] = {}
    todo = cases(options)
    if not todo:
        raise SystemExit("There is nothing to measure with these options.")
    for number, (key, case) in enumerate(todo.items(), 1):
        progress(f"[{number}/{len(todo)}] {key}")
        began = time.perf_counter()
        results[key] = run(case, options)
        seconds[key] = time.perf_counter() - began
        record = {
            "benchmark": name,
            "command": command,
            "options": vars(options),
            "machine": here,
            "load_average": {"before": before, "after": load_average()},
            "seconds": seconds,
            "results": results,
        }
        (options.output / f"{name}.json").write_text(json.dumps(plain(record), indent=1) + "\n", encoding="utf-8")
    text = report(results, options)
    load = "" if before is None else f", load {before[0]:g} before"
    head = [f"# {title}", f"`{command}`", f"{here['cpu']}, {here['cores']} cores{load}.", *options.notes]
    written = "\n\n".join([*head, text.strip("\n")]) + "\n"
    (options.output / f"{name}.md").write_text(written, encoding="utf-8")
    print(f"{written}\nWritten: {name}.md and {name}.json in {options.output}")


def progress(sentence: str) -> None:
    """Tell on the standard error what is being done."""
    print(sentence, file=sys.stderr, flush=True)


def plain(value: Any) -> Any:
    """Return results as JSON can hold them: tuples of keys joined, numbers that are not finite as None."""
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _key(key: Any) -> str:
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def join(*blocks: str) -> str:
    """Put an empty line between blocks of a report."""
    return "\n\n".join(block for block in blocks if block)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Lay out rows of text as a Markdown table, the first `left` columns flush left and the rest flush right."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (headers, *rows)]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(headers))]
    lines = []
    for row in cells:
        padded = (
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(f"| {' | '.join(padded)} |")
    rules = ("-" * width if column < left else "-" * (width - 1) + ":" for column, width in enumerate(widths))
    lines.insert(1, f"| {' | '.join(rules)} |")
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Write a time with three significant digits, in the unit that suits it."""
    for limit, unit, scale in ((1e-3, "us", 1e6), (1.0, "ms", 1e3)):
        if seconds < limit:
            return f"{_three_digits(seconds * scale)} {unit}"
    return f"{_three_digits(seconds)} s"


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"
