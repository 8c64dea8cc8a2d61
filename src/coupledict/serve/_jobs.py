"""The queue of jobs: one runs at a time, and the results of finished ones are kept for a while.

The event loop owns the queue. A job runs in a worker thread, where it reports its progress and learns that it was
cancelled. Files of finished jobs are kept until newer ones need the space.

The page holds a request open for each of its jobs, and the server notices when it breaks: unlike the timers of a page,
an open request stays alive while its tab is in the background. A job that nobody has watched or asked for during a
grace period, long enough to reload the page, is cancelled.
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
from ._lazy_files import LazyFiles
from ._pictures import DisplaySize, Pictures

JobState = Literal["waiting", "running", "done", "failed", "cancelled"]

MOST_WAITING = 8
MOST_KEPT = 8
SENT = "sent"  # subfolder of a job's folder for uploaded files, apart from those for the page
READING, WRITING = "Reading the files", "Writing the result"  # phases of most jobs
GRACE = 4.0  # seconds that a job runs unwatched; it then ends within a few more
#: Errors that the user of the page can fix. Any other is a bug, and its traceback is printed in the terminal.
USER_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)


class LineFull(Exception):  # noqa: N818
    """Too many jobs are waiting."""


@dataclass(frozen=True)
class Phase:
    """A part of a job: its name on the page, and the shares of the whole work at which it begins and ends."""

    name: str
    begin: float
    end: float

    def share(self, done: float) -> float:
        """Return the finished share of the whole work when a share of this part is done."""
        return self.begin + (self.end - self.begin) * done


class Job:
    """One task in progress, with a folder of its own.

    Parameters
    ----------
    work : callable
        Called with the job, in a worker thread; returns the result for the page, as JSON.
    folder : Path
        For its files; exists.
    names : dict of str to str
        Paths that error messages may contain, and the user's names of these files.
    sent : int, default=0
        Bytes of the uploaded files.
    display : DisplaySize, optional
        How its pictures are shown.
    """

    def __init__(
        self,
        work: Callable[[Job], dict[str, Any]],
        folder: Path,
        names: dict[str, str],
        sent: int = 0,
        display: DisplaySize | None = None,
    ) -> None:
        self.id = secrets.token_urlsafe(9)
        self.folder = folder
        self.sent = sent
        self.files = LazyFiles(folder)
        self.pictures = Pictures(folder, self.files, display or DisplaySize())
        self.watchers = 0  # open requests of pages that follow it
        self.state: JobState = "waiting"
        self.phase = ""
        self.share: float | None = None  # of the whole work; None while it is unknown
        self.message = ""
        self.result: dict[str, Any] | None = None
        self.seconds = 0.0
        self._begun = 0.0
        self._work = work
        self._names = names
        self._stop = threading.Event()
        self._beginning = threading.Lock()  # so that a job either begins or is cancelled before, never both
        self.ended = threading.Event()

    def report(self, phase: str, share: float | None = None) -> None:
        """Report the phase of the work, and the finished share of the whole if it is known.

        Called from the worker thread.

        Raises
        ------
        StoppedByCallback
            If the job was cancelled.
        """
        if self._stop.is_set():
            raise StoppedByCallback("Nobody is waiting for the job any more.")
        self.phase = phase
        self.share = share

    def watch(self, phases: Mapping[str, Phase]) -> Callback:
        """Return a callback that reports the stages of the work as phases of the job.

        For a stage of unknown length, only the name is reported.
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
        """Whether it has ended, in whatever way."""
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
            if not self._stop.is_set():  # a server that is ending removes the folder, which may make the job fail
                traceback.print_exc(file=sys.stderr)
            self.message = f"This is a fault in coupledict ({type(error).__name__}); the terminal shows the details."
            self._end("failed")

    def _sentence(self, error: BaseException) -> str:
        text = " ".join(str(error).split()) or "There is not enough memory for this; try smaller files."
        for path, name in self._names.items():
            text = text.replace(path, name)
        return text

    def _end(self, state: JobState) -> None:
        if state != "done":
            shutil.rmtree(self.folder, ignore_errors=True)
        self.state = state  # set last, so that the files are gone by then
        self.ended.set()

    def size(self) -> int:
        """Return the size of its files in bytes."""
        total = 0
        for file in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # files for the page may come and go
                total += file.stat().st_size
        return total


class Arrival:
    """The arriving files of a job; their size is what was announced, or what has arrived if that is more."""

    def __init__(self, folder: Path, check: Callable[[], None]) -> None:
        self.folder = folder
        self.size = 0
        self._check = check

    def expect(self, size: int) -> None:
        """Record the total number of bytes; raise `LineFull` if there is no room for them."""
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
        Bytes of the files of all unfinished jobs, including those still arriving; a single job may have any number.
    grace : float, default=4
        Seconds that a job goes on unwatched.
    most_kept : float, default=inf
        Bytes of the files of all finished jobs; the newest one may have any number.
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
        self._leaving: dict[str, asyncio.TimerHandle] = {}  # timers that cancel unwatched jobs
        self._jobs: dict[str, Job] = {}  # in order of arrival
        self._arrivals: list[Arrival] = []
        self._line: asyncio.Queue[Job] = asyncio.Queue()

    @contextlib.contextmanager
    def arriving(self, coming: int = 0) -> Iterator[Arrival]:
        """Yield a folder for the files of a new job, of an announced size, while they arrive.

        If anything fails before the job is submitted, the folder is removed.
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
        """Raise if too many jobs are arriving or waiting, or if their files are too large together."""
        waiting = sum(job.state == "waiting" for job in self._jobs.values())
        if waiting + len(self._arrivals) > MOST_WAITING:
            raise LineFull(f"Expected at most {MOST_WAITING} waiting jobs, got more; try again when one is done.")
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
        """Note that somebody asked for a job: if nobody watches it, its grace period starts again."""
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
        """Keep a job running for as long as somebody watches it."""
        job.watchers += 1
        self.seen(job)
        try:
            yield
        finally:
            job.watchers -= 1
            self.seen(job)

    def describe(self, job: Job) -> dict[str, Any]:
        """Return what the page shows of a job."""
        shown: dict[str, Any] = {"id": job.id, "state": job.state}
        if job.state == "waiting":
            others = list(self._jobs.values())
            shown["before"] = sum(other.state in ("waiting", "running") for other in others[: others.index(job)])
        elif job.state == "running":
            shown |= {"phase": job.phase, "share": job.share, "elapsed": job.elapsed}
        elif job.state == "failed":
            shown["message"] = job.message
        elif job.state == "done":
            shown |= {"result": job.result, "seconds": job.seconds}
        return shown

    async def work(self) -> None:
        """Run one job after another, forever."""
        from anyio import CapacityLimiter, to_thread

        limiter = CapacityLimiter(1)
        while True:
            job = await self._line.get()
            await to_thread.run_sync(job.run, abandon_on_cancel=True, limiter=limiter)
            self.forget()

    def forget(self) -> None:
        """Remove the oldest jobs if there are too many or they are too large; the newest result always stays."""
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
