"""``coupledict reproduce`` and ``demo``: the paper's experiments with a report, and pictures for a first look."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ._app import app
from ._steps import Steps


@app.command()
def reproduce(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the Lytro multi-focus pairs (lytro-01-A.jpg and so on), or one with such a folder 'lytro'."
            " Photographs that ship with scikit-image, and a synthetic blur, if left out.",
            envvar="COUPLEDICT_DATA",
            metavar="DIR",
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the report and its figures.", metavar="DIR")] = Path(
        "output/reproduction"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Few patches and one run of each method, in seconds.")] = False,
    seed: Annotated[int, typer.Option(help="Source of the patches and of random starts.", min=0)] = 0,
    threads: Annotated[int | None, typer.Option(help="Threads; all cores if left out.", min=1)] = None,
) -> None:
    """Run both experiments of the paper and write a report that can be held beside it."""
    from ..experiments.machine import usable_cores
    from ..experiments.reproduction import reproduce as run

    with Steps() as steps:
        results = run(
            output,
            data=data,
            quick=quick,
            seed=seed,
            threads=threads or usable_cores(),
            command=command_line(),
            progress=steps.step,
            started=steps.expect,
        )
    for line in summary(results):
        typer.echo(line)
    typer.echo(f"Wrote report.html, results.json, dictionaries.npz and the figures (PNG, SVG) in {output}.")
    typer.echo(f"Next: open {output / 'report.html'} in a browser.")


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for pictures and the report.", metavar="DIR")] = Path(
        "output/demo"
    ),
    threads: Annotated[int | None, typer.Option(help="Threads; all cores if left out.", min=1)] = None,
) -> None:
    """Learn paired atoms, predict a sharp photograph from a blurred one, and run the paper's experiments in short."""
    from ..experiments.demonstration import fuse_photographs, predict_photograph
    from ..experiments.machine import usable_cores
    from ..experiments.reproduction import QUICK_TIME, count_steps
    from ..experiments.reproduction import reproduce as run

    output.mkdir(parents=True, exist_ok=True)
    n_threads = threads or usable_cores()
    with Steps() as steps:
        steps.expect(3 + count_steps(QUICK_TIME))
        lines = predict_photograph(output, n_threads, steps.step)
        lines += fuse_photographs(output, n_threads, steps.step)
        run(output, quick=True, threads=n_threads, command=command_line(), progress=steps.step)
    for line in lines:
        typer.echo(line)
    typer.echo(
        "report.html: the paper's two experiments in short, with an atom explorer; results.json has its figures."
    )
    typer.echo(
        f"All of it is in {output}. Next: open {output / 'report.html'} in a browser, try the ten lines of README.md,"
    )
    typer.echo("or run the experiments in full: coupledict reproduce")


def command_line() -> str:
    """Return the command as it could be typed, without the folder of the program."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def summary(results: dict[str, Any]) -> list[str]:
    """Return the claims of a run in lines."""
    marks = {True: "holds", False: "does not hold", None: "open"}
    lines = list(results["data"])
    groups = [("Paired atoms", results["claims"])]
    groups += [(regime["title"][0].upper() + regime["title"][1:], regime["claims"]) for regime in results["time"]]
    for title, claims in groups:
        lines += ["", title]
        lines += [f"  [{marks[entry['holds']]}] {entry['claim']} {entry['measured']}" for entry in claims]
    return [*lines, ""]
