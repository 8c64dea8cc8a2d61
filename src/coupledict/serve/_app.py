"""The web application: the page itself, jobs, and the files that jobs made."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from ..foundation.version import __version__
from ..report._document import base_style
from ._jobs import Job, Jobs, LineFull
from ._tasks import TASKS, write_names
from ._uploads import Limits, TooLarge, receive_form

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".tif": "image/tiff",
}
#: Policy of the page of atoms, beside its own stricter one: it runs in a sandbox, without an origin or network.
ATOMS_POLICY = (
    "sandbox allow-scripts; default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


def build_app(folder: Path, limits: Limits) -> tuple[Starlette, Jobs]:
    """Return the application, which sees paths without the token, and its jobs, which keep their files in a folder."""
    jobs = Jobs(folder)
    page = _Page(jobs, limits)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
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
        Route("/jobs/{job}/{file}", page.send, methods=["GET"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _refuse})
    app.router.redirect_slashes = False  # redirects would lead to addresses without the token
    return app, jobs


class _Page:
    """Handlers of the requests about jobs."""

    def __init__(self, jobs: Jobs, limits: Limits) -> None:
        self._jobs, self._limits = jobs, limits

    async def about(self, request: Request) -> Response:
        limits = self._limits
        return _json({"version": __version__, "megabytes": limits.megabytes, "megapixels": limits.megapixels})

    async def begin(self, task: str, request: Request) -> Response:
        """Receive an upload and queue a job."""
        if not request.headers.get("content-type", "").startswith("multipart/form-data"):
            raise HTTPException(415, "Expected a form with files (multipart/form-data), got something else.")
        try:
            folder = self._jobs.new_folder()
        except LineFull as error:
            raise HTTPException(429, str(error)) from error
        try:
            form = await receive_form(request, self._limits, folder)
            if not form.files and form.options.get("sample") != "yes":
                raise HTTPException(400, "Expected at least one file, got none.")
            work = partial(_run, TASKS[task], form=form, limits=self._limits)
            job = Job(work, folder, write_names(form.files))
            self._jobs.submit(job)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, TooLarge):
                raise HTTPException(413, str(error), headers={"connection": "close"}) from error
            if isinstance(error, LineFull):
                raise HTTPException(429, str(error)) from error
            if isinstance(error, ClientDisconnect):
                return Response(status_code=400)  # the client is gone and will not read it
            raise
        return _json(self._jobs.describe(job), 202)

    def _find(self, request: Request) -> Job:
        job = self._jobs.find(request.path_params["job"])
        if job is None:
            raise HTTPException(404, "This result is not kept any more; do it again.")
        return job

    async def tell(self, request: Request) -> Response:
        return _json(self._jobs.describe(self._find(request)))

    async def cancel(self, request: Request) -> Response:
        job = self._find(request)
        job.cancel()
        return _json(self._jobs.describe(job))

    async def send(self, request: Request) -> Response:
        """Send a file that a finished job made."""
        job = self._find(request)
        # Only names of existing files are accepted, so no name can lead out of the folder.
        made = {file.name: file for file in job.folder.iterdir()} if job.state == "done" else {}
        file = made.get(request.path_params["file"])
        if file is None or file.suffix not in KINDS:
            raise HTTPException(404, "Expected the name of a file that this job made, got another.")
        headers = {"content-security-policy": ATOMS_POLICY} if file.suffix == ".html" else {}
        return FileResponse(file, media_type=KINDS[file.suffix], headers=headers)


def _run(task: Any, job: Job, *, form: Any, limits: Limits) -> dict[str, Any]:
    """Run a task; delete its uploads as soon as it ends."""
    try:
        shown: dict[str, Any] = task(job, form, limits)
        return shown
    finally:
        for upload in form.files:
            upload.path.unlink(missing_ok=True)


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
