"""``coupledict reproduce`` and ``demo``: the paper's experiments with a report, and pictures for a first look."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ._app import Result, command
from ._options import Seed, Threads
from ._progress import progress_bar

Folder = Annotated[Path, typer.Option("-o", "--output", help="Folder for the report and its figures.", metavar="DIR")]
ForceFolder = Annotated[
    bool,
    typer.Option("--force", help="Write to a folder that holds other files, or replace a run that was not quick."),
]


@command(
    "The paper's experiments, with a report.",
    "coupledict reproduce --quick",
    "coupledict reproduce --data lytro/ --output output/reproduction",
)
def reproduce(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the Lytro multi-focus pairs (lytro-01-A.jpg and so on), or its parent if it is named"
            " 'lytro'. By default, photographs that ship with scikit-image, with a synthetic blur.",
            envvar="COUPLEDICT_DATA",
            metavar="DIR",
        ),
    ] = None,
    output: Folder = Path("output/reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Few patches, one run of each method; takes seconds.")] = False,
    seed: Seed = 0,
    threads: Threads = None,
    force: ForceFolder = False,
) -> Result:
    """Run both experiments of the paper and write a report to compare with it."""
    replace = may_replace(output, force=force)
    from ..experiments.machine import usable_cores
    from ..experiments.reproduction import reproduce as run

    with progress_bar() as callback:
        results = run(
            output,
            data=data,
            quick=quick,
            seed=seed,
            threads=threads or usable_cores(),
            command=command_line(),
            callback=callback,
            replace=replace,
        )
    lines = [
        *summary(results),
        f"Wrote report.html, results.json, dictionaries.npz and the figures (PNG, SVG) in {output}.",
        f"Next: open {output / 'report.html'} in a browser.",
    ]
    return Result({"output": str(output), "report": str(output / "report.html"), **_outcome(results)}, lines)


@command("A first look, in under a minute.", "coupledict demo", "coupledict demo --output first-look")
def demo(
    output: Folder = Path("output/demo"),
    threads: Threads = None,
    force: ForceFolder = False,
) -> Result:
    """Learn paired atoms, predict a sharp photograph from a blurred one, and run the paper's experiments in short."""
    replace = may_replace(output, force=force)
    from ..experiments.demonstration import demonstrate
    from ..experiments.machine import usable_cores

    with progress_bar() as callback:
        lines, results = demonstrate(
            output, threads=threads or usable_cores(), command=command_line(), callback=callback, replace=replace
        )
    lines += [
        "report.html: short runs of the paper's two experiments, with an atom explorer; results.json has the numbers.",
        f"Everything is in {output}. Next: open {output / 'report.html'} in a browser, try the ten lines of README.md,",
        "or run the experiments in full: coupledict reproduce",
    ]
    pictures = [str(output / picture) for picture in ("prediction.png", "fusion.png")]
    data = {"output": str(output), "report": str(output / "report.html"), "pictures": pictures, **_outcome(results)}
    return Result(data, lines)


def may_replace(folder: Path, *, force: bool) -> bool:
    """Return whether files in a folder may be replaced, because of `force` or because they are from a quick run.

    A folder with other files is refused.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"Expected a folder for the results, got the file '{folder}'.")
    if force or _is_quick_run(folder):
        return True
    if folder.exists() and any(not file.name.startswith(".") for file in folder.iterdir()):
        raise FileExistsError(
            f"'{folder}' holds other files; give another folder, or --force to replace those of the same names."
        )
    return False


def _is_quick_run(folder: Path) -> bool:
    try:
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(results, dict) and results.get("quick") is True and "pairs" in results


def command_line() -> str:
    """Return the command as it could be typed, without the folder of the program."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def _claims(results: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    groups = [("Paired atoms", results["claims"])]
    return groups + [(regime["title"][0].upper() + regime["title"][1:], regime["claims"]) for regime in results["time"]]


def _outcome(results: dict[str, Any]) -> dict[str, Any]:
    """Return the claims of a run for machines; the rest is in results.json."""
    claims = [
        {
            "group": title,
            "claim": entry["claim"],
            "measured": entry["measured"],
            "holds": entry["holds"],
            "why": entry["why"],
        }
        for title, entries in _claims(results)
        for entry in entries
    ]
    return {"seconds": results["seconds"], "claims": claims}


def summary(results: dict[str, Any]) -> list[str]:
    """Return the claims of a run as lines."""
    marks = {True: "holds", False: "does not hold"}
    lines = list(results["data"])
    for title, claims in _claims(results):
        decided = [entry for entry in claims if entry["holds"] is not None]
        lines += ["", title]
        lines += [f"  [{marks[entry['holds']]}] {entry['claim']} {_sentence(entry['measured'])}" for entry in decided]
        if n_open := len(claims) - len(decided):
            lines.append(f"  [too small to tell here] {n_open} {'claim' if n_open == 1 else 'claims'}, in the report.")
    return [*lines, ""]


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."
