"""The folder of a run, for this user alone: removed at the end, or by the next run if this one is killed.

A run holds a lock on a file in its folder for as long as it lives; the system releases the lock when the process ends,
in whatever way. A folder whose lock is free therefore belongs to a run that was killed.

Two servers may start at once. One that has created its folder but not locked it yet looks as if it was killed, and the
other may remove the folder. Therefore a run checks, once it has the lock, that its file still exists, and creates
another folder if it does not.
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
ATTEMPTS = 50  # to remove a folder into which a thread may still write, and to create one that nobody removes
PAUSE = 0.02  # seconds between two attempts to remove a folder


@contextlib.contextmanager
def run_folder(parent: Path | None = None) -> Iterator[Path]:
    """Remove what killed runs left, create a folder for this run, and remove it at the end."""
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
        with contextlib.suppress(OSError):  # another server is removing it, or we have no permission
            if not _is_ours(folder):
                continue
            try:
                lock = _open(folder, os.O_RDWR)
            except FileNotFoundError:
                folder.rmdir()  # a run was killed between two steps; fails, as it should, if the folder is not empty
                continue
            if _hold(lock):
                _remove(folder, lock)
            else:
                os.close(lock)


def _is_ours(folder: Path) -> bool:
    """Return whether a path is a folder, not a link, that belongs to this user alone."""
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        return False
    return sys.platform == "win32" or (about.st_uid == os.getuid() and not about.st_mode & 0o077)


def _make(parent: Path) -> tuple[Path, int]:
    """Create a folder; return it, and the open file whose lock marks it as in use."""
    for _ in range(ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        try:
            lock = _open(folder, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except (FileNotFoundError, PermissionError) as error:
            if isinstance(error, PermissionError) and sys.platform != "win32":
                raise  # Windows raises this for a folder that is being removed
            continue  # another server took it for an abandoned one
        if _hold(lock) and _is_there(folder, lock):
            return folder, lock
        os.close(lock)
    raise OSError(f"Expected to keep a new folder below '{parent}', but other processes removed each one.")


def _is_there(folder: Path, lock: int) -> bool:
    try:
        return os.path.samestat(os.stat(folder / LOCK), os.fstat(lock))
    except FileNotFoundError:
        return False


def _open(folder: Path, flags: int) -> int:
    return os.open(folder / LOCK, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0), 0o600)


def _hold(lock: int) -> bool:
    """Take the lock if it is free; where locks do not exist, no folder ever counts as abandoned."""
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
    """Remove a folder whose lock is held, and release the lock."""
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

    Once the lock is released, the run that created the folder may take it: if it was about to, it has the lock file
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
    """Repeat an action until it succeeds; return whether it did. Abandoned threads may still write into the folder."""
    for _ in range(ATTEMPTS):
        if work():
            return True
        time.sleep(pause)
    return False
