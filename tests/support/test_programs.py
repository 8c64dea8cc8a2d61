"""Programs that tests start: what they inherit, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from support.programs import FRESH, end, patient, python, run_python, started
from support.waiting import wait_until

HANGS = "import sys, time; print('here', flush=True); time.sleep(600)"
IGNORES = """
import signal, subprocess, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
"""


def test_what_a_job_in_the_background_ignores_is_heard_again():
    inner = FRESH + "import signal\nprint([signal.getsignal(n) is signal.SIG_IGN for n in (1, 2, 3)])"
    done = run_python(f"{IGNORES}subprocess.run([sys.executable, '-c', {inner!r}], check=True)")
    assert done.stdout.strip() == "[False, False, False]", done.stderr


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_a_program_is_ended_by_its_signal(number):
    with started(python(HANGS), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == "here\n"
        assert end(process, number) == -number


def test_a_program_that_hangs_is_given_up_with_a_sentence():
    with pytest.raises(AssertionError, match=r"waited 0.5 s in vain until .* ended; it said: ready"):
        run_python("import sys, time; print('ready', file=sys.stderr, flush=True); time.sleep(600)", seconds=0.5)
    with started(python(HANGS), stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with pytest.raises(AssertionError, match="in vain until it said more"), patient(process, "it said more", 0.1):
            process.stdout.readline()
        assert process.wait() == -signal.SIGKILL


def test_a_program_ends_with_the_block_that_started_it():
    with pytest.raises(ZeroDivisionError), started(python(HANGS), stdout=subprocess.PIPE) as process:
        _ = 1 / 0
    assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent is gone")
def test_a_program_ends_with_a_process_that_says_no_farewell():
    child = f"""
import os, subprocess, sys
process = subprocess.Popen({python(HANGS)!r}, stdout=subprocess.PIPE)
process.stdout.readline()
print(process.pid, flush=True)
os._exit(1)
"""
    done = run_python(child)
    pid = int(done.stdout)

    def is_gone():
        try:
            os.kill(pid, 0)
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except (ProcessLookupError, psutil.NoSuchProcess):
            return True

    wait_until(is_gone, "the program had ended")
