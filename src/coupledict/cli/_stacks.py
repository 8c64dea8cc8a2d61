"""The pictures of a focus stack: files, folders and patterns, sorted by the numbers in their names."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from ..foundation.warning import warn
from ._app import MisuseError

#: Suffixes of files that look like pictures but are not read.
UNREADABLE = (".avif", ".eps", ".exr", ".gif", ".hdr", ".jxl", ".pdf", ".psb", ".psd", ".svg", ".xcf")
MOST_NAMED = 3  # files that a warning names


def natural_key(path: Path) -> tuple[Any, ...]:
    """Return the sort key of files: text regardless of case, numbers by value, then the plain name."""
    parts = [_split(part) for part in (*path.parent.parts, path.stem, path.suffix)]
    return (parts[:-2], parts[-2], parts[-1], str(path))


def _split(name: str) -> list[str | int]:
    # Text and numbers alternate, beginning with text, so that text is never compared with a number.
    pieces = re.split(r"(\d+)", unicodedata.normalize("NFC", name).casefold())
    return [int(piece) if number % 2 else piece for number, piece in enumerate(pieces)]


def find_pictures(given: Sequence[Path], outputs: Iterable[Path] = ()) -> list[Path]:
    """Return the files of one stack, each once, in order.

    Parameters
    ----------
    given : sequence of paths
        Files, folders, which stand for the pictures in them, and patterns such as ``stack/*.tif``.
    outputs : iterable of paths
        Files that will be written: they are never sources.
    """
    written = {_true_name(path) for path in outputs}
    found: list[Path] = []
    named: list[Path] = []
    for path in given:
        is_pattern = glob_characters(path) and not path.exists()
        if not path.is_dir() and not is_pattern:
            if _true_name(path) in written:
                raise MisuseError(f"Expected an output that is not a source, got '{path}' as both.")
            named.append(path)
            continue
        found += _as_given(named)
        named = []
        found += pattern_pictures(path, written) if is_pattern else folder_pictures(path, written)
    return _once(found + _as_given(named))


def _true_name(path: Path) -> str:
    """Return a key that is equal for two names of one file; on Windows, case does not matter."""
    return os.path.normcase(os.path.realpath(path))


def glob_characters(path: Path) -> bool:
    """Return whether a path that does not exist is a pattern."""
    return any(character in str(path) for character in "*?[")


def _as_given(files: list[Path]) -> list[Path]:
    """Return files in the given order or, if a shell has sorted them, by the numbers in their names."""
    if files in (sorted(files, key=str), sorted(files, key=lambda path: str(path).casefold())):
        return sorted(files, key=natural_key)
    return files


def folder_pictures(folder: Path, written: set[str]) -> list[Path]:
    """Return the pictures in a folder; other files, hidden ones and sub-folders are left out."""
    pictures = _sift(folder.iterdir(), f"'{folder}'", written)
    if not pictures:
        hint = " It has sub-folders: --batch treats each as a stack." if any(_sub_folders(folder)) else ""
        raise FileNotFoundError(f"Expected pictures in the folder '{folder}', found none.{hint}")
    seen: dict[str, Path] = {}
    for file in pictures:
        other = seen.setdefault(file.stem.casefold(), file)
        if other is not file:
            raise MisuseError(
                f"Expected one file for each picture in '{folder}', got '{other.name}' and '{file.name}'; choose some"
                f' by a pattern in quotes, such as "{folder / ("*" + file.suffix)}".'
            )
    return pictures


def pattern_pictures(pattern: Path, written: set[str]) -> list[Path]:
    """Return the pictures whose names match a pattern."""
    pictures = _sift(map(Path, glob(str(pattern), recursive=True)), f"'{pattern}'", written)
    if not pictures:
        raise FileNotFoundError(
            f"Expected pictures with names like '{pattern}', found none; the pattern is case-sensitive."
        )
    return pictures


def _sift(files: Iterable[Path], where: str, written: set[str]) -> list[Path]:
    """Return the pictures among files in natural order; warn of others that look like pictures."""
    from ..images._files import SUFFIXES

    pictures, odd = [], []
    for file in sorted(files, key=natural_key):
        suffix = file.suffix.lower()
        if file.name.startswith(".") or _true_name(file) in written or file.is_dir():
            continue
        if suffix in SUFFIXES and file.is_file():
            pictures.append(file)
        elif suffix in SUFFIXES or suffix in UNREADABLE:
            odd.append(file.name)
    if odd:
        names = ", ".join(odd[:MOST_NAMED]) + (f" and {len(odd) - MOST_NAMED} more" if len(odd) > MOST_NAMED else "")
        warn(f"Left out files of {where} that cannot be read as pictures: {names}.")
    return pictures


def _once(files: list[Path]) -> list[Path]:
    """Return files without repetitions; warn of those."""
    seen: dict[str, Path] = {}
    for file in files:
        first = seen.setdefault(_true_name(file), file)
        if first is not file:
            also = f" as '{first}'" if first != file else ""
            warn(f"Used '{file}' only once: it was already given{also}.")
    return list(seen.values())


def find_stacks(root: Path, output: Path) -> list[Path]:
    """Return the sub-folders with pictures in natural order, without hidden ones and the folder of the results."""
    if not root.is_dir():
        raise FileNotFoundError(f"Expected a folder with a sub-folder for each stack, found none at '{root}'.")
    from ..images._files import SUFFIXES

    target = _true_name(output)
    folders = [folder for folder in _sub_folders(root) if _true_name(folder) != target]
    stacks = []
    for folder in sorted(folders, key=natural_key):
        if any(file.suffix.lower() in SUFFIXES and not file.name.startswith(".") for file in folder.iterdir()):
            stacks.append(folder)
        else:
            warn(f"Left out '{folder}': it has no pictures.")
    if not stacks:
        raise FileNotFoundError(f"Expected a sub-folder with pictures for each stack in '{root}', found none.")
    return stacks


def _sub_folders(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
