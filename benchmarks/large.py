"""Time coding and learning with large dictionaries, as for the activations of networks, beside the matrix product.

Run ``python benchmarks/large.py`` from the root of the project. All numbers are float32. No activations are at hand, so
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
import json
import math
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from _coders import OURS, SKLEARN, SPAMS, Coder, Problem, available_coders, equal_supports, judge
from _large_coders import PRODUCT, TORCH, Array, batched_torch, gram_product, has_torch, product, scikit_learn
from _large_learning import one_iteration
from _large_report import Memory, Row, print_rest, print_rows
from _memory import memory_beyond
from _sparse_report import Case
from _timing import Entry, Timing, measure
from scipy import sparse

import coupledict
from coupledict.experiments.machine import load_average, machine, usable_cores
from coupledict.experiments.sources import data_directory, distinct_patches, load_images

DISTRIBUTIONS = ("coupledict", "numpy", "scipy", "scikit-learn", "spams-bin", "torch")
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


class Bench:
    """Times all coders on growing numbers of signals, and leaves out what would take longer than the budget."""

    def __init__(self, arguments: argparse.Namespace, spams: Coder | None, torch: bool) -> None:
        self.arguments, self._spams, self._torch = arguments, spams, torch
        self.rows: list[Row] = []
        self.memory: list[Memory] = []
        self.left_out: list[str] = []

    def run(self, whole: Problem) -> None:
        """Code the first n signals of a problem, for each n that was asked for, and measure memory for the last n."""
        few, rows = replace(whole, views=(whole.views[0][:FEW],)), len(self.rows)
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
        if len(self.rows) > rows:
            self._note_memory(whole, self.rows[-1].n_signals)

    def _note_memory(self, problem: Problem, n: int) -> None:
        X, D = problem.views[0][:n], problem.dictionaries[0]
        found = memory_beyond(X, D, problem.n_nonzero_coefs, self.arguments.threads)
        input_mb = found["input"] + D.nbytes / 1e6
        self.memory.append(Memory(*_sizes(problem), n, input_mb, found["output"], found["beyond"]))

    def _measure(self, entries: Sequence[Entry]) -> list[Timing]:
        return measure(entries, repeats=self.arguments.repeats, budget=self.arguments.budget, at_least=1,
                       progress=_progress)  # fmt: skip

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
        self.left_out.append(f"{_heading(problem)}, {problem.n_samples:,} signals: {name} is left out, {why}.")

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
            self.rows.append(
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


def _progress(name: str) -> None:
    if sys.stderr.isatty():
        print(f"\r  {name:<40}", end="" if name else "\r", file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Coding and learning with large dictionaries, float32.")
    parser.add_argument("--data", metavar="DIR", help="folder of images (else COUPLEDICT_DATA, else bundled)")
    parser.add_argument("--output", metavar="DIR", default="output/benchmarks", help="where results go")
    parser.add_argument("--quick", action="store_true", help="small sizes and 2 runs, to see that it works")
    parser.add_argument("--source", choices=("patches", "mixtures"), default="patches", help="what the signals are")
    for name, default in (("atoms", "16384,65536"), ("features", "768,2304"), ("limits", "20,32"),
                          ("signals", "256,1024,4096")):  # fmt: skip
        parser.add_argument(f"--{name}", type=_numbers, metavar="A,B", default=default, help=f"default: {default}")
    parser.add_argument("--threads", type=int, default=min(2, usable_cores()))
    parser.add_argument("--repeats", type=int, metavar="N", default=5, help="timed runs of each coder")
    parser.add_argument("--budget", type=float, metavar="S", default=30.0,
                        help="seconds for the runs of one coder: fewer runs where more would take longer, but 1; "
                             "a single run that would take longer is left out")  # fmt: skip
    parser.add_argument("--memory", type=float, metavar="GB", default=_memory_gb() / 4,
                        help="the largest Gram matrix of a peer (default: a quarter of the memory)")  # fmt: skip
    parser.add_argument("--learning", type=float, metavar="S", default=900.0,
                        help="seconds that one iteration of learning may take; 0: no learning")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.atoms, arguments.features, arguments.limits = [1024, 2048], [192, 256], [5]
        arguments.signals, arguments.repeats = [64, 256], min(arguments.repeats, 2)
    return arguments


def _numbers(text: str) -> list[int]:
    return sorted(int(number) for number in text.split(","))


def _memory_gb() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9 if hasattr(os, "sysconf") else 8.0


def main() -> None:
    """Run all sizes that were asked for, tell the results and save them."""
    arguments = parse_arguments()
    data, load_before, here = data_directory(arguments.data), load_average(), machine(DISTRIBUTIONS)
    coders, missing = available_coders()
    missing = [line for line in missing if line.startswith(SPAMS)]
    if not has_torch():
        missing.append(f"{TORCH} is left out: PyTorch is not installed. To compare with it: pip install torch")
    print(
        "\n".join([f"{here['cpu']}, {here['cores']} cores, load {load_before}, {arguments.threads} threads.", *missing])
    )
    bench = Bench(arguments, next((coder for coder in coders if coder.name == SPAMS), None), has_torch())
    sentences: dict[str, None] = {}
    for K, p, limit in (
        (K, p, limit) for K in arguments.atoms for p in arguments.features for limit in arguments.limits
    ):
        X, D, sentence = make_signals(arguments.source, data, max(arguments.signals), K, p, limit)
        sentences[sentence] = None
        problem = Problem("large", arguments.source, (X,), (D,), limit, dtypes=("float32",))
        print(f"\n{_heading(problem)}. {sentence}\n")
        first = len(bench.rows)
        bench.run(problem)
        print_rows(bench.rows[first:])
    iterations = []
    if arguments.learning:
        K, p, limit = (min(sizes) for sizes in (arguments.atoms, arguments.features, arguments.limits))
        X, D, _ = make_signals(arguments.source, data, 2 * K, K, p, limit)
        iterations = [
            one_iteration(X, D, limit, update, arguments.threads, arguments.learning)
            for update in ("statistics", "sequential")
        ]
    print_rest(bench.rows, bench.memory, iterations, bench.left_out)
    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    record = {
        "command": shlex.join(["python", *sys.argv]),
        "settings": vars(arguments),
        "seed": SEED,
        "signals": list(sentences),
        "missing_peers": missing,
        "machine": {**here, "coupledict_build": coupledict.build_info()},
        "load_average": {"before": load_before, "after": load_average()},
        "coding": [asdict(row) for row in bench.rows],
        "memory": [asdict(row) for row in bench.memory],
        "learning": [asdict(row) for row in iterations],
        "left_out": bench.left_out,
    }
    (output / "large.json").write_text(json.dumps(record, indent=1, default=str) + "\n")
    print(f"\nWritten: large.json in {output}")


if __name__ == "__main__":
    main()
