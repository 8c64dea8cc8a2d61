"""A server of the page for tests, and what a browser would say to it."""

from __future__ import annotations

import http.client
import io
import json
import re
import struct
import subprocess
import threading
import zlib
from contextlib import contextmanager
from importlib import resources

import numpy as np
import tifffile
from PIL import Image
from scipy.ndimage import gaussian_filter

from coupledict.serve import _server
from coupledict.serve._app import build_app
from coupledict.serve._guard import Guard
from coupledict.serve._uploads import Limits
from support.command import COMMAND, environment
from support.outputs import read
from support.programs import patient, python, started
from support.waiting import PATIENCE, wait_until

TOKEN, TICKET = "token-of-the-tests", "ticket-of-the-tests"
STATIC = resources.files("coupledict.serve").joinpath("static")
BOUNDARY = "boundary-of-the-tests"


class Client:
    """What a browser would say, and what it would not."""

    def __init__(self, port, folder, jobs):
        self.port, self.folder, self.jobs = port, folder, jobs

    def ask(self, method, path, body=None, headers=(), *, token=TOKEN):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, f"/{token}{path}" if token else path, body, dict(headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    def json(self, method, path, body=None, headers=()):
        status, _, content = self.ask(method, path, body, headers)
        return status, json.loads(content)

    def begin(self, task, *files, **options):
        body, kind = form(files, options)
        return self.json("POST", f"/jobs/{task}", body, kind)

    def follow(self, job, *states):
        """Wait until a job is in one of some states; in an end state if none are named."""
        wanted = states or ("done", "failed", "cancelled")

        def state_if_wanted():
            _, reported = self.json("GET", f"/jobs/{job['id']}")
            return reported if reported["state"] in wanted else None

        return wait_until(state_if_wanted, f"the job was {' or '.join(wanted)}")

    def do(self, task, *files, **options):
        status, job = self.begin(task, *files, **options)
        assert status == 202, job
        return self.follow(job)

    @contextmanager
    def watching(self, job):
        """Hold the request open by which a page watches a job; give a function that reads its next line."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", f"/{TOKEN}/jobs/{job['id']}/watch")
        answer = connection.getresponse()
        assert answer.status == 200
        try:
            yield lambda: json.loads(line) if (line := answer.readline()) else None
        finally:
            answer.close()
            connection.close()

    def message(self, task, *files, **options):
        reported = self.do(task, *files, **options)
        assert reported["state"] == "failed"
        return reported["message"]

    def result(self, job, kind=None):
        """Return the result of a job, in its own format or another."""
        shown = job["result"]["result"]
        (entry,) = (entry for entry in shown["formats"] if entry["format"] == (kind or shown["format"]))
        return self.picture(job, entry["file"])

    def picture(self, job, name):
        status, _, content = self.ask("GET", f"/jobs/{job['id']}/{name}")
        assert status == 200
        return read(content)


def form(files, options):
    parts = [(f'name="{name}"', value.encode()) for name, value in options.items()]
    parts += [(f'name="files"; filename="{name}"', content) for name, content in files]
    lines = b"".join(
        f"--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + content + b"\r\n"
        for head, content in parts
    )
    return lines + f"--{BOUNDARY}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def tiff(pixels):
    out = io.BytesIO()
    tifffile.imwrite(out, pixels, photometric="rgb" if pixels.ndim == 3 else "minisblack")
    return out.getvalue()


def png_that_claims(width, height):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(b"\0" * 64))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + body + chunk(b"IEND", b"")


def stack(rng, shape=(40, 56, 3), dtype=np.uint8):
    """Return a picture in focus on the left, and in focus on the right."""
    top = np.iinfo(dtype).max
    sharp = rng.uniform(0, top, shape)
    soft = gaussian_filter(sharp, (2, 2, 0)[: sharp.ndim])
    left, right = sharp.copy(), sharp.copy()
    left[:, shape[1] // 2 :], right[:, : shape[1] // 2] = soft[:, shape[1] // 2 :], soft[:, : shape[1] // 2]
    return [left.astype(dtype), right.astype(dtype)]


def long_work(rng, count=16):
    """Return the files of a stack that takes long to fuse, and does not to send."""
    texture = rng.integers(0, 255, (8, 8), np.uint8)
    pictures = [np.tile(np.roll(texture, number), (300, 300)) for number in range(count)]
    return [(f"{number}.png", png(picture)) for number, picture in enumerate(pictures)]


@contextmanager
def serving(folder, megabytes=1.0, megapixels=1.0, grace=PATIENCE, silence=PATIENCE, **limits):
    """Run a server; jobs that nobody asks for go on for longer than usual, because a busy machine asks late."""
    folder.mkdir(exist_ok=True)
    with _server._listen(0) as listener:
        port = listener.getsockname()[1]
        app, jobs = build_app(folder, Limits(megabytes, megapixels, **limits), grace)
        server = _server.make_server(Guard(app, token=TOKEN, port=port, once=(TICKET, lambda: None)), silence=silence)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Client(port, folder, jobs)
        finally:
            server.should_exit = True
            assert jobs.close(PATIENCE)
            thread.join(PATIENCE)
            assert not thread.is_alive()


@contextmanager
def program(folder, *options, browser="", files=None):
    """Run the command; give its process, its address and the lines that it printed.

    It opens its page in a browser if the path of one is given, and may have so many files open if a number is given.
    """
    command = python(COMMAND, "serve", *([] if browser else ["--no-browser"]), *options)
    variables = {"TMPDIR": str(folder), "BROWSER": str(browser), "DISPLAY": ":0"}
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, env=environment(**variables), **pipes) as process:
        with patient(process, "the server had printed its address"):
            lines = [process.stdout.readline(), process.stdout.readline()]
        yield process, re.search(r"http://127\.0\.0\.1:(\d+)/([\w-]+)/$", lines[0].strip()), lines


def folders(parent):
    """Return the folders of running servers, and what others left."""
    return [entry for entry in parent.iterdir() if entry.name.startswith("coupledict-")]


def upload_head(port, token, length, task="enlarge"):
    """Return the beginning of an upload of a file, which is complete when some more bytes have come."""
    part = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
    lines = [
        f"POST /{token}/jobs/{task} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
        f"Content-Length: {length + len(part)}",
    ]
    return ("\r\n".join([*lines, "", ""]) + part).encode()
