"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file to write to; on success, flush it to disk and rename it to `path`."""
    target = Path(os.path.realpath(path))  # a symbolic link is kept; its target is replaced
    if not target.parent.is_dir():
        raise FileNotFoundError(f"Expected the folder {str(target.parent)!r} to exist, got no such folder. Make it.")
    temporary = target.parent / f".coupledict-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb+") as file:  # not tempfile, whose files only their owner may read
            yield file
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Flush the new name of a file to disk; file systems that do not support this do not need it."""
    opened: list[int] = []
    with suppress(OSError):
        try:
            opened.extend(map(os.open, [folder], [os.O_RDONLY]))  # one step: an interrupt cannot lose the descriptor
            os.fsync(opened[0])
        finally:
            for descriptor in opened:
                os.close(descriptor)


def replace_file(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview]) -> None:
    """Write a file from parts, completely or not at all."""
    with new_file(path) as file:
        file.writelines(parts)


def check_output(path: str | os.PathLike[str], formats: Iterable[str] | None = None, *, force: bool) -> Path:
    """Raise, before any work is done, if an output file cannot be written; `formats` are the allowed suffixes.

    Raises
    ------
    ValueError
        If the suffix is not one of `formats`.
    OSError
        If the file exists and `force` is not set, or if its folder is missing or not writable.
    """
    file = Path(path)
    if formats is not None and file.suffix.lower() not in formats:
        raise ValueError(f"Expected an output file ending in {', '.join(formats)}, got '{file}'.")
    if file.is_dir():
        raise IsADirectoryError(f"Expected an output file, got the folder '{file}'.")
    if file.exists() and not force:
        raise FileExistsError(f"'{file}' exists already; give another name, or --force (force=True) to replace it.")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"Expected the folder '{file.parent}' for the output to exist; make it first.")
    if not os.access(file.parent, os.W_OK):
        raise PermissionError(
            f"Expected the folder '{file.parent}' to be writable; choose another or change its rights."
        )
    return file
