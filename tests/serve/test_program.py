"""`coupledict serve` as a program of its own: its address, its options, its end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import sys
import tempfile
import webbrowser
from functools import partial

import psutil
import pytest
import uvicorn

from coupledict.serve import _server
from coupledict.serve import run as serve
from coupledict.serve._app import build_app
from coupledict.serve._opening import Opening
from coupledict.serve._uploads import Limits
from support.cases import slow
from support.command import call, refused
from support.programs import end
from support.serving import form, long_work, program
from support.waiting import PATIENCE, wait_until

resource = pytest.importorskip("resource", reason="Windows has no signals that end a program in order")


@pytest.mark.parametrize("number", [signal.SIGINT, *slow(signal.SIGTERM)])
def test_it_tells_its_address_and_ends_clean_in_the_midst_of_work(tmp_path, rng, number):
    with program(tmp_path) as (process, address, lines):
        assert "nothing leaves the machine" in lines[1]
        port, token = int(address[1]), address[2]
        assert len(token) >= 32
        (folder,) = (entry for entry in tmp_path.iterdir() if entry.name.startswith("coupledict-"))
        assert folder.stat().st_mode & 0o077 == 0  # for nobody else on this machine
        body, kind = form(long_work(rng), {"register": "no"})
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.request("POST", f"/{token}/jobs/fuse", body, kind)
        job = json.loads(connection.getresponse().read())
        connection.request("GET", f"/{token}/jobs/{job['id']}/watch")  # and it is still watched when it ends
        watching = connection.getresponse()
        while job["state"] != "running" or not job["share"]:
            job = json.loads(watching.readline())
            assert job["state"] in ("waiting", "running")
        used, others = psutil.Process(process.pid).cpu_times(), resource.getrusage(resource.RUSAGE_CHILDREN)
        assert end(process, number) == 0
        assert process.stdout.readline() == "Ended; all uploads and results have been removed.\n"
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        work = ended.ru_utime + ended.ru_stime - others.ru_utime - others.ru_stime - used.user - used.system
        assert work < 3  # seconds of the processor, whoever else wants it; the job would take more than ten
        watching.close()
        connection.close()
        assert process.stderr.read() == ""
        assert [entry for entry in tmp_path.iterdir() if entry.name.startswith("coupledict-")] == []


def test_a_port_that_is_taken_is_told_in_a_sentence():
    with _server._listen(0) as listener:
        port = listener.getsockname()[1]
        message = refused(call("serve", "--no-browser", "--port", port), 1)
    assert message.startswith(f"Expected port {port} of this machine to be free")
    assert message.endswith("leave --port out to use a free one.")


class Ended:
    """A server that ends at once; it has told that it answers."""

    def __init__(self, app, ready=None):
        self.ready = ready

    def run(self, sockets):
        if self.ready is not None:
            self.ready()


def test_work_that_does_not_hear_is_left_behind(monkeypatch, tmp_path):
    ended = []

    class Deaf:
        def close(self, seconds):
            return seconds > 1

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "_exit", lambda code: ended.append((code, os.listdir(tmp_path))))
    _server.serve_page(0, lambda folder: (None, Deaf()), None, print, Ended)
    assert ended == [(0, [])]


def test_machines_get_one_object(monkeypatch):
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    done = call("serve", "--no-browser", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["address"] in done.stderr.splitlines()[0]


def lines_of_opening(**options):
    """Serve the page until the user is told a third line."""
    lines = []

    class Seen(Ended):
        def run(self, sockets):
            super().run(sockets)
            wait_until(lambda: len(lines) == 3, "the user was told")

    _server.serve_page(0, partial(build_app, limits=Limits(1, 1)), partial(Opening, **options), lines.append, Seen)
    return lines


def test_a_browser_that_shows_nothing_is_told_of(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lines = lines_of_opening(patience=0.01)
    assert lines[2] == "The browser has not shown the page yet; if it does not, copy the address above into it."
    (address,) = opened
    assert re.fullmatch(r"file:///.*/coupledict-serve-\w+/open\.html", address)
    assert os.listdir(tmp_path) == []


def test_no_browser_is_told_of(monkeypatch, tmp_path):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(webbrowser, "open", lambda address: pytest.fail("a text browser was opened"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    lines = lines_of_opening()
    assert lines[2] == "No browser was found; copy the address into yours."
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == before
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": -1}, "a port from 0 to 65535, got -1"),
        ({"max_megabytes": 0}, "max_megabytes to be above 0, got 0"),
        ({"max_megapixels": float("nan")}, "max_megapixels to be above 0, got nan"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        serve(**options)


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "python_multipart", "PIL"])
def test_missing_packages_are_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r'pip install "coupledict\[serve\]"'):
        serve(browser=False)
