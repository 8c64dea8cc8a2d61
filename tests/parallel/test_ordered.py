"""Threads: order, errors, interrupts, and nothing left behind."""

from __future__ import annotations

import os
import textwrap
import threading
import time

import joblib
import numpy as np
import pytest

from coupledict.parallel import jobs
from coupledict.parallel.cancel import Cancelled, CancelToken
from coupledict.parallel.jobs import count_jobs, split_chunks
from coupledict.parallel.ordered import in_order
from support.programs import run_python
from support.waiting import exit_code


def stop_flag():
    return CancelToken()


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("take_part", [True, False])
def test_results_come_in_order(n_threads, take_part):
    def slow_square(i):
        time.sleep(0.002 * (i % 3))
        return i * i

    results = list(in_order(slow_square, range(20), n_threads, stop_flag(), take_part=take_part))
    assert results == [i * i for i in range(20)]


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("take_part", [True, False])
def test_an_error_stops_all_threads(n_threads, take_part):
    stop = stop_flag()
    started = []

    def fail_at_five(i):
        started.append(i)
        time.sleep(0.001)
        if i == 5:
            raise ValueError("five")
        return i

    before = threading.active_count()
    results = []
    with pytest.raises(ValueError, match="five"):
        results.extend(in_order(fail_at_five, range(1000), n_threads, stop, take_part=take_part))
    assert stop.cancelled
    assert len(started) < 50
    assert threading.active_count() == before


def test_a_consumer_that_leaves_early_leaves_no_threads():
    before = threading.active_count()
    results = in_order(lambda i: i, range(1000), 3, stop_flag())
    assert next(results) == 0
    results.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("n", [0, 1, 47, 48, 1000, 100_000])
@pytest.mark.parametrize("work", [1e2, 1e5, 1e9, 1e12])
@pytest.mark.parametrize("n_jobs", [1, 2, 16])
def test_chunks_cover_every_sample_once(n, work, n_jobs):
    chunks, short = split_chunks(n, work, n_jobs)
    assert [i for start, stop in chunks for i in range(start, stop)] == list(range(n))
    if short:
        assert all((stop - start) * work / jobs.MULTIPLY_ADDS_PER_SECOND < 0.2 for start, stop in chunks)
    else:
        assert all(stop - start == 1 for start, stop in chunks)


def test_samples_that_share_work_stay_together():
    """Without the Gram matrix a block of samples shares every pass over the dictionary."""
    chunks, short = split_chunks(500, 1e9, 2, whole_blocks=True)
    assert [stop - start for start, stop in chunks] == [192, 192, 116]
    assert not short
    few, _ = split_chunks(100, 1e9, 2, whole_blocks=True)
    assert [stop - start for start, stop in few] == [96, 4]


def test_n_jobs_follows_joblib():
    assert count_jobs(None) == 1
    assert count_jobs(3) == 3
    assert count_jobs(-1) == joblib.cpu_count()
    with joblib.parallel_config(n_jobs=2):
        assert count_jobs(None) == 2


INTERRUPTED = """
    import os, signal, sys, threading, time
    import numpy as np
    from coupledict import sparse_encode
    from coupledict.coding.coder import Workspaces

    rng = np.random.default_rng(0)
    X, D = rng.standard_normal({x_shape}), rng.standard_normal({d_shape})
    small = sparse_encode(X[:10], D[:50], n_nonzero_coefs=5).toarray()
    begun, lend, sent = threading.Event(), Workspaces.lend, []

    def lend_and_tell(self):
        begun.set()
        return lend(self)

    def interrupt():
        begun.wait()
        time.sleep(0.1)  # a kernel is at work, most likely
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    Workspaces.lend = lend_and_tell
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        sparse_encode(X, D, n_nonzero_coefs={limit}, n_jobs={n_jobs})
    except KeyboardInterrupt:
        ended = time.process_time()
    else:
        sys.exit("it was not interrupted")
    interrupting.join()
    assert threading.active_count() == 1, threading.enumerate()
    again = sparse_encode(X[:10], D[:50], n_nonzero_coefs=5).toarray()
    assert np.array_equal(small, again)
    print("healthy", ended - sent[0])
"""


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("x_shape", "d_shape", "limit"),
    [((400_000, 64), (1024, 64), 40), ((40, 600), (12_000, 600), 500)],
    ids=["many small samples", "few huge ones"],
)
def test_keyboard_interrupt(hears_interrupts, n_jobs, x_shape, d_shape, limit):
    """The work would take 15 or 50 seconds of the processor; by this clock it does not matter who else is at work."""
    program = textwrap.dedent(INTERRUPTED.format(x_shape=x_shape, d_shape=d_shape, limit=limit, n_jobs=n_jobs))
    done = run_python(program)
    assert done.stdout.startswith("healthy"), done.stderr
    assert float(done.stdout.split()[1]) < 1.0 * n_jobs, "an interrupt must be heard within a second"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_works_in_a_forked_child_after_threads_were_used(rng):
    from coupledict import sparse_encode

    X, D = rng.standard_normal((5000, 20)), rng.standard_normal((100, 20))
    expected = sparse_encode(X, D, n_nonzero_coefs=5, n_jobs=2)
    child = os.fork()
    if child == 0:
        same = np.array_equal(sparse_encode(X, D, n_nonzero_coefs=5, n_jobs=2).data, expected.data)
        os._exit(0 if same else 1)
    assert exit_code(child) == 0


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("take_part", [True, False])
def test_results_of_cancelled_work_are_not_handed_out(n_threads, take_part):
    """A kernel that sees the flag leaves its chunk unfinished: nobody may take that for a result."""
    around = CancelToken()

    def work(i):
        if i == 5:
            around.cancel()
        return i

    results = []
    with pytest.raises(Cancelled):
        results.extend(in_order(work, range(6), n_threads, CancelToken(around), take_part=take_part))
    assert 5 not in results
