"""Runs task graphs on a cluster or in this process, with a timeout, so that a lost cluster never blocks forever."""

from __future__ import annotations

import sys
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

import dask
import dask.array as da
from dask.base import get_scheduler
from dask.utils import parse_bytes, parse_timedelta

TOPIC = "coupledict"  # of the events with which workers report finished chunks
TIMEOUT = "coupledict.timeout"  # a key of Dask's configuration, as those below
POLL = "coupledict.poll"
ANSWER = "coupledict.answer"
SECONDS = {TIMEOUT: 300, POLL: 0.5, ANSWER: 5}  # without a finished chunk; between two polls; for a scheduler's answer
LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"
SMALL_BYTES = 1 << 20

UNTOUCHED = (
    " The samples are untouched, and so is the checkpoint, if there is one: fit(..., resume=path) goes on from it, on"
    " this cluster or another."
)


class ClusterError(RuntimeError):
    """The cluster was lost, or cannot do the work; nothing is wrong with the samples or the parameters."""


class ClusterTimeoutError(ClusterError, TimeoutError):
    """No chunk was finished for longer than ``coupledict.timeout``, a setting of Dask's configuration."""


def seconds_of(setting: str) -> float:
    """Return a time of Dask's configuration, in seconds."""
    return float(parse_timedelta(dask.config.get(setting, SECONDS[setting])))


_last_news: dict[str, float] = {}  # for each run of this process, the time of the last finished chunk


def _note_finished(event: tuple[float, str]) -> None:
    """Record that a chunk is finished; the client calls this."""
    run = event[1]
    if run in _last_news:
        _last_news[run] = time.monotonic()


def report_finished(run: str) -> None:
    """Report to the client that a chunk is finished; does nothing outside a worker."""
    distributed = sys.modules.get("distributed")
    if run and distributed is not None:
        with suppress(ValueError):
            distributed.get_worker().log_event(TOPIC, run)


class Runner:
    """Runs graphs on the scheduler that was current when this object was made.

    Attributes
    ----------
    client : distributed.Client or None
        None if Dask works in this process.
    """

    def __init__(self) -> None:
        self._get = get_scheduler(cls=da.Array)
        owner = getattr(self._get, "__self__", None)
        self.client: Any = owner if type(owner).__module__.startswith("distributed.") else None
        if self.client is not None:
            self._address = str(getattr(self.client.scheduler, "address", "an unknown address"))

    def n_threads(self) -> int:
        """Return how many chunks are processed at once, as far as is known; at least 1."""
        if self.client is None:
            return int(dask.config.get("num_workers", None) or dask.system.CPU_COUNT)
        self._check_connection()
        with suppress(Exception):  # only the grouping of the work depends on it
            return max(1, int(sum(self.client.nthreads(callback_timeout=seconds_of(ANSWER)).values())))
        return 1

    def run(self, graph: dict[Any, Any], key: Any, run: str, extra_bytes: int = 0) -> Any:
        """Return the value of a key.

        `run` is the name that the tasks pass to :func:`report_finished`. `extra_bytes` is the size of the dictionaries
        in the graph, for which Dask should not warn of a large graph.
        """
        if self.client is None:
            return self._get(graph, key)
        from distributed import KilledWorker

        seconds = seconds_of(TIMEOUT)
        self._check_connection()
        self.client.subscribe_topic(TOPIC, _note_finished)
        _last_news[run] = time.monotonic()
        future = self._submit(graph, key, extra_bytes)
        try:
            self._wait(future, run, seconds)
            return future.result(timeout=seconds)
        except KilledWorker as error:
            raise ClusterError(
                f"A chunk was lost with every worker that tried it. Workers usually die for lack of memory: use"
                f" smaller chunks, or workers with more. Dask says: {error}.{UNTOUCHED}"
            ) from error
        except (CancelledError, OSError) as error:
            if isinstance(error, ClusterError) or future.status == "error":  # an error in a chunk is raised unchanged
                raise
            raise self._lost() from error
        finally:
            future.release()  # the scheduler then drops the tasks that are not done yet
            del _last_news[run]

    def _submit(self, graph: dict[Any, Any], key: Any, extra_bytes: int) -> Any:
        if extra_bytes <= SMALL_BYTES:
            return self.client.get(graph, key, sync=False)
        limit = parse_bytes(dask.config.get(LARGE_GRAPH)) + 2 * extra_bytes
        with dask.config.set({LARGE_GRAPH: limit}):
            return self.client.get(graph, key, sync=False)

    def _wait(self, future: Any, run: str, seconds: float) -> None:
        from distributed import wait

        poll = seconds_of(POLL)
        while True:
            with suppress(TimeoutError, CancelledError):
                wait(future, timeout=poll)
            if future.status in ("finished", "error"):
                return
            self._check_connection()
            if future.status == "cancelled":
                raise self._lost()
            if time.monotonic() - _last_news[run] > seconds:
                raise ClusterTimeoutError(
                    f"No chunk was finished on the Dask cluster at {self._address} for {seconds:g} seconds (the setting"
                    f" {TIMEOUT!r} of Dask's configuration): {self._state()}.{UNTOUCHED}"
                )

    def _check_connection(self) -> None:
        if self.client.status != "running":
            raise self._lost()

    def _lost(self) -> ClusterError:
        return ClusterError(
            f"The connection to the Dask scheduler at {self._address} was lost, and the work of this iteration with"
            f" it.{UNTOUCHED}"
        )

    def _state(self) -> str:
        """Describe the cluster, for an error message."""
        try:
            threads = self.client.nthreads(callback_timeout=seconds_of(ANSWER))
        except Exception:
            return "its scheduler does not answer"
        if not threads:
            return "it has no workers"
        return f"it has {len(threads)} workers with {sum(threads.values())} threads, and is stuck or busy otherwise"
