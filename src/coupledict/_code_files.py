"""Codes in files: written a part at a time, under the final name only when all of them are there."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.sparse import csr_array

FORMAT = "coupledict codes"
INDEX = "index.json"
ZARR_CHUNK = 1 << 20


def part_name(number: int) -> str:
    """Return the name of the file of a part."""
    return f"part-{number:06d}.npz"


class CodeFile(Sequence[csr_array]):
    """Codes in a file or folder, read a part at a time.

    A sequence of parts: ``len(codes)``, ``codes[i]`` and ``for part in codes`` read only what they give. Made by
    :func:`open_codes` and by ``transform(..., out=path)``.

    Attributes
    ----------
    path : Path
    shape : (n_samples, n_components)
    nnz : int
        Number of nonzeros.
    dtype : dtype
    sizes : list of int
        Samples of each part.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        try:
            if about["format"] != FORMAT or about["version"] != 1:
                raise ValueError("it is of another format")
            self.sizes = [int(size) for size in about["sizes"]]
            self.shape = (sum(self.sizes), int(about["n_components"]))
            self.nnz = int(about["nnz"])
            self.dtype = np.dtype(str(about["dtype"]))
            if self.dtype.kind != "f" or min([*self.sizes, self.shape[1], self.nnz]) < 0:
                raise ValueError("its sizes or its number type are impossible")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"Expected '{path}' to hold codes written by coupledict, but {error}.") from error
        self.path = path

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, number: Any) -> Any:
        """Return one part as a csr_array, or several as a list of them."""
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError(f"Expected the number of one of {len(self)} parts, got {number}.")
        number = int(number) % len(self)
        try:
            part = self._read(number)
            part.check_format(full_check=True)
        except Exception as error:
            raise ValueError(
                f"Expected '{self.path}' to hold part {number} of {len(self)}, but {error}. The file is damaged."
            ) from error
        if part.shape != (self.sizes[number], self.shape[1]):
            raise ValueError(
                f"Expected part {number} of '{self.path}' to have shape {(self.sizes[number], self.shape[1])}, got"
                f" {part.shape}. The file is damaged."
            )
        return part

    def __iter__(self) -> Iterator[csr_array]:
        return (self[i] for i in range(len(self)))

    def load(self) -> csr_array:
        """Return all codes as one csr_array."""
        empty = csr_array((0, self.shape[1]), dtype=self.dtype)
        return csr_array(scipy.sparse.vstack([empty, *self], format="csr"))

    def _read(self, number: int) -> csr_array:
        with open(self.path / part_name(number), "rb") as file:  # load_npz would leave a damaged one open
            return csr_array(scipy.sparse.load_npz(file))

    def __repr__(self) -> str:
        return f"CodeFile({str(self.path)!r}, shape={self.shape}, nnz={self.nnz}, parts={len(self)})"


class _ZarrCodes(CodeFile):
    """Codes in the arrays of a Zarr group."""

    def __init__(self, path: Path, group: Any) -> None:
        super().__init__(path, dict(group.attrs))
        self._group = group
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)])

    def _read(self, number: int) -> csr_array:
        start, end = int(self._starts[number]), int(self._starts[number + 1])
        indptr = np.asarray(self._group["indptr"][start : end + 1])
        inside = slice(int(indptr[0]), int(indptr[-1]))
        parts = (
            np.asarray(self._group["data"][inside]),
            np.asarray(self._group["indices"][inside]),
            indptr - indptr[0],
        )
        return csr_array(parts, shape=(end - start, self.shape[1]))


def open_codes(path: str | os.PathLike[str]) -> CodeFile:
    """Open codes that ``transform(..., out=path)`` wrote.

    Parameters
    ----------
    path : path
        A folder of ``.npz`` parts, or a Zarr group (a name that ends in ``.zarr``).

    Returns
    -------
    CodeFile
        A sequence of parts that are read when they are asked for; ``load()`` gives all of them as one array.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from coupledict import DictionaryLearning, open_codes
    >>> X = np.random.default_rng(0).standard_normal((100, 4))
    >>> learner = DictionaryLearning(8, n_nonzero_coefs=2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = learner.transform(X, out=pathlib.Path(folder) / "codes")
    ...     codes = open_codes(pathlib.Path(folder) / "codes").load()
    >>> codes.shape
    (100, 8)
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"Expected codes at '{path}', found nothing there.")
    if path.suffix == ".zarr":
        zarr = _zarr()
        try:
            group = zarr.open_group(path, mode="r")
        except Exception as error:
            raise ValueError(f"Expected '{path}' to hold codes written by coupledict, but {error}.") from error
        return _ZarrCodes(path, group)
    try:
        about = json.loads((path / INDEX).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"Expected '{path}' to hold codes written by coupledict, but {error}.") from error
    return CodeFile(path, about)


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError(
            'Zarr is needed for files that end in ".zarr": pip install "coupledict[dask]". Without it, give a name'
            " that does not, for a folder of .npz parts."
        ) from error
    return zarr


def check_new(path: str | os.PathLike[str]) -> Path:
    """Return where codes are to be written, if there is a folder for them and the name is not taken."""
    target = Path(os.path.abspath(path))
    if os.path.lexists(target):
        raise FileExistsError(f"Expected a name for the codes that is not taken, got '{path}', which exists.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"Expected the folder '{target.parent}' to exist, got no such folder. Make it.")
    return target


class CodeWriter(ABC):
    """Writes codes a part at a time to a place of its own, and moves it to its name in the end.

    To be used as a context: leaving it by an exception removes what was written.
    """

    def __init__(self, path: str | os.PathLike[str], n_components: int, dtype: npt.DTypeLike) -> None:
        self.path = check_new(path)
        self.temporary = self.path.parent / f".coupledict-{secrets.token_hex(8)}.tmp"
        self._n_components, self._dtype = n_components, np.dtype(dtype)
        self._sizes: list[int] = []
        self._nnz = 0

    def __enter__(self) -> Self:
        self.temporary.mkdir()
        try:
            self._begin()
        except BaseException:
            shutil.rmtree(self.temporary, ignore_errors=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish(
                    {
                        "format": FORMAT,
                        "version": 1,
                        "n_components": self._n_components,
                        "dtype": str(self._dtype),
                        "sizes": self._sizes,
                        "nnz": self._nnz,
                    }
                )
                os.rename(self.temporary, self.path)
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, FileExistsError):
            error.add_note(f"Nothing was written to '{self.path}'; what had been written elsewhere is removed.")

    def append(self, codes: csr_array) -> None:
        """Write the next part."""
        self._write(len(self._sizes), codes)
        self.note(codes.shape[0], codes.nnz)

    def note(self, size: int, nnz: int) -> None:
        """Take note of the next part, which somebody else has written."""
        self._sizes.append(int(size))
        self._nnz += int(nnz)

    @abstractmethod
    def _begin(self) -> None:
        """Prepare the place."""

    @abstractmethod
    def _write(self, number: int, codes: csr_array) -> None:
        """Write a part."""

    @abstractmethod
    def _finish(self, about: dict[str, Any]) -> None:
        """Write what there is to know of all parts."""


def write_part(folder: Path, number: int, codes: csr_array) -> None:
    """Write a part of a folder."""
    with open(folder / part_name(number), "wb") as file:
        scipy.sparse.save_npz(file, codes, compressed=False)
        file.flush()
        os.fsync(file.fileno())


class FolderWriter(CodeWriter):
    """Writes a folder of ``.npz`` parts, each as ``scipy.sparse.load_npz`` reads it."""

    def _begin(self) -> None:
        pass  # the folder is there

    def _write(self, number: int, codes: csr_array) -> None:
        write_part(self.temporary, number, codes)

    def _finish(self, about: dict[str, Any]) -> None:
        with open(self.temporary / INDEX, "w") as file:
            json.dump(about, file)
            file.flush()
            os.fsync(file.fileno())


class ZarrWriter(CodeWriter):
    """Writes a Zarr group with the three arrays of the CSR format."""

    def _begin(self) -> None:
        self._group = _zarr().create_group(self.temporary, overwrite=True)
        kinds = {"data": self._dtype, "indices": np.dtype(np.int32), "indptr": np.dtype(np.int64)}
        for name, kind in kinds.items():
            self._group.create_array(name, shape=(0,), chunks=(ZARR_CHUNK,), dtype=kind)
        self._extend("indptr", np.zeros(1, np.int64))

    def _extend(self, name: str, values: npt.NDArray[Any]) -> None:
        array = self._group[name]
        start = array.shape[0]
        array.resize((start + values.size,))
        if values.size:
            array[start : start + values.size] = values

    def _write(self, number: int, codes: csr_array) -> None:
        self._extend("data", codes.data)
        self._extend("indices", codes.indices.astype(np.int32))
        self._extend("indptr", codes.indptr[1:].astype(np.int64) + self._nnz)

    def _finish(self, about: dict[str, Any]) -> None:
        self._group.attrs.update(about)


def code_writer(path: str | os.PathLike[str], n_components: int, dtype: npt.DTypeLike) -> CodeWriter:
    """Return the writer for a name: Zarr for one that ends in ``.zarr``, otherwise a folder of ``.npz`` parts."""
    kind = ZarrWriter if Path(path).suffix == ".zarr" else FolderWriter
    return kind(path, n_components, dtype)
