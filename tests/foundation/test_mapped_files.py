"""Memory maps whose files are truncated: an OSError, where a look at the lost pages would end the process."""

import json
import mmap
import os
import sys

import numpy as np
import pytest

from coupledict.foundation import mapped
from coupledict.foundation.mapped import find_map, in_memory
from support.programs import run_python

cannot_cut = pytest.mark.skipif(sys.platform == "win32", reason="Windows does not let a mapped file be truncated")

# Every case runs in a process of its own, forked from one that has imported everything.
CASES = """
import json, os, signal, sys, warnings
import numpy as np
import pandas as pd

from coupledict import (
    CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning, SparseCoder, lasso_gaps, sparse_encode
)
from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier
from coupledict.foundation.block_sizes import SIZES
from coupledict.matching import CrossModalMatcher
from coupledict.views import EachView
from sklearn.preprocessing import StandardScaler

folder = sys.argv[1]
rng = np.random.default_rng(0)
N, WIDTH = 3000, 16
Z = rng.standard_normal((N, 4)) @ rng.standard_normal((4, WIDTH)) + 0.1 * rng.standard_normal((N, WIDTH))
D = rng.standard_normal((8, WIDTH))
y = np.arange(N) % 3


def stored(array=Z, order="C", mode="r"):
    path = os.path.join(folder, f"{os.getpid()}-{len(os.listdir(folder))}.npy")
    np.save(path, np.asarray(array, order=order))
    paths.append(path)
    return np.load(path, mmap_mode=mode)


def cut():
    for path in paths:
        os.truncate(path, os.path.getsize(path) // 4)


def unfolded(make, method, *, views=1, fit=None, **options):
    def run():
        given = Z if views == 1 else [Z] * views
        estimator = make()
        if method not in ("fit", "partial_fit"):
            estimator.fit(given, *([] if fit is None else [fit]))
        maps = [stored() for _ in range(views)]
        cut()
        extra = [] if fit is None or method not in ("fit", "score") else [fit]
        getattr(estimator, method)(maps[0] if views == 1 else maps, *extra, **options)
    return run


def coded(change, order="C", mode="r", **options):
    def run():
        X = change(stored(order=order, mode=mode))
        cut()
        sparse_encode(X, D[:, : X.shape[1]], n_nonzero_coefs=2, **options)
    return run


def small():
    return DictionaryLearning(8, n_nonzero_coefs=1, max_iter=2, random_state=0)


def coupled():
    return CoupledDictionaryLearning(8, n_nonzero_coefs=2, max_iter=2, random_state=0)


def online():
    return OnlineDictionaryLearning(8, n_nonzero_coefs=2, random_state=0)


def matcher():
    return CrossModalMatcher(n_dictionaries=1, random_state=0)


def classifier():
    return CoupledClassifier(8, head="codes", random_state=0)


def residuals():
    return SparseRepresentationClassifier(n_nonzero_coefs=2)


def in_the_middle():
    X = stored()
    seen = []

    def callback(progress):
        seen.append(progress)
        if len(seen) == 2:
            cut()

    DictionaryLearning(8, n_nonzero_coefs=1, max_iter=20, stop_tol=0.0, growth=None, callback=callback).fit(X)


def a_dictionary():
    atoms = stored(np.tile(D, (200, 1)))
    cut()
    sparse_encode(Z[:5], atoms, n_nonzero_coefs=1)


def gaps():
    X = stored()
    codes = sparse_encode(X, D, pursuit="lasso", alpha=1.0)
    cut()
    lasso_gaps(X, D, codes, alpha=1.0)


def match():
    estimator = matcher().fit([Z[:300], Z[:300]])
    X = stored()
    cut()
    estimator.match(Z[:5], X)


def index():
    estimator = matcher().fit([Z[:300], Z[:300]])
    X = stored()
    cut()
    estimator.index(X)


def chunks(kind):
    def run():
        X = [stored(), stored()]
        cut()
        small().fit(X if kind == "list" else lambda: iter(X))
    return run


def dask():
    import dask.array as da
    from dask import delayed

    X = stored()
    parts = [da.from_delayed(delayed(X[i : i + 1000]), (1000, WIDTH), float) for i in range(0, N, 1000)]
    cut()
    small().fit(da.concatenate(parts))


def beside_dask():
    import dask.array as da

    X = stored()
    cut()
    coupled().fit([da.from_array(Z, chunks=(1000, WIDTH)), X])


def scaler():
    return EachView(StandardScaler())


cases = {
    "encode": coded(lambda X: X),
    "encode rows": coded(lambda X: X[2000:]),
    "encode columns": coded(lambda X: X[:, 3:9]),
    "encode strided": coded(lambda X: X[::-2, ::-3]),
    "encode an array": coded(np.asarray),
    "encode Fortran": coded(lambda X: X, order="F"),
    "encode writable": coded(lambda X: X, mode="r+"),
    "encode private": coded(lambda X: X, mode="c"),
    "encode masked": coded(lambda X: np.ma.array(X, mask=np.eye(N, WIDTH, dtype=bool), copy=False)),
    "encode a table": coded(lambda X: pd.DataFrame(X, copy=False)),
    "encode bad samples": coded(lambda X: X, missing="nan"),
    "encode a dictionary": a_dictionary,
    "gaps": gaps,
    "coder": unfolded(lambda: SparseCoder(D, n_nonzero_coefs=1), "transform"),
    "coder fit": unfolded(lambda: SparseCoder(D, n_nonzero_coefs=1), "fit"),
    "match": match,
    "index": index,
    "chunks in a list": chunks("list"),
    "chunks by a callable": chunks("callable"),
    "dask": dask,
    "beside dask": beside_dask,
}
for method in ("fit", "partial_fit", "transform", "score"):
    cases[f"single {method}"] = unfolded(small, method)
    cases[f"coupled {method}"] = unfolded(coupled, method, views=2)
for method in ("fit", "partial_fit"):
    cases[f"online {method}"] = unfolded(online, method, views=2)
for method in ("fit", "transform"):
    cases[f"each view {method}"] = unfolded(scaler, method, views=2)
for method in ("fit", "predict"):
    cases[f"classifier {method}"] = unfolded(classifier, method, fit=y)
    cases[f"classifier of views {method}"] = unfolded(classifier, method, views=2, fit=y)
    cases[f"residuals {method}"] = unfolded(residuals, method, fit=y)
cases["coupled predict"] = unfolded(coupled, "predict", views=2, view=0)
cases["coupled impute"] = unfolded(coupled, "impute", views=2)
for method in ("fit", "score"):
    cases[f"matcher {method}"] = unfolded(matcher, method, views=2)

batches = ("coupled partial_fit", "online fit", "online partial_fit")  # these refuse files that are read in blocks
large = {name: case for name, case in cases.items() if name not in batches} | {"in the middle": in_the_middle}
found = {}
for size, group in (("small", cases), ("large", large)):
    for name, case in group.items():
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            said = "nothing was raised"
            SIZES.large_bytes = 0 if size == "large" else SIZES.large_bytes
            paths = []
            try:
                warnings.simplefilter("ignore")
                case()
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writer, said.encode()[:4000])
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            said = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found[f"{name}, {size}"] = said if code == 0 else f"signal {-code}"
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps")
    done = run_python(CASES, folder, seconds=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@cannot_cut
def test_every_reader_raises(messages):
    wrong = {name: said for name, said in messages.items() if not said.startswith("OSError")}
    assert not wrong
    assert len(messages) > 70


@pytest.mark.slow
@cannot_cut
def test_errors_tell_what_is_wrong(messages):
    for said in messages.values():
        assert "are needed; it was truncated" in said
    assert messages["encode, small"].startswith("OSError: Could not read samples 0 to ")
    assert messages["coupled fit, small"].startswith("OSError: Could not read X[0]: its file has ")
    assert messages["coupled fit, large"].startswith("OSError: Could not read chunk 0 (samples 0 to 2999) of X[0]: ")


# The copies themselves


def mapped_array(path, array, mode="r"):
    np.save(path, array)
    return np.load(path, mmap_mode=mode)


LAYOUTS = {
    "rows": lambda X: X[3:40],
    "one row": lambda X: X[5:6],
    "columns": lambda X: X[:, 2:5],
    "every third column": lambda X: X[:, ::3],
    "every third row": lambda X: X[1::3],
    "backwards": lambda X: X[::-2, ::-1],
    "transposed": lambda X: X.T,
    "plain": np.asarray,
    "a plain part": lambda X: np.asarray(X)[7:, 1:],
    "repeated": lambda X: np.broadcast_to(X[4], (6, X.shape[1])),
    "one column repeated": lambda X: np.broadcast_to(X[:, :1], (X.shape[0], 3)),
    "windows": lambda X: np.lib.stride_tricks.sliding_window_view(X, 5, axis=0),
    "vector": lambda X: X[:, 3],
    "number": lambda X: X[3:4, 2].reshape(()),
    "reshaped": lambda X: X.reshape(X.shape[0], 2, -1)[:, ::-1, 1:],
    "empty": lambda X: X[5:5],
}


@pytest.mark.parametrize("by_system", [True, False], ids=["system", "fallback"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("order", "dtype", "mode"), [("C", "<f8", "r"), ("F", ">f4", "r"), ("C", "<i2", "c"), ("F", "?", "r+")]
)
def test_copies_are_equal(rng, tmp_path, monkeypatch, sizes, layout, order, dtype, mode, by_system):
    if not by_system:
        monkeypatch.setattr(mapped, "_copy_memory", None)
    sizes(copy_bytes=1000, copy_runs=7)
    array = (100 * rng.standard_normal((900, 12))).astype(dtype, order=order)
    given = LAYOUTS[layout](mapped_array(tmp_path / "X.npy", array, mode))
    copied = in_memory(given)
    assert copied.dtype == given.dtype
    assert copied.shape == given.shape
    np.testing.assert_array_equal(copied, LAYOUTS[layout](array))
    assert given.size == 0 or find_map(copied) is None


def test_private_changes_are_seen(rng, tmp_path):
    X = mapped_array(tmp_path / "X.npy", rng.standard_normal((50, 4)), "c")
    X[3, 2] = 7
    assert in_memory(X)[3, 2] == 7


def test_arrays_in_memory_are_not_copied(rng, tmp_path):
    X = mapped_array(tmp_path / "X.npy", rng.standard_normal((50, 4)))
    for array in (np.zeros((3, 2)), X[[1, 2]], X + 1, np.frombuffer(mmap.mmap(-1, 80))):
        assert in_memory(array) is array


def test_masked_arrays_keep_their_masks(rng, tmp_path):
    X = np.ma.array(mapped_array(tmp_path / "X.npy", rng.standard_normal((50, 4))), copy=False)
    X.mask = rng.random(X.shape) < 0.5
    copied = in_memory(X)
    np.testing.assert_array_equal(copied.mask, X.mask)
    np.testing.assert_array_equal(copied.data, X.data)
    assert find_map(copied) is None


@cannot_cut
@pytest.mark.parametrize("by_system", [True, False], ids=["system", "fallback"])
def test_a_few_lost_bytes_do_not_come_as_zeros(rng, tmp_path, monkeypatch, by_system):
    """The page that holds the end of a file is whole in memory, and zero behind that end."""
    if not by_system:
        monkeypatch.setattr(mapped, "_copy_memory", None)
    path = tmp_path / "X.npy"
    X = mapped_array(path, rng.standard_normal((50, 4)))
    os.truncate(path, path.stat().st_size - 8)
    with pytest.raises(
        OSError, match=r"^Could not read X: its file has 1720 bytes, 1728 are needed; it was truncated$"
    ):
        in_memory(X)


@pytest.mark.skipif(sys.platform != "win32", reason="other systems truncate mapped files")
def test_windows_does_not_truncate_a_mapped_file(rng, tmp_path):
    path = tmp_path / "X.npy"
    X = mapped_array(path, rng.standard_normal((50, 4)))
    try:
        os.truncate(path, 200)
    except OSError:
        np.testing.assert_array_equal(in_memory(X), np.load(path))
    else:  # Wine does it
        with pytest.raises(OSError, match="it was truncated"):
            in_memory(X)


RACE = """
import os, sys
import numpy as np
from coupledict.foundation.mapped import in_memory

path, rounds = sys.argv[1], 10
full, whole, lost = os.path.getsize(path), 0, 0
for _ in range(rounds):
    os.truncate(path, full)
    X = np.load(path, mmap_mode="r")
    child = os.fork()
    if child == 0:
        os.truncate(path, full // 8)
        os._exit(0)
    try:
        while True:
            in_memory(X)
            whole += 1
    except OSError:
        lost += 1
    os.waitpid(child, 0)
print(lost)
"""


@pytest.mark.slow
@pytest.mark.skipif(mapped._copy_memory is None, reason="the system has no call that copies memory")
def test_a_file_that_is_truncated_while_it_is_read(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, np.ones((1_000_000, 4)))
    done = run_python(RACE, path)
    assert (done.returncode, done.stdout) == (0, "10\n"), done.stderr


def test_a_refused_call_is_replaced(rng, tmp_path, monkeypatch):
    """Sandboxes may refuse the system call."""
    X = mapped_array(tmp_path / "X.npy", rng.standard_normal((50, 4)))

    def refuse(*_):
        mapped.ctypes.set_errno(mapped.errno.EPERM)
        return -1

    monkeypatch.setattr(mapped, "_copy_memory", refuse)
    np.testing.assert_array_equal(in_memory(X), X)
