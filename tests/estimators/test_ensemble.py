"""Learners fitted side by side, and the limit on matrix products that they share."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from coupledict.estimators.ensemble import fit_many, seeds
from support.inner import one_blas_thread
from support.learners import assert_same_model, make, planted_views


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture
def Xs():
    return planted_views(np.random.default_rng(0))[0]


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 3, 7])
def test_same_as_one_after_the_other(Xs, n_jobs):
    learners = fit_many([make(random_state=seed) for seed in range(3)], Xs, n_jobs)
    for seed, learner in enumerate(learners):
        assert_same_model(learner, make(random_state=seed).fit(Xs))
        assert learner.n_jobs is None
        assert learner.callback is None


def test_seeds_differ_and_repeat():
    assert len(set(seeds(0, 50))) == 50
    assert seeds(3, 4) == seeds(3, 4) != seeds(4, 4)
    assert seeds(3, 6)[:4] == seeds(3, 4)  # a larger ensemble holds the smaller one


def test_error_of_a_member_reaches_the_caller(Xs):
    with pytest.raises(ValueError, match="n_components"):
        fit_many([make(), make(n_components=0)], Xs, 2)


@pytest.fixture(params=["interrupted", "taken up again"])
def system_calls(request, hears_interrupts):
    """What becomes of a system call when a signal comes: some libraries (Polars) change it when they are imported."""
    signal.siginterrupt(signal.SIGINT, request.param == "interrupted")
    yield
    signal.siginterrupt(signal.SIGINT, True)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupt_ends_all_members(Xs, system_calls, n_jobs):
    """What does not hear of it goes on until the time limit of the tests."""
    learning = threading.Barrier(n_jobs + 1)

    def tell(progress):  # in the midst of learning
        if progress.completed == 3:
            learning.wait(60)

    members = [make(max_iter=10**6, growth=None, callback=tell) for _ in range(3)]

    def interrupt():
        learning.wait(60)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        fit_many(members, Xs, n_jobs)
    interrupting.join()
    assert not learning.broken


@pytest.fixture
def two_blas_threads():
    """Whatever the environment says."""
    with threadpool_limits(2, "blas"):
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_limit_is_shared_between_threads():
    before = blas_threads()
    assert set(before) == {2}
    inside = threading.Event()
    leave = threading.Event()

    def hold():
        with one_blas_thread():
            inside.set()
            leave.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    inside.wait(30)
    with one_blas_thread():
        pass
    assert set(blas_threads()) == {1}  # the other thread is still inside
    leave.set()
    other.join()
    assert blas_threads() == before
