"""Downloads: complete and right or absent, over https alone, and errors that say what to do; all on this machine."""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import signal
import socket
import subprocess
import threading
from pathlib import Path, PurePosixPath

import pytest

from coupledict.datasets import DownloadError, _sources, get_data_home
from coupledict.datasets._remote import Download, RemoteFile, get_files, over_https
from support.data_server import DataServer
from support.programs import end, python, started
from support.waiting import PATIENCE, wait_until

CONTENT = bytes(range(256)) * 2000


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with DataServer() as server:
        server.files["file.bin"] = CONTENT
        yield server


def remote(server, content=CONTENT, name="file.bin"):
    return RemoteFile(f"set/{name}", f"{server.address}/{name}", {hashlib.sha256(content).hexdigest(): len(content)})


def on_this_machine(address):
    return address.startswith("http://127.0.0.1:")


def fetch(file, home, *, download=True, **manners):
    """Fetch a file; this machine alone may be asked, although it does not speak https."""
    manners = {"allowed": on_this_machine} | manners
    (path,) = get_files([file], home, download_if_missing=download, download=Download(**manners))
    return path


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def test_a_file_is_downloaded_once(server, tmp_path):
    path = fetch(remote(server), tmp_path / "home")
    assert path == tmp_path / "home" / "set" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert files_in(tmp_path) == [path]
    assert fetch(remote(server), tmp_path / "home") == path
    assert fetch(remote(server), tmp_path / "home", download=False) == path
    assert server.requests == ["file.bin"]


def test_redirections_are_followed_where_they_may_lead(server, tmp_path):
    server.manners["old.bin"] = f"redirect {server.address}/file.bin"
    assert fetch(remote(server, name="old.bin"), tmp_path).read_bytes() == CONTENT


def expect_nothing(file, home, message, **manners):
    """Expect an error of one sentence, and no file."""
    with pytest.raises(DownloadError, match=message) as caught:
        fetch(file, home, **manners)
    assert files_in(home) == []
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_wrong_checksum_keeps_nothing(server, tmp_path):
    file = remote(server)
    server.files["file.bin"] = CONTENT[:-1] + b"x"
    expect_nothing(file, tmp_path, f"have the SHA-256 {next(iter(file.digests))}, got {len(CONTENT)} bytes with")


@pytest.mark.parametrize("size", [len(CONTENT) - 1, 0])
def test_a_shorter_file_is_refused(server, tmp_path, size):
    server.files["file.bin"] = CONTENT[:size]
    expect_nothing(remote(server), tmp_path, f"got {size} bytes")


def test_a_longer_file_is_given_up_early(server, tmp_path, monkeypatch):
    server.files["file.bin"] = CONTENT * 50
    received = []
    read1 = http.client.HTTPResponse.read1
    monkeypatch.setattr(
        http.client.HTTPResponse, "read1", lambda answer, n: received.append(chunk := read1(answer, n)) or chunk
    )
    expect_nothing(remote(server), tmp_path, f"to have {len(CONTENT)} bytes, got more", chunk=1000)
    assert len(CONTENT) < sum(map(len, received)) <= len(CONTENT) + 1000


def test_a_line_that_breaks_off_keeps_nothing(server, tmp_path):
    server.manners["file.bin"] = "short"
    expect_nothing(remote(server), tmp_path, "cut off or changed, and nothing was kept")


def test_an_absent_file_says_what_to_do(server, tmp_path):
    message = expect_nothing(remote(server, name="none.bin"), tmp_path, r"got HTTP status 404 \(Not Found\)")
    assert f"Expected to download {server.address}/none.bin" in message
    assert f"save the file as '{tmp_path / 'set' / 'none.bin'}'" in message
    assert "set data_home= to a folder that has it." in message


def test_nobody_listens(server, tmp_path):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # taken, but nobody listens
        address = f"http://127.0.0.1:{held.getsockname()[1]}/file.bin"
        expect_nothing(RemoteFile("a", address, {"": 1}), tmp_path, r"network error \(.*refused\)")


def test_an_unknown_host_is_told_without_numbers(server, tmp_path, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    message = expect_nothing(remote(server), tmp_path, r"network error \(Name or service not known\)")
    assert "Errno" not in message


def test_silence_has_an_end(server, tmp_path):
    for manner in ("silent", "half"):
        server.manners["file.bin"] = manner
        expect_nothing(remote(server), tmp_path, "no answer in time", silence=0.1)


def test_a_line_that_drips_has_an_end(server, tmp_path):
    expect_nothing(remote(server), tmp_path, "not complete within -1 seconds", longest=-1.0)


def test_answers_that_are_no_http_are_told(server, tmp_path):
    server.manners["file.bin"] = "nonsense"
    assert "\x1b" not in expect_nothing(remote(server), tmp_path, "network error")


def test_redirections_to_addresses_that_are_not_allowed_are_refused(server, tmp_path):
    elsewhere = server.address.replace("127.0.0.1", "localhost") + "/file.bin"
    for target in (elsewhere, "ftp://127.0.0.1/file.bin", "file:///etc/hostname"):
        server.manners["old.bin"] = f"redirect {target}"
        message = expect_nothing(remote(server, name="old.bin"), tmp_path, "begins with https://|is not allowed")
        assert target in message
    assert server.requests == ["old.bin"] * 3


def test_only_https_is_allowed(tmp_path):
    assert over_https("https://example.org/file")
    assert Download().allowed is over_https
    for address in ("http://example.org/file", "ftp://a/b", "file:///etc/hostname", "data:,x", "HTTPSX://a", "-"):
        assert not over_https(address)
        expect_nothing(RemoteFile("a", address, {"": 1}), tmp_path, "begins with https://, got", allowed=over_https)


def test_what_may_not_be_downloaded_is_an_error(server, tmp_path):
    with pytest.raises(DownloadError, match="download_if_missing is False; set it to True, or save http"):
        fetch(remote(server), tmp_path, download=False)
    assert server.requests == []


def test_a_file_that_was_changed_is_told_and_kept(server, tmp_path):
    path = fetch(remote(server), tmp_path)
    path.write_bytes(b"somebody's own")
    with pytest.raises(DownloadError, match="remove it to download it again"):
        fetch(remote(server), tmp_path)
    assert path.read_bytes() == b"somebody's own"
    assert len(server.requests) == 1


def test_a_full_disk_is_no_error_of_the_network(server, tmp_path, monkeypatch):
    def full_disk(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left") as caught:
        fetch(remote(server), tmp_path)
    assert not isinstance(caught.value, DownloadError)
    assert files_in(tmp_path) == []


def test_many_at_once_get_the_same_file(server, tmp_path):
    count = 6
    server.gate = threading.Barrier(count)  # all are asked for before one is answered
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(fetch(remote(server), tmp_path))) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(paths) == count
    assert files_in(tmp_path) == [tmp_path / "set" / "file.bin"]
    assert paths[0].read_bytes() == CONTENT


PROGRAM = """
import sys
from coupledict.datasets._remote import Download, RemoteFile, get_files
file = RemoteFile("set/file.bin", sys.argv[1], {"0" * 64: 512000})
get_files([file], sys.argv[2], download_if_missing=True, download=Download(allowed=lambda address: True))
"""


def test_an_error_in_the_middle_leaves_nothing(server, tmp_path, monkeypatch):
    received = []

    def interrupted(answer, n):
        if sum(map(len, received)) > len(CONTENT) / 2:
            assert files_in(tmp_path)[0].suffix == ".tmp"
            raise KeyboardInterrupt
        received.append(read1(answer, n))
        return received[-1]

    read1 = http.client.HTTPResponse.read1
    monkeypatch.setattr(http.client.HTTPResponse, "read1", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(remote(server), tmp_path)
    assert files_in(tmp_path) == []


@pytest.mark.slow
def test_an_interrupt_leaves_nothing(server, tmp_path):
    server.manners["file.bin"] = "half"
    command = python(PROGRAM, f"{server.address}/file.bin", tmp_path)
    with started(command, stderr=subprocess.PIPE) as child:
        wait_until(lambda: server.half_sent.is_set() and files_in(tmp_path), "half of the file had been sent")
        assert files_in(tmp_path)[0].suffix == ".tmp"
        assert end(child, signal.SIGINT) == -signal.SIGINT
        reported = child.stderr.read()
    assert "KeyboardInterrupt" in reported
    assert files_in(tmp_path) == []


# The folder


def test_the_folder_is_given_or_that_of_the_environment_or_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("COUPLEDICT_DATA_HOME", str(tmp_path / "variable"))
    assert get_data_home(tmp_path / "given") == tmp_path / "given"
    assert get_data_home() == tmp_path / "variable"
    monkeypatch.delenv("COUPLEDICT_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert get_data_home() == tmp_path / "coupledict_data"
    assert get_data_home("~/mine") == tmp_path / "mine"
    assert files_in(tmp_path) == []


# The table


def test_the_table_pins_every_file():
    files = _sources.registry()
    assert len(files) > 90
    for path, file in files.items():
        place = PurePosixPath(path)
        assert not place.is_absolute()
        assert ".." not in place.parts
        assert Path(path).name == file.address.rpartition("/")[2]
        pinned = r"https://raw\.githubusercontent\.com/[\w-]+/[\w-]+/[0-9a-f]{40}/[\w./-]+"
        assert re.fullmatch(pinned, file.address)
        for digest, size in file.digests.items():
            assert re.fullmatch("[0-9a-f]{64}", digest)
            assert 0 < size < 10_000_000


def test_a_second_line_is_another_form_of_the_same_file():
    files = _sources.read_registry("# a\n\n4 aa x/a https://a/a\n5 bb x/a -\n6 cc x/b https://a/b\n")
    assert files == {
        "x/a": RemoteFile("x/a", "https://a/a", {"aa": 4, "bb": 5}),
        "x/b": RemoteFile("x/b", "https://a/b", {"cc": 6}),
    }
