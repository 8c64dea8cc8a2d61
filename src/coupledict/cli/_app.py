"""The application: how commands register, what they print for people and for machines, and how they fail."""

from __future__ import annotations

import errno
import functools
import inspect
import io
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer

from ..foundation.text import printable, takes_escapes
from ..foundation.warning import InterruptedFitWarning

EXIT_CODES = (
    "Exit codes: 0 done, 1 failed (a file, its contents, a missing package), 2 wrong usage, 3 an output already exists"
    " and --force was not given, 70 a fault in coupledict, 130 stopped by Ctrl-C."
)
FAILED, MISUSED, EXISTS, FAULT, INTERRUPTED = 1, 2, 3, 70, 130

#: Errors that a user can fix: bad input, missing files, missing packages, too little memory. Any other is a bug.
USER_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)
#: Names of option values in the help; options that take folders call them DIR themselves.
VALUES = {Path: "FILE", int: "N", float: "NUMBER", str: "TEXT"}
#: Parameters that errors of the library name, and the options that set them here.
OPTIONS = {"force=True": "--force", "missing='nan'": "--missing"}
#: What the parser raises for arguments that it does not understand. Typer exports only this subclass.
PARSER_ERROR: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="coupledict",
    help="Dictionaries that explain two or more views of the same signals together.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class MisuseError(ValueError):
    """Arguments that contradict each other."""


class StoppedError(Exception):
    """Work that Ctrl-C ended; the message says how to continue."""


@dataclass
class Result:
    """What a command has done: `data` for machines, `facts` and `lines` for people."""

    data: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)


Command = TypeVar("Command", bound=Callable[..., Result])
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines; errors as well, on stderr.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
COMMON = {"as_json": AsJson, "debug": Debug}


def command(summary: str, *examples: str) -> Callable[[Command], Command]:
    """Register a function as a command, with examples in its help and with the options that every command has."""

    def register(function: Command) -> Command:
        signature = inspect.signature(function, eval_str=True)

        @functools.wraps(function)
        def run(*, as_json: bool, debug: bool, **given: Any) -> None:
            del debug  # main() looks for it in sys.argv, because it applies to parser errors too
            noted: list[str] = []
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                # An interrupted learner keeps what it has learned and warns; an interrupted command must write nothing.
                warnings.simplefilter("error", InterruptedFitWarning)
                warnings.showwarning = _warning_printer(noted if as_json else None)
                result = function(**given)
            _print(result, function.__name__.rstrip("_"), noted if as_json else None)

        more = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
            for key, kind in COMMON.items()
        ]
        kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
        parameters = [*kept, *more]
        decorated: Any = run
        decorated.__signature__ = signature.replace(parameters=parameters, return_annotation=None)
        decorated.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        for parameter in kept:
            _name_value(parameter)
        title = "Example:" if len(examples) == 1 else "Examples:"
        epilog = "\n".join(["\b", title, *(f"  {example}" for example in examples)])
        app.command(short_help=summary, epilog=epilog)(decorated)
        return function

    return register


def _name_value(parameter: inspect.Parameter) -> None:
    """Name the value of an option or argument in the help by its type, unless it has a name of its own."""
    kind, *options = get_args(parameter.annotation)
    for one in options:
        if one.metavar is None:
            one.metavar = next((VALUES[part] for part in get_args(kind) or (kind,) if part in VALUES), None)


def _warning_printer(noted: list[str] | None) -> Callable[..., None]:
    """Return a warning handler that keeps warnings for the JSON object, or prints each as one sentence."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        sentence = " ".join(str(message).split())
        if noted is None:
            say(f"Warning: {sentence}", err=True)
        else:
            noted.append(sentence)

    return show


def say(line: object, *, err: bool = False) -> None:
    """Print a line. It may hold text from files, so control characters are escaped."""
    typer.echo(printable(line), err=err)


def _print(result: Result, name: str, noted: list[str] | None) -> None:
    if noted is not None:
        data = {"command": name, **result.data}
        typer.echo(json.dumps(data | {"warnings": noted} if noted else data))
        return
    if result.facts:
        _print_facts([(printable(fact), printable(value)) for fact, value in result.facts])
    for line in result.lines:
        say(line)


def _print_facts(facts: list[tuple[str, str]]) -> None:
    """Print names and values: a table on a terminal, elsewhere lines that can be searched."""
    if not takes_escapes(sys.stdout):
        width = max(len(name) for name, _ in facts)
        for name, value in facts:
            typer.echo(f"{name:<{width}}  {value}")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name), Text(value))
    Console().print(table)


def _show_version(asked: bool) -> None:
    if asked:
        from ..kernels.instruction_sets import build_info

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
    """Run the command line; an error becomes one sentence and the exit code of its kind."""
    _print_all_characters()
    try:
        code = app(prog_name="coupledict", standalone_mode=False)
        if code == INTERRUPTED:  # how the parser returns from Ctrl-C
            code = _report(StoppedError("Stopped."))
    except (KeyboardInterrupt, typer.Abort):
        code = _report(StoppedError("Stopped."))
    except Exception as error:
        code = _report(StoppedError("Stopped.") if isinstance(error, InterruptedFitWarning) else error)
    sys.exit(code if isinstance(code, int) else 0)


def _print_all_characters() -> None:
    """Escape characters that the output cannot encode: on Windows, a pipe uses a legacy code page."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _report(error: Exception) -> int:
    """Print an error, and return the exit code of its kind."""
    if type(error).__name__ == "NoArgsIsHelpError":  # raised by newer parsers if there are no arguments
        typer.echo(str(error), err=True)
        return MISUSED
    if "--debug" in sys.argv:
        for line in "".join(traceback.format_exception(error)).splitlines():
            say(line, err=True)
    code, sentence = _explain(error)
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": sentence, "kind": type(error).__name__, "exit_code": code}), err=True)
    else:
        say(sentence if code == INTERRUPTED else f"Error: {sentence}", err=True)
    return code


def _explain(error: Exception) -> tuple[int, str]:
    if isinstance(error, PARSER_ERROR):
        context = getattr(error, "ctx", None)
        hint = f" Try '{context.command_path} --help'." if context is not None else ""
        sentence = _one_line(error.format_message()).replace("Value error, ", "").rstrip(".?")
        return MISUSED, f"{sentence}.{hint}"
    sentence = _for_a_shell(error)
    if isinstance(error, StoppedError):
        return INTERRUPTED, sentence
    if isinstance(error, MisuseError):
        return MISUSED, sentence
    if isinstance(error, FileExistsError):
        return EXISTS, sentence
    if isinstance(error, MemoryError):
        return FAILED, sentence or "There is not enough memory for this."
    if isinstance(error, USER_ERRORS):
        return FAILED, sentence
    summary = f"{type(error).__name__}: {_one_line(error)}".rstrip(": ")
    return FAULT, f"This is a fault in coupledict ({summary}); please report it with what --debug shows."


def _for_a_shell(error: Exception) -> str:
    """Return the sentence of an error, with options in place of parameters and words in place of error numbers."""
    sentence = _one_line(error)
    if isinstance(error, OSError) and error.errno is not None and sentence.startswith(("[Errno", "[WinError")):
        sentence = _system_error(error)
    for parameter, option in OPTIONS.items():
        sentence = sentence.replace(parameter, option)
    return sentence


def _system_error(error: OSError) -> str:
    """Return a sentence that names the file and says what went wrong."""
    file = "" if error.filename is None else f" '{os.fsdecode(error.filename)}'"
    said = {
        errno.ENOENT: f"Expected the file or folder{file}, found none; check the name.",
        errno.EISDIR: f"Expected a file, got the folder{file}.",
        errno.ENOTDIR: f"Expected every parent of{file} to be a folder, got a file.",
        errno.EACCES: f"Permission to use{file} was denied; change its permissions or choose another file.",
        errno.EPERM: f"Permission to use{file} was denied; change its permissions or choose another file.",
        errno.ENOSPC: f"There is no space left on the disk for{file or ' the output'}; nothing was written.",
        errno.EROFS: f"Expected a writable disk for{file or ' the output'}, got a read-only one.",
    }
    words = _one_line(error.strerror or "it failed")
    return said.get(error.errno or 0, f"The system could not use{file or ' a file'}: {words[:1].lower()}{words[1:]}.")


def _one_line(message: object) -> str:
    return " ".join(str(message).split())
