"""Arrays of PyTorch, JAX and anything else that speaks DLPack: read in place, or refused with what to do.

The doors are in tensor_doors.py. Each is tried with an exporter that needs no other library, and with PyTorch and JAX
where they are installed; COUPLEDICT_TENSORS=required (`make systems NAME=tensors`) makes a missing library a failure.
"""

from __future__ import annotations

import functools
import importlib
import os
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from coupledict import CoupledDictionaryLearning, DictionaryLearning, SparseCoder, sparse_encode
from coupledict.audio import narrow_band
from coupledict.classification import CoupledClassifier
from coupledict.foundation.tensors import as_array, as_numpy
from coupledict.images import extract_patches, imresize
from coupledict.matching import partner_ranks
from coupledict.views import Views
from support.programs import run_python
from support.tensor_doors import DOORS, Convertible, D, E, Exporter, L, U, Y, plain

EXPORTS_ALL = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="NumPy exports arrays that are not writable since 2.1"
)
LIBRARIES = ("exporter", "torch", "jax")
ROOT = Path(__file__).resolve().parents[2]


def library(name: str) -> Any:
    """Import a library that tensors come from, or skip the test."""
    if name == "jax":
        os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")  # sharding needs two
    try:
        found = importlib.import_module(name)
    except ImportError:
        if os.environ.get("COUPLEDICT_TENSORS") == "required":
            raise
        pytest.skip(f"{name} is not installed: `make systems NAME=tensors` has it")
    if name == "jax":
        found.config.update("jax_enable_x64", True)
    return found


def maker(name: str) -> Callable[[np.ndarray], Any]:
    """Return what makes a tensor of an array."""
    if name == "exporter":
        return Exporter
    return library("torch").from_numpy if name == "torch" else library("jax").numpy.asarray


@pytest.fixture(params=LIBRARIES)
def t(request) -> Callable[[np.ndarray], Any]:
    return maker(request.param)


# Sharing


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "u2", "i4", "i8", "?"])
def test_memory_is_shared(t, dtype):
    given = t(np.arange(12).reshape(3, 4).astype(dtype))
    read = as_numpy(given)
    assert type(read) is np.ndarray
    assert (read.dtype, read.shape) == (np.dtype(dtype), (3, 4))
    assert np.array_equal(read, np.arange(12).reshape(3, 4).astype(dtype))
    assert np.shares_memory(read, as_numpy(given))  # jax.numpy.asarray copies; the tensor itself is not copied again
    if not isinstance(given, Exporter):
        assert np.shares_memory(read, np.asarray(given))


@pytest.mark.parametrize("name", ["exporter", "torch"])
def test_writes_to_a_tensor_are_seen(name):
    array = np.zeros((2, 3))
    read = as_numpy(maker(name)(array))
    array[1, 2] = 7
    assert read[1, 2] == 7


@pytest.mark.parametrize("name", ["exporter", "torch"])
@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.T,
        lambda a: a[:, ::2],
        lambda a: a[1:, 1:],
        pytest.param(lambda a: np.broadcast_to(a[:1], a.shape), marks=EXPORTS_ALL),
        lambda a: a[:0],
        lambda a: a[:, :0],
        lambda a: a[0, 0, ...],
    ],
    ids=["transposed", "every other column", "a part", "repeated", "no rows", "no columns", "one number"],
)
def test_strides_are_kept(name, change):
    array = np.arange(20.0).reshape(5, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of arrays that are not writable
        given = maker(name)(np.asarray(change(array)))
    read = as_numpy(given)
    assert read.shape == change(array).shape
    assert np.array_equal(read, change(array))
    assert read.size == 0 or (read.strides == change(array).strides and np.shares_memory(read, array))


@EXPORTS_ALL
def test_an_array_that_is_not_writable_stays_so():
    array = U.copy()
    array.flags.writeable = False
    read = as_numpy(Exporter(array))
    assert not read.flags.writeable
    assert np.shares_memory(read, array)
    assert plain(sparse_encode(Exporter(array), D, n_nonzero_coefs=2)) == plain(sparse_encode(U, D, n_nonzero_coefs=2))


def test_tensors_of_jax_are_not_writable_and_finished():
    jax = library("jax")
    big = jax.numpy.ones((600, 600)) / 600
    for _ in range(20):  # computed in the background
        big = big @ big
    read = as_numpy(big)
    assert not read.flags.writeable
    assert np.allclose(read, 1 / 600)


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_memory_outlives_the_tensor(name):
    make = library("torch").ones if name == "torch" else library("jax").numpy.ones
    read = as_numpy(make((1000, 1000)))
    junk = [make((1000, 1000)) * 5 for _ in range(3)]
    assert (read == 1).all()
    assert len(junk) == 3


def test_subclasses_of_tensors_are_read():
    torch = library("torch")
    given = torch.nn.Parameter(torch.from_numpy(U), requires_grad=False)
    assert np.shares_memory(as_numpy(given), U)


def test_everything_else_is_as_it_was(tmp_path):
    mapped = np.memmap(tmp_path / "x", np.float64, "w+", shape=(2, 2))
    series = pl.Series([1.0, 2.0])
    things = [U, mapped, np.ma.masked_array([1.0], [True]), np.float32(3), 3, "text", None, [[1.0]], series]
    things += [pd.DataFrame({"a": [1.0]}), pd.Series([1.0]), pl.DataFrame({"a": [1.0]}), csr_array(U), Views([U])]
    assert all(as_numpy(thing) is thing for thing in things)


def test_tables_beside_tensors_keep_their_names(t):
    table = pd.DataFrame(U, columns=list("abcdef"))
    learner = CoupledDictionaryLearning(8, max_iter=2, random_state=0).fit([table, t(L)])
    assert learner.view_feature_names_in_[0].tolist() == list("abcdef")
    assert learner.view_feature_names_in_[1] is None
    with pytest.raises(ValueError, match="feature names"):
        learner.transform([table[list("fedcba")], t(L)])


def test_what_cannot_share_but_be_converted_is_converted():
    words = Convertible(np.array(["b", "a"] * 40, dtype=object), error=TypeError("no strings"))
    assert as_numpy(words) is words
    found = CoupledClassifier(8, random_state=0).fit(U + 3 * Y[:, None], words)
    assert found.classes_.tolist() == ["a", "b"]


# Doors


@functools.cache
def of_arrays(name: str) -> Any:
    """Return what comes out of a door for arrays of NumPy."""
    return plain(DOORS[name](lambda array: array))


@pytest.mark.parametrize("name", DOORS)
def test_results_are_those_of_arrays(t, name):
    tensors = []

    def make(array: np.ndarray) -> Any:
        tensors.append((t(np.array(array)), np.array(array)))
        return tensors[-1][0]

    found = plain(DOORS[name](make))
    assert found == of_arrays(name)
    assert len(tensors) > 1
    assert all(np.array_equal(as_array(tensor), before, equal_nan=True) for tensor, before in tensors), "changed"


@pytest.mark.slow
def test_results_are_the_same_if_scikit_learn_asks_for_the_library_of_arrays():
    """Its setting is global, and SciPy reads its own when it is imported: hence another process."""
    names = ["encode", "coder", "single_learner", "helpers_of_views", "selection", "classifiers"]  # that reach it
    code = (
        f"NAMES = {names}"
        + """
import sklearn
from support.tensor_doors import DOORS, Exporter, plain
try:
    sklearn.set_config(array_api_dispatch=True)
except ImportError as error:
    raise SystemExit("skip: " + str(error).splitlines()[0])
try:
    from torch import from_numpy as make
except ImportError:
    make = Exporter
for name in NAMES:
    assert plain(DOORS[name](make)) == plain(DOORS[name](lambda array: array)), name
print("all doors")
"""
    )
    path = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": path}
    done = run_python(code, env=environment)
    if "skip: " in done.stderr and os.environ.get("COUPLEDICT_TENSORS") != "required":
        pytest.skip(done.stderr.rpartition("skip: ")[2].strip())
    assert done.stdout.strip() == "all doors", done.stderr


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_number_types_are_kept(t, dtype):
    u, d = t(U.astype(dtype)), t(D.astype(dtype))
    learner = DictionaryLearning(8, max_iter=2, random_state=0).fit(u)
    assert sparse_encode(u, d).dtype == dtype
    assert learner.transform(u).dtype == dtype
    assert isinstance(learner.transform(u), csr_array)
    assert SparseCoder(d, sparse_output=False).fit_transform(u).dtype == dtype


@pytest.mark.parametrize("name", LIBRARIES)
def test_large_views_are_not_copied(name):
    """The peak of what Python and NumPy allocate stays below one view, through learning, coding and predicting."""
    make = maker(name)
    arrays = [np.ones((200_000, 64), np.float32) * np.arange(1, 65, dtype=np.float32) for _ in range(2)]
    views = [make(array) for array in arrays]
    learner = CoupledDictionaryLearning(8, n_nonzero_coefs=1, max_iter=2, random_state=0)
    learner.fit([array[:500] for array in arrays])  # what is imported and made once
    tracemalloc.start()
    try:
        learner.fit(views)
        learner.transform([views[0], None])
        sparse_encode(views[0], learner.components_[0], n_nonzero_coefs=1)
        DictionaryLearning(8, n_nonzero_coefs=1, max_iter=2, random_state=0).fit(views[0]).transform(views[0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < arrays[0].nbytes


# Refusals


def refused(value: Any, *words: str) -> None:
    """Check the sentence that says why an array is refused."""
    with pytest.raises(TypeError) as caught:
        as_numpy(value, "X[1]")
    assert str(caught.value).startswith("Expected X[1] to ")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("device", "words"),
    [((2, 1), "device 1 of CUDA"), ((8, 0), "device 0 of Metal"), ((10, 0), "of ROCm"), ((99, 0), "kind 99 of DLPack")],
)
def test_arrays_on_other_devices_are_refused(device, words):
    refused(Exporter(U, device=device), "memory of the processor", "support.Exporter", words, "Copy it there")
    refused(Convertible(U, device=device), words)


@pytest.mark.parametrize("device", [(3, 0), (11, 0), (13, 0)])
def test_memory_that_the_processor_shares_is_read(device):
    assert np.shares_memory(as_numpy(Exporter(U, device=device)), U)


@pytest.mark.parametrize(("module", "copy"), [("torch", "X[1].cpu()"), ("cupy", "X[1].get()"), ("jax", "device_get")])
def test_how_to_copy_from_another_device_is_said(module, copy, monkeypatch):
    kind = type("Array", (Exporter,), {"__module__": module, "devices": lambda self: [0], "is_deleted": lambda self: 0})
    refused(kind(U, device=(2, 0)), f"{module}.Array on device 0 of CUDA", copy)


def test_what_a_library_says_is_told():
    refused(Exporter(U, error=BufferError("It is locked.")), "cannot share it: It is locked. Convert it")
    refused(Exporter(U.astype(complex)), "real numbers", "complex128", "X[1].real")


@pytest.mark.parametrize(
    "call",
    [
        lambda bad: sparse_encode([U, bad], [D, E]),
        lambda bad: sparse_encode({"a": U, "X": bad}, {"a": D, "X": E}),
        lambda bad: sparse_encode(bad, D),
        lambda bad: sparse_encode(U, bad),
        lambda bad: sparse_encode([U, L], [D, bad]),
        lambda bad: CoupledDictionaryLearning(8).fit([U, bad]),
        lambda bad: DictionaryLearning(8).fit(bad),
        lambda bad: DictionaryLearning(8, init=bad).fit(U),
        lambda bad: SparseCoder(D).fit(U).inverse_transform(bad),
        lambda bad: CoupledClassifier().fit(U, bad),
        lambda bad: Views([U, bad]),
        lambda bad: extract_patches(bad, 8),
        lambda bad: imresize(bad, 2),
        narrow_band,
        partner_ranks,
    ],
)
def test_every_door_refuses_what_it_cannot_read(call):
    with pytest.raises(TypeError, match=r"memory of the processor, got support\.Exporter on device 1 of CUDA"):
        call(Exporter(L, device=(2, 1)))


def test_refusals_name_the_view():
    far = Exporter(L, device=(2, 0))
    for call, name in (
        (lambda: sparse_encode([U, far], [D, E]), "X[1]"),
        (lambda: sparse_encode({"a": U, "far": far}, {"a": D, "far": E}), "X['far']"),
        (lambda: sparse_encode([U, L], [D, far]), "dictionary[1]"),
        (lambda: Views([U, far]), "views[1]"),
        (lambda: CoupledClassifier().fit(U, far), "y"),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value).startswith(f"Expected {name} to lie in the memory")


def test_shapes_are_told_as_for_arrays(t):
    with pytest.raises(ValueError, match="Expected X to have 2 dimensions, got 0"):
        sparse_encode(t(np.array(1.0)), D)
    with pytest.raises(ValueError, match="reshape"):
        sparse_encode(t(U[0]), D)
    assert sparse_encode(t(U[:0]), D).shape == (0, 12)
    with pytest.raises(TypeError, match="Give a list"):
        CoupledDictionaryLearning(8).fit(t(U), t(L))


def tensors_of_torch() -> dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]]:
    """Return what PyTorch has and NumPy cannot read, with words of the refusal."""

    def fake(torch: Any) -> Any:
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            return torch.ones(2, 2)

    return {
        "gradient": (lambda torch: torch.ones(2, 2, requires_grad=True), ("gradient", "X[1].detach()")),
        "parameter": (lambda torch: torch.nn.Parameter(torch.ones(2, 2)), ("gradient", "X[1].detach()")),
        "bfloat16": (lambda torch: torch.ones(2, 2).bfloat16(), ("bfloat16", "X[1].float()")),
        "float8": (lambda torch: torch.ones(2, 2).to(torch.float8_e4m3fn), ("float8_e4m3fn", "X[1].float()")),
        "complex": (lambda torch: torch.ones(2, 2) * 1j, ("complex64", "X[1].real", "abs(X[1])")),
        "coordinates": (lambda torch: torch.eye(2).to_sparse(), ("torch.sparse_coo", "SciPy", "X[1].to_dense()")),
        "rows": (lambda torch: torch.eye(2).to_sparse_csr(), ("torch.sparse_csr", "X[1].to_dense()")),
        "negated": (lambda torch: (torch.ones(2, 2) * 1j).conj().imag, ("negated", "X[1].resolve_neg()")),
        "conjugated": (lambda torch: (torch.ones(2, 2) * 1j).conj(), ("conjugate",)),
        "meta": (lambda torch: torch.ones(2, 2, device="meta"), ("a shape and a number type alone",)),
        "fake": (fake, ("a shape and a number type alone",)),
        "quantised": (lambda torch: torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.quint8), ("dequantize",)),
        "nested": (lambda torch: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), ("to_padded_tensor",)),
    }


@pytest.mark.parametrize("kind", tensors_of_torch())
def test_tensors_of_torch_that_cannot_be_read_are_refused(kind):
    torch = library("torch")
    make, words = tensors_of_torch()[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are in beta, some deprecated
        given = make(torch)
    refused(given, *words)


def test_tensors_within_a_map_of_torch_are_refused():
    torch = library("torch")

    def inside(row: Any) -> Any:
        refused(row, "cannot share it")
        return row.sum()

    torch.vmap(inside)(torch.ones(2, 3))


def test_what_the_refusals_of_torch_advise_works():
    torch = library("torch")
    x = torch.from_numpy(U)
    codes = plain(sparse_encode(U, D, n_nonzero_coefs=2))
    mended = [x.clone().requires_grad_().detach(), x.to_sparse().to_dense(), torch.complex(x, x).real, x.cpu()]
    mended.append((1j * -x).conj().imag.resolve_neg())
    assert all(plain(sparse_encode(good, D, n_nonzero_coefs=2)) == codes for good in mended)
    assert sparse_encode(x.bfloat16().float(), D.astype(np.float32)).dtype == np.float32


def test_tensors_of_jax_that_cannot_be_read_are_refused():
    jax = library("jax")
    refused(jax.numpy.ones((2, 2), jax.numpy.bfloat16), "bfloat16", "X[1].astype('float32')")
    refused(jax.numpy.ones((2, 2), jax.numpy.float8_e4m3fn), "float8_e4m3fn")
    refused(jax.numpy.ones((2, 2), complex), "complex128", "X[1].real")
    deleted = jax.numpy.ones(3)
    deleted.delete()
    refused(deleted, "deleted")


def test_tracers_of_jax_are_refused():
    jax = library("jax")

    def inside(rows: Any) -> Any:
        refused(rows, "tracer of JAX", "jax.pure_callback")
        with pytest.raises(TypeError, match="tracer of JAX"):
            sparse_encode(rows, D)
        return rows.sum()

    jax.jit(inside)(U)
    jax.grad(inside)(U)
    jax.vmap(inside)(U)


def test_arrays_of_jax_over_several_devices_are_refused():
    jax = library("jax")
    if len(jax.devices()) < 2:
        pytest.skip("JAX was started with one device")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("rows",))
    for spec in (jax.sharding.PartitionSpec("rows"), jax.sharding.PartitionSpec()):
        spread = jax.device_put(U, jax.sharding.NamedSharding(mesh, spec))
        refused(spread, "sharded over 2", "jax.device_get(X[1])")
        assert np.array_equal(as_numpy(jax.device_get(spread)), U)
    assert np.array_equal(as_numpy(jax.device_put(U, jax.devices()[1])), U)
