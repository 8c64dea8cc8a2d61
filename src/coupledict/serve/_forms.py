"""Forms with files (multipart/form-data), written to disk while they arrive.

A file is written directly to its final place, so a killed server leaves files only in the folder of its run.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..images._file_raw import RAW

MOST_FILES, MOST_OPTIONS = 64, 16
MOST_HEADS = 16
OPTION_BYTES = HEAD_BYTES = 1 << 13  # limits of one option, and of a header line of a part
BLOCK = 1 << 20  # bytes written at a time

# The parser logs what it does not understand; the sender gets an error instead, so the terminal stays quiet.
logging.getLogger("python_multipart").addHandler(logging.NullHandler())


class BadForm(Exception):  # noqa: N818
    """The request is not a form, or has too many parts."""


@dataclass(frozen=True)
class Upload:
    """An uploaded file: its path, and the name that the user gave it."""

    path: Path
    name: str

    @property
    def stem(self) -> str:
        """The name without its suffix, for use in another file's name."""
        plain = re.sub(r"[^\w.-]+", "-", Path(self.name).stem).strip("-.")
        return plain[:80] or "picture"


@dataclass(frozen=True)
class Form:
    """The contents of a form: options and files."""

    options: dict[str, str]
    files: list[Upload]


class FormReader:
    """Parses a form piece by piece; a context manager that closes its files.

    Parameters
    ----------
    kind : str
        The header Content-Type.
    folder : Path
        Folder for the files, which get generated names.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        from python_multipart.exceptions import FormParserError
        from python_multipart.multipart import MultipartParser, parse_options_header

        self._folder = folder
        self._read_options = parse_options_header
        self._error = FormParserError
        self._options: dict[str, str] = {}
        self._files: list[Upload] = []
        self._pieces: list[tuple[Path, bytes]] = []  # received, but not yet on disk
        self._size = 0  # of these pieces
        self._field = bytearray()
        self._content = bytearray()  # of the current header
        self._heads: dict[bytes, bytes] = {}  # of the current part
        self._name = ""
        self._value = bytearray()
        self._target: Path | None = None
        self._ended = False
        self._path: Path | None = None  # of the one file that is open
        self._file: IO[bytes] = io.BytesIO()
        boundary = parse_options_header(kind)[1].get(b"boundary")
        if not boundary:
            raise BadForm("Expected a form with a boundary between its parts, got one without.")
        callbacks: Any = {
            "on_part_begin": self._begin_part,
            "on_header_field": lambda data, start, end: self._take_head(self._field, data[start:end]),
            "on_header_value": lambda data, start, end: self._take_head(self._content, data[start:end]),
            "on_header_end": self._end_head,
            "on_headers_finished": self._begin_content,
            "on_part_data": self._take_content,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }
        with self._understood():
            self._parser = MultipartParser(boundary, callbacks)

    def __enter__(self) -> FormReader:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def take(self, data: bytes) -> int:
        """Parse a piece of the form; return how many bytes wait to be written."""
        with self._understood():
            self._parser.write(data)
        return self._size

    def write(self) -> None:
        """Write what has arrived; takes as long as the disk needs."""
        for path, data in self._pieces:
            if path != self._path:
                self._file.close()
                self._file = path.open("xb")
                self._path = path
            self._file.write(data)
        self._pieces = []
        self._size = 0

    def finish(self) -> Form:
        """Return the complete form; its files are closed."""
        if not self._ended:
            raise BadForm("Expected a complete form, got one that was cut off.")
        self.write()
        self._file.close()
        return Form(self._options, self._files)

    @contextlib.contextmanager
    def _understood(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise BadForm("Expected a form with files (multipart/form-data), got something else.") from error

    def _begin_part(self) -> None:
        self._heads = {}
        self._value = bytearray()
        self._target = None

    def _take_head(self, kept: bytearray, data: bytes) -> None:
        kept += data
        if len(kept) > HEAD_BYTES or len(self._heads) > MOST_HEADS:
            raise BadForm("Expected short headers for each part of the form, got long ones.")

    def _end_head(self) -> None:
        self._heads[bytes(self._field).lower()] = bytes(self._content)
        self._field.clear()
        self._content.clear()

    def _begin_content(self) -> None:
        options = self._read_options(self._heads.get(b"content-disposition"))[1]
        if b"name" not in options:
            raise BadForm("Expected a name for each part of the form, got a part without one.")
        self._name = options[b"name"].decode("utf-8", "replace")
        if b"filename" in options:
            if len(self._files) >= MOST_FILES:
                raise BadForm(f"Expected at most {MOST_FILES} files, got more.")
            self._target = self._begin_file(plain_name(options[b"filename"].decode("utf-8", "replace")))
        elif len(self._options) >= MOST_OPTIONS:
            raise BadForm(f"Expected at most {MOST_OPTIONS} options, got more.")

    def _begin_file(self, name: str) -> Path:
        suffix = Path(name).suffix.lower()
        # Two digits, so that no path is a prefix of another. Raw files are recognised only by their suffix.
        path = self._folder / f"upload-{len(self._files):02d}{suffix if suffix in RAW else ''}"
        self._files.append(Upload(path, name))
        self._pieces.append((path, b""))  # an empty upload becomes a file, too
        return path

    def _take_content(self, data: bytes, start: int, end: int) -> None:
        if self._target is not None:
            self._pieces.append((self._target, data[start:end]))
            self._size += end - start
            return
        self._value += data[start:end]
        if len(self._value) > OPTION_BYTES:
            raise BadForm(f"Expected options of at most {OPTION_BYTES} bytes, got a longer one.")

    def _end_part(self) -> None:
        if self._target is None:
            self._options[self._name] = self._value.decode("utf-8", "replace")

    def _end(self) -> None:
        self._ended = True


def plain_name(name: str) -> str:
    """Return the last part of a path, without unprintable characters."""
    last = re.split(r"[/\\]", name)[-1]
    return "".join(character for character in last if character.isprintable())[:120] or "a file without a name"
