"""The web application: the page itself, jobs, and the files that jobs made."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
from collections.abc import AsyncIterator, Callable
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..audio._files import READABLE, max_samples
from ..foundation.version import __version__
from ..images._files import SUFFIXES
from ..report._document import base_style
from ._connections import handle
from ._jobs import GRACE, SENT, Job, Jobs, LineFull
from ._speech import missing_for_speech
from ._tasks import TASKS, write_names
from ._uploads import MOST_FILES, BadForm, Limits, TooLarge, receive_form

Made = TypeVar("Made")

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".tif": "image/tiff",
    ".wav": "audio/wav",
    ".flac": "audio/flac",
}
#: Policy of the page of atoms, in addition to its own stricter one: a sandbox without an origin or network.
ATOMS_POLICY = (
    "sandbox allow-scripts; default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


GONE = "This result is no longer available; run the task again."
#: Seconds between two checks of a watched job; the last value repeats.
PAUSES = (0.02, 0.05, 0.1, 0.2)
MOST_UNFINISHED = 2  # uploads of the largest size that may wait on disk at a time


def build_app(folder: Path, limits: Limits, grace: float = GRACE) -> tuple[Starlette, Jobs]:
    """Return the application, which sees paths without the token, and its jobs, whose files are in a folder.

    A job that nobody watches is cancelled after the grace period, in seconds.
    """
    jobs = Jobs(folder, MOST_UNFINISHED * limits.megabytes * 1e6, grace, limits.kept_bytes)
    page = _Page(jobs, limits)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(handle)
        worker = asyncio.create_task(jobs.work())
        yield
        worker.cancel()

    static = {entry.name for entry in resources.files(__package__).joinpath("static").iterdir()}
    routes = [
        Route("/", partial(_static, "index.html"), methods=["GET"]),
        *(Route(f"/{name}", partial(_static, name), methods=["GET"]) for name in sorted(static)),
        Route("/about", page.about, methods=["GET"]),
        *(Route(f"/jobs/{task}", partial(page.begin, task), methods=["POST"]) for task in TASKS),
        Route("/jobs/{job}", page.tell, methods=["GET"]),
        Route("/jobs/{job}", page.cancel, methods=["DELETE"]),
        Route("/jobs/{job}/watch", page.watch, methods=["GET"]),
        Route("/jobs/{job}/tiles/{picture}/{row:int}/{column:int}", page.tile, methods=["GET"]),
        Route("/jobs/{job}/{file}", page.send, methods=["GET"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _refuse})
    app.router.redirect_slashes = False  # redirects would lack the token
    return app, jobs


class _Page:
    """Handlers of the requests about jobs."""

    def __init__(self, jobs: Jobs, limits: Limits) -> None:
        self._jobs = jobs
        self._limits = limits

    async def about(self, request: Request) -> Response:
        limits = self._limits
        found: dict[str, Any] = {
            "megabytes": limits.megabytes,
            "megapixels": limits.megapixels,
            "files": MOST_FILES,
            "pictures": SUFFIXES,
        }
        missing = missing_for_speech()
        if missing is None:
            found |= {"sounds": READABLE, "megasamples": max_samples() / 1e6}
        else:
            found["missing"] = {"widen": missing}
        return _json({"version": __version__} | found)

    async def begin(self, task: str, request: Request) -> Response:
        """Receive an upload and queue a job."""
        if not request.headers.get("content-type", "").startswith("multipart/form-data"):
            raise HTTPException(415, "Expected a form with files (multipart/form-data), got something else.")
        coming = request.headers.get("content-length", "0")
        try:
            with self._jobs.arriving(int(coming) if coming.isdigit() else 0) as arrival:
                form = await receive_form(request, self._limits, arrival.folder / SENT, arrival.expect)
                if not form.files and form.options.get("sample") != "yes":
                    raise HTTPException(400, "Expected at least one file, got none.")
                work = partial(_run, TASKS[task], form=form, limits=self._limits)
                sent = sum(upload.path.stat().st_size for upload in form.files)
                job = Job(work, arrival.folder, write_names(form.files), sent, self._limits.display)
                self._jobs.submit(job)
        except LineFull as error:
            # If the connection closed while a browser sends, the browser would not read the answer.
            raise HTTPException(429, str(error)) from error
        except BadForm as error:
            raise HTTPException(400, str(error)) from error
        except TooLarge as error:
            raise HTTPException(413, str(error), headers={"connection": "close"}) from error
        except ClientDisconnect:
            return Response(status_code=400)  # the client is gone and will not read it
        except OSError as error:
            raise HTTPException(507, f"The files could not be stored ({error.strerror or error}).") from error
        return _json(self._jobs.describe(job), 202)

    def _find(self, request: Request) -> Job:
        job = self._jobs.find(request.path_params["job"])
        if job is None:
            raise HTTPException(404, GONE)
        return job

    async def tell(self, request: Request) -> Response:
        job = self._find(request)
        self._jobs.seen(job)
        return _json(self._jobs.describe(job))

    async def watch(self, request: Request) -> _Watch:
        return _Watch(self._jobs, self._find(request))

    async def cancel(self, request: Request) -> Response:
        job = self._find(request)
        job.cancel()
        return _json(self._jobs.describe(job))

    async def send(self, request: Request) -> Response:
        """Send a file that a finished job made, or can make."""
        job = self._find(request)
        name = request.path_params["file"]
        # Only names of existing files are accepted, so no name can lead out of the folder.
        made = {file.name: file for file in job.folder.iterdir()} if job.state == "done" else {}
        file = made.get(name)
        if file is None and job.state == "done":
            file = await self._make(job, partial(job.files.make, name))
        if file is None or file.suffix not in KINDS:
            raise HTTPException(404, "Expected the name of a file of this job, got another.")
        headers = {"content-security-policy": ATOMS_POLICY} if file.suffix == ".html" else {}
        return FileResponse(file, media_type=KINDS[file.suffix], headers=headers)

    async def tile(self, request: Request) -> Response:
        """Send a part of a picture of a finished job, pixel for pixel."""
        job, place = self._find(request), request.path_params
        tile = None
        if job.state == "done":
            tile = await self._make(job, partial(job.pictures.tile, place["picture"], place["row"], place["column"]))
        if tile is None:
            raise HTTPException(404, "Expected a part of a picture of this job, got another.")
        return Response(tile, media_type="image/png")

    async def _make(self, job: Job, make: Callable[[], Made]) -> Made:
        """Make something of a job in a thread."""
        try:
            made = await run_in_threadpool(make)
        except (OSError, ValueError) as error:
            if self._jobs.find(job.id) is None:
                raise HTTPException(404, GONE) from error  # its files have been removed meanwhile
            raise HTTPException(507, f"The file could not be written ({error}).") from error
        self._jobs.forget()  # the new file takes space
        return made


class _Watch:
    """A response that streams a job's states, one per line, until it ends; the job runs while somebody reads it."""

    def __init__(self, jobs: Jobs, job: Job) -> None:
        self._jobs = jobs
        self._job = job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(self._wait_until_gone(receive))
        try:
            with self._jobs.watched(self._job):
                headers = [(b"content-type", b"application/x-ndjson")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                for pause in itertools.chain(PAUSES, itertools.repeat(PAUSES[-1])):
                    over = self._job.over  # checked before describing, so that the last line says how it ended
                    line = json.dumps(self._jobs.describe(self._job)).encode() + b"\n"
                    await send({"type": "http.response.body", "body": line, "more_body": not over})
                    if over or gone.done():
                        break
                    await asyncio.wait({gone}, timeout=pause)
        finally:
            gone.cancel()

    @staticmethod
    async def _wait_until_gone(receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass


def _run(task: Any, job: Job, *, form: Any, limits: Limits) -> dict[str, Any]:
    """Run a task; delete the uploaded files as soon as it ends, unless the page will show them."""
    shown: dict[str, Any] = task(job, form, limits)
    if not job.pictures.promised:
        shutil.rmtree(job.folder / SENT, ignore_errors=True)
    return shown


async def _static(name: str, request: Request) -> Response:
    content = resources.files(__package__).joinpath("static", name).read_bytes()
    if name == "style.css":
        content = base_style().encode() + content
    return Response(content, media_type=KINDS[Path(name).suffix])


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(content), status, media_type="application/json")


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = _json({"message": error.detail}, error.status_code)
    response.headers.update(error.headers or {})
    return response
