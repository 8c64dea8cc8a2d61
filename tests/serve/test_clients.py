"""Clients that are slow, silent, many or broken: the page answers, the disk does not fill, the terminal is silent."""

from __future__ import annotations

import hashlib
import http.client
import signal
import socket
import time
from contextlib import ExitStack

import pytest

from coupledict.serve import _tasks
from support.serving import BOUNDARY, TOKEN, folders, form, program, serving, upload_head
from support.waiting import PATIENCE, wait_until

FILE = ("a.png", b"anything")


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def ask(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def read_all(raw):
    """Return what comes until the other side closes the connection."""
    try:
        return b"".join(iter(lambda: raw.recv(65536), b""))
    except ConnectionError:
        return b""


@pytest.mark.slow
@pytest.mark.parametrize("files", [128, 1024])
def test_half_open_connections_do_not_stop_it(tmp_path, files):
    with program(tmp_path, files=files) as (process, address, _), ExitStack() as opened:
        port, token = int(address[1]), address[2]
        for number in range(300):
            raw = opened.enter_context(connect(port))
            try:
                raw.sendall((b"", b"GET / HT", upload_head(port, token, 1000))[number % 3])
            except ConnectionError:
                assert number > 8  # closed to make room for others
        for _ in range(3):
            assert ask(port, f"/{token}/") == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHo",
        f"GET /{TOKEN}/about HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\nGET".encode(),
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc",
    ],
    ids=["nothing", "half a head", "half a second head", "half a body"],
)
def test_who_sends_nothing_more_is_left(tmp_path, sent):
    with serving(tmp_path / "jobs", silence=0.2) as client, connect(client.port) as raw:
        raw.sendall(sent.replace(b"PORT", str(client.port).encode()))
        reported = read_all(raw)  # ends when the server closes the connection
        assert (b"200 OK" in reported) == (b"about" in sent)


def test_who_sends_single_bytes_is_left_too(tmp_path):
    with serving(tmp_path / "jobs", silence=0.2) as client, connect(client.port) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nX: ")

        def closed():
            try:
                raw.sendall(b"x")
            except ConnectionError:
                return True
            return False

        wait_until(closed, "the connection was closed")


def test_an_upload_that_stops_is_given_up(tmp_path):
    with serving(tmp_path / "jobs", megabytes=8, silence=0.3) as client, connect(client.port) as raw:
        raw.sendall(upload_head(client.port, TOKEN, 5_000_000) + bytes(3_000_000))
        wait_until(lambda: list(client.folder.iterdir()), "it had begun")
        read_all(raw)
        wait_until(lambda: not list(client.folder.iterdir()), "its files were removed")
        assert client.begin("enlarge", FILE)[0] == 202


def test_work_is_no_silence(tmp_path, monkeypatch):
    """A request that is complete is answered, however long that takes."""

    def make(path):
        time.sleep(1.0)
        path.write_bytes(b"late")

    monkeypatch.setitem(_tasks.TASKS, "fuse", lambda job, form, limits: job.files.offer("late.png", make) or {})
    with serving(tmp_path / "jobs", silence=0.1) as client:
        job = client.do("fuse", FILE)
        status, _, content = client.ask("GET", f"/jobs/{job['id']}/late.png")
        assert (status, content) == (200, b"late")


def test_unfinished_uploads_count_together(tmp_path):
    with serving(tmp_path / "jobs", megabytes=1) as client, ExitStack() as opened:
        # Two are as much as waiting files may have together.
        uploads = [opened.enter_context(connect(client.port)) for _ in range(2)]
        for raw in uploads:
            raw.sendall(upload_head(client.port, TOKEN, 950_000))
        wait_until(lambda: len(list(client.folder.iterdir())) == 2, "both had begun")
        large = ("a.png", bytes(200_000))
        status, reported = client.begin("enlarge", large)
        assert (status, reported["message"][:54]) == (429, "Expected the files of waiting jobs to have at most 2 M")
        assert len(list(client.folder.iterdir())) == 2
        uploads[0].close()
        wait_until(lambda: client.begin("enlarge", large)[0] == 202, "there was room again")


def test_uploads_of_unknown_length_count_as_they_come(tmp_path):
    part = upload_head(0, "", 0).partition(b"\r\n\r\n")[2]
    with serving(tmp_path / "jobs", megabytes=1) as client, ExitStack() as opened:
        answers = []
        for _ in range(3):
            raw = opened.enter_context(connect(client.port))
            raw.sendall(
                f"POST /{TOKEN}/jobs/enlarge HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n"
                f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
            )
            content = part + bytes(900_000)
            raw.sendall(b"%x\r\n%s\r\n" % (len(content), content))
            answers.append(raw)
        # All but one may be there at a time; which one is refused depends on what is read first.
        refused = wait_until(lambda: [raw for raw in answers if has_answer(raw)], "one was refused")
        assert b" 429 " in refused[0].recv(65536)
        assert len(refused) == 1


def has_answer(raw):
    raw.setblocking(False)
    try:
        return bool(raw.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        raw.settimeout(PATIENCE)


def test_files_of_every_size_arrive_as_they_were_sent(tmp_path, rng, monkeypatch):
    """Those of more than is written at a time, those that are empty, and those that look like the end of a part."""
    seen = []
    monkeypatch.setitem(_tasks.TASKS, "fuse", lambda job, form, limits: seen.append(form) or read_files(form))
    sizes = [0, 1, 3_000_000, 70_000, 0, 1_048_576, 65_536]
    files = [(f"{number}.png", rng.bytes(size)) for number, size in enumerate(sizes)]
    files.append(("end.png", f"\r\n--{BOUNDARY[:-1]}\r\n--".encode() * 1000))
    with serving(tmp_path / "jobs", megabytes=8) as client:
        reported = client.do("fuse", *files, format="PNG", name="\u00e4")
        assert reported["result"] == {name: hashlib.sha256(content).hexdigest() for name, content in files}
    assert seen[0].options == {"format": "PNG", "name": "\u00e4"}


def read_files(form):
    return {upload.name: hashlib.sha256(upload.path.read_bytes()).hexdigest() for upload in form.files}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body[:-10], "Expected a complete form"),
        (lambda body: body.replace(b' name="files";', b""), "Expected a name for each part"),
        (lambda body: b"--boundary-of-others" + body[21:], "Expected a form with files"),
        (lambda body: body.replace(b"form-data;", b"form-data; x=" + b"y" * 9000 + b";"), "Expected "),
    ],
    ids=["cut", "without a name", "another boundary", "a long line"],
)
def test_forms_that_are_none_are_refused(tmp_path, change, message):
    with serving(tmp_path / "jobs") as client:
        body, kind = form([FILE], {})
        status, reported = client.json("POST", "/jobs/enlarge", change(body), kind)
        assert (status, reported["message"][: len(message)]) == (400, message)
        many = {f"option {number}": "x" for number in range(17)}
        assert client.begin("enlarge", FILE, **many)[1]["message"] == "Expected at most 16 options, got more."
        long = client.begin("enlarge", FILE, name="x" * 9000)
        assert long[1]["message"] == "Expected options of at most 8192 bytes, got a longer one."
        assert list(client.folder.iterdir()) == []


def test_a_crowd_of_uploads_is_refused(tmp_path):
    with serving(tmp_path / "jobs") as client, ExitStack() as opened:
        for _ in range(8):
            opened.enter_context(connect(client.port)).sendall(upload_head(client.port, TOKEN, 100))
        wait_until(lambda: len(list(client.folder.iterdir())) == 8, "all had begun")
        status, reported = client.begin("enlarge", FILE)
        assert (status, reported["message"][:18]) == (429, "Expected at most 8")


GARBAGE = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    "no target": b"GET\r\n\r\n",
    "a target of bytes": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "a surrogate": b"GET /%ed%a0%80/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    "a long head": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000,
    "a wrong length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "wrong chunks": b"UPLOADTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    "wrong chunks later": b"UPLOADTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n-1\r\n",
    "a wrong form": b"UPLOADContent-Length: 300\r\n\r\n" + b"\xff\x00--\r\n" * 50,
    "headers without end": b"UPLOADContent-Length: 400000\r\n\r\n--%s\r\n%s" % (BOUNDARY.encode(), b"A" * 400_000),
    "many headers": b"UPLOADContent-Length: 400000\r\n\r\n--%s\r\n%s" % (BOUNDARY.encode(), b"A: b\r\n" * 70_000),
    "a WebSocket": b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "two at once": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50,
    "two at once, then rubbish": b"GET / HTTP/1.1\r\nHost: x\r\n\r\nPOST",
}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["closed", "reset", "half closed"])
def test_garbage_is_answered_without_a_word_in_the_terminal(tmp_path, ending):
    with program(tmp_path) as (process, address, _):
        port, token = int(address[1]), address[2]
        upload = f"POST /{token}/jobs/fuse HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        upload += f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        for content in GARBAGE.values():
            with connect(port) as raw:
                try:
                    raw.sendall(content.replace(b"UPLOAD", upload.encode()).replace(b"PORT", str(port).encode()))
                    if ending == "half closed":
                        raw.shutdown(socket.SHUT_WR)
                        read_all(raw)
                except OSError:  # it is closed already
                    pass
                if ending == "reset":
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            assert ask(port, f"/{token}/about") == 200
        (folder,) = folders(tmp_path)
        wait_until(lambda: not list((folder / "jobs").iterdir()), "nothing was left")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


def test_results_that_nobody_takes_are_no_fault(tmp_path, capfd):
    with serving(tmp_path / "jobs") as client:
        body, kind = form([], {"sample": "yes"})
        status, job = client.json("POST", "/jobs/enlarge", body, kind)
        assert status == 202
        for path in (f"/jobs/{job['id']}/watch", "/", "/page.js"):
            with connect(client.port) as raw:
                raw.sendall(f"GET /{TOKEN}{path} HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n\r\n".encode())
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.json("DELETE", f"/jobs/{job['id']}")
        client.follow(job)
    assert capfd.readouterr() == ("", "")
