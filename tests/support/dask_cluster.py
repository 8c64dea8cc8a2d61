"""A Dask cluster of separate processes on this machine, and arrays that leave traces of being read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import dask.array as da
import numpy as np

from support.waiting import PATIENCE


class Cluster:
    """A scheduler and workers with one thread each, started by their commands; to be used as a context."""

    def __init__(self, folder, n_workers=2):
        self.folder = Path(folder)
        self.folder.mkdir()
        self.workers = []
        self._n_workers = n_workers
        self._started = []

    def __enter__(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.scheduler = self._start("scheduler", "--port", str(port), "--dashboard-address", "127.0.0.1:0")
        for _ in range(self._n_workers):  # they wait for the scheduler, so all can start at once
            self.start_worker()
        return self

    def __exit__(self, *error):
        for process in self._started:
            process.kill()
        for process in self._started:
            process.communicate()

    def start_worker(self):
        worker = self._start(
            "worker",
            self.address,
            *("--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--death-timeout", str(PATIENCE)),
            *("--local-directory", str(self.folder), "--preload", "coupledict.distributed"),
        )
        self.workers.append(worker)
        return worker

    def kill_worker(self):
        """Kill a worker, without any chance to say farewell."""
        worker = self.workers.pop()
        worker.kill()
        worker.wait()

    def _start(self, kind, *arguments):
        command = [sys.executable, "-m", "dask", kind, *arguments, "--host", "127.0.0.1", "--no-dashboard"]
        command += ["--preload", "support.ends_with_parent"]
        tests = Path(__file__).parents[1]
        path = os.pathsep.join([str(tests), str(tests.parent), os.environ.get("PYTHONPATH", "")])
        with open(self.folder / f"{kind}-{len(self._started)}.log", "w") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path},
                cwd=self.folder,
            )
        self._started.append(process)
        return process


def cut(Xs, rows):
    """Views as chunks, for a fit in this process."""
    return [[X[start : start + rows] for X in Xs] for start in range(0, len(Xs[0]), rows)]


def as_dask(Xs, rows):
    """The same views as Dask arrays with the same chunks."""
    return [da.from_array(X, chunks=(rows, -1)) for X in Xs]


def _read(rows, folder, gate):
    Path(folder, f"{uuid.uuid4().hex}.{os.getpid()}").touch()
    if gate is not None:
        while len(os.listdir(folder)) >= gate and not os.path.exists(f"{folder} may go on"):
            time.sleep(0.01)
    return rows


def traced(array, folder, gate=None):
    """An array that leaves a file, named after its worker, for each chunk that is read.

    With `gate`, who reads the chunk of this number, or a later one, is held there until :func:`let_go`.
    """
    Path(folder).mkdir(exist_ok=True)
    return array.map_blocks(_read, str(folder), gate, meta=np.empty((0, 0), array.dtype))


def let_go(folder):
    """Open the gate."""
    Path(f"{folder} may go on").touch()


def readers(folder):
    """Return the process of each reading so far."""
    return [int(name.rpartition(".")[2]) for name in os.listdir(folder)]
