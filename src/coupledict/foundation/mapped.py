"""Arrays of mapped files, copied to memory so that a file that was truncated raises an error.

Reading a page beyond the end of its file kills the process (SIGBUS). A system call that reads the same page merely
fails. So the system makes the copy, and no other code reads a mapped file.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from .block_sizes import SIZES

Array: TypeAlias = npt.NDArray[Any]
Map: TypeAlias = "np.memmap[Any, Any]"

MOST_LINKS = 100  # bases of a view, and their bases; NumPy makes chains of two or three


def find_map(value: object) -> Map | None:
    """Return the memory map that an array is, or is a view of; None for arrays in memory."""
    link: Any = value if isinstance(value, np.ndarray) else None
    for _ in range(MOST_LINKS):
        if isinstance(link, np.memmap) and getattr(link, "_mmap", None) is not None:
            return link
        if link is None:
            break
        link = link.obj if isinstance(link, memoryview) else getattr(link, "base", None)
    return None


def in_memory(array: Array, name: str = "X") -> Array:
    """Return a copy of an array that lies in a mapped file, and anything else unchanged.

    Raises
    ------
    OSError
        If the file was truncated, before or while it was read, or cannot be read.
    """
    mapped = find_map(array)
    if mapped is None or array.size == 0:
        return array
    if np.ma.isMaskedArray(array):
        masked: Array = np.ma.array(
            in_memory(array.data, name), mask=in_memory(np.ma.getmaskarray(array), name), copy=False
        )
        return masked
    try:
        return copy_mapped(array, mapped)
    except OSError as error:
        raise OSError(f"Could not read {name}: {error}") from error


def rows_in_memory(array: Array, start: int, stop: int) -> Array:
    """Return rows of an array, copied if they lie in a mapped file, dense if they are sparse; an error names them."""
    if issparse(array):
        return dense_rows(array, start, stop)
    return in_memory(array[start:stop], f"samples {start} to {min(stop, len(array)) - 1}")


def dense_rows(array: Any, start: int, stop: int) -> Array:
    """Return rows of a sparse array in CSR format as a dense array."""
    return np.asarray(dense(array[start:stop]))


def dense(array: Any) -> Any:
    """Return a sparse array as a dense one, and anything else unchanged."""
    is_sparse: bool = issparse(array)
    return array.toarray() if is_sparse else array


def copy_mapped(array: Array, mapped: Map) -> Array:
    """Return a copy of an array that lies in this map; raise OSError if it cannot be read."""
    copied = _copy_by_system(array, mapped)
    if copied is None:  # not Linux, or a sandbox that refuses the call
        _check_length(mapped)
        copied = np.array(array)
    _check_length(mapped)  # what lay between the end of the file and the end of its page came as zeros
    return copied


def _check_length(mapped: Map) -> None:
    """Raise if the file of a memory map has become shorter."""
    size, needed = _sizes(mapped)
    if size < needed:
        raise OSError(f"its file has {size} bytes, {needed} are needed; it was truncated")


def forget_pages(array: Array) -> None:
    """Release the pages of an array in a mapped file; otherwise they count as memory of this process."""
    mapped = find_map(array)
    if mapped is None or not array.flags.c_contiguous or not hasattr(mmap, "MADV_DONTNEED"):
        return
    file: Any = mapped._mmap  # type: ignore[attr-defined]
    begin = array.ctypes.data - np.frombuffer(file, np.uint8).ctypes.data
    end = begin + array.nbytes
    begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE  # a page that also holds a neighbouring row stays
    end = end // mmap.PAGESIZE * mmap.PAGESIZE
    if mapped.mode == "r" and end > begin:  # not pages of a writable map: changes might be lost
        with suppress(ValueError, OSError):
            file.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def _sizes(mapped: Map) -> tuple[int, int]:
    """Return the bytes that the file has, and those that the map needs."""
    file: Any = mapped._mmap  # type: ignore[attr-defined]
    offset = mapped.offset or 0
    return int(file.size()), offset - offset % mmap.ALLOCATIONGRANULARITY + len(file)


class _Run(ctypes.Structure):
    """A run of bytes: where it starts, and how many they are (struct iovec)."""

    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_size_t))


def _find_call() -> Callable[..., int] | None:
    """Return the system call that copies memory between processes, here within one; None where there is none."""
    try:
        call: Any = ctypes.CDLL(None, use_errno=True).process_vm_readv
    except (OSError, AttributeError, TypeError):
        return None
    runs = ctypes.POINTER(_Run)
    call.argtypes = [ctypes.c_int, runs, ctypes.c_ulong, runs, ctypes.c_ulong, ctypes.c_ulong]
    call.restype = ctypes.c_ssize_t
    found: Callable[..., int] = call
    return found


_copy_memory = _find_call()


class _NoCallError(Exception):
    """The system has the call, but does not allow this process to use it."""


def _copy_by_system(array: Array, mapped: Map) -> Array | None:
    """Return a copy that the system made; None if it cannot."""
    if _copy_memory is None:
        return None
    # Axes run forwards, from the largest stride to the smallest; an axis that repeats its entries is read once.
    ways: Any = (*(slice(None, None, -1 if step < 0 else 1) for step in array.strides), ...)
    once: Any = (*(slice(1 if step == 0 else None) for step in array.strides), ...)
    plain = array[ways][once]
    axes = sorted(range(plain.ndim), key=lambda axis: -plain.strides[axis])
    source = plain.transpose(axes)
    copied = np.empty(source.shape, source.dtype)
    try:
        _copy_sorted(source.squeeze(), copied.squeeze(), mapped)
    except _NoCallError:
        return None
    back = copied.transpose(np.argsort(axes))
    whole: Array = back if back.shape == array.shape else np.broadcast_to(back, array.shape)
    return np.asarray(whole[ways])


def _copy_sorted(source: Array, copied: Array, mapped: Map) -> None:
    """Copy an array whose strides are positive and fall from axis to axis, and that has no axis of length 1."""
    if source.flags.c_contiguous:
        for start in range(0, source.nbytes, SIZES.copy_bytes):
            size = min(SIZES.copy_bytes, source.nbytes - start)
            _copy_runs([source.ctypes.data + start], size, copied.ctypes.data + start, mapped)
        return
    # The innermost axes are one run if their gaps are smaller than a page, which has to be read anyway.
    axis, size = source.ndim, source.itemsize
    while axis > 0 and source.strides[axis - 1] < size + mmap.PAGESIZE:
        axis -= 1
        size += (source.shape[axis] - 1) * source.strides[axis]
    if size > SIZES.copy_bytes and axis < source.ndim:
        middle = source.shape[axis] // 2
        for half in (slice(middle), slice(middle, None)):
            part = (slice(None),) * axis + (half,)
            _copy_sorted(source[part].squeeze(), copied[part].squeeze(), mapped)
        return
    places: npt.NDArray[np.int64] = np.zeros(1, np.int64)
    for n, step in zip(source.shape[:axis], source.strides[:axis], strict=True):
        places = np.add.outer(places, np.arange(n) * step).ravel()
    count = places.size
    target = copied.reshape(count, *source.shape[axis:])
    n_runs = max(1, min(SIZES.copy_runs, SIZES.copy_bytes // size))
    held = np.empty(min(n_runs, count) * size, np.uint8)
    for start in range(0, count, n_runs):
        starts = (source.ctypes.data + places[start : start + n_runs]).tolist()
        _copy_runs(starts, size, held.ctypes.data, mapped)
        shape = (len(starts), *source.shape[axis:])
        target[start : start + n_runs] = np.ndarray(shape, source.dtype, held, 0, (size, *source.strides[axis:]))


def _copy_runs(starts: Sequence[int], size: int, target: int, mapped: Map) -> None:
    """Copy runs of `size` bytes from these addresses to one address, one after the other."""
    assert _copy_memory is not None
    runs = (_Run * len(starts))(*(_Run(start, size) for start in starts))
    wanted = size * len(starts)
    done = _copy_memory(os.getpid(), _Run(target, wanted), 1, runs, len(starts), 0)
    if done == wanted:
        return
    if done < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
        raise _NoCallError
    _check_length(mapped)
    raise OSError("its file could not be read")
