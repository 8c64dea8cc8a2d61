"""Start and end the server: a socket for this machine only, a token, a temporary folder, shutdown within a second."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ._folder import run_folder
from ._opening import Opening
from ._packages import check_packages

HOST = "127.0.0.1"
PATIENCE = 0.5  # seconds that a running job has to end
#: Signals that end a process unless it handles them; those that report a fault in the process are left alone.
ENDING = (
    "SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF",
    "SIGXCPU", "SIGIO", "SIGPWR",
)  # fmt: skip
ALWAYS = (signal.SIGINT, signal.SIGTERM)  # handled even if they were ignored, as in a background job


def run(
    port: int = 0,
    *,
    browser: bool = True,
    max_megabytes: float = 1000,
    max_megapixels: float = 120,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve the page to this machine until Ctrl-C, and open it in the browser.

    The server listens on 127.0.0.1 only and answers only to addresses with the token of this run. Nothing leaves the
    machine. Uploads and results are kept in a temporary folder, which is removed when the server ends.

    Parameters
    ----------
    port : int, default=0
        0 chooses a free one.
    browser : bool, default=True
        Open the page in the browser.
    max_megabytes : float, default=1000
        Largest upload.
    max_megapixels : float, default=120
        Most megapixels of a picture, uploaded or made. The pictures of a focus stack are read one by one; together they
        may have 16 times as many.
    tell : callable, default=print
        Called with lines for the user: the address, and that the server has ended.

    Raises
    ------
    OSError
        If the port is taken.
    ImportError
        If packages of the extra ``serve`` are missing, or cannot be imported.

    Examples
    --------
    >>> from coupledict.serve import run
    >>> run(70000)
    Traceback (most recent call last):
    ...
    ValueError: Expected a port from 0 to 65535, got 70000.
    """
    _check(port, max_megabytes, max_megapixels)
    check_packages()
    from ._app import build_app
    from ._uploads import Limits

    limits = Limits(max_megabytes, max_megapixels)
    serve_page(port, partial(build_app, limits=limits), Opening if browser else None, tell, make_server)


def serve_page(
    port: int,
    build: Callable[[Path], tuple[Any, Any]],
    opening_of: Callable[[Path, str, Callable[[str], None]], Opening] | None,
    tell: Callable[[str], None],
    server_of: Callable[[Any, Callable[[], None] | None], Any],
) -> None:
    """Serve an application until a signal ends it, in a folder of its own.

    Parameters
    ----------
    port : int
    build : callable
        Returns the application, whose files are in a folder, and its jobs.
    opening_of : callable, or None
        Returns what opens the page in the browser; None if nothing does.
    tell : callable
        Called with lines for the user.
    server_of : callable
        Returns a server of an application, which calls a function once it is answering.
    """
    from ._guard import Guard

    token, ticket = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    with _listen(port) as listener, _Signals() as signals, run_folder() as folder:
        port = listener.getsockname()[1]
        files = folder / "jobs"
        files.mkdir()
        app, jobs = build(files)
        opening = None if opening_of is None else opening_of(folder, f"http://{HOST}:{port}/{ticket}", tell)
        once = None if opening is None else (ticket, opening.done)
        guard = Guard(app, token=token, port=port, once=once)
        tell(f"The page is at http://{HOST}:{port}/{token}/")
        tell("Only this machine can open it, and nothing leaves the machine. Ctrl-C ends it.")
        server = server_of(guard, None if opening is None else opening.start)
        signals.end(server)
        server.run(sockets=[listener])
        if opening is not None:
            opening.done()
        ended = jobs.close(PATIENCE)
    with contextlib.suppress(OSError):  # the terminal may be closed
        tell("Ended; all uploads and results have been removed.")
    if not ended:
        # A thread inside a kernel cannot be stopped, and its result is not needed.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def _check(port: int, max_megabytes: float, max_megapixels: float) -> None:
    if not 0 <= port <= 65535:
        raise ValueError(f"Expected a port from 0 to 65535, got {port}.")
    for name, value in (("max_megabytes", max_megabytes), ("max_megapixels", max_megapixels)):
        if not 0 < value < float("inf"):
            raise ValueError(f"Expected {name} to be above 0, got {value}.")


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":  # the other option would let any program take the same port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(64)  # from now on, a browser waits instead of failing
    except OSError as error:
        listener.close()
        raise OSError(
            f"Expected port {port} of this machine to be free, but it is not"
            f" ({(error.strerror or str(error)).lower()}); leave --port out to use a free one."
        ) from error
    return listener


def make_server(app: Any, ready: Callable[[], None] | None = None, silence: float | None = None) -> Any:
    """Return a server of an application.

    Parameters
    ----------
    app : ASGI application
    ready : callable, optional
        Called once it is answering.
    silence : float, optional
        Seconds after which clients that send nothing are disconnected.
    """
    import uvicorn

    from . import _connections

    most = _connections.most_connections()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if ready is not None and self.started:
                ready()

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # `run` handles them, also before the server has started and after it has ended

    # No log, because addresses contain the token.
    return Server(
        uvicorn.Config(
            app,
            http=_connections.limited(_connections.SILENCE if silence is None else silence, most),
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_level="critical",
            access_log=False,
            server_header=False,
            backlog=most,  # asyncio accepts as many at once
            timeout_graceful_shutdown=0,
        )
    )


class _Signals:
    """A context in which signals that would end the process end the server instead, so that it removes its files.

    Signals that are ignored, such as SIGHUP under ``nohup``, and those that already have a handler stay as they are.
    Only the main thread can handle signals; in any other, nothing changes.
    """

    def __init__(self) -> None:
        self._server: Any = None
        self._received = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            numbers = [getattr(signal, name) for name in ENDING if hasattr(signal, name)]
            usual = (signal.SIG_DFL, signal.default_int_handler)
            for number in numbers:
                if signal.getsignal(number) in usual or number in ALWAYS:
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def end(self, server: Any) -> None:
        """Set the server to end on a signal; it ends at once if a signal has already come."""
        self._server = server
        server.should_exit = self._received

    def _receive(self, number: int, frame: object) -> None:
        if self._server is not None:
            self._server.should_exit = True
            self._server.force_exit = self._received  # a second signal forces the end
        self._received = True
