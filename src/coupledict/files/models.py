"""Models as data: a model file holds arrays and JSON, so that opening an untrusted one runs no code.

A model is a safetensors file: named arrays and four strings. ``format`` and ``format_version`` say what the file is,
``metadata`` is one JSON object, and ``checksum`` covers the metadata and the arrays: without it a flipped bit in an
atom would go unnoticed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from typing import Any, BinaryIO, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ..foundation.text import quoted
from .tensors import DTYPES, OtherDtypeError, read_tensors
from .whole import write_file

Array: TypeAlias = npt.NDArray[Any]
JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

FORMAT = "coupledict"
FORMAT_VERSION = "1"
RESERVED = "__metadata__"  # the key that safetensors uses for the strings
NOT_SAFETENSORS = "one that is not in the safetensors format or is damaged"
LENGTH_BYTES = 8  # a safetensors file begins with the length of its header, little-endian

# A header of a few megabytes can describe gigabytes of empty lists. Each of these characters costs Python at most this
# many bytes of memory. A file may cost FREE_COST bytes, plus COST_PER_BYTE times its size.
COSTS = {"{": 232, "[": 88, ",": 80}
FREE_COST = 64 << 20
COST_PER_BYTE = 3
LONGEST_HEADER = 100_000_000  # bytes; what safetensors allows
# A single character beyond Latin-1 makes Python keep a string with 4 bytes per character, so that long headers, which
# hold metadata, must be ASCII; names of tensors need not be.
LONGEST_WIDE_HEADER = 4 << 20
CHUNK = 1 << 20  # characters of metadata that are digested at a time
MOST = 2**53  # larger counts cannot be real
LONGEST_REASON = 300  # at most this many characters of a reason go into an error message


class ModelFileError(ValueError):
    """A file that is not a model, is damaged, or comes from a newer version."""


def write_model(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Array],
    metadata: Mapping[str, JSON],
    *,
    replace: bool = True,
    longest_header: int = LONGEST_HEADER,
) -> None:
    """Write a model to a file, completely or not at all.

    The file appears under its name only when it is complete and on disk: an interrupt, a full disk or a crash leaves
    an older file of that name untouched.

    Parameters
    ----------
    path : path-like
        Where to write: a new name, or a regular file, which is replaced and keeps its permissions.
    tensors : mapping of str to array
        Arrays of any shape, finite, of dtype float32, float64 or int64; stored to the last bit.
    metadata : mapping of str to JSON value
        What :func:`json.loads` can return: dicts with str keys, lists, str, int, float, bool and None.
    replace : bool, default=True
        Whether a file that exists is replaced.
    longest_header : int
        Bytes that names, shapes and metadata may take together.

    Raises
    ------
    TypeError
        For an array of another dtype, or a value that JSON would change.
    ValueError
        For NaN or infinity, and for a tensor named ``"__metadata__"``.
    OSError
        If `path` is a folder, a pipe, a socket, a device or a read-only file, or exists and `replace` is False.

    See Also
    --------
    read_model : Reads the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from coupledict.files import read_model, write_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(Path(folder) / "model.safetensors", {"atoms": np.eye(2)}, {"n_iter": 30})
    ...     tensors, metadata = read_model(Path(folder) / "model.safetensors")
    >>> tensors["atoms"]
    array([[1., 0.],
           [0., 1.]])
    >>> metadata
    {'n_iter': 30}
    """
    arrays = {name: _check_tensor(name, array) for name, array in tensors.items()}
    text = _as_json(metadata)
    marks = {"format": FORMAT, "format_version": FORMAT_VERSION, "metadata": text, "checksum": _checksum(arrays, text)}
    header = _header(arrays, marks)
    try:
        check_header(header[LENGTH_BYTES:], len(header), longest_header)  # what could not be read is not written
    except ValueError as error:
        raise ValueError(
            f"Expected fewer tensors and less metadata, got a header of {len(header)} bytes. Put numbers in tensors."
        ) from error
    write_file(path, [header, *(_contents(array) for _, array in _layout(arrays))], replace=replace)


def read_model(
    path: str | os.PathLike[str], *, longest_header: int = LONGEST_HEADER
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read a model as :func:`write_model` wrote it; nothing in the file is executed.

    Parameters
    ----------
    path : path-like
        A file that :func:`write_model` wrote.
    longest_header : int
        Files with a longer one are refused.

    Returns
    -------
    tensors : dict of str to array
        The arrays, bit for bit as they were written, in the order of their names.
    metadata : dict
        The JSON object.

    Raises
    ------
    ModelFileError
        If the file is not a model, is truncated or otherwise damaged, or was written by a newer coupledict.
    OSError
        If the file cannot be opened, such as ``FileNotFoundError``.

    See Also
    --------
    write_model : Writes the file; has an example.
    """
    name = quoted(path)
    if is_special(path):
        _damaged(name, "a pipe or a device")
    if os.path.isdir(path):  # Windows would say that the permission is denied
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    with open(path, "rb") as file:
        size, header = _read_header(file, path, longest_header)
        marks = _take_marks(header, name)
        _check_marks(marks, name)
        try:
            tensors = read_tensors(file, header, size - file.tell())
        except OtherDtypeError as error:
            _damaged(name, f"one whose tensor {error.tensor!r} is neither float32, float64 nor int64", error)
        except (ValueError, OverflowError) as error:  # both also from NumPy, of shapes that it cannot hold
            _damaged(name, NOT_SAFETENSORS, error)
    text = marks.get("metadata", "")
    try:
        check_cost(text, size)  # checked again: escapes in the header may have hidden some of these characters
    except ValueError as error:
        raise contradiction(path, "a complete model", error) from error
    metadata = _from_json(text, name, "one whose metadata is not valid JSON", "one whose metadata is not a JSON object")
    for key, array in tensors.items():
        if not np.isfinite(array).all():
            _damaged(name, f"one whose tensor {key!r} holds NaN or infinity")
    if marks.get("checksum") != _checksum(tensors, text):
        _damaged(name, "one whose contents do not match their checksum")
    return tensors, metadata


def _check_tensor(name: object, array: object) -> Array:
    """Return a tensor as a C-contiguous array; raise for what a file cannot hold."""
    if not isinstance(name, str):
        raise TypeError(f"Expected the names of tensors to be strings, got {name!r}.")
    if name == RESERVED:
        raise ValueError(f"Expected another name than {RESERVED!r} for a tensor, which safetensors keeps for itself.")
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"Expected tensors[{name!r}] to be an array, got {type(array).__name__}. Convert it with numpy.asarray."
        )
    if array.dtype not in DTYPES.values():
        raise TypeError(
            f"Expected tensors[{name!r}] to be of dtype float32, float64 or int64, got {array.dtype}."
            " Convert it with astype."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"Expected tensors[{name!r}] to be finite, got NaN or infinity.")
    return np.array(array, order="C", copy=None)  # not ascontiguousarray, which turns a scalar into a vector


def _as_json(metadata: Mapping[str, JSON]) -> str:
    """Return metadata as JSON text; raise if reading it back would change it."""
    hint = "Convert NumPy numbers with .item(), tuples to lists and keys to strings."
    try:
        text = json.dumps(dict(metadata), allow_nan=False)
        same = json.loads(text) == metadata
    except (TypeError, RecursionError) as error:
        raise TypeError(f"Expected metadata to hold JSON values only, got one that is not: {error}. {hint}") from error
    except ValueError as error:
        raise ValueError(f"Expected metadata that JSON can hold, got one that it cannot: {error}.") from error
    if not same:
        raise TypeError(f"Expected metadata to hold JSON values only, got some that would come back changed. {hint}")
    return text


def _from_json(text: str, name: str, not_json: str, no_object: str) -> dict[str, Any]:
    """Return the header or the metadata of a model file, or say what is wrong."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    def finite(text: str) -> float:
        number = float(text)
        if not np.isfinite(number):
            raise ValueError(f"{text[:20]} is not a number")
        return number

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):  # JSON readers differ in which of the two they use
            raise ValueError("a key comes twice")
        return found

    try:
        found = json.loads(text, parse_constant=refuse, parse_float=finite, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        _damaged(name, not_json, error)
    if not isinstance(found, dict):
        _damaged(name, no_object)
    return found


def _contents(array: Array) -> memoryview:
    """Return the bytes of a contiguous array in the byte order of the file, little-endian."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False).data


def _checksum(tensors: Mapping[str, Array], text: str) -> str:
    """Return a digest of the metadata and of every tensor's name, dtype, shape and bytes."""
    about = [[name, array.dtype.name, array.shape] for name, array in sorted(tensors.items())]
    digest = hashlib.sha256(b'["')  # of json.dumps([text, about]), without a copy of the text
    for start in range(0, len(text), CHUNK):
        digest.update(json.dumps(text[start : start + CHUNK])[1:-1].encode())
    digest.update(f'", {json.dumps(about)}]'.encode())
    for name in sorted(tensors):
        digest.update(_contents(tensors[name]))
    return digest.hexdigest()


def _layout(tensors: Mapping[str, Array]) -> list[tuple[str, Array]]:
    """Return tensors in the order of the file: the largest item sizes first, so that all are aligned."""
    return sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))


def _header(tensors: Mapping[str, Array], marks: Mapping[str, str]) -> bytes:
    """Return the beginning of a safetensors file; the same model always gives the same bytes."""
    codes = {dtype: code for code, dtype in DTYPES.items()}
    header: dict[str, Any] = {RESERVED: marks}
    end = 0
    for name, array in _layout(tensors):
        start, end = end, end + array.nbytes
        header[name] = {"dtype": codes[array.dtype], "shape": array.shape, "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)  # so that the data begin at a multiple of 8
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _read_header(file: BinaryIO, path: str | os.PathLike[str], longest: int) -> tuple[int, dict[str, Any]]:
    """Return the size of a file and its header; refuse one that is too long or too costly before parsing it."""
    name = quoted(path)
    beginning = file.read(LENGTH_BYTES)
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(beginning, "little")
    if len(beginning) < LENGTH_BYTES or length > size - LENGTH_BYTES:
        _damaged(name, f"one that is truncated at {size} bytes or not in the safetensors format")
    try:
        _check_length(length, longest)  # before it is read
        header = check_header(file.read(length), size, longest)
    except ValueError as error:
        raise contradiction(path, "a complete model", error) from error
    return size, _from_json(header, name, NOT_SAFETENSORS, NOT_SAFETENSORS)


def _take_marks(header: dict[str, Any], name: str) -> dict[str, str]:
    """Remove the strings from a header, and return them."""
    marks = header.pop(RESERVED, {})
    if not isinstance(marks, dict) or not all(isinstance(mark, str) for mark in marks.values()):
        _damaged(name, NOT_SAFETENSORS)
    if not marks.get("metadata", "").isascii():  # json.dumps writes escapes, which take less memory
        _damaged(name, "one whose metadata is not plain ASCII")
    return marks


def _check_length(length: int, longest: int) -> None:
    if length > longest:
        raise ValueError(f"it has a header of {length} bytes, more than {longest}")


def check_header(header: bytes, size: int, longest: int) -> str:
    """Return the text of the header of a file of `size` bytes; raise if it would take far more memory."""
    _check_length(len(header), longest)
    if len(header) > LONGEST_WIDE_HEADER and not header.isascii():
        raise ValueError(f"it has a header of {len(header)} bytes, which is not plain ASCII")
    check_cost(header, size)
    return header.decode()


def _cost(text: str | bytes) -> int:
    """Return an upper bound of the memory that the values of JSON text take, without parsing it."""
    if isinstance(text, bytes):
        return sum(text.count(sign.encode()) * cost for sign, cost in COSTS.items())
    return sum(text.count(sign) * cost for sign, cost in COSTS.items())


def check_cost(text: str | bytes, size: int) -> None:
    """Raise if the values of JSON text could take far more memory than its file of `size` bytes."""
    if _cost(text) > FREE_COST + COST_PER_BYTE * size:
        raise ValueError("it holds more values than any model has")


def is_special(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a pipe, a device or a socket, from which reading may block or never end."""
    mode = os.stat(path).st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _check_marks(marks: Mapping[str, str], name: str) -> None:
    """Refuse a safetensors file that is not a coupledict model, or of another format version."""
    if marks.get("format") != FORMAT:
        raise ModelFileError(f"Expected {name} to be a coupledict model, got a safetensors file of something else.")
    version = marks.get("format_version", "")
    if version == FORMAT_VERSION:
        return
    if re.fullmatch("[1-9][0-9]{0,8}", version):
        raise ModelFileError(
            f"Expected {name} to be of format version {FORMAT_VERSION}, got version {version}, written by a newer"
            " coupledict; upgrade with: pip install --upgrade coupledict"
        )
    _damaged(name, "one whose format version is not a number")


def _damaged(name: str, what: str, cause: Exception | None = None) -> NoReturn:
    raise ModelFileError(f"Expected {name} to be a complete coupledict model, got {what}.") from cause


def contradiction(path: str | os.PathLike[str], what: str, error: Exception) -> ModelFileError:
    """Return the error, in one sentence, for a readable file whose contents do not make up `what`."""
    if isinstance(error, KeyError) and error.args:
        reason = f"it has no {error.args[0]!r}"
    else:
        reason = " ".join(str(error).split()).split(". ")[0].rstrip(".") or type(error).__name__
        reason = reason.replace("Expected ", "expected ", 1) if reason.startswith("Expected ") else reason
    if len(reason) > LONGEST_REASON:
        reason = f"{reason[:LONGEST_REASON]}..."
    return ModelFileError(f"Expected {quoted(path)} to hold {what}, but {reason}.")
