"""What a server leaves behind: nothing after signals that can be caught, and after others only until the next start."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from support.cases import slow
from support.command import COMMAND, environment
from support.programs import end, patient, python, started
from support.serving import folders, program, upload_head
from support.waiting import PATIENCE, wait_until


def answers(address):
    connection = http.client.HTTPConnection("127.0.0.1", int(address[1]), timeout=PATIENCE)
    connection.request("GET", f"/{address[2]}/about")
    status = connection.getresponse().status
    connection.close()
    return status == 200


def begin_upload(address, size=3_000_000):
    """Send an upload but for its last byte; return its connection."""
    raw = socket.create_connection(("127.0.0.1", int(address[1])), timeout=PATIENCE)
    raw.sendall(upload_head(int(address[1]), address[2], size))
    raw.sendall(bytes(size - 1))
    return raw


def bytes_below(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("name", ["SIGHUP", *slow("SIGQUIT", "SIGUSR1", "SIGALRM", "SIGXCPU")])
def test_signals_that_can_be_caught_leave_nothing_behind(tmp_path, name):
    with program(tmp_path) as (process, address, _):
        assert answers(address)
        with begin_upload(address):
            wait_until(lambda: bytes_below(tmp_path) > 1_000_000, "something was on disk")
            assert end(process, getattr(signal, name)) == 0
            assert process.stdout.readline() == "Ended; all uploads and results have been removed.\n"
        assert process.stderr.read() == ""
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_signal_that_is_to_be_ignored_is_ignored(tmp_path):
    ignore = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"  # as nohup does
    command = python(ignore + COMMAND, "serve", "--no-browser")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, env=environment(TMPDIR=str(tmp_path)), **pipes) as process:
        with patient(process, "the server had printed its address"):
            line = process.stdout.readline().strip()
        address = [line, *line.removeprefix("The page is at http://127.0.0.1:").rstrip("/").split("/")]
        assert answers(address)
        status = Path(f"/proc/{process.pid}/status").read_text()
        ignored = int(re.search(r"SigIgn:\s*(\w+)", status)[1], 16)
        assert ignored >> (signal.SIGHUP - 1) & 1
        process.send_signal(signal.SIGHUP)
        assert answers(address)
        assert end(process, signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_closed_terminal_leaves_nothing_behind(tmp_path):
    ours, theirs = os.openpty()
    take = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    terminal = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "start_new_session": True}
    command = python(take + COMMAND, "serve", "--no-browser")
    with started(command, env=environment(TMPDIR=str(tmp_path)), **terminal) as process:
        os.close(theirs)
        reported = b""
        with patient(process, "the server had printed its address"):
            while b"Ctrl-C ends it" not in reported:
                reported += os.read(ours, 4096)
        assert len(folders(tmp_path)) == 1
        os.close(ours)  # the terminal's window is closed
        assert process.wait(PATIENCE) >= 0
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_a_killed_server_left_is_removed_by_the_next_one(tmp_path):
    with program(tmp_path) as (alive, address, _):
        assert answers(address)
        mine = folders(tmp_path)
        with program(tmp_path) as (killed, other, _), begin_upload(other):
            (left,) = set(folders(tmp_path)) - set(mine)
            wait_until(lambda: bytes_below(left) > 1_000_000, "something was on disk")
            killed.send_signal(signal.SIGKILL)
            killed.wait(PATIENCE)
        assert bytes_below(left) > 1_000_000
        with program(tmp_path) as (third, another, _):
            assert answers(another)
            assert not left.exists()
            assert set(mine) < set(folders(tmp_path))  # the first one still runs
            assert answers(address)
            assert end(third, signal.SIGTERM) == 0
        assert end(alive, signal.SIGTERM) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_everything_on_disk_is_in_the_folder_of_the_run(tmp_path):
    with program(tmp_path) as (process, address, _), begin_upload(address):
        (folder,) = folders(tmp_path)
        descriptors = f"/proc/{process.pid}/fd"

        def written():
            """Return the files below the temporary folder that are open, those without a name included."""
            found = []
            for name in os.listdir(descriptors):
                try:
                    place = os.readlink(f"{descriptors}/{name}")
                    if place.startswith(str(tmp_path)) and os.stat(f"{descriptors}/{name}").st_size > 1_000_000:
                        found.append(place)
                except FileNotFoundError:
                    pass
            return found

        for place in wait_until(written, "the upload was on disk"):
            assert place.startswith(str(folder))
            assert "deleted" not in place
