"""The queue of jobs: one runs at a time, and the results of finished ones are kept for a while.

The event loop owns the queue. A job runs in a worker thread, reports its progress there, and learns there that it was
cancelled. Files of finished jobs are kept until newer ones need the space.

A job is for somebody. The page holds a request open for each of its jobs, and the server notices when it breaks: unlike
the timers of a page, an open request lives on while its tab is in the background. A job that nobody has watched or
asked for during a grace period, long enough to load the page again, is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..foundation.progress import Callback, Progress, StoppedByCallback
from ._making import Making
from ._pictures import Pictures, Showing

JobState = Literal["waiting", "running", "done", "failed", "cancelled"]

MOST_WAITING = 8
MOST_KEPT = 8
SENT = "sent"  # where a job's folder has the files that were sent, apart from those for the page
READING, WRITING = "Reading the files", "Writing the result"  # phases of most jobs
GRACE = 4.0  # seconds that a job goes on unwatched; it then ends within a few more
#: Errors that the user of the page can fix. Any other is a bug, and its traceback is printed in the terminal.
USER_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)


class LineFull(Exception):  # noqa: N818
    """Too many jobs are waiting."""


@dataclass(frozen=True)
class Phase:
    """A part of a job: its name on the page, and the shares of all the work at which it begins and ends."""

    name: str
    begin: float
    end: float

    def share(self, done: float) -> float:
        """Return the finished share of all the work when a share of this part is done."""
        return self.begin + (self.end - self.begin) * done


class Job:
    """One piece of work with a folder of its own.

    Parameters
    ----------
    work : callable
        Called with the job, in a worker thread; returns what the page shows, as JSON.
    folder : Path
        For its files; exists.
    names : dict of str to str
        Paths that error messages may contain, and the names by which the user knows these files.
    sent : int, default=0
        Bytes of the files that were sent.
    showing : Showing, optional
        How its pictures are shown.
    """

    def __init__(
        self,
        work: Callable[[Job], dict[str, Any]],
        folder: Path,
        names: dict[str, str],
        sent: int = 0,
        showing: Showing | None = None,
    ) -> None:
        self.id = secrets.token_urlsafe(9)
        self.folder, self.sent = folder, sent
        self.files = Making(folder)
        self.pictures = Pictures(folder, self.files, showing or Showing())
        self.watchers = 0  # open requests of pages that follow it
        self.state: JobState = "waiting"
        self.phase = ""
        self.share: float | None = None  # of all its work; None while nobody knows
        self.message = ""
        self.result: dict[str, Any] | None = None
        self.seconds, self._begun = 0.0, 0.0
        self._work, self._names = work, names
        self._stop = threading.Event()
        self._beginning = threading.Lock()  # a job begins or is cancelled before it begins, never both
        self.ended = threading.Event()

    def report(self, phase: str, share: float | None = None) -> None:
        """Report the phase of the work, and the finished share of all of it if it is known.

        Called from the worker thread.

        Raises
        ------
        StoppedByCallback
            If the job was cancelled.
        """
        if self._stop.is_set():
            raise StoppedByCallback("Nobody waits for the job any more.")
        self.phase, self.share = phase, share

    def watch(self, phases: Mapping[str, Phase]) -> Callback:
        """Return a callback for whatever does the work, which reports its stages as phases of the job.

        Of a stage that does not know its length, only the name is reported.
        """

        def tell(progress: Progress) -> bool:
            phase = phases.get(progress.stage)
            if phase is not None:
                self.phase = phase.name
                self.share = None if progress.total is None else phase.share(progress.share)
            return self._stop.is_set()

        return tell

    @property
    def over(self) -> bool:
        """Whether it has ended, in whichever way."""
        return self.state not in ("waiting", "running")

    @property
    def elapsed(self) -> float:
        """Seconds that it has been running for."""
        return time.perf_counter() - self._begun if self.state == "running" else self.seconds

    def cancel(self) -> None:
        """Ask the job to end; a waiting job ends at once."""
        with self._beginning:
            self._stop.set()
            if self.state == "waiting":
                self._end("cancelled")

    def run(self) -> None:
        """Run the work and store its outcome; never raises."""
        with self._beginning:
            if self._stop.is_set():
                return
            self._begun = time.perf_counter()
            self.state = "running"
        try:
            self.result = self._work(self)
            self.seconds = time.perf_counter() - self._begun
            self._end("cancelled" if self._stop.is_set() else "done")
        except StoppedByCallback:
            self._end("cancelled")
        except USER_ERRORS as error:
            self.message = self._sentence(error)
            self._end("failed")
        except BaseException as error:
            if not self._stop.is_set():  # the ending server removes its folder, which may make it fail
                traceback.print_exc(file=sys.stderr)
            self.message = (
                f"Something went wrong that should not have ({type(error).__name__}); the terminal says more."
            )
            self._end("failed")

    def _sentence(self, error: BaseException) -> str:
        text = " ".join(str(error).split()) or "There is not enough memory for this; try smaller files."
        for path, name in self._names.items():
            text = text.replace(path, name)
        return text

    def _end(self, state: JobState) -> None:
        if state != "done":
            shutil.rmtree(self.folder, ignore_errors=True)
        self.state = state  # who sees it also sees that the files are gone
        self.ended.set()

    def size(self) -> int:
        """Return the size of its files in bytes."""
        total = 0
        for file in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # what is made for the page may come and go
                total += file.stat().st_size
        return total


class Arrival:
    """Files of a job that are arriving: they count as what was announced, or has come if that is more."""

    def __init__(self, folder: Path, check: Callable[[], None]) -> None:
        self.folder, self.size = folder, 0
        self._check = check

    def expect(self, size: int) -> None:
        """Take note of some bytes in all; raise `LineFull` if they are more than there is room for."""
        if size > self.size or not self.size:
            self.size = size
            self._check()


class Jobs:
    """The queue of jobs, and the results of those that are done.

    Parameters
    ----------
    folder : Path
        Parent of the folders of the jobs.
    most_sent : float, default=inf
        Bytes of the files of all jobs that are not over, those still arriving included; one job may have as many as it
        likes.
    grace : float, default=4
        Seconds that a job goes on unwatched.
    most_kept : float, default=inf
        Bytes of the files of all jobs that are done; the newest one may have as many as it likes.
    """

    def __init__(
        self,
        folder: Path,
        most_sent: float = float("inf"),
        grace: float = GRACE,
        most_kept: float = float("inf"),
    ) -> None:
        self._folder = folder
        self._most_sent = most_sent
        self._grace = grace
        self._most_kept = most_kept
        self._leaving: dict[str, asyncio.TimerHandle] = {}  # what will cancel the jobs that nobody watches
        self._jobs: dict[str, Job] = {}  # in the order they came
        self._arrivals: list[Arrival] = []
        self._line: asyncio.Queue[Job] = asyncio.Queue()

    @contextlib.contextmanager
    def arriving(self, coming: int = 0) -> Iterator[Arrival]:
        """Give a folder for the files of a new job, of which some bytes are announced, while they arrive.

        Whatever goes wrong until the job is submitted, the folder is removed.
        """
        arrival = Arrival(self._folder / secrets.token_hex(8), self._check_room)
        self._arrivals.append(arrival)
        try:
            arrival.expect(coming)
            (arrival.folder / SENT).mkdir(parents=True)
            yield arrival
        except BaseException:
            shutil.rmtree(arrival.folder, ignore_errors=True)
            raise
        finally:
            self._arrivals.remove(arrival)

    def _check_room(self) -> None:
        """Raise if there are too many jobs, arriving or waiting, or their files are too large together."""
        waiting = sum(job.state == "waiting" for job in self._jobs.values())
        if waiting + len(self._arrivals) > MOST_WAITING:
            raise LineFull(f"Expected at most {MOST_WAITING} jobs to wait; try again when one of them is done.")
        sizes = [arrival.size for arrival in self._arrivals]
        sizes += [job.sent for job in self._jobs.values() if not job.over and job.sent]
        if len(sizes) > 1 and sum(sizes) > self._most_sent:
            raise LineFull(
                f"Expected the files of waiting jobs to have at most {self._most_sent / 1e6:g} MB together; try again"
                " when one of them is done."
            )

    def submit(self, job: Job) -> None:
        """Put a job at the end of the queue; its files have arrived."""
        self._jobs[job.id] = job
        self._line.put_nowait(job)
        self.seen(job)

    def find(self, name: str) -> Job | None:
        """Return a job that is still known."""
        return self._jobs.get(name)

    def seen(self, job: Job) -> None:
        """Take note that somebody asks for a job: if nobody watches it, its grace period begins anew."""
        leaving = self._leaving.pop(job.id, None)
        if leaving is not None:
            leaving.cancel()
        if not job.over and not job.watchers:
            loop = asyncio.get_running_loop()
            self._leaving[job.id] = loop.call_later(self._grace, self._leave, job)

    def _leave(self, job: Job) -> None:
        self._leaving.pop(job.id, None)
        if not job.over:
            job.cancel()

    @contextlib.contextmanager
    def watched(self, job: Job) -> Iterator[None]:
        """Keep a job going for as long as somebody watches it."""
        job.watchers += 1
        self.seen(job)
        try:
            yield
        finally:
            job.watchers -= 1
            self.seen(job)

    def describe(self, job: Job) -> dict[str, Any]:
        """Return what the page shows of a job."""
        told: dict[str, Any] = {"id": job.id, "state": job.state}
        if job.state == "waiting":
            others = list(self._jobs.values())
            told["before"] = sum(other.state in ("waiting", "running") for other in others[: others.index(job)])
        elif job.state == "running":
            told |= {"phase": job.phase, "share": job.share, "elapsed": job.elapsed}
        elif job.state == "failed":
            told["message"] = job.message
        elif job.state == "done":
            told |= {"result": job.result, "seconds": job.seconds}
        return told

    async def work(self) -> None:
        """Run one job after the other, forever."""
        from anyio import CapacityLimiter, to_thread

        limiter = CapacityLimiter(1)
        while True:
            job = await self._line.get()
            await to_thread.run_sync(job.run, abandon_on_cancel=True, limiter=limiter)
            self.forget()

    def forget(self) -> None:
        """Remove the oldest jobs where they are too many or too large; the newest result always stays."""
        done = [job for job in self._jobs.values() if job.state == "done"]
        sizes = [job.size() for job in done]
        while len(done) > MOST_KEPT or (len(done) > 1 and sum(sizes) > self._most_kept):
            old = done.pop(0)
            sizes.pop(0)
            shutil.rmtree(old.folder, ignore_errors=True)
            del self._jobs[old.id]
        over = [job for job in self._jobs.values() if job.state in ("failed", "cancelled")]
        for job in over[:-MOST_KEPT]:
            del self._jobs[job.id]

    def close(self, seconds: float) -> bool:
        """Ask all jobs to end; return whether they did within some seconds."""
        jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        return all(job.ended.wait(seconds) for job in jobs if job.state == "running")
