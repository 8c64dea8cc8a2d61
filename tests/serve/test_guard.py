"""Who may speak to the server of the page."""

from __future__ import annotations

import re

import pytest

from coupledict.serve import _server
from coupledict.serve._guard import HEADERS
from support.serving import STATIC, TICKET, TOKEN, serving


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path / "jobs") as client:
        yield client


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """A server for requests that leave nothing behind, shared."""
    with serving(tmp_path_factory.mktemp("serve") / "jobs") as client:
        yield client


# Who may speak to it


@pytest.mark.parametrize(
    "path", ["/", "/about", "/jobs/x", "/page.js", "/favicon.ico", "/\u00e9/", "//", "/../", "/a/b"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS"])
def test_without_the_token_there_is_nothing(stranger, method, path):
    path = path.replace("\u00e9", "%C3%A9%FF")
    for token in (None, TOKEN[:-1], f"{TOKEN}x", TOKEN.upper()):
        status, headers, content = stranger.ask(method, path, token=token)
        assert status == 403
        assert {name: headers[name] for name in HEADERS} == HEADERS
        assert TOKEN.encode() not in content


def test_with_the_token_there_is_the_page(stranger):
    status, headers, content = stranger.ask("GET", "/")
    assert status == 200
    assert content == STATIC.joinpath("index.html").read_bytes()
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert "server" not in headers
    status, headers, _ = stranger.ask("GET", "")
    assert (status, headers["location"]) == (303, f"/{TOKEN}/")


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:PORT", True),
        ("localhost:PORT", True),
        ("LocalHost:PORT", True),
        ("127.0.0.1", False),
        ("127.0.0.1:1", False),
        ("rebound.example:PORT", False),
        ("127.0.0.1.example:PORT", False),
        ("127.0.0.1:PORT, 127.0.0.1:PORT", False),
        ("", False),
    ],
)
def test_only_names_of_this_machine_are_answered_to(stranger, host, allowed):
    host = host.replace("PORT", str(stranger.port))
    status, _, _ = stranger.ask("GET", "/", headers={"Host": host})
    assert status == (200 if allowed else 403)


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"Origin": "http://127.0.0.1:PORT"}, True),
        ({"Origin": "http://127.0.0.1:PORT", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "null", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "null"}, False),
        ({"Origin": "https://127.0.0.1:PORT"}, False),
        ({"Origin": "http://127.0.0.1:1"}, False),
        ({"Origin": "http://elsewhere.example"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "http://127.0.0.1:PORT", "Sec-Fetch-Site": "cross-site"}, False),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/jobs/fuse"), ("DELETE", "/jobs/x")])
def test_only_the_page_itself_changes_anything(stranger, method, path, headers, allowed):
    headers = {name: value.replace("PORT", str(stranger.port)) for name, value in headers.items()}
    status, _, _ = stranger.ask(method, path, headers=headers)
    assert status == ({"POST": 415, "DELETE": 404}[method] if allowed else 403)


def test_a_ticket_opens_the_page_once(client):
    status, headers, _ = client.ask("GET", f"/{TICKET}", token=None)
    assert (status, headers["location"]) == (303, f"/{TOKEN}/")
    assert client.ask("GET", f"/{TICKET}", token=None)[0] == 403


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 405),
        ("PUT", "/jobs/fuse", 405),
        ("DELETE", "/about", 405),
        ("OPTIONS", "/jobs/fuse", 405),
        ("GET", "/nothing", 404),
        ("GET", "/jobs/", 404),
        ("GET", "/static/page.js", 404),
        ("GET", "/../_app.py", 404),
        ("POST", "/jobs/other", 405),
        ("HEAD", "/page.js", 200),
    ],
)
def test_other_methods_and_paths_are_refused(stranger, method, path, status):
    assert stranger.ask(method, path)[0] == status


def test_the_socket_is_of_this_machine_alone():
    with _server._listen(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_the_page_asks_nothing_of_anyone_else_and_has_no_inline_code():
    for entry in STATIC.iterdir():
        text = entry.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(
            r"(?i)\b(https?|wss?|ftp|data|javascript):|url\(|[\"'(=]//|@import|innerHTML|eval\(", text
        ), entry
        if entry.name.endswith(".html"):
            assert not re.search(r"(?i)<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|<base", text)
            for address in re.findall(r'(?:src|href)="([^"]*)"', text):
                assert address.startswith("#") or STATIC.joinpath(address).is_file()
