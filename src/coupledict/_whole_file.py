"""Files that appear whole or not at all."""

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
    """Give a file to write under another name; make sure that it is on disk, and only then give it its name."""
    target = Path(os.path.realpath(path))  # a link stays a link
    if not target.parent.is_dir():
        raise FileNotFoundError(f"Expected the folder {str(target.parent)!r} to exist, got no such folder. Make it.")
    temporary = target.parent / f".coupledict-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb+") as file:  # not tempfile, whose files no one else may read
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
    """Make sure that the new name of a file is on disk too; some file systems have no such call, and need none."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def replace_file(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview]) -> None:
    """Write a file that appears whole or not at all."""
    with new_file(path) as file:
        file.writelines(parts)


def check_output(path: str | os.PathLike[str], formats: Iterable[str], *, force: bool) -> Path:
    """Say before the work begins whether a file can be written to a path.

    Raises
    ------
    ValueError
        Where the suffix names no format.
    OSError
        Where the file exists and `force` is not set, or where its folder is missing or closed to us.
    """
    file = Path(path)
    if file.suffix.lower() not in formats:
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
