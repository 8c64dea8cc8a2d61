"""The folder of a run: nobody else's, and what killed runs left is told from what is in use."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from coupledict.serve import _folder
from coupledict.serve._folder import LOCK, PREFIX, remove_left, run_folder

if sys.platform == "win32":
    import msvcrt

    LOCKING = msvcrt, "locking"
else:
    import fcntl

    LOCKING = fcntl, "flock"

without_links = pytest.mark.skipif(
    sys.platform == "win32",
    reason="only administrators make symbolic links on Windows, which has no modes and user ids",
)


def leave(parent, name="killed"):
    """Make what a killed run leaves: a folder with files, and a lock that nobody holds."""
    folder = parent / f"{PREFIX}{name}"
    (folder / "jobs").mkdir(parents=True)
    folder.chmod(0o700)
    (folder / LOCK).touch()
    (folder / "jobs" / "upload-00").write_bytes(b"x" * 1000)
    return folder


def test_what_was_left_goes_and_what_is_used_stays(tmp_path):
    with run_folder(tmp_path) as mine:
        assert sys.platform == "win32" or mine.stat().st_mode & 0o077 == 0
        (mine / "file").touch()
        left, empty = leave(tmp_path), tmp_path / f"{PREFIX}empty"
        empty.mkdir(0o700)  # killed before it had a lock
        with run_folder(tmp_path) as other:
            assert not left.exists()
            assert not empty.exists()
            assert {entry.name for entry in tmp_path.iterdir()} == {mine.name, other.name}
        assert (mine / "file").exists()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_of_a_run_is_left_alone(tmp_path):
    (tmp_path / f"{PREFIX}file").write_text("a file")
    (tmp_path / "coupledict-other").mkdir()
    notes = tmp_path / f"{PREFIX}notes"
    notes.mkdir(0o700)
    (notes / "mine.txt").write_text("without a lock")
    before = {path: path.lstat().st_ino for path in tmp_path.rglob("*")}
    remove_left(tmp_path)
    assert {path: path.lstat().st_ino for path in tmp_path.rglob("*")} == before
    assert len(before) == 4


@without_links
def test_what_is_not_ours_is_left_alone(tmp_path, monkeypatch):
    elsewhere = leave(tmp_path / "elsewhere")
    parent = tmp_path / "temporary"
    parent.mkdir()
    (parent / f"{PREFIX}link").symlink_to(elsewhere, target_is_directory=True)
    shared = leave(parent, "shared")
    shared.chmod(0o755)
    trap = leave(parent, "trap")
    (trap / LOCK).unlink()
    (trap / LOCK).symlink_to(elsewhere / LOCK)
    before = {path: path.lstat().st_ino for path in tmp_path.rglob("*")}
    remove_left(parent)
    assert {path: path.lstat().st_ino for path in tmp_path.rglob("*")} == before
    others = leave(parent, "others")
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    remove_left(parent)
    assert others.exists()
    monkeypatch.undo()
    remove_left(parent)
    assert not others.exists()


@without_links
def test_links_inside_are_removed_and_not_followed(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").touch()
    left = leave(tmp_path)
    (left / "jobs" / "link").symlink_to(target, target_is_directory=True)
    remove_left(tmp_path)
    assert not left.exists()
    assert (target / "file").exists()


def test_servers_that_start_at_once_take_nothing_from_each_other(tmp_path):
    faults = []

    def start_often():
        for _ in range(100):
            with run_folder(tmp_path) as folder:
                (folder / "jobs").mkdir()
                remove_left(tmp_path)
                if not (folder / "jobs").exists():
                    faults.append(folder)

    def run():
        try:
            start_often()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert list(tmp_path.iterdir()) == []


def test_the_lock_goes_last_where_open_files_stay(tmp_path):
    left = leave(tmp_path)
    (left / "file").touch()
    lock = _folder._open(left, os.O_RDWR)
    _folder._remove_lock_last(left, lock)
    with pytest.raises(OSError, match=r"Bad file descriptor|(?i:handle)"):  # the last on Windows
        os.fstat(lock)
    assert list(tmp_path.iterdir()) == []


def test_what_could_not_be_removed_keeps_its_lock_for_the_next_run(tmp_path, monkeypatch):
    left = leave(tmp_path)
    with monkeypatch.context() as stuck:
        stuck.setattr(shutil, "rmtree", lambda *_, **__: None)
        _folder._remove_lock_last(left, _folder._open(left, os.O_RDWR), pause=0.0)
    assert {entry.name for entry in left.iterdir()} == {LOCK, "jobs"}
    remove_left(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["before the lock is there", "before it is held"])
def test_a_folder_that_another_took_for_left_is_made_again(tmp_path, monkeypatch, moment):
    made = []
    mkdtemp, lock = tempfile.mkdtemp, getattr(*LOCKING)

    def make(**given):
        folder = mkdtemp(**given)
        if not made:
            made.append(Path(folder))
            remove_left(tmp_path)
        return folder

    def hold(*given):
        if not made:
            made.extend(tmp_path.iterdir())
            remove_left(tmp_path)
        return lock(*given)

    if moment == "before it is held":
        monkeypatch.setattr(*LOCKING, hold)
    else:
        monkeypatch.setattr(tempfile, "mkdtemp", make)
    with ExitStack() as opened:
        folder = opened.enter_context(run_folder(tmp_path))
        assert made
        kept = sys.platform == "win32" and moment == "before it is held"  # files that are open stay there
        assert (folder in made) == kept
        assert folder.exists()
    assert list(tmp_path.iterdir()) == []
