"""The pictures of a focus stack: files, folders and patterns, in the order of numbers in their names."""

from __future__ import annotations

import os
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from ._app import MisuseError

#: Endings of files that look like pictures, and that are not read.
UNREADABLE = (".avif", ".eps", ".exr", ".gif", ".hdr", ".jxl", ".pdf", ".psb", ".psd", ".svg", ".xcf")
MOST_NAMED = 3  # files that a warning names


def natural_key(path: Path) -> tuple[Any, ...]:
    """Return what files are sorted by: letters of any case alike, numbers by their value, then the plain name."""
    parts = [_split(part) for part in (*path.parent.parts, path.stem, path.suffix)]
    return (parts[:-2], parts[-2], parts[-1], str(path))


def _split(name: str) -> list[str | int]:
    # Text and numbers take turns, beginning with text: two names never compare text with a number.
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
                raise MisuseError(f"Expected an output that is none of the sources, got '{path}' as both.")
            named.append(path)
            continue
        found += _as_given(named)
        named = []
        found += pattern_pictures(path, written) if is_pattern else folder_pictures(path, written)
    return _once(found + _as_given(named))


def _true_name(path: Path) -> str:
    """Return what two names of one file have in common; on Windows, case makes no difference."""
    return os.path.normcase(os.path.realpath(path))


def glob_characters(path: Path) -> bool:
    """Tell whether a path that does not exist is a pattern."""
    return any(character in str(path) for character in "*?[")


def _as_given(files: list[Path]) -> list[Path]:
    """Return files in the order they were named in, unless a shell has sorted them: then by numbers in their names."""
    if files in (sorted(files, key=str), sorted(files, key=lambda path: str(path).casefold())):
        return sorted(files, key=natural_key)
    return files


def folder_pictures(folder: Path, written: set[str]) -> list[Path]:
    """Return the pictures in a folder; other files, hidden ones and sub-folders are left out."""
    pictures = _sift(folder.iterdir(), f"'{folder}'", written)
    if not pictures:
        hint = " There are sub-folders: --batch takes each as a stack." if any(_sub_folders(folder)) else ""
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
    """Return the pictures whose names fit a pattern."""
    pictures = _sift(map(Path, glob(str(pattern), recursive=True)), f"'{pattern}'", written)
    if not pictures:
        raise FileNotFoundError(
            f"Expected pictures with names like '{pattern}', found none; mind that letters are upper or lower case."
        )
    return pictures


def _sift(files: Iterable[Path], where: str, written: set[str]) -> list[Path]:
    """Return the pictures among files in natural order; say which of the others look like pictures."""
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
        warnings.warn(f"Left out of {where} what cannot be read as a picture: {names}.", UserWarning, stacklevel=2)
    return pictures


def _once(files: list[Path]) -> list[Path]:
    """Return files without repetitions, which are said."""
    seen: dict[str, Path] = {}
    for file in files:
        first = seen.setdefault(_true_name(file), file)
        if first is not file:
            also = f" as '{first}'" if first != file else ""
            warnings.warn(f"Took '{file}' only once: it was given already{also}.", UserWarning, stacklevel=2)
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
            warnings.warn(f"Left out '{folder}': there are no pictures in it.", UserWarning, stacklevel=2)
    if not stacks:
        raise FileNotFoundError(f"Expected a sub-folder with pictures for each stack in '{root}', found none.")
    return stacks


def _sub_folders(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
