"""The compiled kernels without the package, against the slow twins: run as a script, with the path of the module.

    python tests/kernels_alone.py path/to/_native.abi3.so

NumPy and SciPy are enough, so this also runs where scikit-learn cannot be had. Every instruction set, number type,
pursuit and method codes random signals in many threads at once. Their stacks are as small as those that musl gives to
threads, 128 KiB. The program ends with status 1 if a code is wrong, and has crashed if a kernel needs a larger stack.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np

from support import constrained_twins, masked_twins, twins
from support.compare import Problem, assert_codes_match

N_THREADS, STACK_BYTES = 16, 128 << 10
N_SAMPLES, ROWS_PER_CALL = 30, 7
WEIGHTS = (1.0, 0.3)
# Features of the views, and atoms: around the vectors, panels and blocks of all instruction sets.
SHAPES = [((2,), 3), ((20,), 33), ((17,), 130), ((9, 5), 50)]
ALPHA = 0.3
FIRST_ROOM = 4  # nonzeros that the lasso has room for at first: some codes need more
METHODS = {"gram": "gram", "rows": "gram", "together": "gram_free", "careful": "careful"}


@dataclass(frozen=True)
class Way:
    """One way to code: an instruction set, a number type, a pursuit and how it is computed."""

    level: str
    dtype: type
    pursuit: str
    positive: bool = False
    method: str = "gram"  # or "rows" of it on demand, "together" by matrix products, "careful"
    masked: bool = False
    support: bool = False


def load(path: str) -> ModuleType:
    """Load the module from its file."""
    spec = spec_from_file_location("_native", path, loader=ExtensionFileLoader("_native", path))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ways(levels: Sequence[str]) -> Iterator[Way]:
    """Yield all ways that the package uses, for these instruction sets."""
    for level, dtype in product(levels, (np.float32, np.float64)):
        for pursuit, method in product(("omp", "ols"), ("gram", "rows", "together", "careful")):
            yield Way(level, dtype, pursuit, method=method)
        for pursuit, method in product(("omp", "ols", "lasso"), ("gram", "rows")):
            yield Way(level, dtype, pursuit, positive=True, method=method)
        for method in ("gram", "rows"):
            yield Way(level, dtype, "lasso", method=method)
            yield Way(level, dtype, "omp", method=method, support=True)
        for pursuit in ("omp", "ols"):
            yield Way(level, dtype, pursuit, method="rows", masked=True)


class Task:
    """Random views and dictionaries, to be coded in one way."""

    def __init__(self, native: ModuleType, way: Way, widths: Sequence[int], n_atoms: int) -> None:
        rng = np.random.default_rng([n_atoms, *widths])
        self.native, self.way = native, way
        self.Xs = [rng.standard_normal((N_SAMPLES, p)).astype(way.dtype) for p in widths]
        if way.masked:
            self.Xs = masked_twins.knock_out(rng, self.Xs, 0.3)
        self.Ds = [(rng.standard_normal((n_atoms, p)) / np.sqrt(p)).astype(way.dtype) for p in widths]
        self.weights = WEIGHTS[: len(widths)]
        self.scales = [float(np.sqrt(w)) for w in self.weights]
        most = min(n_atoms, min(widths) if way.support else sum(widths))
        self.limit = most if way.pursuit == "lasso" else min(5, most)
        self.plan = self._make_plan()
        self.settings = native.Settings(
            n_nonzero=self.limit,
            room=min(FIRST_ROOM, self.limit) if way.pursuit == "lasso" else self.limit,
            tol=-1.0,
            pursuit=way.pursuit,
            alpha=ALPHA if way.pursuit == "lasso" else 0.0,
            positive=way.positive,
            method=METHODS[way.method],
        )
        n_codes = len(widths) if way.support else 1
        self.codes = [np.full((N_SAMPLES, n_atoms), np.nan, way.dtype) for _ in range(n_codes)]

    def _make_plan(self) -> Any:
        scaled = [D.astype(float) * scale for D, scale in zip(self.Ds, self.scales, strict=True)]
        atoms = [twins.unit_atoms(own) for own in (scaled if self.way.support else [np.hstack(scaled)])]

        def as_type(dtype: type) -> list[tuple[np.ndarray, np.ndarray]]:
            return [(np.ascontiguousarray(unit, dtype), norms) for unit, norms in atoms]

        make = self.native.Plan32 if self.way.dtype == np.float32 else self.native.Plan64
        plan = make(as_type(self.way.dtype), self.scales, self.way.level, self.way.masked, lambda: as_type(np.float64))
        if self.way.method == "gram":
            plan.allocate_gram()
            for i, (unit, _) in enumerate(atoms):
                plan.fill_gram(i, 0, len(unit), self.native.Workspace())
        return plan

    def code(self, start: int) -> None:
        """Code some samples by one call, and keep their codes."""
        rows = np.arange(start, min(start + ROWS_PER_CALL, N_SAMPLES))
        status = np.empty(rows.size, np.uint8)
        counts, indices, values = self.plan.encode(
            [X[rows] for X in self.Xs],
            self.settings,
            self.native.Workspace(),
            np.zeros(1, np.int32),
            np.empty(rows.size),
            status,
        )
        allowed = [self.native.LIMIT, self.native.TOLERANCE, self.native.EXHAUSTED, self.native.DEPENDENT]
        allowed += [self.native.ZERO, *([self.native.UNKNOWN] if self.way.masked else [])]
        assert np.isin(status, allowed).all(), f"{self.way} ends with status {status}."
        owners = np.repeat(rows, counts)
        for codes, own in zip(self.codes, values, strict=True):
            codes[rows] = 0
            codes[owners, indices] = own

    def check(self) -> None:
        """Raise an AssertionError unless the codes are those of the twin."""
        way, codes = self.way, self.codes[0]
        arguments: Any = {"n_nonzero_coefs": self.limit, "view_weights": self.weights}
        if way.pursuit == "lasso":
            weights = {"positive": way.positive, "weights": self.weights}
            constrained_twins.assert_lasso(self.Xs, self.Ds, codes, ALPHA, **weights)
        elif way.support:
            self._check_support(twins.sparse_encode_support(self.Xs, self.Ds, dtype=way.dtype, **arguments))
        elif way.masked:
            problems = masked_twins.cut_problems(self.Xs, self.Ds, pursuit=way.pursuit, **arguments)
            expected = [masked_twins.encode_cut(problem) for problem in problems]
            masked_twins.assert_masked_codes_match(problems, codes, expected)
        else:
            problem = Problem.of(self.Xs, self.Ds, pursuit=way.pursuit, **arguments)
            # Where a single direction is left, every atom removes it: the last choice of OLS is a tie for all.
            ties = 1.0 if way.pursuit == "ols" and self.limit == problem.atoms.shape[1] else 0.05
            if way.positive:
                expected = constrained_twins.encode_positive(problem)
                constrained_twins.assert_positive_codes_match(problem, codes, expected, max_ties=ties)
            else:
                expected = twins.sparse_encode(self.Xs, self.Ds, dtype=way.dtype, pursuit=way.pursuit, **arguments)
                assert_codes_match(problem, codes, expected, max_ties=ties)

    def _check_support(self, expected: Sequence[np.ndarray]) -> None:
        same = np.all((self.codes[0] != 0) == (expected[0] != 0), axis=1)
        assert same.mean() > 0.9, f"{np.sum(~same)} of {same.size} codes chose other atoms."
        for mine, theirs in zip(self.codes, expected, strict=True):
            allowed = np.abs(theirs).max() * (2e-3 if self.way.dtype == np.float32 else 1e-9)
            error = np.abs(mine - theirs)[same].max(initial=0)
            assert error <= allowed, f"Codes differ from the expected ones by {error}; rounding explains {allowed}."


def main(path: str) -> int:
    """Code everything in threads, compare it here, and return how many ways went wrong."""
    native = load(path)
    found = list(ways(native.levels()))
    tasks = [Task(native, way, widths, n_atoms) for way in found for widths, n_atoms in SHAPES]
    threading.stack_size(STACK_BYTES)
    calls = [(task, start) for task in tasks for start in range(0, N_SAMPLES, ROWS_PER_CALL)]
    with ThreadPoolExecutor(N_THREADS) as pool:
        for _ in pool.map(lambda call: call[0].code(call[1]), calls):
            pass
    n_wrong = 0
    for task in tasks:
        try:
            task.check()
        except AssertionError as error:
            n_wrong += 1
            print(f"{task.way} for {task.Ds[0].shape} atoms: {error}", file=sys.stderr)
    print(
        f"{len(found)} ways to code, {len(tasks)} tasks in {N_THREADS} threads, by {native.compiler} for"
        f" {', '.join(native.levels())}: {n_wrong or 'none'} wrong"
    )
    return n_wrong


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Expected one argument, the path of the compiled module: kernels_alone.py path/to/_native.abi3.so")
    sys.exit(1 if main(sys.argv[1]) else 0)
