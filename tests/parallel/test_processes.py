"""Threads and processes of several kinds at once: the same bits as alone, no deadlock, BLAS as it was before."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from coupledict.parallel import blas
from coupledict.parallel.cancel import Cancelled, CancelToken
from coupledict.parallel.jobs import count_jobs
from support.inner import Samples, Threads, encode
from support.problems import make_coder
from support.waiting import PATIENCE, exit_code

sys.path.append(str(Path(__file__).parents[2] / "torture"))
import processes

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture
def jobs(rng):
    """One small job of every kind, with one thread and with two."""
    drawn = processes.jobs_of(rng)
    return [processes.Job(job.kind, job.seed, 50 + job.n // 10, job.n_components, job.n_jobs) for job in drawn]


@pytest.fixture(autouse=True)
def blas_is_left_alone():
    before = processes.blas_threads()
    yield
    assert processes.blas_threads() == before


def in_child(function):
    """Run a function in a forked process; return what it found, or fail if it does not end."""
    reader, writer = os.pipe()
    with processes.quietly():
        child = os.fork()
    if child == 0:
        answer = b"an exception"
        try:
            answer = repr(function()).encode()
        finally:
            os.write(writer, answer)
            os._exit(0)
    os.close(writer)
    exit_code(child)
    with open(reader, "rb") as file:
        return file.read().decode()


@pytest.mark.parametrize("way", ["threads", "joblib, threading", "dask"])
def test_threads_at_once(jobs, way):
    pytest.importorskip("dask")
    work = processes.WAYS[way]
    if way == "dask":  # its processes are for the full run

        def work(jobs):
            import dask

            return list(dask.compute(*[dask.delayed(processes.do)(job) for job in jobs], scheduler="threads"))

    expected = [processes.do(job) for job in jobs]
    assert work(jobs) == expected


def test_threads_share_an_estimator(jobs):
    for job in jobs[:2]:
        processes.share_one_estimator(job)


@pytest.mark.slow
@needs_fork
@pytest.mark.parametrize("way", ["fork", "joblib, multiprocessing"])
def test_forks_beside_a_fit(jobs, way):
    """A child that is forked while another thread is inside a fit works as if that thread had never been."""
    busy = processes.Job("swept", 1, 3000, 60, 2)
    expected = [processes.do(job) for job in jobs]
    with processes.beside(busy):
        assert processes.WAYS[way](jobs) == expected


@pytest.mark.slow
@pytest.mark.parametrize("way", ["spawn", "joblib, loky"])
def test_processes_of_their_own(jobs, way):
    expected = [processes.do(job) for job in jobs[:2]]
    assert processes.WAYS[way](jobs[:2]) == expected
    processes.get_reusable_executor().shutdown(wait=True)
    assert not multiprocessing.active_children()


@pytest.fixture
def two_blas_threads():
    """BLAS with two threads, whatever the machine has."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, "blas"):
        yield


def held_elsewhere(context):
    """Enter a context in another thread; return what makes it leave."""
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with context:
            inside.set()
            leave.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(PATIENCE)

    def end():
        leave.set()
        thread.join()

    return end


def limited_and_free():
    """Return how many threads BLAS has now, inside the limit, and after it."""
    before = processes.blas_threads()
    with blas.one_blas_thread():
        inside = processes.blas_threads()
    return [sorted(set(counts)) for counts in (before, inside, processes.blas_threads())]


@needs_fork
@pytest.mark.usefixtures("two_blas_threads")
def test_a_child_is_not_bound_by_the_limit_of_a_thread_it_does_not_have():
    end = held_elsewhere(blas.one_blas_thread())
    try:
        assert set(processes.blas_threads()) == {1}
        assert in_child(limited_and_free) == "[[2], [1], [2]]"
        assert set(processes.blas_threads()) == {1}, "the parent still is"
    finally:
        end()
    assert set(processes.blas_threads()) == {2}


@needs_fork
@pytest.mark.usefixtures("two_blas_threads")
def test_a_child_does_not_wait_for_a_lock_that_nobody_holds():
    with blas.one_blas_thread():
        pass
    end = held_elsewhere(blas._limit._lock)
    try:
        assert in_child(limited_and_free) == "[[2], [1], [2]]"
    finally:
        end()


@needs_fork
@pytest.mark.usefixtures("two_blas_threads")
def test_a_thread_that_forks_keeps_its_limit():
    def inside_then_outside():
        found = [sorted(set(processes.blas_threads()))]
        hold.__exit__()
        return [*found, sorted(set(processes.blas_threads()))]

    with blas.one_blas_thread() as _, blas.one_blas_thread():
        pass
    hold = blas.one_blas_thread()
    with hold:
        assert in_child(inside_then_outside) == "[[1], [2]]"


@pytest.mark.usefixtures("two_blas_threads")
def test_a_hold_that_is_lost_gives_its_place_back():
    hold = blas.one_blas_thread()
    hold.__enter__()
    assert set(processes.blas_threads()) == {1}
    del hold
    assert set(processes.blas_threads()) == {2}


def count_in_daemon(answers):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answers.put((count_jobs(2), count_jobs(-1), count_jobs(-100), len(caught)))


@needs_fork
def test_n_jobs_is_meant_as_said_in_a_process_that_must_not_start_others():
    """As the workers of multiprocessing pools and of Dask are; joblib would say 1 there, and warn."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    with processes.quietly():
        child = context.Process(target=count_in_daemon, args=(answers,), daemon=True)
        child.start()
    processes.join(child, "fork")
    assert answers.get() == (2, count_jobs(-1), 1, 0)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="it counts threads as Linux does")
@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("kind", list(processes.KINDS))
def test_one_job_is_one_thread(kind):
    """Products and factorisations included: the workers of BLAS stay idle."""
    job = processes.Job(kind, 0, 60_000, 60, 1)
    assert processes.share_of_workers(lambda: processes.do(job)) <= processes.MOST_BESIDE


def test_results_do_not_depend_on_the_threads_of_blas(jobs):
    from threadpoolctl import threadpool_limits

    alone = [job for job in jobs if job.n_jobs == 1]
    with threadpool_limits(1, "blas"):
        expected = [processes.do(job) for job in alone]
    with threadpool_limits(2, "blas"):
        assert [processes.do(job) for job in alone] == expected


def test_a_pass_ends_with_the_work_around_it(rng):
    X, D = rng.standard_normal((50, 8)), rng.standard_normal((20, 8))
    coder, samples = make_coder([D], np.ones(1), X.dtype, limit=3, n_samples=50), Samples([X], X.dtype)
    around = CancelToken()
    assert encode(coder, samples, Threads(1, around)).indptr.size == 51
    assert not around.cancelled
    around.cancel()
    with pytest.raises(Cancelled):
        encode(coder, samples, Threads(1, around))
