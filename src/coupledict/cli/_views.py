"""Views on the command line: arrays in .npy and .npz files, some of which may be absent."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._app import MisuseError

ABSENT = ("-", "none")  # placeholders for an absent view


@dataclass
class ViewFiles:
    """Views in files: arrays of shape (n_samples, n_features), left on disk until they are read.

    Attributes
    ----------
    arrays : list of arrays, with None for an absent view
    names : list of str
        Stems of file names, names of folders or names of arrays in a file.
    shapes : list of tuples or None
        Shape of the samples of each view in its file, if they have more than one dimension.
    made : dict
        Facts about them that a model should keep.
    notes : list of str
        Sentences for the user.
    """

    arrays: list[Any]
    names: list[str]
    shapes: list[tuple[int, ...] | None]
    made: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def n_samples(self) -> int:
        """Number of samples, the same in all present views."""
        return next(int(array.shape[0]) for array in self.arrays if array is not None)

    def by_name(self) -> dict[str, Any] | list[Any]:
        """Return the views as a learner takes them: by name, or in a list if two names are equal."""
        named = dict(zip(self.names, self.arrays, strict=True))
        return named if len(named) == len(self.arrays) else self.arrays


def read_views(
    files: Sequence[str], names: str | None, *, may_miss: bool, known: Sequence[str] | None = None
) -> ViewFiles:
    """Open one .npz file with all views, or one .npy file per view.

    Parameters
    ----------
    names : str or None
        Arrays of the .npz file to take, separated by commas; by default all, in the order of the file.
    may_miss : bool
        Whether "-" or "none" may stand for an absent view.
    known : list of str, optional
        Names of the views of a model. Where `names` is left out and the .npz file has no other arrays, its arrays are
        taken by these names, and those that it does not have are absent.
    """
    packed = [file for file in files if Path(file).suffix.lower() == ".npz"]
    if packed and len(files) > 1:
        raise MisuseError(f"Expected one .npz file with all views, or one .npy file per view, got {len(files)} files.")
    if names is not None and not packed:
        raise MisuseError("Expected --views only with one .npz file, whose arrays it names.")
    if packed:
        given = _read_npz(Path(packed[0]), names, known, may_miss=may_miss)
    else:
        given = {}
        for number, file in enumerate(files):
            absent = may_miss and file in ABSENT
            given[f"{number}:{Path(file).stem}"] = None if absent else _read_npy(Path(file))
    if all(array is None for array in given.values()):
        raise MisuseError("Expected at least one view that is present, got none.")
    titles = [name.partition(":")[2] if not packed else name for name in given]
    from ..foundation.views import check_same_samples  # NumPy and scikit-learn, for which --help need not wait

    check_same_samples(list(given.values()), [f"'{title}'" for title in titles])
    shapes = [None if array is None or array.ndim == 2 else tuple(array.shape[1:]) for array in given.values()]
    flat = [array if array is None or array.ndim == 2 else array.reshape(len(array), -1) for array in given.values()]
    return ViewFiles(flat, titles, shapes)


def _read_npy(file: Path) -> Any:
    """Open an array on disk; nothing in it is executed."""
    import numpy as np

    if not file.is_file():
        raise FileNotFoundError(f"Expected an array file (.npy), found none at '{file}'.")
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise unreadable(file, "an array of numbers as numpy.save writes it", error) from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"Expected '{file}' to hold one array, got a file of several; give it a name ending in .npz.")
    return _check_array(array, file.name)


def _read_npz(file: Path, names: str | None, known: Sequence[str] | None, *, may_miss: bool) -> dict[str, Any]:
    import numpy as np

    if not file.is_file():
        raise FileNotFoundError(f"Expected a file of arrays (.npz), found none at '{file}'.")
    try:
        with np.load(file, allow_pickle=False) as archive:
            absent: Sequence[str] = ABSENT if may_miss else ()
            if names is not None:
                requested = [name.strip() for name in names.split(",")]
            elif known is not None and set(archive.files) <= set(known):
                requested, absent = list(known), known
            else:
                requested = archive.files
            unknown = [name for name in requested if name not in archive.files and name not in absent]
            if unknown:
                raise MisuseError(
                    f"Expected --views to name arrays of '{file}' ({', '.join(archive.files)}), got {unknown[0]!r}."
                )
            if len(set(requested) - set(absent)) < len([name for name in requested if name not in absent]):
                raise MisuseError(f"Expected --views to name each array once, got {names!r}.")
            found = {}
            for number, name in enumerate(requested):
                gone = name in absent and name not in archive.files
                key = f"{name} {number}" if gone else name
                found[key] = None if gone else archive[name]
    except MisuseError:
        raise
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise unreadable(file, "arrays of numbers as numpy.savez writes them", error) from error
    if not found:
        raise ValueError(f"Expected '{file}' to hold at least one array, got none.")
    return {
        key: None if array is None else _check_array(array, f"{key} of {file.name}") for key, array in found.items()
    }


def unreadable(file: Path, what: str, error: Exception) -> ValueError:
    """Return the error for a file that NumPy cannot read, without NumPy's advice to unpickle untrusted data."""
    objects = any(words in str(error) for words in ("Object arrays", "Python objects"))
    got = "Python objects, which are not read" if objects else "another kind of file or a damaged one"
    return ValueError(f"Expected '{file}' to hold {what}, got {got}.")


def _check_array(array: Any, name: str) -> Any:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"Expected '{name}' to hold real numbers, got {array.dtype}.")
    if array.ndim < 2:
        raise ValueError(f"Expected '{name}' to have one row per sample, got shape {array.shape}.")
    return array
