"""The command line as a user runs it: a process of its own."""

import contextlib
import io
import os
import subprocess
import sys

RUN = [sys.executable, "-c", "from coupledict.cli import main; main()"]
#: For programs that are sent signals: a job in the background may have been started with some of them ignored.
HEARS = (
    "import signal; [signal.signal(getattr(signal, name), signal.SIG_DFL)"
    " for name in ('SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGALRM', 'SIGXCPU')]\n"
)
PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}


def environment(**more):
    return {**{key: value for key, value in os.environ.items() if key != "COUPLEDICT_DATA"}, **PLAIN, **more}


def run(*arguments, **variables):
    return subprocess.run(
        [*RUN, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(**variables),
        check=False,
    )


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
