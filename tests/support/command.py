"""The command line as a user runs it: a process of its own."""

import contextlib
import io
import os
import subprocess
import sys

from support import programs

COMMAND = "from coupledict.cli import main; main()"
PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}


def environment(**more):
    return {**{key: value for key, value in os.environ.items() if key != "COUPLEDICT_DATA"}, **PLAIN, **more}


def run(*arguments, **variables):
    return programs.run_python(COMMAND, *arguments, env=environment(**variables))


def call(*arguments):
    """Run a command in this process, which is quicker; return the same as `run`."""
    from coupledict.cli import main

    before, output, errors = sys.argv, io.StringIO(), io.StringIO()
    sys.argv = ["coupledict", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            main()
    except SystemExit as end:
        return subprocess.CompletedProcess(sys.argv, end.code or 0, output.getvalue(), errors.getvalue())
    finally:
        sys.argv = before
    raise AssertionError("main always exits")


def refused(done, code=(1, 2, 3)):
    """Return the one sentence of a command that failed as it should, with this exit code or one of these."""
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    return last.removeprefix("Error: ")
