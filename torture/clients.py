"""Hostile clients of ``coupledict serve``, and kills: the page answers, nothing leaks, stderr is empty.

A real server meets clients that send nothing, half a header, single bytes, garbage, wrong tokens, or forms that are
truncated, changed or too large, and clients that disconnect during a response. Some stay until the server drops them.
Now and then the page is requested, and must be served. Memory, threads and open files are bounded. Then servers are
ended at random moments during an upload: by signals that can be caught, after which nothing may be left behind, and by
SIGKILL, after which the next start removes the leftovers.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
from _main import Figures, main

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.programs import patient, python

SERVE = "from coupledict.cli import main; main()"
MEGABYTES = 2  # largest upload
PATIENCE_SECONDS = 90.0
CLIENTS_PER_LOOK = 10
CLIENTS_PER_KILL = 50
MOST_TRIES = 3  # to get the page
MOST_HELD = 300  # connections that stay open
MOST_MEGABYTES, MOST_THREADS, MOST_FILES = 128, 48, 300  # that the process may grow by, whatever the clients do
KEPT_FILES = 16  # more files than at the beginning that may be open when all clients are gone
BOUNDARY = "boundary"
CAUGHT = [signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGINT]
SECOND_TRY_SECONDS = 10  # after which a server that starts is sent a signal again
RESET = b"\1\0\0\0\0\0\0\0"  # SO_LINGER: leave without a farewell


class Server:
    """A server in a process of its own, with a folder for its temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.token = folder, 0, ""
        self._errors = (folder.parent / "errors").open("w+b")
        self.process = subprocess.Popen(
            python(SERVE, "serve", "--no-browser", "--max-megabytes", MEGABYTES),
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "TMPDIR": str(folder), "NO_COLOR": "1"},
        )

    def wait(self) -> None:
        """Wait until it has told its address."""
        assert self.process.stdout is not None
        with patient(self.process, "the server had told its address", PATIENCE_SECONDS):
            found = re.search(r"http://127\.0\.0\.1:(\d+)/([\w-]+)/", self.process.stdout.readline())
        assert found, f"the server told no address: {self.said()}"
        self.port, self.token = int(found[1]), found[2]

    def end(self, number: int, *, early: bool = False) -> int:
        """Send a signal; return how the process ended.

        An interrupt that falls into a callback of Python's own, as imports have them, is lost: a person presses Ctrl-C
        again, and so does this while the server starts.
        """
        self.process.send_signal(number)
        if early:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(SECOND_TRY_SECONDS)
            self.process.send_signal(number)  # nothing, if it has ended
        assert self.process.stdout is not None
        with patient(self.process, f"{signal.Signals(number).name} had ended the server", PATIENCE_SECONDS):
            self.process.stdout.read()
            return self.process.wait()

    def close(self) -> None:
        """End it in any case."""
        self.process.kill()
        self.process.communicate()
        self._errors.close()

    def said(self) -> str:
        """Return what it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def connect(self) -> socket.socket:
        """Return a new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)

    def answers(self) -> bool:
        """Tell whether it gives the page."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", f"/{self.token}/")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def uploads(self) -> list[Path]:
        """Return what it keeps of uploads."""
        return list(self.folder.glob("coupledict-serve-*/jobs/*"))


def head(server: Server, *lines: str, method: str = "POST", path: str = "/jobs/enlarge", token: str = "") -> bytes:
    """Return the head of a request."""
    first = f"{method} /{token or server.token}{path} HTTP/1.1"
    return "\r\n".join([first, f"Host: 127.0.0.1:{server.port}", *lines, "", ""]).encode()


def upload(server: Server, rng: np.random.Generator, size: int) -> tuple[bytes, bytes]:
    """Return the head and the body of an upload of a file that is no picture."""
    part = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'.encode()
    body = part + rng.bytes(size) + f"\r\n--{BOUNDARY}--\r\n".encode()
    kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
    return head(server, kind, f"Content-Length: {len(body)}"), body


def changed(contents: bytes, rng: np.random.Generator) -> bytes:
    """Return contents with a few bytes changed, removed or put in."""
    out = bytearray(contents)
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(out)))
        out[place : place + int(rng.integers(3))] = rng.bytes(int(rng.integers(3)))
    return bytes(out)


def status(raw: socket.socket) -> int:
    """Return the status of an answer; 0 if there is none."""
    try:
        found = re.match(rb"HTTP/1\.1 (\d{3}) ", raw.recv(65536))
    except OSError:
        return 0
    return int(found[1]) if found else 0


Client = Callable[[Server, socket.socket, np.random.Generator], bool]


def silent(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Send nothing, and stay."""
    return True


def half_head(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Send part of a head, and stay."""
    whole = head(server, "Accept: */*", method="GET", path="/")
    raw.sendall(whole[: int(rng.integers(1, len(whole) - 1))])
    return True


def single_bytes(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Send a few single bytes, and stay."""
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in head(server)[: int(rng.integers(1, 20))]:
        raw.sendall(bytes([byte]))
    return True


def half_upload(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Send part of an upload; stay, leave, or leave without a farewell."""
    first, body = upload(server, rng, int(rng.integers(1, 1_500_000)))
    raw.sendall(first + body[: int(rng.integers(len(body)))])
    if rng.random() < 0.3:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    return bool(rng.random() < 0.4)


def whole_upload(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Send a file that is no picture."""
    raw.sendall(b"".join(upload(server, rng, int(rng.integers(1, 300_000)))))
    assert status(raw) in (0, 202, 429)
    return False


def changed_upload(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Send a form that is none any more."""
    first, body = upload(server, rng, int(rng.integers(1, 2_000)))
    raw.sendall(first + changed(body, rng)[: len(body)].ljust(len(body), b"x"))
    assert status(raw) in (0, 202, 400, 413, 429)
    return False


def changed_head(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Send a request with other bytes in its head."""
    first, body = upload(server, rng, 100)
    raw.sendall(changed(first, rng) + body)
    raw.shutdown(socket.SHUT_WR)
    return False


def rubbish(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Send bytes of no meaning."""
    raw.sendall(rng.bytes(int(rng.integers(1, 100_000))))
    return bool(rng.random() < 0.1)


def wrong_token(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Ask with a token that is not the one."""
    token = str(rng.choice([secrets.token_urlsafe(24), server.token[:-1], server.token.swapcase(), "%ff", "."]))
    raw.sendall(head(server, "Content-Length: 100000", method=str(rng.choice(["GET", "POST", "PUT"])), token=token))
    assert status(raw) in (0, 403)
    return bool(rng.random() < 0.2)


def too_large(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Announce more than is taken."""
    kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
    raw.sendall(head(server, kind, f"Content-Length: {10 ** int(rng.integers(7, 30))}"))
    assert status(raw) in (0, 400, 413, 429)
    return False


def endless(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Send more than is taken, without a length; sometimes in chunks that are none."""
    kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
    raw.sendall(head(server, kind, "Transfer-Encoding: chunked"))
    content = upload(server, rng, 200_000)[1][:200_000]
    for _ in range(20):
        raw.sendall(b"%x\r\n%s\r\n" % (len(content) - int(rng.random() < 0.05), content))
    return False


def impatient(server: Server, raw: socket.socket, rng: np.random.Generator) -> bool:
    """Ask for several things at once, and leave before they come."""
    paths = ["/", "/page.js", "/about", "/jobs/none/watch", "/nothing"]
    asked = [head(server, method="GET", path=str(rng.choice(paths))) for _ in range(int(rng.integers(1, 20)))]
    raw.sendall(b"".join(asked))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    return False


CLIENTS: list[Client] = [
    silent, half_head, single_bytes, half_upload, whole_upload, changed_upload, changed_head, rubbish, wrong_token,
    too_large, endless, impatient,
]  # fmt: skip


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for a state."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.05)


def is_closed(raw: socket.socket) -> bool:
    """Tell whether the server has closed a connection."""
    raw.setblocking(False)
    try:
        while raw.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


class Bounds:
    """What the process of a server holds, beside what it held at the beginning."""

    def __init__(self, server: Server) -> None:
        self._process = psutil.Process(server.process.pid)
        self._before = self._look()
        self.most = dict.fromkeys(self._before, 0)

    def _look(self) -> dict[str, int]:
        found = self._process
        return {"MB": found.memory_info().rss >> 20, "threads": found.num_threads(), "open files": found.num_fds()}

    def grown(self) -> dict[str, int]:
        """Return by how much it has grown."""
        return {name: value - self._before[name] for name, value in self._look().items()}

    def check(self) -> None:
        """Raise if it has grown by more than it may."""
        self.most = {name: max(value, self.most[name]) for name, value in self.grown().items()}
        limits = {"MB": MOST_MEGABYTES, "threads": MOST_THREADS, "open files": MOST_FILES}
        assert all(self.most[name] <= most for name, most in limits.items()), f"the server grew by {self.most}"


def crowd(server: Server, count: int, rng: np.random.Generator, seen: Counter[str]) -> dict[str, int]:
    """Let hostile clients come; return by how much the server grew."""
    assert server.answers()
    bounds, held = Bounds(server), []
    with contextlib.ExitStack() as opened:
        for number in range(count):
            client = CLIENTS[int(rng.integers(len(CLIENTS)))]
            raw = opened.enter_context(server.connect())
            stays = False
            with contextlib.suppress(OSError):  # the server may leave first
                stays = client(server, raw, rng)
            seen[client.__name__.replace("_", " ")] += 1
            if stays:
                held.append(raw)
            else:
                raw.close()
            if len(held) > MOST_HELD:
                held.pop(0).close()
            if number % CLIENTS_PER_LOOK == 0:
                assert any(server.answers() for _ in range(MOST_TRIES)), "the page did not come"
                bounds.check()
        seen["stayed until the server left them"] = len(held)
        wait_until(lambda: all(map(is_closed, held)), "the server had left all clients that send nothing more")
    wait_until(lambda: not server.uploads(), "no upload was left")
    wait_until(lambda: bounds.grown()["open files"] <= KEPT_FILES, "its connections were closed")
    assert server.answers()
    return bounds.most


@contextlib.contextmanager
def begun_upload(server: Server, rng: np.random.Generator) -> Iterator[None]:
    """Have an upload under way."""
    with server.connect() as raw:
        raw.sendall(b"".join(upload(server, rng, 1_500_000))[:-10])
        yield


def draw_signal(rng: np.random.Generator) -> signal.Signals:
    """Return the signal that ends the next server."""
    return signal.SIGKILL if rng.random() < 0.4 else CAUGHT[int(rng.integers(len(CAUGHT)))]


def one_kill(
    folder: Path,
    rng: np.random.Generator,
    seen: Counter[str],
    *,
    number: signal.Signals,
    early: bool,
) -> None:
    """End a server by a signal, early or in the midst of an upload, and look at what is left."""
    server = Server(folder)
    try:
        if early:
            time.sleep(rng.uniform(0, 2))  # it imports, makes its folder, or waits
            server.end(number, early=True)
        else:
            server.wait()
            assert server.answers()
            with begun_upload(server, rng):
                time.sleep(rng.uniform(0, 0.1))
                ended = server.end(number)
            assert ended == (-signal.SIGKILL if number == signal.SIGKILL else 0), f"{number.name}: ended with {ended}"
            assert server.said() == "", f"{number.name}: {server.said()}"
    finally:
        server.close()
    left = list(folder.iterdir())
    seen[f"ended by {number.name}"] += 1
    seen["ended before they had told their address"] += early
    if number == signal.SIGKILL:
        seen["folders left by SIGKILL"] += len(left)
    else:
        assert not left, f"{number.name} left {left}"
    if left:
        following = Server(folder)
        try:
            following.wait()
            assert following.answers()
            assert not any(entry.exists() for entry in left), "the next start did not remove what was left"
            assert following.end(signal.SIGTERM) == 0
        finally:
            following.close()
        assert list(folder.iterdir()) == []


def run(count: int, seed: int) -> Figures:
    """Let `count` hostile clients come to one server, and kill others."""
    rng = np.random.default_rng(seed)
    clients: Counter[str] = Counter()
    kills: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "temporary"
        folder.mkdir()
        server = Server(folder)
        try:
            server.wait()
            grown = crowd(server, count, rng, clients)
            assert server.end(signal.SIGTERM) == 0
            assert server.said() == "", server.said()
        finally:
            server.close()
        assert list(folder.iterdir()) == []
        for _ in range(max(2, count // CLIENTS_PER_KILL)):
            one_kill(folder, rng, kills, number=draw_signal(rng), early=bool(rng.random() < 0.3))
    return {"clients": count, **dict(sorted(clients.items())), "grown by at most": grown, **dict(sorted(kills.items()))}


if __name__ == "__main__":
    main(run, 2000)
