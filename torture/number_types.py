"""How far codes and dictionaries depend on dtypes and instruction sets, and that they depend on nothing else.

Patches of random smooth pictures are coded over a cosine dictionary and over a random one, by both pursuits. Codes are
compared where the same atoms were chosen; where two atoms are equally good, rounding decides between them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from _main import Figures, main

import coupledict
from coupledict import CoupledDictionaryLearning, dct_dictionary, sparse_encode

CASES = [("omp", 5), ("omp", 10), ("ols", 10), ("omp", 32)]
TWINS = ("avx2", "avx512")  # the same fused operations in the same order


@contextmanager
def level(name: str) -> Iterator[None]:
    """Make the kernels use an instruction set."""
    before = os.environ.get("COUPLEDICT_SIMD")
    os.environ["COUPLEDICT_SIMD"] = name
    try:
        yield
    finally:
        os.environ.pop("COUPLEDICT_SIMD") if before is None else os.environ.update(COUPLEDICT_SIMD=before)


def smooth_patches(rng: Any, n: int) -> Any:
    """Return 8 x 8 patches of a random picture with the spectrum of photographs, without their means."""
    frequency = np.hypot(*np.meshgrid(*[np.fft.fftfreq(256) * 256] * 2))
    picture = np.real(np.fft.ifft2(rng.standard_normal((256, 256)) / (1 + frequency) ** 1.2)) * 256**2
    windows = np.lib.stride_tricks.sliding_window_view(picture, (8, 8))
    rows, columns = rng.integers(0, windows.shape[0], (2, n))
    patches = windows[rows, columns].reshape(n, 64)
    return patches - patches.mean(axis=1, keepdims=True)


def compare(X: Any, D: Any, one: Any, other: Any) -> tuple[float, float, float]:
    """Return the share of equal supports, and the relative changes: the largest of a code, that of the mean error."""
    a, b = (codes.toarray().astype(float) for codes in (one, other))
    same = np.all((a != 0) == (b != 0), axis=1)
    change = np.linalg.norm(a - b, axis=1)[same] / np.linalg.norm(b, axis=1)[same]
    errors = [float(np.linalg.norm(X - codes @ D, axis=1).mean()) for codes in (a, b)]
    return float(same.mean()), float(change.max(initial=0)), abs(errors[0] / errors[1] - 1)


class Worst:
    """The worst of many comparisons, under a name each."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}

    def add(self, name: str, found: tuple[float, float, float]) -> None:
        """Keep what is worse than before."""
        for what, value, keep in zip(("equal supports", "codes", "mean error"), found, (min, max, max), strict=True):
            key = f"{name}: {what}"
            self.figures[key] = keep(self.figures.get(key, value), value)


def compare_codes(rng: Any, n: int, levels: list[str], worst: Worst) -> None:
    """Compare codes of one draw of patches over number types, instruction sets and numbers of threads."""
    X = smooth_patches(rng, n)
    random = rng.standard_normal((256, 64))
    for D in (np.asarray(dct_dictionary((8, 8), 256), float), random):
        for pursuit, limit in CASES:
            found = {}
            for name in levels:
                for dtype in (np.float32, np.float64):
                    options: dict[str, Any] = {"n_nonzero_coefs": limit, "pursuit": pursuit}
                    with level(name):
                        codes = [
                            sparse_encode(X.astype(dtype), D.astype(dtype), **options, n_jobs=n_jobs)
                            for n_jobs in (1, 2, 3)
                        ]
                    found[name, dtype] = codes[0]
                    assert all(is_same(codes[0], other) for other in codes[1:]), f"{name}: threads changed a bit"
            best = levels[-1]
            worst.add("float32 against float64", compare(X, D, found[best, np.float32], found[best, np.float64]))
            for dtype in (np.float32, np.float64):
                if set(TWINS) <= set(levels):
                    assert is_same(found[TWINS[0], dtype], found[TWINS[1], dtype]), "avx2 and avx512 differ"
                words = f"{levels[0]} against {best}, {np.dtype(dtype).name}"
                worst.add(words, compare(X, D, found[levels[0], dtype], found[best, dtype]))


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two arrays of codes have the same bits."""
    return all(np.array_equal(getattr(one, part), getattr(other, part)) for part in ("data", "indices", "indptr"))


def compare_fits(rng: Any, n: int, levels: list[str]) -> dict[str, float]:
    """Return how far scores of dictionaries learned with each number type and instruction set lie from each other."""
    X = smooth_patches(rng, n)
    views, found = [X, X @ rng.standard_normal((64, 40))], {}
    for name in levels:
        for dtype in (np.float32, np.float64):
            typed = [view.astype(dtype) for view in views]
            learners = []
            for n_jobs in (1, 1, 2, 3):
                with level(name):
                    learner = CoupledDictionaryLearning(
                        128, n_nonzero_coefs=5, max_iter=10, predictor="dictionary", random_state=0, n_jobs=n_jobs
                    )
                    learners.append(learner.fit(typed))
            for other in learners[1:]:
                pairs = zip(learners[0].components_, other.components_, strict=True)
                assert all(np.array_equal(a, b) for a, b in pairs), f"{name}: a fit did not repeat itself"
            found[name, dtype] = learners[0].score(typed)
    best = levels[-1]
    return {
        "float32 against float64: score of a fit": abs(found[best, np.float32] - found[best, np.float64]),
        **{
            f"{levels[0]} against {best}, {np.dtype(dtype).name}: score of a fit": abs(
                found[levels[0], dtype] - found[best, dtype]
            )
            for dtype in (np.float32, np.float64)
        },
    }


def run(count: int, seed: int) -> Figures:
    """Compare the codes of `count` patches, a thousand of each picture, and one fit."""
    rng = np.random.default_rng(seed)
    levels = list(coupledict.build_info()["simd_available"])
    worst = Worst()
    for start in range(0, count, 1000):
        compare_codes(rng, min(1000, count - start), levels, worst)
    return {"patches": count, "levels": levels, **worst.figures, **compare_fits(rng, min(count, 5000), levels)}


if __name__ == "__main__":
    main(run, 20_000)
