"""How the page comes into the browser: no secret on a command line, and a server that waits for no browser."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import stat
import sys
import urllib.parse
from contextlib import contextmanager
from pathlib import Path

import pytest

from coupledict.serve._opening import NAME, Opening
from support.serving import TICKET, TOKEN, folders, program, serving
from support.waiting import PATIENCE, wait_until

BROWSER = """#!{python}
import json, os, re, sys, time, urllib.parse, urllib.request
told = {{"pid": os.getpid(), "command": sys.argv[1:], "status": None}}
address = sys.argv[-1]
try:
    if {asks}:
        if address.startswith("file:"):
            with open(urllib.request.url2pathname(urllib.parse.urlsplit(address).path)) as file:
                address = re.search(r"http://[^\\"]+", file.read())[0]
        with urllib.request.urlopen(address, timeout=20) as answer:
            told["status"], told["address"] = answer.status, answer.url
finally:
    with open({out!r} + ".part", "w") as file:
        json.dump(told, file)
    os.replace({out!r} + ".part", {out!r})
if {stays}:
    time.sleep(600)
"""


@contextmanager
def fake_browser(folder, *, asks, stays):
    """Make a program that is called as a browser; give its path, and a function that waits for what it tells."""
    path, out = folder / "browser", folder / "told.json"
    path.write_text(BROWSER.format(python=sys.executable, asks=asks, stays=stays, out=str(out)))
    path.chmod(0o700)
    try:
        yield path, lambda: wait_until(lambda: json.loads(out.read_text()) if out.exists() else None, "it was called")
    finally:
        if out.exists() and stays:
            os.kill(json.loads(out.read_text())["pid"], signal.SIGKILL)


@pytest.fixture
def places(tmp_path):
    """A folder for the server, and one for the browser."""
    for name in ("server", "browser"):
        (tmp_path / name).mkdir()
    return tmp_path / "server", tmp_path / "browser"


def ask(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.headers["location"]


@pytest.mark.slow
def test_what_stands_on_the_command_line_opens_nothing(places):
    place, beside = places
    with fake_browser(beside, asks=False, stays=False) as (browser, reported):
        with program(place, browser=browser) as (process, address, _):
            port, token = int(address[1]), address[2]
            (given,) = reported()["command"]
            assert token not in given
            assert given.startswith("file:")  # every user of the machine can read it
            path = Path(urllib.parse.unquote(urllib.parse.urlsplit(given).path))
            assert path.parent in folders(place)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            text = path.read_text()
            assert token not in text
            (ticket,) = set(re.findall(rf"http://127\.0\.0\.1:{port}(/[\w-]{{32,}})\"", text))
            assert ticket[1:] not in given
            assert ask(port, ticket) == (303, f"/{token}/")
            assert ask(port, ticket)[0] == 403
            assert not path.exists()  # it has done its work
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            assert process.stderr.read() == ""
        assert folders(place) == []


@pytest.mark.slow
def test_a_browser_in_the_foreground_is_answered_and_holds_up_nothing(places):
    place, beside = places
    with fake_browser(beside, asks=True, stays=True) as (browser, reported), program(place, browser=browser) as served:
        process, address, _ = served
        called = reported()
        assert called["status"] == 200  # the page, though the browser that asked for it has not ended
        assert called["address"] == address[0]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        os.kill(called["pid"], 0)  # it still runs, and nobody waited for it
        assert folders(place) == []
        os.kill(called["pid"], signal.SIGSTOP)  # a stopped one cannot write on
        os.kill(called["pid"], signal.SIGKILL)


@pytest.mark.slow
def test_a_ticket_is_taken_from_those_who_ask_for_the_page_only(tmp_path):
    with serving(tmp_path / "jobs") as client:
        for method in ("HEAD", "POST", "OPTIONS"):
            assert client.ask(method, f"/{TICKET}", token=None)[0] == 403
        status, headers, _ = client.ask("GET", f"/{TICKET}", token=None)
        assert (status, headers["location"]) == (303, f"/{TOKEN}/")


@pytest.mark.slow
def test_the_file_leads_a_real_browser_to_the_page(tmp_path, browser):
    with serving(tmp_path / "jobs") as client:
        Opening(tmp_path, f"http://127.0.0.1:{client.port}/{TICKET}", print)
        page = browser.new_context().new_page()
        page.goto((tmp_path / NAME).as_uri())
        page.wait_for_url(f"http://127.0.0.1:{client.port}/{TOKEN}/", timeout=1000 * PATIENCE)
        assert page.get_by_role("heading", level=1).inner_text() == "What would you like to do?"
        page.context.close()
