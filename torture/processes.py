"""Threads and processes of every kind at once: the bits of a serial run, no deadlock, no more threads than n_jobs.

Every round draws new sizes and seeds and runs the same small jobs (fits, batches, codes, predictions) in threads, in
forked, spawned and fork-server processes, in process pools, in joblib's backends and in Dask workers, even while
another thread of the parent is inside a fit. A round that does not end prints the stacks of all its threads and fails.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import faulthandler
import hashlib
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import joblib
import numpy as np
from _main import Figures, main
from joblib.externals.loky import get_reusable_executor
from threadpoolctl import threadpool_info

from coupledict import CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning, sparse_encode

PATIENCE_SECONDS = 60  # of one round, or of one job in another process
N_WORKERS = 2
RUNS = 3
MOST_BESIDE = 0.02  # part of the processor time of one job that other threads may take: one tick of a clock


@dataclasses.dataclass(frozen=True)
class Job:
    """A piece of work that is all told by numbers, so that any process can do it."""

    kind: str
    seed: int
    n: int
    n_components: int
    n_jobs: int


def jobs_of(rng: np.random.Generator) -> list[Job]:
    """Draw one job of every kind and number of threads."""
    return [
        Job(kind, int(rng.integers(2**31)), int(rng.integers(50, 3000)), int(rng.integers(5, 60)), n_jobs)
        for kind in KINDS
        for n_jobs in (1, 2)
    ]


def views(job: Job) -> list[np.ndarray]:
    """Return the samples of a job."""
    rng = np.random.default_rng(job.seed)
    common = rng.standard_normal((job.n, 5))
    mixed = [np.einsum("ij,jk->ik", common, rng.standard_normal((5, p))) for p in (16, 9)]  # not by BLAS
    return [X + 0.2 * rng.standard_normal(X.shape) for X in mixed]


def coupled(job: Job) -> CoupledDictionaryLearning:
    """Return a learner for two views."""
    return CoupledDictionaryLearning(
        job.n_components, n_nonzero_coefs=3, max_iter=5, n_jobs=job.n_jobs, random_state=job.seed
    )


def learned(job: Job) -> Any:
    """Fit, and predict a view."""
    Xs = views(job)
    learner = coupled(job).fit(Xs)
    return [*learner.components_, learner.predict([Xs[0], None], view=1)]


def swept(job: Job) -> Any:
    """Fit one view by an update that calls BLAS and LAPACK atom by atom."""
    update = "ksvd" if job.seed % 2 else "mod"
    learner = DictionaryLearning(
        job.n_components, n_nonzero_coefs=3, max_iter=2, update=update, n_jobs=job.n_jobs, random_state=job.seed
    )
    return learner.fit(views(job)[0]).components_


def streamed(job: Job) -> Any:
    """Learn from batches."""
    Xs = views(job)
    learner = OnlineDictionaryLearning(job.n_components, n_nonzero_coefs=3, n_jobs=job.n_jobs, random_state=job.seed)
    for start in range(0, job.n, 1000):
        learner.partial_fit([X[start : start + 1000] for X in Xs])
    return learner.components_


def coded(job: Job) -> Any:
    """Code samples."""
    X = views(job)[0]
    codes = sparse_encode(X, X[: job.n_components], n_nonzero_coefs=5, n_jobs=job.n_jobs)
    return [codes.indptr, codes.indices, codes.data]


KINDS: dict[str, Callable[[Job], Any]] = {"learned": learned, "swept": swept, "streamed": streamed, "coded": coded}


def do(job: Job) -> str:
    """Do a job; return a fingerprint of the result, to the last bit."""
    found = hashlib.sha256()
    result = KINDS[job.kind](job)
    for array in result if isinstance(result, list) else [result]:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def blas_threads() -> list[int]:
    """Return how many threads each BLAS library may use."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def do_in_child(jobs: list[Job], answers: Any) -> None:
    """Do jobs in a process of their own, in two threads."""
    faulthandler.register(signal.SIGUSR1)  # how the parent asks for the stacks
    was = blas_threads()
    with concurrent.futures.ThreadPoolExecutor(N_WORKERS) as pool:
        answers.put((list(pool.map(do, jobs)), was, blas_threads()))


def in_threads(jobs: list[Job]) -> list[str]:
    """Do all jobs in threads that run at once."""
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(do, jobs))


def join(child: Any, method: str) -> None:
    """Wait for a child; one that hangs prints its stacks and is killed."""
    child.join(PATIENCE_SECONDS)
    if child.exitcode is None:
        os.kill(child.pid, signal.SIGUSR1)
        child.join(2)
        child.kill()
        child.join()
    if child.exitcode != 0:
        raise AssertionError(f"A process started by {method} ended with {child.exitcode}; its stacks are above.")


def by_start(method: str) -> Callable[[list[Job]], list[str]]:
    """Return how to do jobs in processes that are started in a certain way."""

    def work(jobs: list[Job]) -> list[str]:
        context = multiprocessing.get_context(method)
        answers = [context.SimpleQueue() for _ in range(N_WORKERS)]
        halves = [jobs[i::N_WORKERS] for i in range(N_WORKERS)]
        children = [
            context.Process(target=do_in_child, args=(half, queue)) for half, queue in zip(halves, answers, strict=True)
        ]
        with quietly():
            for child in children:
                child.start()
        for child in children:
            join(child, method)
        found: dict[Job, str] = {}
        for half, queue in zip(halves, answers, strict=True):
            results, was, now = queue.get()
            assert was == now, f"A child started by {method} began with {was} BLAS threads and was left with {now}."
            found.update(zip(half, results, strict=True))
            queue.close()
        return [found[job] for job in jobs]

    return work


def by_joblib(backend: str) -> Callable[[list[Job]], list[str]]:
    """Return how to do jobs in a backend of joblib."""

    def work(jobs: list[Job]) -> list[str]:
        with quietly(), joblib.parallel_config(backend=backend, n_jobs=N_WORKERS):
            return list(joblib.Parallel()(joblib.delayed(do)(job) for job in jobs))

    return work


def in_pool(jobs: list[Job]) -> list[str]:
    """Do jobs in a pool of concurrent.futures."""
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(N_WORKERS, mp_context=context) as pool:
        return list(pool.map(do, jobs, timeout=PATIENCE_SECONDS))


def in_dask(jobs: list[Job]) -> list[str]:
    """Do jobs on Dask's schedulers of threads and of processes."""
    import dask

    tasks = [dask.delayed(do)(job) for job in jobs]
    with quietly():
        one = dask.compute(*tasks, scheduler="threads", num_workers=N_WORKERS)
        other = dask.compute(*tasks[:2], scheduler="processes", num_workers=N_WORKERS)
    assert list(other) == list(one)[:2]
    return list(one)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Leave out the warning of Python 3.12 that a process with threads forks: that is what is tried here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        yield


@contextlib.contextmanager
def beside(job: Job) -> Iterator[None]:
    """Keep another thread inside fits for as long as the context lasts."""
    leave = threading.Event()
    expected = do(job)
    wrong = 0

    def work() -> None:
        nonlocal wrong
        while not leave.is_set():
            wrong += do(job) != expected

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        leave.set()
        thread.join()
    assert not wrong, "a fit beside other work gave other bits"


def share_one_estimator(job: Job) -> None:
    """Code and predict by one fitted estimator in many threads at once."""
    Xs = views(job)
    learner = coupled(job).fit(Xs)
    codes, other = learner.transform(Xs), learner.predict([None, Xs[1]], view=0)

    def work(number: int) -> bool:
        if number % 2:
            return bool(np.array_equal(learner.predict([None, Xs[1]], view=0), other))
        again = learner.transform(Xs)
        return np.array_equal(again.data, codes.data) and np.array_equal(again.indices, codes.indices)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8))), "an estimator that threads share gave other bits"


def ticks() -> dict[int, int]:
    """Return the processor time of each thread of this process, in the units of the system."""
    found = {}
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/self/task/{thread}/stat") as file:
            figures = file.read().rpartition(")")[2].split()
            found[int(thread)] = int(figures[11]) + int(figures[12])
    return found


def share_of_workers(work: Callable[[], Any]) -> float:
    """Return the part of the processor time that went to threads which were there before: the workers of BLAS.

    It is the least of several runs: other threads of the process, such as those of clusters or of pytest, have work of
    their own now and then.
    """
    work()
    shares = []
    for _ in range(RUNS):
        before, began = ticks(), time.process_time()
        work()
        seconds, after = time.process_time() - began, ticks()
        others = [thread for thread in before if thread in after and thread != threading.get_native_id()]
        shares.append(sum(after[thread] - before[thread] for thread in others) / os.sysconf("SC_CLK_TCK") / seconds)
    return min(shares)


WAYS: dict[str, Callable[[list[Job]], list[str]]] = {
    "threads": in_threads,
    "fork": by_start("fork"),
    "spawn": by_start("spawn"),
    "forkserver": by_start("forkserver"),
    "concurrent.futures": in_pool,
    "joblib, loky": by_joblib("loky"),
    "joblib, threading": by_joblib("threading"),
    "joblib, multiprocessing": by_joblib("multiprocessing"),
    "dask": in_dask,
}


@contextlib.contextmanager
def clusters() -> Iterator[dict[str, Callable[[list[Job]], list[str]]]]:
    """Start a cluster of Dask with worker threads and one with worker processes; yield how to do jobs there."""
    import dask
    from distributed import Client

    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.admin.log-length": 0, "logging.distributed": "error"}))
        ways: dict[str, Callable[[list[Job]], list[str]]] = {}
        for processes in (False, True):
            client = stack.enter_context(
                Client(n_workers=1 + processes, threads_per_worker=2, processes=processes, dashboard_address=":0")
            )

            def work(jobs: list[Job], client: Any = client) -> list[str]:
                return list(client.gather(client.map(do, jobs, pure=False)))

            ways[f"dask workers, {'processes' if processes else 'threads'}"] = work
        yield ways


def run(count: int, seed: int) -> Figures:
    """Run `count` rounds; raises at the first wrong bit, deadlock, thread or process too many."""
    rng = np.random.default_rng(seed)
    before, children = blas_threads(), set(multiprocessing.active_children())
    seconds: dict[str, float] = dict.fromkeys(WAYS, 0.0)
    done = 0
    with clusters() as more:
        for _ in range(count):
            jobs = jobs_of(rng)
            faulthandler.dump_traceback_later(5 * PATIENCE_SECONDS, exit=True)
            expected = [do(job) for job in jobs]
            for name, work in {**WAYS, **more}.items():
                began = time.perf_counter()
                alone = rng.random() < 0.3
                with contextlib.nullcontext() if alone else beside(jobs[int(rng.integers(len(jobs)))]):
                    assert work(jobs) == expected, f"{name}: other bits than alone"
                assert blas_threads() == before, f"{name}: BLAS is left with {blas_threads()} threads, not {before}"
                seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - began
                done += len(jobs)
            share_one_estimator(jobs[0])
    get_reusable_executor().shutdown(wait=True)  # joblib keeps its processes for the next call
    left = set(multiprocessing.active_children()) - children
    assert not left, f"processes were left behind: {left}"
    faulthandler.cancel_dump_traceback_later()
    share = max(share_of_workers(lambda kind=kind: do(Job(kind, seed, 100_000, 64, 1))) for kind in KINDS)
    assert share <= MOST_BESIDE, f"with n_jobs=1, {share:.0%} of the work was done by threads of BLAS"
    return {
        "rounds": count,
        "ways": len(seconds),
        "jobs": done,
        "share of BLAS workers with n_jobs=1": round(share, 4),
        "seconds": {name: round(spent, 1) for name, spent in seconds.items()},
    }


if __name__ == "__main__":
    main(run, 10)
