"""One version of the library at work: reads the names of cases from the standard input, and answers with JSON.

It is started by ``versions.py`` with the Python of each version, and uses what all versions have. Each answer has the
seconds of one call and a digest of its results.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.sparse
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits

import coupledict
from coupledict import CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning, sparse_encode
from coupledict.classification import CoupledClassifier
from coupledict.experiments.sources import bundled_image
from coupledict.images import MultiFocusFusion, SuperResolution, extract_patches
from coupledict.matching import CrossModalMatcher

Call = Callable[[], Any]
THREADS = 2


@cache
def patches(count: int, dtype: str) -> list[Any]:
    """Return centred 8 x 8 patches of photographs, sharp and blurred."""
    sharp: list[Any] = []
    blurred: list[Any] = []
    for name in ("camera", "brick", "grass", "gravel"):
        whole = np.asarray(bundled_image(name), np.float64)
        for rows, own in ((sharp, whole), (blurred, gaussian_filter(whole, 1.5))):
            rows.append(extract_patches(own, (8, 8), stride=2).reshape(-1, 64))
    chosen = np.random.default_rng(0).permutation(sum(len(rows) for rows in sharp))[:count]
    views = [np.concatenate(rows)[chosen] for rows in (sharp, blurred)]
    return [np.ascontiguousarray(view - view.mean(axis=1, keepdims=True), dtype) for view in views]


@cache
def atoms(count: int, width: int, dtype: str) -> Any:
    """Return random atoms of norm 1."""
    found = np.random.default_rng(1).standard_normal((count, width))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(dtype)


def encode(count: int, n_atoms: int, dtype: str, holes: float, **options: Any) -> Call:
    """Return a call that codes patches."""
    X = patches(count, dtype)[0]
    if holes:
        X = np.where(np.random.default_rng(2).random(X.shape) < holes, np.nan, X).astype(dtype)
        options["missing"] = "nan"
    return lambda: sparse_encode(X, atoms(n_atoms, 64, dtype), n_jobs=THREADS, **options)


def learn(count: int, dtype: str, holes: float = 0.0, **options: Any) -> Call:
    """Return a call that learns coupled dictionaries, and predicts one view from the other."""
    views = patches(count, dtype)
    if holes:
        rng = np.random.default_rng(3)
        views = [np.where(rng.random(view.shape) < holes, np.nan, view).astype(dtype) for view in views]
        options["missing"] = "nan"
    plain = {"scale": None, "predictor": "ridge"} | options
    known = inspect.signature(CoupledDictionaryLearning).parameters
    plain = {name: value for name, value in plain.items() if name in known}

    def call() -> Any:
        model = CoupledDictionaryLearning(n_jobs=THREADS, random_state=0, **plain).fit(views)
        return [*model.components_, model.transform(views), model.predict([None, views[1]], view=0)]

    return call


def learn_one(kind: Any, count: int, dtype: str, **options: Any) -> Call:
    """Return a call that learns a dictionary of one view."""
    X = patches(count, dtype)[0]
    given = [X] if kind is OnlineDictionaryLearning else X

    def call() -> Any:
        model = kind(256, n_jobs=THREADS, random_state=0, **options).fit(given)
        return [model.components_, model.transform(given)]

    return call


def classify() -> Call:
    X, y = load_digits(return_X_y=True)

    def call() -> Any:
        model = CoupledClassifier(n_jobs=THREADS, random_state=0).fit(X[:900], y[:900])
        return model.predict_proba(X[900:])

    return call


def match() -> Call:
    X = load_digits().data
    halves = [X[:, :32], X[:, 32:]]

    def call() -> Any:
        model = CrossModalMatcher(n_jobs=THREADS, random_state=0).fit([half[:900] for half in halves])
        return model.predict([None, halves[1][900:]], view=0)

    return call


def fuse() -> Call:
    picture = np.asarray(bundled_image("camera"), np.float32)
    soft = gaussian_filter(picture, 2.0)
    left = np.arange(picture.shape[1]) < 256
    stack = [np.where(side, picture, soft).astype(np.uint8) for side in (left, ~left)]
    return lambda: MultiFocusFusion(n_jobs=THREADS).fuse(stack).image


def enlarge() -> Call:
    small = np.asarray(bundled_image("camera")).astype(np.uint8)[::2, ::2]
    model = SuperResolution.pretrained(2)
    return lambda: model.upscale(small)


CASES: dict[str, Callable[[], Call]] = {
    "OMP T=5 float32": partial(encode, 10_000, 256, "float32", 0, n_nonzero_coefs=5),
    "OMP T=10 float64": partial(encode, 10_000, 256, "float64", 0, n_nonzero_coefs=10),
    "OMP T=10, 50,000, float32": partial(encode, 50_000, 256, "float32", 0, n_nonzero_coefs=10),
    "OMP tol float64": partial(encode, 10_000, 256, "float64", 0, tol=64.0 * 16),
    "OLS T=10 float32": partial(encode, 5_000, 256, "float32", 0, n_nonzero_coefs=10, pursuit="ols"),
    "non-negative OMP float64": partial(encode, 5_000, 256, "float64", 0, n_nonzero_coefs=8, positive_code=True),
    "lasso float64": partial(encode, 2_000, 256, "float64", 0, pursuit="lasso", alpha=60.0),
    "OMP, 20 % missing, float32": partial(encode, 5_000, 256, "float32", 0.2, n_nonzero_coefs=8),
    "fit T=5 float64": partial(learn, 20_000, "float64", n_components=256, n_nonzero_coefs=5),
    "fit T=10 float32": partial(learn, 20_000, "float32", n_components=256, n_nonzero_coefs=10),
    "fit tol float64": partial(learn, 10_000, "float64", n_components=256, tol=64.0 * 64, max_iter=10),
    "fit K-SVD float64": partial(
        learn, 5_000, "float64", n_components=256, n_nonzero_coefs=5, update="ksvd", max_iter=5
    ),
    "fit of the paper float64": partial(
        learn, 10_000, "float64", n_components=256, n_nonzero_coefs=5, **coupledict.PAPER
    ),
    "fit one view float32": partial(learn_one, DictionaryLearning, 20_000, "float32", n_nonzero_coefs=5),
    "fit online float32": partial(learn_one, OnlineDictionaryLearning, 20_000, "float32", n_nonzero_coefs=5),
    "classifier": classify,
    "matcher": match,
    "fusion": fuse,
    "super-resolution": enlarge,
}


def digest(value: Any) -> str:
    """Return the SHA-256 of arrays: of their number types, shapes and bytes."""
    found = hashlib.sha256()

    def add(item: Any) -> None:
        if isinstance(item, list | tuple):
            for one in item:
                add(one)
        elif isinstance(item, dict):
            add(list(item.values()))
        elif isinstance(item, scipy.sparse.csr_array):
            add([item.data, item.indices.astype(np.int64), item.indptr.astype(np.int64)])
        else:
            array = np.ascontiguousarray(item)
            found.update(f"{array.dtype} {array.shape}".encode())
            found.update(array.tobytes())

    add(value)
    return found.hexdigest()[:16]


def main() -> None:
    """Answer until the input ends."""
    warnings.simplefilter("ignore")
    prepared: dict[str, Call] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in prepared:
            prepared.clear()
            prepared[name] = CASES[name]()
        start, cpu = time.perf_counter(), time.process_time()
        result = prepared[name]()
        answer = {
            "seconds": time.perf_counter() - start,
            "cpu": time.process_time() - cpu,
            "digest": digest(result),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
