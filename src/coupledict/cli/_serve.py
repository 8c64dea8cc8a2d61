"""``coupledict serve``: a page on this machine, for people who do not program."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ._app import Result, command


@command(
    "A page on this machine to fuse, enlarge, widen and explore, without programming.",
    "coupledict serve",
    "coupledict serve --port 8000 --no-browser",
    "coupledict serve --max-megabytes 4000 --max-megapixels 160",
)
def serve(
    port: Annotated[int, typer.Option(help="Port to use; 0 chooses a free one.", min=0, max=65535)] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    max_megabytes: Annotated[float, typer.Option(help="Largest upload, in MB.", min=0.001)] = 1000,
    max_megapixels: Annotated[
        float, typer.Option(help="Largest picture, uploaded or made, in megapixels.", min=0.001)
    ] = 120,
) -> Result:
    """Open a page that fuses focus stacks, enlarges pictures, widens speech and shows the atoms of models.

    The page is for this machine only: it is at 127.0.0.1, under an address that nobody can guess, and nothing leaves
    the machine. All uploads and results are removed when Ctrl-C ends it.
    """
    from ..serve import run

    lines: list[str] = []
    for_machines = "--json" in sys.argv  # stdout gets only the JSON object, at the end; lines for people go to stderr

    def tell(line: str) -> None:
        lines.append(line)
        typer.echo(line, err=for_machines)

    run(port, browser=not no_browser, max_megabytes=max_megabytes, max_megapixels=max_megapixels, tell=tell)
    return Result({"address": lines[0].split()[-1]})
