"""Time of coding and learning with large dictionaries, as for the activations of networks, beside the matrix product.

All numbers are float32. No activations are at hand, so
signals are one of these:

* ``patches``: image patches, the mean of each removed: 16x16 in colour for 768 features, 48x48 in grey for 2,304. Atoms
  are other patches with Gaussian noise of a tenth of their norm, so that no two are the same.
* ``mixtures``: sums of T random atoms of a Gaussian dictionary with positive coefficients, and noise of a tenth of
  their norm; coded over the dictionary that made them.

OMP without a Gram matrix needs T products of the signals with all atoms, 2 n K p T operations for n signals, K atoms
and p features. ``share`` is the time in which NumPy's sgemm would do these products, with the same threads and measured
in turns, over the time taken. It may exceed 100 % where a Gram matrix saves work. ``share, Gram`` counts the operations
of that way instead, where they are fewer: 2 K^2 p for the Gram matrix, and those of sparse_coding.py.

scikit-learn codes signal by signal and copies the Gram matrix (or, where that does not fit, the dictionary) for each of
them. It is timed on a few signals; its time for n signals is computed from that, with the time of the Gram matrix added
once. SPAMS' ``omp`` is orthogonal least squares and needs the whole Gram matrix, so it runs where that fits. PyTorch is
optional: ``pip install torch``.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from _coders import OURS, SKLEARN, SPAMS, Coder, Problem, available_coders, equal_supports, judge
from _large_coders import PRODUCT, TORCH, Array, batched_torch, gram_product, has_torch, product, scikit_learn
from _large_learning import Iteration, one_iteration
from _large_report import Memory, Row, tell_rest, tell_rows
from _main import Options, join, main
from _memory import memory_beyond
from _sparse_report import Case
from _timing import Entry, Timing, measure
from scipy import sparse

import coupledict
from coupledict.experiments.machine import usable_cores
from coupledict.experiments.sources import distinct_patches, load_images

SEED = 0
FEW = 4  # signals on which scikit-learn is timed
NOISE = 0.1
GRAM = "Gram matrix"


def make_signals(kind: str, data: Path | None, n: int, K: int, p: int, limit: int) -> tuple[Array, Array, str]:
    """Return n signals, K atoms of unit norm and a sentence that describes them."""
    rng = np.random.default_rng(SEED)
    if kind == "mixtures":
        D = _unit(rng.standard_normal((K, p), dtype=np.float32))
        X = np.empty((n, p), np.float32)
        for row in X:
            row[:] = rng.exponential(size=limit).astype(np.float32) @ D[rng.choice(K, limit, replace=False)]
        X += _noise(rng, X)
        return X, D, f"Signals: sums of {limit} of {K:,} Gaussian atoms, with noise."
    colour = math.isqrt(p) ** 2 != p
    side = math.isqrt(p // 3 if colour else p)
    if side * side * (3 if colour else 1) != p:
        raise SystemExit(f"Expected s*s or 3*s*s features for square patches, got {p}. Use --source mixtures.")
    images, sentence = load_images(data, colour=colour)
    (patches,) = distinct_patches([images], K + n, side=side, seed=SEED, dtype=np.float32)
    D = _unit(patches[n:] + _noise(rng, patches[n:]))
    return np.ascontiguousarray(patches[:n]), D, f"{sentence} Patches of {side}x{side}{'x3' if colour else ''}."


def _noise(rng: np.random.Generator, rows: Array) -> Array:
    scale = NOISE * np.sqrt(np.mean(rows * rows, axis=1, keepdims=True)) + np.float32(1e-6)
    noise: Array = scale * rng.standard_normal(rows.shape, dtype=np.float32)
    return noise


def _unit(rows: Array) -> Array:
    unit: Array = np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return unit


@dataclass(frozen=True)
class Found:
    """What was measured with one dictionary, or one iteration of learning."""

    title: str = ""
    rows: list[Row] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    iteration: Iteration | None = None


class Bench:
    """Times all coders on growing numbers of signals, and leaves out what would take longer than the budget."""

    def __init__(self, arguments: Options, spams: Coder | None, torch: bool, title: str) -> None:
        self.arguments = arguments
        self._spams = spams
        self._torch = torch
        self.found = Found(title)

    def run(self, whole: Problem) -> None:
        """Code the first n signals of a problem, for each n that was asked for, and measure memory for the last n."""
        few = replace(whole, views=(whole.views[0][:FEW],))
        fits = whole.n_components**2 * 4 <= self.arguments.memory * 1e9
        alone = {SKLEARN: Entry(SKLEARN, scikit_learn(few, with_gram=fits), self.arguments.threads)}
        if fits:
            alone[GRAM] = Entry(GRAM, gram_product(whole), self.arguments.threads)
        else:
            self._leave(whole, SPAMS, "its Gram matrix does not fit")
        per_signal: dict[str, float] = {}
        timed: dict[str, Timing] = {}
        for n in self.arguments.signals:
            problem = replace(whole, views=(np.ascontiguousarray(whole.views[0][:n]),))
            calls = {PRODUCT: product(problem), **self._calls(problem, per_signal, fits=fits)}
            if OURS not in calls:
                break
            entries = [*(Entry(name, call, self.arguments.threads) for name, call in calls.items()), *alone.values()]
            timings = {timing.name: timing for timing in self._measure(entries)}
            timed.update({name: timings[name] for name in alone})
            alone = {}
            per_signal = {name: timings[name].median / n for name in calls}
            self._note(problem, {**timings, **timed})
        if self.found.rows:
            self._note_memory(whole, self.found.rows[-1].n_signals)

    def _note_memory(self, problem: Problem, n: int) -> None:
        X, D = problem.views[0][:n], problem.dictionaries[0]
        found = memory_beyond(X, D, problem.n_nonzero_coefs, self.arguments.threads)
        input_mb = found["input"] + D.nbytes / 1e6
        self.found.memory.append(Memory(*_sizes(problem), n, input_mb, found["output"], found["beyond"]))

    def _measure(self, entries: Sequence[Entry]) -> list[Timing]:
        return measure(entries, repeats=self.arguments.repeats, budget=self.arguments.budget, at_least=1)

    def _calls(self, problem: Problem, per_signal: dict[str, float], *, fits: bool) -> dict[str, Any]:
        makers: dict[str, Any] = {OURS: lambda: _ours(problem, self.arguments.threads)}
        if self._torch:
            makers[TORCH] = lambda: batched_torch(problem, self.arguments.threads)
        spams = self._spams
        if spams is not None and fits:
            makers[SPAMS] = lambda: spams.prepare(problem, self.arguments.threads)
        calls = {}
        for name, make in makers.items():
            expected = per_signal.get(name, 0.0 if not per_signal else math.inf) * problem.n_samples
            if expected <= self.arguments.budget:
                calls[name] = make()
            else:
                self._leave(problem, name, "it would probably take longer than the budget")
        return calls

    def _leave(self, problem: Problem, name: str, why: str) -> None:
        self.found.left_out.append(f"{_heading(problem)}, {problem.n_samples:,} signals: {name} is left out, {why}.")

    def _note(self, problem: Problem, timings: dict[str, Timing]) -> None:
        n, case, one = problem.n_samples, Case.of(problem), timings.pop(PRODUCT).median
        gram = timings.pop(GRAM, None)
        with_gram = case.useful_flops + 2.0 * problem.n_components**2 * problem.n_features
        products = with_gram * one / (2.0 * n * problem.n_components * problem.n_features)  # as seconds of sgemm
        without = problem.n_nonzero_coefs * one
        codes = {name: _codes(name, timing.result) for name, timing in timings.items()}
        for name, timing in timings.items():
            scaled = FEW if name == SKLEARN else None
            seconds = timing.median * (n / FEW if scaled else 1) + (gram.median if scaled and gram else 0.0)
            X = problem.views[0][: codes[name].shape[0]]
            energy = float(np.sqrt(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1))))
            residual = judge(X, codes[name], problem.dictionaries[0]).rms_residual / energy
            self.found.rows.append(
                Row(
                    *_sizes(problem),
                    n,
                    name,
                    seconds,
                    timing.repeats,
                    scaled,
                    without / seconds,
                    products / seconds if products < without else None,
                    None if scaled else residual,  # that of a few signals compares with nothing
                    equal_supports(codes[OURS][: len(X)], codes[name]),
                )
            )


def _ours(problem: Problem, threads: int) -> Any:
    X, D, limit = problem.views[0], problem.dictionaries[0], problem.n_nonzero_coefs
    return lambda: coupledict.sparse_encode(X, D, n_nonzero_coefs=limit, n_jobs=threads)


def _codes(name: str, answer: Any) -> Any:
    return sparse.csr_array(answer.T if name in (SPAMS, SKLEARN) else answer)


def _sizes(problem: Problem) -> tuple[int, int, int]:
    return problem.n_components, problem.n_features, problem.n_nonzero_coefs


def _heading(problem: Problem) -> str:
    return f"{problem.n_components:,} atoms, {problem.n_features:,} features, T = {problem.n_nonzero_coefs}"


def cases(options: Options) -> dict[str, tuple[int, int, int, str]]:
    """Return atoms, features and limits of what is coded, and the update of an iteration of learning."""
    sizes = [(K, p, limit) for K in options.atoms for p in options.features for limit in options.limits]
    found = {f"{K:,} atoms, {p:,} features, T = {limit}": (K, p, limit, "") for K, p, limit in sizes}
    smallest = min(options.atoms), min(options.features), min(options.limits)
    if options.learning:
        found |= {f"learning, {update}": (*smallest, update) for update in ("statistics", "sequential")}
    return found


def run(case: tuple[int, int, int, str], options: Options) -> Found:
    """Code by all coders, or learn for one iteration."""
    K, p, limit, update = case
    n = 2 * K if update else max(options.signals)
    X, D, sentence = make_signals(options.source, options.data, n, K, p, limit)
    if update:
        return Found(iteration=one_iteration(X, D, limit, update, options.threads, options.learning))
    coders, missing = available_coders()
    for line in missing:
        if line.startswith(SPAMS):
            options.note(line)
    if not has_torch():
        options.note(f"{TORCH} is left out: PyTorch is not installed. To compare with it: pip install torch")
    problem = Problem("large", options.source, (X,), (D,), limit, dtypes=("float32",))
    spams = next((coder for coder in coders if coder.name == SPAMS), None)
    bench = Bench(options, spams, has_torch(), f"{_heading(problem)}. {sentence}")
    bench.run(problem)
    return bench.found


def report(results: Mapping[str, Found], options: Options) -> str:
    coded = [found for found in results.values() if found.iteration is None]
    blocks = [block for found in coded for block in (found.title, tell_rows(found.rows))]
    rest = tell_rest(
        [row for found in coded for row in found.rows],
        [row for found in coded for row in found.memory],
        [found.iteration for found in results.values() if found.iteration is not None],
        [line for found in coded for line in found.left_out],
    )
    return join(f"{options.threads} threads.", *blocks, rest)


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", choices=("patches", "mixtures"), default="patches", help="what the signals are")
    for name, default in (("atoms", "16384,65536"), ("features", "768,2304"), ("limits", "20,32"),
                          ("signals", "256,1024,4096")):  # fmt: skip
        parser.add_argument(f"--{name}", type=_numbers, metavar="A,B", default=default, help=f"default: {default}")
    parser.add_argument("--threads", type=int, default=min(2, usable_cores()))
    parser.add_argument("--budget", type=float, metavar="S", default=30.0,
                        help="seconds for the runs of one coder: fewer runs where more would take longer, but 1; "
                             "a single run that would take longer is left out")  # fmt: skip
    parser.add_argument("--memory", type=float, metavar="GB", default=_memory_gb() / 4,
                        help="the largest Gram matrix of a peer (default: a quarter of the memory)")  # fmt: skip
    parser.add_argument("--learning", type=float, metavar="S", default=900.0,
                        help="seconds that one iteration of learning may take; 0: no learning")  # fmt: skip


def _numbers(text: str) -> list[int]:
    return sorted(int(number) for number in text.split(","))


def _memory_gb() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9 if hasattr(os, "sysconf") else 8.0


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder of images; bundled photographs stand in",
        repeats=(5, "timed runs of each coder"),
        extend=extend,
        quick={"repeats": 2, "atoms": [1024], "features": [192, 256], "limits": [5], "signals": [64, 256]},
    )
