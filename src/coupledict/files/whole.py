"""Files that are written completely or not at all, and never in place of a device, a pipe or a read-only file."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..foundation.text import quoted

#: What file systems without hard links answer.
WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
KINDS = {
    stat.S_ISDIR: "the folder",
    stat.S_ISFIFO: "the pipe",
    stat.S_ISSOCK: "the socket",
    stat.S_ISCHR: "the device",
    stat.S_ISBLK: "the device",
}
#: Seconds between attempts to replace a file on Windows, where that fails while anybody has the file open. Scanners and
#: indexers open each new file for a moment; what is open for longer was opened by somebody who uses it.
PAUSES = (0.01, 0.03, 0.1, 0.3, 0.6)
WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def new_file(path: str | os.PathLike[str], *, replace: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file to write to; on success, flush it to disk and rename it to `path`.

    Raises
    ------
    OSError
        If `path` is neither a regular file nor a new name, if it may not be written to, or if it exists in the end and
        `replace` is False.
    """
    check_replaceable(path)
    target = Path(os.path.realpath(path))  # a symbolic link is kept; its target is replaced
    if not target.parent.is_dir():
        raise FileNotFoundError(f"Expected the folder {quoted(target.parent)} to exist, got no such folder. Make it.")
    temporary = target.parent / f".coupledict-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb+", opener=_private if target.exists() else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        put_in_place(temporary, target, replace=replace)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _private(path: str, flags: int) -> int:
    """Open a new file that nobody else can read; it gets the permissions of the file that it replaces at the end."""
    return os.open(path, flags, 0o600)


def put_in_place(temporary: Path, target: Path, *, replace: bool = True) -> None:
    """Rename a complete file in one step; it gets the owner and the permissions of the file that it replaces.

    Raises
    ------
    FileExistsError
        If there is a file of that name and `replace` is False.
    """
    check_replaceable(target)
    if replace:
        with suppress(FileNotFoundError):
            _take_over(temporary, os.stat(target))
        _replace(temporary, target)
    else:
        try:
            _rename_to_new(temporary, target)
        except FileExistsError:
            raise FileExistsError(
                f"'{target}' was created a moment ago; give another name, or force=True to replace it."
            ) from None
    _sync_folder(target.parent)


def _replace(temporary: Path, target: Path) -> None:
    """Rename a file to a name that may be taken."""
    for pause in PAUSES if sys.platform == "win32" else ():
        with suppress(PermissionError):
            os.replace(temporary, target)
            return
        time.sleep(pause)
    try:
        os.replace(temporary, target)
    except PermissionError as error:
        if sys.platform != "win32" or not target.exists():
            raise
        raise PermissionError(
            f"Expected a file that may be replaced, got '{target}', which another program, or an array that is mapped"
            " from it, has open; close that or give another name."
        ) from error


def _take_over(file: Path, old: os.stat_result) -> None:
    if hasattr(os, "chown"):
        with suppress(OSError):  # only an administrator may give files away
            os.chown(file, old.st_uid, old.st_gid)
    os.chmod(file, stat.S_IMODE(old.st_mode))


def _rename_to_new(temporary: Path, target: Path) -> None:
    """Rename a file to a name that is not taken; unlike ``os.rename``, which only checks that on Windows."""
    if os.name == "nt":
        os.rename(temporary, target)
        return
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno not in WITHOUT_LINKS:
            raise
    else:
        os.unlink(temporary)
        return
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # an empty file takes the name
    try:
        os.replace(temporary, target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def check_replaceable(path: str | os.PathLike[str]) -> None:
    """Raise if `path` exists and is not a regular file that may be written to.

    A rename would replace a device, a pipe or a socket, and as an administrator even one that the system needs.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    for is_kind, what in KINDS.items():
        if is_kind(mode):
            kind = IsADirectoryError if what == "the folder" else OSError
            raise kind(f"Expected a file to write, or a new name for one, got {what} '{os.fspath(path)}'.")
    if not mode & WRITABLE or not os.access(path, os.W_OK):  # administrators have access to everything
        raise PermissionError(
            f"Expected a file that may be replaced, got '{os.fspath(path)}', which is read-only; give another name or"
            " change its permissions."
        )


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


def write_file(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview], *, replace: bool = True) -> None:
    """Write a file from parts, completely or not at all; `replace` is that of :func:`new_file`."""
    with new_file(path, replace=replace) as file:
        file.writelines(parts)


def move_files(folder: Path, target: Path, *, replace: bool) -> None:
    """Move all files of one folder to another, each in one step.

    Nothing is moved if one of them cannot take its place, as far as that is known before.
    """
    files = sorted(folder.iterdir())
    for file in files:
        place = target / file.name
        check_replaceable(place)
        if place.exists() and not replace:
            raise FileExistsError(
                f"'{place}' was created a moment ago; give another folder, or force=True to replace it."
            )
    for file in files:
        put_in_place(file, target / file.name, replace=replace)


def check_output(path: str | os.PathLike[str], formats: Iterable[str] | None = None, *, force: bool) -> Path:
    """Raise, before any work is done, if an output file cannot be written; `formats` are the allowed suffixes.

    Somebody else may still create the file in the meantime, so whoever writes it passes `replace=force` to
    :func:`new_file`.

    Raises
    ------
    ValueError
        If the suffix is not one of `formats`.
    OSError
        If the file exists and `force` is not set, if it is read-only or not a regular file, or if its folder is missing
        or not writable.
    """
    file = Path(path)
    if formats is not None and file.suffix.lower() not in formats:
        raise ValueError(f"Expected an output file ending in {', '.join(formats)}, got '{file}'.")
    check_replaceable(file)
    if file.exists() and not force:
        raise FileExistsError(f"'{file}' exists already; give another name, or force=True to replace it.")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"Expected the folder '{file.parent}' for the output to exist; make it first.")
    if not os.access(file.parent, os.W_OK):
        raise PermissionError(
            f"Expected the folder '{file.parent}' to be writable; choose another or change its permissions."
        )
    return file
