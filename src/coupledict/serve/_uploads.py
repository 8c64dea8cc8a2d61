"""Uploads: forms with files, counted while they arrive, and checked before anything is decoded."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Message

MOST_FILES = 64
FORM_BYTES = 1 << 16  # around the files: boundaries, names, options
#: Kinds of pictures that are opened; Pillow supports more, but runs other programs for some of them.
KINDS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
TIFF_MARKS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


class TooLarge(Exception):  # noqa: N818
    """More bytes than the server takes."""


class TooManyPixels(ValueError):  # noqa: N818
    """A picture that claims to be larger than Pillow opens."""


@dataclass(frozen=True)
class Limits:
    """Limits of the size of one upload.

    Attributes
    ----------
    megabytes : float
        All files together.
    megapixels : float
        All pictures together, and the picture that is made of them.
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

    def check_pixels(self, count: int, what: str) -> None:
        """Raise for more pixels than allowed."""
        if count > self.megapixels * 1e6:
            raise ValueError(
                f"Expected at most {self.megapixels:g} megapixels, but {what} {count / 1e6:.1f}; start the page with a"
                " larger --max-megapixels, or choose smaller pictures."
            )


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
                path = await run_in_threadpool(_keep, value.file, folder / f"upload-{len(files)}")
                files.append(Upload(path, plain_name(value.filename or "")))
            else:
                options[key] = value
    return Form(options, files)


def _keep(source: Any, path: Path) -> Path:
    """Write a file; its content, not its name, decides its suffix."""
    if source.read(4) in TIFF_MARKS:
        path = path.with_suffix(".tif")
    source.seek(0)
    with path.open("xb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    return path


def plain_name(name: str) -> str:
    """Return the last part of a path, without unprintable characters."""
    last = re.split(r"[/\\]", name)[-1]
    return "".join(character for character in last if character.isprintable())[:120] or "a file without a name"


def picture_size(upload: Upload) -> tuple[int, int]:
    """Return width and height of a picture from its header; nothing is decoded."""
    try:
        return _tiff_size(upload.path) if upload.path.suffix == ".tif" else _other_size(upload)
    except (ImportError, TooManyPixels):
        raise
    except Exception as error:  # a broken file can make a decoder raise anything
        raise ValueError(
            f"'{upload.name}' could not be read as an image: expected a PNG, JPEG, TIFF, WebP, BMP or GIF file that is"
            " not damaged."
        ) from error


def _tiff_size(path: Path) -> tuple[int, int]:
    from ..images._files import _tifffile

    with _tifffile().TiffFile(path) as tiff:
        page = tiff.pages[0]
        # Count the samples of a pixel too: they take memory as well.
        return int(page.imagewidth) * max(1, -(-int(page.samplesperpixel) // 4)), int(page.imagelength)


def _other_size(upload: Upload) -> tuple[int, int]:
    import warnings

    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit comes next
        try:
            with Image.open(upload.path, formats=KINDS) as image:
                width, height = image.size
                return int(width), int(height)
        except Image.DecompressionBombError as error:
            raise TooManyPixels(f"'{upload.name}' claims to have more pixels than any picture that is read.") from error
