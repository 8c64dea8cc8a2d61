"""The command line as a user runs it: a process of its own."""

import os
import subprocess
import sys

RUN = [sys.executable, "-c", "from coupledict.cli import main; main()"]
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


def refused(done):
    """Return the one sentence of a command that failed as it should."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    return last.removeprefix("Error: ")
