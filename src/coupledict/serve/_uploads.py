"""Uploads: forms with files, counted while they arrive, and checked before anything is decoded."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..images._file_raw import RAW
from ..images._files import About, read_about

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Message

MOST_FILES = 64
TOTAL = 16  # megapixels of all pictures together, in the largest that one may have
FORM_BYTES = 1 << 16  # around the files: boundaries, names, options


class TooLarge(Exception):  # noqa: N818
    """More bytes than the server takes."""


@dataclass(frozen=True)
class Limits:
    """Limits of the size of one upload.

    Attributes
    ----------
    megabytes : float
        All files together.
    megapixels : float
        Each picture, and the picture that is made of them. Pictures are read one by one, so that all of them together
        may have `TOTAL` times as many.
    """

    megabytes: float
    megapixels: float

    def check_bytes(self, count: int) -> None:
        """Raise for more bytes than allowed."""
        if count > self.megabytes * 1e6 + FORM_BYTES:
            raise TooLarge(
                f"Expected at most {self.megabytes:g} MB at a time, got more; start the page with a larger"
                " --max-megabytes, or choose fewer or smaller files."
            )

    def check_pixels(self, count: int, what: str, times: int = 1) -> None:
        """Raise for more pixels than allowed, or than some times as many."""
        if count > times * self.megapixels * 1e6:
            raise ValueError(
                f"Expected at most {times * self.megapixels:g} megapixels, but {what} {count / 1e6:.1f}; start the page"
                " with a larger --max-megapixels, or choose smaller pictures."
            )

    def check_pictures(self, uploads: list[Upload], times: int = 1) -> list[About]:
        """Raise for pictures that would have more pixels than allowed if they were larger by some factor.

        Only their headers are read; what they tell is returned.
        """
        headers, total = [], 0
        what = "has" if times == 1 else "enlarged would have"
        for upload in uploads:
            headers.append(read_about(upload.path))
            height, width = headers[-1].shape[:2]
            self.check_pixels(height * width * times, f"'{upload.name}' {what}")
            total += height * width
        self.check_pixels(total, f"these {len(uploads)} pictures have", TOTAL)
        return headers


@dataclass(frozen=True)
class Upload:
    """A file that was sent: its path, and the name by which the user knows it."""

    path: Path
    name: str

    @property
    def stem(self) -> str:
        """The name without its ending, as part of another file's name."""
        plain = re.sub(r"[^\w.-]+", "-", Path(self.name).stem).strip("-.")
        return plain[:80] or "picture"


@dataclass(frozen=True)
class Form:
    """What was sent: options and files."""

    options: dict[str, str]
    files: list[Upload]


async def receive_form(request: Request, limits: Limits, folder: Path) -> Form:
    """Receive a form; store its files in a folder, under generated names.

    Raises
    ------
    TooLarge
        As soon as the form is known to be too large.
    """
    from starlette.concurrency import run_in_threadpool
    from starlette.datastructures import UploadFile
    from starlette.requests import Request

    told = request.headers.get("content-length", "0")
    limits.check_bytes(int(told) if told.isdigit() else 0)
    count = 0

    async def receive() -> Message:
        nonlocal count
        message = await request.receive()
        count += len(message.get("body", b""))
        limits.check_bytes(count)
        return message

    options: dict[str, str] = {}
    files: list[Upload] = []
    async with Request(request.scope, receive).form(max_files=MOST_FILES, max_fields=16) as form:
        for key, value in form.multi_items():
            if isinstance(value, UploadFile):
                name = plain_name(value.filename or "")
                suffix = Path(name).suffix.lower()
                # Two digits, so that no path begins with another one. Of raw files only the suffix tells what they are.
                path = folder / f"upload-{len(files):02d}{suffix if suffix in RAW else ''}"
                await run_in_threadpool(_keep, value.file, path)
                await value.close()  # it is on disk once, not twice, before the next one is copied
                files.append(Upload(path, name))
            else:
                options[key] = value
    return Form(options, files)


def _keep(source: Any, path: Path) -> None:
    with path.open("xb") as target:
        shutil.copyfileobj(source, target, 1 << 20)


def plain_name(name: str) -> str:
    """Return the last part of a path, without unprintable characters."""
    last = re.split(r"[/\\]", name)[-1]
    return "".join(character for character in last if character.isprintable())[:120] or "a file without a name"
