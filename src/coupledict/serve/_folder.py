"""The folder of a run, for this user alone: removed at the end, or by the next run if this one is killed.

A run holds a lock on a file in its folder for as long as it lives; the system gives the lock up when the process ends,
in whichever way. A folder whose lock can be had therefore belongs to a run that was killed.

Two servers may start at once. One that has made its folder but not locked it yet looks like one that was killed, so
that the other may remove it. Therefore a run looks, once it has the lock, whether its file is still there, and makes
another folder otherwise.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PREFIX, LOCK = "coupledict-serve-", "lock"
ATTEMPTS = 50  # to remove a folder into which a thread may still write, and to make one that nobody removes
PAUSE = 0.02  # seconds between two attempts to remove a folder


@contextlib.contextmanager
def run_folder(parent: Path | None = None) -> Iterator[Path]:
    """Remove what killed runs left, make a folder for this run, and remove it at the end."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    remove_left(parent)
    folder, lock = _make(parent)
    try:
        yield folder
    finally:
        _remove(folder, lock)


def remove_left(parent: Path) -> None:
    """Remove the folders of this user's runs that were killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another server removes it at this moment, or may not
            if not _is_ours(folder):
                continue
            try:
                lock = _open(folder, os.O_RDWR)
            except FileNotFoundError:
                folder.rmdir()  # a run was killed between two steps; fails, and should, if there is anything in it
                continue
            if _hold(lock):
                _remove(folder, lock)
            else:
                os.close(lock)


def _is_ours(folder: Path) -> bool:
    """Tell whether a folder, and not a link to one, is this user's and nobody else's."""
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        return False
    return sys.platform == "win32" or (about.st_uid == os.getuid() and not about.st_mode & 0o077)


def _make(parent: Path) -> tuple[Path, int]:
    """Make a folder; return it, and the open file whose lock says that it is in use."""
    for _ in range(ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        try:
            lock = _open(folder, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except (FileNotFoundError, PermissionError) as error:
            if isinstance(error, PermissionError) and sys.platform != "win32":
                raise  # Windows says this of a folder that is being removed
            continue  # another server took it for one that was left
        if _hold(lock) and _is_there(folder, lock):
            return folder, lock
        os.close(lock)
    raise OSError(f"Expected a folder of its own below '{parent}', but each that was made was removed by others.")


def _is_there(folder: Path, lock: int) -> bool:
    try:
        return os.path.samestat(os.stat(folder / LOCK), os.fstat(lock))
    except FileNotFoundError:
        return False


def _open(folder: Path, flags: int) -> int:
    return os.open(folder / LOCK, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0), 0o600)


def _hold(lock: int) -> bool:
    """Take the lock if it is free; where there are no locks, nobody's folder is ever taken for one that was left."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(folder: Path, lock: int) -> None:
    """Remove a folder whose lock is held, and give the lock up."""
    if sys.platform == "win32":
        _remove_lock_last(folder, lock)
    else:
        _attempt(lambda: _remove_all(folder))
        os.close(lock)


def _remove_all(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _remove_lock_last(folder: Path, lock: int, pause: float = PAUSE) -> None:
    """Remove a folder on Windows, where files that are open cannot be removed.

    Once the lock is given up, the run that made the folder may take it: if it was about to, it has the file of the lock
    open, which therefore stays. Nothing else is touched from then on.
    """
    empty = _attempt(lambda: _keep_only_lock(folder), pause)
    os.close(lock)
    if empty:  # otherwise the next run finds the lock, and tries again
        _attempt(lambda: _unlink_and_leave(folder), pause)


def _keep_only_lock(folder: Path) -> bool:
    for entry in folder.iterdir():
        if entry.name == LOCK:
            continue
        with contextlib.suppress(OSError):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()
    return [entry.name for entry in folder.iterdir()] == [LOCK]


def _unlink_and_leave(folder: Path) -> bool:
    try:
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()
    except FileNotFoundError:
        return True  # another server removed it
    except OSError:
        return False
    return True


def _attempt(work: Callable[[], bool], pause: float = PAUSE) -> bool:
    """Do work until it succeeds; tell whether it did. Threads that were not waited for may write into the folder."""
    for _ in range(ATTEMPTS):
        if work():
            return True
        time.sleep(pause)
    return False
