"""Clusters that lose workers or their scheduler: the same dictionaries in the end, or a clear error, never a wait."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import dask
import numpy as np
import pytest
from distributed import Client

import coupledict
from coupledict import distributed
from coupledict.distributed import ClusterError, ClusterTimeoutError
from support.dask_cluster import Cluster, as_dask, cut, let_go, readers, traced
from support.learners import assert_same_model, make, planted_views, without_times
from support.waiting import PATIENCE, wait_until

ROWS = 50
CHUNKS = 20  # reading both views of all of them is an iteration, and once before the first, for their scale


@pytest.fixture
def client(cluster):
    """A client of its own for every test, of a cluster with one worker at least."""
    with Client(cluster.address, set_as_default=False) as client, client.as_current():
        have_workers(cluster, client, 1, 2)
        yield client


def have_workers(cluster, client, least, most):
    """Start or kill workers; those that are there already are the cheapest."""
    while len(cluster.workers) < least:
        cluster.start_worker()
    while len(cluster.workers) > most:
        cluster.kill_worker()
    wait_until(lambda: len(client.nthreads()) == len(cluster.workers), "the workers were there, and no others")


@pytest.fixture
def Xs(rng):
    return planted_views(rng, n=ROWS * CHUNKS)[0]


def plain(Xs, **parameters):
    """A learner whose every pass sees all chunks."""
    start = [X[:12] for X in Xs]
    return make(**{"init": start, "growth": None, "predictor": "dictionary", "max_iter": 5, **parameters})


def watched(Xs, folder, gate=None):
    return [traced(view, folder, gate) for view in as_dask(Xs, ROWS)]


class When(threading.Thread):
    """Does something once so many chunks have been read."""

    def __init__(self, folder, count, action):
        super().__init__(daemon=True)
        self._folder, self._count, self._action = folder, count, action
        folder.mkdir(exist_ok=True)
        self.error = None
        self.start()

    def run(self):
        try:
            wait_until(lambda: len(readers(self._folder)) >= self._count, f"{self._count} chunks were read")
            self._action()
        except BaseException as error:
            self.error = error

    def done(self):
        self.join(PATIENCE)
        assert not self.is_alive()
        assert self.error is None, self.error


# Workers


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_an_iteration_changes_nothing(client, cluster, Xs, tmp_path):
    have_workers(cluster, client, 2, 2)
    reads = tmp_path / "reads"
    views = watched(Xs, reads, 7 * CHUNKS)

    def kill():
        cluster.kill_worker()
        let_go(reads)

    killing = When(reads, 7 * CHUNKS, kill)
    learner = plain(Xs).fit(views)
    killing.done()
    assert len(client.nthreads()) == 1
    assert_same_model(plain(Xs).fit(cut(Xs, ROWS)), learner)


@pytest.mark.slow
def test_a_worker_that_joins_late_changes_nothing(client, cluster, Xs, tmp_path):
    have_workers(cluster, client, 1, 1)
    joined = []

    def wait_for_the_second(state):
        if state.completed == 2:
            joined.append(cluster.start_worker().pid)
            have_workers(cluster, client, 2, 2)

    learner = plain(Xs, callback=wait_for_the_second).fit(watched(Xs, tmp_path / "reads"))
    assert joined[0] in readers(tmp_path / "reads")
    assert_same_model(plain(Xs).fit(cut(Xs, ROWS)), learner)


class Clock:
    """A clock that is set by hand, in place of the one by which the patience with a cluster is measured."""

    def __init__(self, monkeypatch):
        self.now, self.step = 1000.0, 0.0
        monkeypatch.setattr(distributed._run, "time", self)

    def monotonic(self):
        self.now += self.step
        return self.now


@pytest.mark.slow
def test_a_cluster_without_workers_is_given_up(client, cluster, Xs, tmp_path, monkeypatch):
    reads, clock = tmp_path / "reads", Clock(monkeypatch)

    def kill_all():
        while cluster.workers:
            cluster.kill_worker()
        wait_until(lambda: not client.nthreads(), "the scheduler knew")
        clock.step = 1.0

    killing = When(reads, 5 * CHUNKS, kill_all)
    learner = plain(Xs)
    with (
        dask.config.set({"coupledict.timeout": "6s", "coupledict.poll": "20ms"}),
        pytest.raises(ClusterTimeoutError, match=r"for 6 seconds.*it has no workers.*resume=path") as caught,
    ):
        learner.fit(watched(Xs, reads, 5 * CHUNKS), checkpoint=tmp_path / "checkpoint")
    killing.done()
    clock.step = 0.0
    assert isinstance(caught.value, TimeoutError)
    assert len(coupledict.load(tmp_path / "checkpoint").history_) == 1
    cluster.start_worker()
    let_go(reads)
    resumed = plain(Xs).fit(watched(Xs, reads), resume=tmp_path / "checkpoint")
    assert_same_model(plain(Xs).fit(cut(Xs, ROWS)), resumed)


@pytest.mark.slow
@pytest.mark.parametrize("reported", [True, False])
def test_slow_chunks_are_no_reason_to_give_up(client, Xs, monkeypatch, reported):
    """A chunk takes 2 seconds, an iteration 40; it would be given up if the chunks were not reported."""
    clock, subscribe, heard = Clock(monkeypatch), client.subscribe_topic, []

    def hear_and_wait(topic, hear):
        def heard_one(event):
            if reported:
                hear(event)
            heard.append(event)
            clock.now += 2

        subscribe(topic, heard_one)

    monkeypatch.setattr(client, "subscribe_topic", hear_and_wait)
    given_up = contextlib.nullcontext() if reported else pytest.raises(ClusterTimeoutError, match="stuck or busy")
    with dask.config.set({"coupledict.timeout": 3, "coupledict.poll": "20ms"}), given_up:
        plain(Xs, max_iter=3).fit(as_dask(Xs, ROWS))
    assert len(heard) >= (CHUNKS if reported else 2)


# The scheduler

LOSING_THE_SCHEDULER = """
import os, signal, sys, time
import numpy as np
from support.dask_cluster import as_dask
from distributed import Client
from coupledict.distributed import ClusterError
from support.learners import make

address, pid, folder = sys.argv[1:]
Xs = [np.load(f"{folder}/{v}.npy") for v in range(2)]

def kill(state):
    global began
    if state.completed == 2:
        os.kill(int(pid), signal.SIGKILL)
        began = time.monotonic()

client = Client(address)
learner = make(init=[X[:12] for X in Xs], growth=None, predictor="dictionary", max_iter=5, callback=kill)
try:
    learner.fit(as_dask(Xs, 50), checkpoint=f"{folder}/checkpoint")
except ClusterError as error:
    print(f"{time.monotonic() - began:.2f}", error)
"""


@pytest.mark.slow
def test_a_lost_scheduler_is_a_clear_error_and_a_checkpoint_to_go_on_from(client, Xs, tmp_path):
    for v, X in enumerate(Xs):
        np.save(tmp_path / f"{v}.npy", X)
    with Cluster(tmp_path / "lost", n_workers=1) as lost:
        done = subprocess.run(
            [sys.executable, "-c", LOSING_THE_SCHEDULER, lost.address, str(lost.scheduler.pid), tmp_path],
            capture_output=True,
            text=True,
            timeout=PATIENCE,  # the process ends by itself, too
            check=False,
            cwd=Path(__file__).parents[1],
        )
    assert done.returncode == 0, done.stderr
    seconds, _, message = done.stdout.partition(" ")
    assert float(seconds) < distributed._run.seconds_of("coupledict.timeout") / 3  # it is noticed, not waited for
    assert message.startswith(f"The connection to the Dask scheduler at {lost.address} was lost")
    assert "The samples are untouched" in message
    assert len(coupledict.load(tmp_path / "checkpoint").history_) == 2
    resumed = plain(Xs).fit(as_dask(Xs, ROWS), resume=tmp_path / "checkpoint")
    assert_same_model(plain(Xs).fit(cut(Xs, ROWS)), resumed)


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_given_up(client, cluster, Xs):
    data = distributed.DaskData(as_dask(Xs, ROWS), ["a", "b"])
    cluster.scheduler.send_signal(signal.SIGSTOP)
    try:
        with (
            dask.config.set({"coupledict.timeout": "1s", "coupledict.answer": "200ms"}),
            pytest.raises(ClusterTimeoutError, match="its scheduler does not answer"),
        ):
            data.mean_energies(1)
    finally:
        cluster.scheduler.send_signal(signal.SIGCONT)
    np.testing.assert_allclose(data.mean_energies(1), [np.mean(np.sum(X**2, axis=1)) for X in Xs])


@pytest.mark.slow
def test_a_client_that_is_closed_is_a_clear_error(cluster, Xs):
    with Client(cluster.address, set_as_default=False) as client, client.as_current():
        data = distributed.DaskData(as_dask(Xs, ROWS), ["a", "b"])
    with pytest.raises(ClusterError, match="was lost"):
        data.mean_energies(1)


# Interrupts


@pytest.mark.slow
def test_an_interrupt_leaves_the_finished_iterations_and_an_idle_cluster(hears_interrupts, client, Xs, tmp_path):
    reads = tmp_path / "reads"
    main = threading.main_thread().ident
    interrupting = When(reads, 7 * CHUNKS, lambda: signal.pthread_kill(main, signal.SIGINT))
    learner = plain(Xs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner.fit(watched(Xs, reads, 7 * CHUNKS))
    interrupting.done()
    let_go(reads)
    assert [str(warning.message) for warning in caught] == [
        "The fit was interrupted; the model is that of iteration 2 of 5."
    ]
    whole = plain(Xs).fit(cut(Xs, ROWS))
    assert without_times(learner.history_) == without_times(whole.history_[:2])
    wait_until(lambda: not any(client.processing().values()), "the cluster was idle")
    assert len(readers(reads)) < 8 * CHUNKS


# The last, for it costs a worker


@pytest.mark.slow
def test_a_chunk_that_kills_its_workers_is_given_up(client, cluster, Xs):
    client.run_on_scheduler(set_allowed_failures, 0)
    try:
        views = as_dask(Xs, ROWS)
        views[0] = views[0].map_blocks(die_on_chunk, meta=np.empty((0, 0)))
        with pytest.raises(ClusterError, match=r"A chunk was lost with every worker that tried it.*memory"):
            plain(Xs).fit(views)
    finally:
        client.run_on_scheduler(set_allowed_failures, 3)
        cluster.workers = [worker for worker in cluster.workers if worker.poll() is None]


def set_allowed_failures(count, dask_scheduler):
    dask_scheduler.allowed_failures = count


def die_on_chunk(rows, block_id):
    if block_id[0] == 3:
        os._exit(1)
    return rows
