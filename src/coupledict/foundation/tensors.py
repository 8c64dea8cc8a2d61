"""Arrays of other libraries, such as PyTorch and JAX, as arrays of NumPy that share their memory (DLPack).

This is the only place that knows about them; what leaves coupledict is NumPy's and SciPy's. None of the libraries is
imported. Each has arrays whose numbers NumPy cannot read in place: on another device, sparse, of a type of its own, or
not known yet. These are refused with advice; nothing is copied without the user's knowledge.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: Devices whose memory NumPy reads, by their numbers in dlpack.h: the processor, and memory that it shares.
READABLE = (1, 3, 11, 13)
#: Names of the others.
DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 9: "VPI", 10: "ROCm", 14: "oneAPI", 15: "WebGPU"}
#: How to copy an array to the memory of the processor, by the library that it is of.
COPIES = {"torch": "{}.cpu()", "cupy": "{}.get()", "jax": "jax.device_get({})", "jaxlib": "jax.device_get({})"}


def is_tensor(value: object) -> bool:
    """Return whether this is an array of another library that can share its memory, or says so."""
    return hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray)


def as_numpy(value: Any, name: str = "X") -> Any:
    """Return an array of another library as one of NumPy, with the same memory, and anything else unchanged.

    Parameters
    ----------
    value : object
        What a user gave. If it cannot share its memory for a reason of its own, but can be converted by
        ``numpy.asarray``, as columns of strings of pyarrow can, it is returned unchanged.
    name : str
        What to call it in errors.

    Raises
    ------
    TypeError
        If the numbers cannot be read; the message says how to fix it.
    """
    if not is_tensor(value):
        return value
    reason = _not_there(value, name) or _not_plain(value, name) or _elsewhere(value, name)
    if reason is not None:
        raise TypeError(f"Expected {name} to {reason}")
    try:
        array = np.from_dlpack(value)
    except Exception as error:  # each library raises errors of its own
        if hasattr(value, "__array__") and _library(value) not in COPIES:
            return value
        raise TypeError(_unreadable(value, name, error)) from error
    if array.dtype.kind == "c":
        raise TypeError(
            f"Expected {name} to hold real numbers, got {_kind(value)} of {array.dtype}. Give its real part,"
            f" {name}.real, or its magnitude, abs({name})."
        )
    return array


def as_array(value: Any, name: str = "X") -> npt.NDArray[Any]:
    """Return anything that is like an array as one of NumPy, copied only if there is no other way."""
    return np.asarray(with_numpy(value, name))


def with_numpy(value: Any, name: str = "X") -> Any:
    """Return what :func:`as_numpy` does; in a list or a tuple, for each of its entries."""
    if not isinstance(value, list | tuple):
        return as_numpy(value, name)
    if not any(map(is_tensor, value)):
        return value
    return [as_numpy(entry, f"{name}[{place}]") for place, entry in enumerate(value)]


def _library(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _kind(value: object) -> str:
    return f"{_library(value)}.{type(value).__name__}"


def _not_there(value: Any, name: str) -> str | None:
    """Return what is wrong with an array whose numbers are not known; None if they are."""
    if any(cls.__name__ == "Tracer" and cls.__module__.startswith("jax.") for cls in type(value).__mro__):
        return (
            "hold numbers, got a tracer of JAX: within jit, vmap and grad there are none yet. Call coupledict outside"
            " of them, or by jax.pure_callback."
        )
    if _is_true(value, "is_meta") or hasattr(value, "fake_mode"):
        return f"hold numbers, got {_kind(value)} with a shape and a number type alone."
    return None


def _not_plain(value: Any, name: str) -> str | None:
    """Return what is wrong with a tensor of PyTorch that does not store its numbers one by one, if that is so."""
    layout = str(getattr(value, "layout", "torch.strided"))
    if layout.startswith("torch.") and layout != "torch.strided":
        return (
            f"be dense, or a sparse array of SciPy, got a tensor of layout {layout}. Convert it with {name}.to_dense()."
        )
    if _is_true(value, "is_nested"):
        return f"be one array, got a nested tensor. Convert it with {name}.to_padded_tensor(0.0)."
    if _is_true(value, "is_quantized"):
        return f"hold plain numbers, got a quantised tensor. Convert it with {name}.dequantize()."
    if _is_true(value, "requires_grad"):
        return (
            f"be a tensor without gradient, got one that requires it. No gradient flows through coupledict: give"
            f" {name}.detach()."
        )
    if _is_true(value, "is_neg"):  # DLPack has no such mark, and PyTorch would give the numbers with the wrong sign
        return f"hold numbers as they are, got a tensor that stores them negated. Give {name}.resolve_neg()."
    return None


def _elsewhere(value: Any, name: str) -> str | None:
    """Return what is wrong with an array that is not in the memory of the processor, or in parts, if that is so."""
    parts = len(value.devices()) if _library(value) in ("jax", "jaxlib") and not value.is_deleted() else 1
    if parts > 1:
        return f"lie on one device, got {_kind(value)} sharded over {parts}. Gather it first: jax.device_get({name})."
    number, place = _device(value)
    if number in READABLE:
        return None
    copy = COPIES.get(_library(value))
    hint = "Copy it there first." if copy is None else f"Copy it there first: {copy.format(name)}."
    device = DEVICES.get(number, f"kind {number} of DLPack")
    return f"lie in the memory of the processor, got {_kind(value)} on device {place} of {device}. {hint}"


def _device(value: Any) -> tuple[int, int]:
    """Return the kind and the number of the device that an array says it is on; the processor if it does not."""
    try:
        number, place = value.__dlpack_device__()
        return int(number), int(place)
    except Exception:  # what is wrong is said when the array is read
        return READABLE[0], 0


def _unreadable(value: Any, name: str, error: Exception) -> str:
    """Return what to say of an array that NumPy could not read."""
    dtype = str(getattr(value, "dtype", "float64")).removeprefix("torch.")
    if not _is_of_numpy(dtype):
        convert = f"{name}.float()" if _library(value) == "torch" else f"{name}.astype('float32')"
        return f"Expected {name} to hold numbers of a type that NumPy has, got {dtype}. Convert it with {convert}."
    return (
        f"Expected {name} to be an array whose memory NumPy can read, got {_kind(value)}, which cannot share it:"
        f" {str(error).strip().rstrip('.')}. Convert it to an array of NumPy first."
    )


def _is_of_numpy(dtype: str) -> bool:
    try:
        return np.dtype(dtype).isbuiltin == 1
    except TypeError:
        return False


def _is_true(value: Any, name: str) -> bool:
    """Return an attribute that is True or False, or a method without arguments that returns that; False if absent."""
    found = getattr(value, name, False)
    return (found() if callable(found) else found) is True
