"""Uploads: forms with files, counted while they arrive, and checked before anything is decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..images._files import ImageHeader, read_header
from ._forms import BLOCK, MOST_FILES, BadForm, Form, FormReader, Upload, plain_name
from ._pictures import DisplaySize

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["MOST_FILES", "BadForm", "Form", "Limits", "TooLarge", "Upload", "plain_name", "receive_form"]

TOTAL = 16  # limit of all pictures together, relative to the limit of one
FORM_BYTES = 1 << 16  # around the files: boundaries, names, options


class TooLarge(Exception):  # noqa: N818
    """More bytes than the server accepts."""


@dataclass(frozen=True)
class Limits:
    """Limits of the size of an upload, and of what is kept and shown.

    Attributes
    ----------
    megabytes : float
        All files together.
    megapixels : float
        Each picture, and the picture made from them. Pictures are read one by one, so all of them together may have
        `TOTAL` times as many.
    kept_bytes : int
        Files of all finished jobs; the newest result stays, however large it is.
    display : DisplaySize
    """

    megabytes: float
    megapixels: float
    kept_bytes: int = 1 << 30
    display: DisplaySize = field(default_factory=DisplaySize)

    def check_bytes(self, count: int) -> None:
        """Raise if there are more bytes than allowed."""
        if count > self.megabytes * 1e6 + FORM_BYTES:
            raise TooLarge(
                f"Expected at most {self.megabytes:g} MB at a time, got more; start the page with a larger"
                " --max-megabytes, or choose fewer or smaller files."
            )

    def check_pixels(self, count: int, what: str, times: int = 1) -> None:
        """Raise if there are more pixels than allowed, or than `times` as many."""
        if count > times * self.megapixels * 1e6:
            raise ValueError(
                f"Expected at most {times * self.megapixels:g} megapixels, but {what} {count / 1e6:.1f}; start the page"
                " with a larger --max-megapixels, or choose smaller pictures."
            )

    def check_pictures(self, uploads: list[Upload], times: int = 1) -> list[ImageHeader]:
        """Return the headers of pictures; raise if enlarged pictures would have more pixels than allowed.

        Only the headers are read.
        """
        headers, total = [], 0
        what = "has" if times == 1 else "enlarged would have"
        for upload in uploads:
            headers.append(read_header(upload.path))
            height, width = headers[-1].shape[:2]
            self.check_pixels(height * width * times, f"'{upload.name}' {what}")
            total += height * width
        self.check_pixels(total, f"these {len(uploads)} pictures have", TOTAL)
        return headers


async def receive_form(
    request: Request, limits: Limits, folder: Path, expect: Callable[[int], None] = lambda size: None
) -> Form:
    """Receive a form; store its files in a folder, under generated names, while they arrive.

    Parameters
    ----------
    request : Request
    limits : Limits
    folder : Path
        Exists.
    expect : callable, optional
        Called with the number of bytes received; raises if there is no room for them.

    Raises
    ------
    TooLarge
        As soon as the form is known to be too large.
    BadForm
        If the request is not a form, or has too many parts.
    """
    from starlette.concurrency import run_in_threadpool

    announced = request.headers.get("content-length", "0")
    limits.check_bytes(int(announced) if announced.isdigit() else 0)
    count = 0
    with FormReader(request.headers["content-type"], folder) as reader:
        async for chunk in request.stream():
            count += len(chunk)
            limits.check_bytes(count)
            expect(count)
            if reader.take(chunk) >= BLOCK:
                await run_in_threadpool(reader.write)
        return await run_in_threadpool(reader.finish)
