"""A server of files on this machine that answers as badly as wanted."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.waiting import PATIENCE


class DataServer:
    """Serves bytes by path; `manners` has what it does to a path instead of serving it well."""

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.manners: dict[str, str] = {}
        self.requests: list[str] = []
        self.released = threading.Event()  # set to end answers that are held back
        self.half_sent = threading.Event()
        self.gate: threading.Barrier | None = None  # answers wait until so many are asked for
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.answer(self)

            def log_message(self, *_):
                pass

        return Handler

    def answer(self, request):
        path = request.path.lstrip("/")
        self.requests.append(path)
        if self.gate is not None:
            self.gate.wait(PATIENCE)
        manner, content = self.manners.get(path, ""), self.files.get(path)
        if manner == "silent":
            self.released.wait(PATIENCE)
        elif manner == "nonsense":
            request.wfile.write(b"\x1b[2J\r\n\r\n")
        elif manner.startswith("redirect "):
            request.send_response(302)
            request.send_header("Location", manner.partition(" ")[2])
            request.end_headers()
        elif content is None:
            request.send_error(404)
        else:
            request.send_response(200)
            request.send_header("Content-Length", str(len(content)))
            request.end_headers()
            with suppress(ConnectionError):  # whoever asked may have heard enough
                self.send(request, content, manner)

    def send(self, request, content, manner):
        if manner in ("short", "half"):
            request.wfile.write(content[: len(content) // 2])
            request.wfile.flush()
            self.half_sent.set()
            if manner == "half":
                self.released.wait(PATIENCE)
        else:
            request.wfile.write(content)
