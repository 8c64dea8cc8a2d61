"""The application that commands register with, and how they fail: one sentence, exit code 2."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .._levels import build_info

app = typer.Typer(
    name="coupledict",
    help="Dictionaries that explain two or more views of the same signals together.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

#: What a user can mend: bad input, missing files, missing packages. Anything else is our fault and is shown whole.
USER_ERRORS = (ValueError, TypeError, OSError, ImportError)

INTERRUPTED = 130  # what shells, and typer, say of a program that was stopped by Ctrl-C


def _show_version(asked: bool) -> None:
    if asked:
        info = build_info()
        typer.echo(f"coupledict {info['version']} ({info['simd']} kernels, {info['compiler']})")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Dictionaries that explain two or more views of the same signals together."""


def main() -> None:
    """Run the command line; errors that a user can mend become one sentence and exit code 2."""
    try:
        app()
    except SystemExit as error:
        if error.code == INTERRUPTED:
            typer.echo("Stopped.", err=True)
        raise
    except USER_ERRORS as error:
        typer.echo(f"Error: {' '.join(str(error).split())}", err=True)
        sys.exit(2)
