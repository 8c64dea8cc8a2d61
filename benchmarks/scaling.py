"""Time and memory of an iteration as samples and workers grow, and what that foretells of a large cluster.

Run ``python benchmarks/scaling.py`` from the root of the project; ``--parts sizes,memory,dask,model`` chooses. Samples
have 64 features in float32, dictionaries 256 atoms, codes 5 nonzeros. From a million samples on they are read from
disk: 2.6 GB for ten million, in a folder that ``--folder`` names and that is removed in the end.
"""

from __future__ import annotations

import argparse
import json
import pickle
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from _memory import levels
from _scaling_model import Costs, foretell

from coupledict import DictionaryLearning
from coupledict.experiments.machine import load_average, machine, usable_cores

N_FEATURES, N_ATOMS, N_NONZERO = 64, 256, 5
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
    command = [sys.executable, __file__, "--folder", str(folder), "--child", str(n), "--threads", str(n_jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["megabytes"])


def child(folder: Path, n: int, n_jobs: int) -> None:
    """Run one iteration and print the peak of the resident memory."""
    X = open_samples(folder, n)
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


def measure_dask(folder: Path, repeats: int) -> dict[str, list[float]]:
    """Return seconds of an iteration with one and two workers and with two threads of this process, interleaved."""
    import dask.array as da
    import zarr

    from coupledict.distributed import persist

    path = folder / "samples.zarr"
    if not path.exists():
        store = zarr.create_array(
            path, shape=(DASK_SIZE, N_FEATURES), chunks=(CHUNK, N_FEATURES), dtype="float32", compressors=None
        )
        start = 0
        for part in make_samples(DASK_SIZE):
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


def measure_tasks(n_tasks: int = 2000) -> float:
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
    from coupledict.coding.making import make_coder
    from coupledict.coding.recipe import Recipe
    from coupledict.coding.rule import CodingRule
    from coupledict.coding.samples import Piece
    from coupledict.data.block_work import EVERYTHING, block_sums
    from coupledict.parallel.jobs import Threads

    X = next(make_samples(2000))
    atoms = np.random.default_rng(1).standard_normal((N_ATOMS, N_FEATURES)).astype(np.float32)
    recipe = Recipe([atoms], np.ones(1), X.dtype, CodingRule(N_NONZERO), len(X))
    found = block_sums(make_coder(recipe, 1), [X], Piece(0, 0, len(X)), X.dtype, Threads(), EVERYTHING)
    return len(pickle.dumps(found, protocol=5)), len(pickle.dumps(recipe, protocol=5))


def describe(seconds: list[float]) -> str:
    """Return the median of some times and their spread."""
    return f"{statistics.median(seconds):9.4f} s  ({min(seconds):.4f} to {max(seconds):.4f})"


def report_sizes(seconds: dict[int, list[float]]) -> None:
    """Print the times of an iteration, and how far they are from growing with the samples."""
    print("\nAn iteration, all samples" + " " * 24 + "per million  against the largest in memory")
    medians = {n: statistics.median(values) for n, values in seconds.items()}
    known = max([n for n in medians if n < ON_DISK], default=min(medians))
    for n, values in seconds.items():
        rate = medians[n] / n * 1e6
        where = "disk" if n >= ON_DISK else "memory"
        share = rate / (medians[known] / known * 1e6)
        print(f"{n:>10,} {where:<7}{describe(values)} {rate:8.3f} s   x{share:.3f}")


def report_dask(seconds: dict[str, list[float]]) -> None:
    """Print the times with workers, and their ratios."""
    print(f"\nAn iteration over {DASK_SIZE:,} samples from Zarr, chunks of {CHUNK:,}")
    for name, values in seconds.items():
        print(f"  {name:<27}{describe(values)}")
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    print(f"  two workers are {middle['one worker'] / middle['two workers']:.2f}x as fast as one")
    print(f"  two workers take {middle['two workers'] / middle['two threads']:.2f}x the time of two threads")


def main() -> None:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="sizes,memory,dask,model")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of samples")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--folder", type=Path, help="where samples are kept; a temporary folder if left out")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(options.folder, options.child, options.threads)
        return
    folder = Path(tempfile.mkdtemp()) if options.folder is None else options.folder
    folder.mkdir(exist_ok=True)
    parts, sizes = options.parts.split(","), [int(size) for size in options.sizes.split(",")]
    print(json.dumps({**machine(["coupledict", "dask", "distributed", "zarr"]), "load": load_average()}, indent=1))
    try:
        if "sizes" in parts:
            report_sizes(measure_sizes(folder, options.repeats, options.threads, sizes))
        if "memory" in parts:
            print("\nMemory of an iteration beyond the samples that are in memory already")
            for n in sizes:
                open_samples(folder, n)
                print(f"{n:>10,} {peak_memory(folder, n, options.threads):8.1f} MB", flush=True)
        if "dask" in parts or "model" in parts:
            seconds = measure_dask(folder, options.repeats)
            report_dask(seconds)
            if "model" in parts:
                middle = {name: statistics.median(values) for name, values in seconds.items()}
                sums, recipe = measure_traffic()
                alone, beside = middle["one thread"] / DASK_SIZE, 2 * middle["two threads"] / DASK_SIZE
                costs = Costs(alone, beside, measure_tasks(), sums, recipe)
                foretell(costs, {1: middle["one worker"], 2: middle["two workers"]}, DASK_SIZE, CHUNK)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
