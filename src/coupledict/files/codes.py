"""Codes in files, written part by part; the final name appears only when all parts are written."""

from __future__ import annotations

import errno
import functools
import json
import math
import os
import secrets
import shutil
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.sparse import csr_array

from ..foundation.block_sizes import SIZES
from .models import MOST, ModelFileError, check_cost, contradiction, is_special

FORMAT = "coupledict codes"
INDEX = "index.json"
ZARR_CODECS = ["bytes", "zstd"]  # a group may name other codecs, and some of those execute what they read
WHAT = "codes written by coupledict"
ARRAYS = ("data", "indices", "indptr")  # of the CSR format


def part_name(number: int) -> str:
    """Return the file name of a part."""
    return f"part-{number:06d}.npz"


class CodeFile(Sequence[csr_array]):
    """Codes in a folder or Zarr group, read part by part.

    A sequence of parts: ``codes[i]`` and ``for part in codes`` read only the parts that they return, and ``len(codes)``
    reads none. Made by :func:`open_codes` and by ``transform(..., out=path)``.

    Attributes
    ----------
    path : Path
    shape : (n_samples, n_components)
    nnz : int
        Number of nonzeros of all parts.
    dtype : dtype
    sizes : list of int
        Number of samples of each part.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        try:
            if about["format"] != FORMAT or about["version"] != 1:
                raise ValueError("it is of another format")
            self.sizes = [_check_number(size) for size in about["sizes"]]
            self.shape = (sum(self.sizes), _check_number(about["n_components"]))
            self.nnz = _check_number(about["nnz"])
            if about["dtype"] not in ("float32", "float64"):
                raise ValueError("its number type is impossible")
            self.dtype = np.dtype(about["dtype"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise contradiction(path, WHAT, error) from error
        self.path = path

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, number: Any) -> Any:
        """Return one part as a csr_array, or for a slice a list of them."""
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError(f"Expected the number of one of {len(self)} parts, got {number}.")
        number = int(number) % len(self)
        try:
            part = self._read(number)
            part.check_format(full_check=True)
            if part.dtype != self.dtype or not np.isfinite(part.data).all():
                raise ValueError(f"it holds NaN or infinity, or is not of {self.dtype}")
        except ModelFileError:
            raise
        except Exception as error:  # on a damaged file, readers raise many kinds of errors
            sentence = contradiction(self.path, f"part {number} of {len(self)}", error)
            raise ModelFileError(f"{sentence} The file is damaged.") from error
        return part

    def __iter__(self) -> Iterator[csr_array]:
        return (self[i] for i in range(len(self)))

    def load(self) -> csr_array:
        """Read all codes.

        Returns
        -------
        csr_array of shape (n_samples, n_components)
            All parts in one array.
        """
        empty = csr_array((0, self.shape[1]), dtype=self.dtype)
        codes = csr_array(scipy.sparse.vstack([empty, *self], format="csr"))
        if codes.nnz != self.nnz:
            error = ValueError(f"it claims {self.nnz} nonzeros and has {codes.nnz}")
            raise contradiction(self.path, WHAT, error)
        return codes

    def _read(self, number: int) -> csr_array:
        file = self.path / part_name(number)
        if is_special(file):
            raise ValueError(f"'{file.name}' is a pipe or a device")
        with zipfile.ZipFile(file) as archive:
            room = file.stat().st_size
            arrays = {name: _read_array(archive, name, room) for name in (*ARRAYS, "shape")}
        data, indices, indptr, shape = arrays.values()
        wanted, got = (self.sizes[number], self.shape[1]), tuple(shape.tolist())
        if got != wanted:
            raise ModelFileError(
                f"Expected part {number} of '{self.path}' to have shape {wanted}, got {got}. The file is damaged."
            )
        if indptr.size != wanted[0] + 1:
            raise ValueError("its rows are not complete")
        return csr_array((data, indices, indptr), shape=wanted)

    def __repr__(self) -> str:
        return f"CodeFile({str(self.path)!r}, shape={self.shape}, nnz={self.nnz}, parts={len(self)})"


def _check_number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST:
        raise ValueError("its sizes are impossible")
    return value


def _read_array(archive: zipfile.ZipFile, name: str, room: int) -> npt.NDArray[Any]:
    """Read an array that ``scipy.sparse.save_npz`` wrote; refuse one that claims to be larger than the file."""
    entry = archive.getinfo(f"{name}.npy")
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > room:
        raise ValueError(f"its array {name!r} is compressed")
    with archive.open(entry) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"its array {name!r} is of another version")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        contents = bytearray(stream.read())
    if len(shape) != 1 or dtype.kind not in "fi" or len(contents) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"its array {name!r} is not a list of numbers")
    return np.frombuffer(contents, dtype)


class _ZarrCodes(CodeFile):
    """Codes in the arrays of a Zarr group."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        super().__init__(path, about.get("attributes", {}))
        self._about = about
        self._starts = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])

    @functools.cached_property
    def _group(self) -> Any:
        self._check_arrays()
        return _zarr().open_group(self.path, mode="r", zarr_format=3)

    def _check_arrays(self) -> None:
        """Refuse arrays that this module did not write, before zarr interprets their metadata."""
        if self._about.get("zarr_format") != 3 or self._about.get("node_type") != "group":
            raise ValueError("it is of another format")
        lengths = {"data": self.nnz, "indices": self.nnz, "indptr": self.shape[0] + 1}
        kinds = {"data": self.dtype.name, "indices": "int32", "indptr": "int64"}
        for name, length in lengths.items():
            metadata = _read_json(self.path, f"{name}/zarr.json")
            found = [metadata[key] for key in ("zarr_format", "node_type", "shape", "data_type")]
            chunks = metadata["chunk_grid"]["configuration"]["chunk_shape"]
            codecs = [codec["name"] for codec in metadata["codecs"]]
            if found != [3, "array", [length], kinds[name]] or chunks != [SIZES.zarr_chunk] or codecs != ZARR_CODECS:
                raise ValueError(f"its array {name!r} is not one of codes")
            if metadata.get("storage_transformers"):
                raise ValueError(f"its array {name!r} is stored in an unknown way")
        if any(is_special(file) for file in self.path.rglob("*")):
            raise ValueError("it holds a pipe or a device")

    def _read(self, number: int) -> csr_array:
        start, end = int(self._starts[number]), int(self._starts[number + 1])
        indptr = np.asarray(self._group["indptr"][start : end + 1])
        if not 0 <= indptr[0] <= indptr[-1] <= self.nnz:
            raise ValueError("its rows are not in order")
        inside = slice(int(indptr[0]), int(indptr[-1]))
        parts = (
            np.asarray(self._group["data"][inside]),
            np.asarray(self._group["indices"][inside]),
            indptr - indptr[0],
        )
        return csr_array(parts, shape=(end - start, self.shape[1]))


def _read_json(path: Path, name: str) -> dict[str, Any]:
    if is_special(path / name):
        raise ValueError(f"{name!r} is a pipe or a device")
    text = (path / name).read_text("utf-8")
    check_cost(text, len(text))
    about = json.loads(text)
    if not isinstance(about, dict):
        raise ValueError(f"{name!r} is not a JSON object")
    return about


def open_codes(path: str | os.PathLike[str]) -> CodeFile:
    """Open codes that ``transform(..., out=path)`` wrote.

    Parameters
    ----------
    path : path
        A folder of ``.npz`` parts, or a Zarr group (a name that ends in ``.zarr``).

    Returns
    -------
    CodeFile
        A sequence of parts that are read when they are indexed; ``load()`` returns all of them as one array.

    Raises
    ------
    ModelFileError
        Here or when a part is read, if the codes are damaged, or if these are not codes.

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
    in_zarr = path.suffix == ".zarr"
    if in_zarr:
        _zarr()  # if zarr is missing, raise now
    try:
        about = _read_json(path, "zarr.json" if in_zarr else INDEX)
    except (OSError, ValueError, RecursionError) as error:
        raise contradiction(path, WHAT, error) from error
    return _ZarrCodes(path, about) if in_zarr else CodeFile(path, about)


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
    """Return the absolute path to write codes to; raise if it exists or its folder does not."""
    target = Path(os.path.abspath(path))
    if os.path.lexists(target):
        raise FileExistsError(f"Expected a name for the codes that is not taken, got '{path}', which exists.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"Expected the folder '{target.parent}' to exist, got no such folder. Make it.")
    return target


def _rename_folder(temporary: Path, target: Path) -> None:
    """Rename a folder to a name that is not taken; the system replaces nothing but an empty folder."""
    try:
        check_new(target)
        os.rename(temporary, target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise
        raise FileExistsError(f"Expected a new name for the codes, but '{target}' was just created.") from error


class CodeWriter(ABC):
    """Writes codes part by part to a temporary folder, which gets its final name in the end.

    To be used as a context manager: an exception inside it removes what was written.
    """

    def __init__(self, path: str | os.PathLike[str], n_components: int, dtype: npt.DTypeLike) -> None:
        self.path = check_new(path)
        self.temporary = self.path.parent / f".coupledict-{secrets.token_hex(8)}.tmp"
        self._n_components = n_components
        self._dtype = np.dtype(dtype)
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
                _rename_folder(self.temporary, self.path)
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, FileExistsError):
            error.add_note(f"Nothing was written to '{self.path}'; what had been written elsewhere is removed.")

    def append(self, codes: csr_array) -> None:
        """Write the next part."""
        self._write(len(self._sizes), codes)
        self.note(codes.shape[0], codes.nnz)

    def note(self, size: int, nnz: int) -> None:
        """Record the next part, which a worker has written."""
        self._sizes.append(int(size))
        self._nnz += int(nnz)

    @abstractmethod
    def _begin(self) -> None:
        """Prepare the temporary folder."""

    @abstractmethod
    def _write(self, number: int, codes: csr_array) -> None:
        """Write a part."""

    @abstractmethod
    def _finish(self, about: dict[str, Any]) -> None:
        """Write the index: the sizes and the format of all parts."""


def write_part(folder: Path, number: int, codes: csr_array) -> None:
    """Write one part into the folder of a :class:`FolderWriter`."""
    with open(folder / part_name(number), "wb") as file:
        scipy.sparse.save_npz(file, codes, compressed=False)
        file.flush()
        os.fsync(file.fileno())


class FolderWriter(CodeWriter):
    """Writes a folder of ``.npz`` parts, each readable by ``scipy.sparse.load_npz``."""

    def _begin(self) -> None:
        pass  # the temporary folder is all that is needed

    def _write(self, number: int, codes: csr_array) -> None:
        write_part(self.temporary, number, codes)

    def _finish(self, about: dict[str, Any]) -> None:
        with open(self.temporary / INDEX, "w", encoding="utf-8") as file:
            json.dump(about, file)
            file.flush()
            os.fsync(file.fileno())


class ZarrWriter(CodeWriter):
    """Writes a Zarr group with the three arrays of the CSR format."""

    def _begin(self) -> None:
        self._group = _zarr().create_group(self.temporary, overwrite=True)
        kinds = {"data": self._dtype, "indices": np.dtype(np.int32), "indptr": np.dtype(np.int64)}
        for name, kind in kinds.items():
            self._group.create_array(name, shape=(0,), chunks=(SIZES.zarr_chunk,), dtype=kind)
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


@contextmanager
def code_writer(path: str | os.PathLike[str], n_components: int, dtype: npt.DTypeLike) -> Iterator[CodeWriter]:
    """Open a writer: of a Zarr group if the name ends in ``.zarr``, otherwise of a folder of ``.npz`` parts."""
    kind = ZarrWriter if Path(path).suffix == ".zarr" else FolderWriter
    writer = kind(path, n_components, dtype)
    try:
        with writer:
            yield writer
    finally:  # an interrupt just before the writer's __enter__ or __exit__ skips its own removal
        shutil.rmtree(writer.temporary, ignore_errors=True)
