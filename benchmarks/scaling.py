"""Time and memory of an iteration as samples and workers grow, and what that foretells of a large cluster.

Samples have 64 features in float32, dictionaries 256 atoms, codes 5 nonzeros. From a million samples on they are read
from disk: 2.6 GB for ten million, in a temporary folder or in that of ``--folder``, which keeps them.
"""

from __future__ import annotations

import argparse
import atexit
import json
import pickle
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from _main import Options, add_choice, join, main, table
from _memory import levels
from _scaling_model import Costs, foretell

from coupledict import DictionaryLearning
from coupledict.experiments.machine import usable_cores

N_FEATURES, N_ATOMS, N_NONZERO = 64, 256, 5
PARTS = ("sizes", "memory", "dask", "model")
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
ON_DISK = 1_000_000  # samples from which on they are read from disk
CHUNK = 50_000  # samples of a chunk of Zarr
DASK_SIZE = 1_000_000
PART = 100_000  # samples that are made at a time

Array = npt.NDArray[Any]


def make_samples(n: int) -> Iterator[Array]:
    """Yield sparse mixtures of common atoms, and noise, a part at a time."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((N_ATOMS, N_FEATURES), dtype=np.float32)
    for start in range(0, n, PART):
        size = min(PART, n - start)
        part = 0.1 * rng.standard_normal((size, N_FEATURES), dtype=np.float32)
        for _ in range(N_NONZERO):
            gains = rng.standard_normal(size, dtype=np.float32)
            part += gains[:, None] * atoms[rng.integers(N_ATOMS, size=size)]
        yield part


def write_npy(path: Path, n: int) -> None:
    """Write samples to a file that can be mapped."""
    stored = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, N_FEATURES))
    start = 0
    for part in make_samples(n):
        stored[start : start + len(part)] = part
        start += len(part)
    stored.flush()


def learner(n_jobs: int, n_iter: int) -> DictionaryLearning:
    """Return a learner whose iterations all see all samples, with all the nonzeros."""
    start = np.random.default_rng(1).standard_normal((N_ATOMS, N_FEATURES))
    return DictionaryLearning(
        N_ATOMS,
        n_nonzero_coefs=N_NONZERO,
        max_iter=n_iter,
        schedule="constant",
        growth=None,
        init=start,
        n_jobs=n_jobs,
        random_state=0,
    )


def iteration_seconds(X: Any, n_jobs: int) -> float:
    """Return how long an iteration takes; of few samples, the mean of several, so that starting up counts less."""
    n_iter = int(np.clip(200_000 // X.shape[0], 1, 20))
    return float(learner(n_jobs, n_iter).fit(X).history_[-1]["seconds"]) / n_iter


def open_samples(folder: Path, n: int) -> Any:
    """Return samples: in memory where they are few, mapped where they are many."""
    path = folder / f"{n}.npy"
    if not path.exists():
        write_npy(path, n)
    return np.load(path, mmap_mode="r" if n >= ON_DISK else None)


def measure_sizes(folder: Path, repeats: int, n_jobs: int, sizes: list[int]) -> dict[int, list[float]]:
    """Return seconds of an iteration for each size, interleaved."""
    samples = {n: open_samples(folder, n) for n in sizes}
    for X in samples.values():  # once for the caches
        iteration_seconds(X, n_jobs)
    seconds: dict[int, list[float]] = {n: [] for n in sizes}
    for _ in range(repeats):
        for n, X in samples.items():
            seconds[n].append(iteration_seconds(X, n_jobs))
    return seconds


def peak_memory(folder: Path, n: int, n_jobs: int) -> float:
    """Return the most memory, in MB, that a process of its own takes for an iteration, beyond what it begins with."""
    code = f"import scaling; scaling.child({str(folder.resolve())!r}, {n}, {n_jobs})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    return float(json.loads(done.stdout)["megabytes"])


def child(folder: str, n: int, n_jobs: int) -> None:
    """Run one iteration and print the peak of the resident memory."""
    X = open_samples(Path(folder), n)
    iteration_seconds(np.zeros((1000, N_FEATURES), np.float32), n_jobs)  # what is loaded and made once
    before, _ = levels()
    iteration_seconds(X, n_jobs)
    _, highest = levels()
    print(json.dumps({"megabytes": (highest - before) / 1e6}))


@contextmanager
def cluster(n_workers: int) -> Iterator[Any]:
    """Start worker processes of one thread each, and a client that is not the current one."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0") as workers,
        Client(workers, set_as_default=False) as client,
    ):
        yield client


def measure_dask(folder: Path, repeats: int, n_samples: int) -> dict[str, list[float]]:
    """Return seconds of an iteration with one and two workers and with two threads of this process, interleaved."""
    import dask.array as da
    import zarr

    from coupledict.distributed import persist

    path = folder / "samples.zarr"
    if not path.exists():
        store = zarr.create_array(
            path, shape=(n_samples, N_FEATURES), chunks=(CHUNK, N_FEATURES), dtype="float32", compressors=None
        )
        start = 0
        for part in make_samples(n_samples):
            store[start : start + len(part)] = part
            start += len(part)
    stored = zarr.open_array(path, mode="r")

    def on(client: Any, *, kept: bool = False) -> Callable[[], float]:
        with client.as_current():
            samples = persist([da.from_zarr(str(path))])[0] if kept else da.from_zarr(str(path))

        def run() -> float:
            with client.as_current():
                return iteration_seconds(samples, 1)

        return run

    with cluster(1) as one, cluster(2) as two:
        cases: dict[str, Callable[[], float]] = {
            "one worker": on(one),
            "two workers": on(two),
            "one worker, samples kept": on(one, kept=True),
            "two workers, samples kept": on(two, kept=True),
            "one thread": lambda: iteration_seconds(stored, 1),
            "two threads": lambda: iteration_seconds(stored, 2),
        }
        for run in cases.values():
            run()
        seconds: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(repeats):
            for name, run in cases.items():
                seconds[name].append(run())
    return seconds


def _count(*values: int) -> int:
    return len(values)


def measure_tasks(n_tasks: int) -> float:
    """Return what a task costs a scheduler and a worker, in seconds: one graph of many that do nothing."""
    from dask.task_spec import Task, TaskRef

    with cluster(1) as client:
        seconds = []
        for round_ in range(6):
            names = [f"nothing-{round_}-{i}" for i in range(n_tasks)]
            graph = {name: Task(name, abs, 1) for name in names}
            last = f"all-{round_}"
            graph[last] = Task(last, _count, *(TaskRef(name) for name in names))
            began = time.perf_counter()
            client.get(graph, last)
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:]) / n_tasks


def measure_traffic() -> tuple[int, int]:
    """Return the bytes of the sums of a block, which go up the tree, and of the dictionary, which goes to workers."""
    from coupledict.coding.recipe import Recipe
    from coupledict.coding.rule import CodingRule
    from coupledict.data.jobs import SumCodes
    from coupledict.data.memory import InMemory
    from coupledict.parallel.jobs import Threads

    X = next(make_samples(2000))
    atoms = np.random.default_rng(1).standard_normal((N_ATOMS, N_FEATURES)).astype(np.float32)
    recipe = Recipe([atoms], np.ones(1), X.dtype, CodingRule(N_NONZERO), len(X))
    found = InMemory([X]).run(SumCodes(recipe), Threads())
    return len(pickle.dumps(found, protocol=5)), len(pickle.dumps(recipe, protocol=5))


def describe(seconds: list[float]) -> str:
    """Return the median of some times and their spread."""
    return f"{statistics.median(seconds):.4f} s ({min(seconds):.4f} to {max(seconds):.4f})"


@cache
def folder_of(given: Path | None) -> Path:
    """Return the folder of the samples: the one that is given, or a temporary one that goes when the program ends."""
    if given is not None:
        given.mkdir(exist_ok=True)
        return given
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    return folder


def cases(options: Options) -> dict[str, tuple[str, int]]:
    """Return parts, and a size for those that have several; what the model is made of comes with it."""
    found: dict[str, tuple[str, int]] = {}
    if "sizes" in options.parts:
        found["sizes"] = "sizes", 0
    if "memory" in options.parts:
        found |= {f"memory, {n:,}": ("memory", n) for n in options.sizes}
    if "dask" in options.parts or "model" in options.parts:
        found["dask"] = "dask", max(options.sizes) if options.quick else DASK_SIZE
    if "model" in options.parts:
        found["model"] = "model", 0
    return found


def run(case: tuple[str, int], options: Options) -> Any:
    """Return seconds of iterations, megabytes, or what a task costs and what travels."""
    part, n = case
    folder = folder_of(options.folder)
    if part == "sizes":
        return measure_sizes(folder, options.repeats, options.threads, options.sizes)
    if part == "memory":
        open_samples(folder, n)
        return peak_memory(folder, n, options.threads)
    if part == "dask":
        return {"n_samples": n, "seconds": measure_dask(folder, options.repeats, n)}
    sums, recipe = measure_traffic()
    return {"task": measure_tasks(200 if options.quick else 2000), "sums": sums, "recipe": recipe}


def report(results: Mapping[str, Any], options: Options) -> str:
    blocks = []
    if "sizes" in results:
        blocks += ["## An iteration over all samples", tell_sizes(results["sizes"])]
    memory = {case.removeprefix("memory, "): found for case, found in results.items() if case.startswith("memory, ")}
    if memory:
        blocks.append("## Memory of an iteration beyond the samples that are in memory already")
        blocks.append(table(["samples", "MB"], [[n, f"{found:.1f}"] for n, found in memory.items()], left=0))
    if "dask" in results:
        blocks.append(tell_dask(results["dask"]["n_samples"], results["dask"]["seconds"]))
    if "model" in results:
        n, seconds = results["dask"]["n_samples"], results["dask"]["seconds"]
        middle = {name: statistics.median(values) for name, values in seconds.items()}
        costs = Costs(middle["one thread"] / n, 2 * middle["two threads"] / n, **results["model"])
        blocks.append(foretell(costs, {1: middle["one worker"], 2: middle["two workers"]}, n, CHUNK))
    return join(*blocks)


def tell_sizes(seconds: dict[int, list[float]]) -> str:
    """Return the times of an iteration, and how far they are from growing with the samples."""
    medians = {n: statistics.median(values) for n, values in seconds.items()}
    known = max([n for n in medians if n < ON_DISK], default=min(medians))
    rows = []
    for n, values in seconds.items():
        rate = medians[n] / n * 1e6
        share = rate / (medians[known] / known * 1e6)
        where = "disk" if n >= ON_DISK else "memory"
        rows.append([f"{n:,}", where, describe(values), f"{rate:.3f} s", f"x{share:.3f}"])
    return table(["samples", "from", "time", "per million", "against the largest in memory"], rows, left=0)


def tell_dask(n_samples: int, seconds: dict[str, list[float]]) -> str:
    """Return the times with workers, and their ratios."""
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    return join(
        f"## An iteration over {n_samples:,} samples from Zarr, chunks of {CHUNK:,}",
        table(["", "time"], [[name, describe(values)] for name, values in seconds.items()]),
        f"Two workers are {middle['one worker'] / middle['two workers']:.2f}x as fast as one, and take"
        f" {middle['two workers'] / middle['two threads']:.2f}x the time of two threads.",
    )


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "parts", PARTS)
    parser.add_argument(
        "--sizes", type=_numbers, metavar="A,B", default=list(SIZES), help="numbers of samples (10,000 to 10,000,000)"
    )
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--folder", type=Path, help="where samples are kept; a temporary folder if left out")


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data=None,
        repeats=(5, "timed iterations"),
        extend=extend,
        quick={"repeats": 1, "sizes": [10_000]},
    )
