"""Start and end the server: a socket for this machine only, a token, a temporary folder, an end within a second."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
PATIENCE = 0.5  # seconds that a running job has to end
MISSING = (
    'Expected starlette, uvicorn and python-multipart to be installed. Install them: pip install "coupledict[serve]"'
)


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
        Most megapixels of a picture, sent or made. The pictures of a focus stack are read one by one; all together may
        have 16 times as many.
    tell : callable, default=print
        Called with lines for the user: the address, and that the server has ended.

    Raises
    ------
    OSError
        If the port is taken.
    ImportError
        If the packages of the extra ``serve`` are missing.

    Examples
    --------
    >>> from coupledict.serve import run
    >>> run(70000)
    Traceback (most recent call last):
    ...
    ValueError: Expected a port from 0 to 65535, got 70000.
    """
    _check(port, max_megabytes, max_megapixels)
    _check_packages()
    from ._app import build_app
    from ._guard import Guard
    from ._uploads import Limits

    listener = _listen(port)
    port = listener.getsockname()[1]
    token, ticket = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    ended = True
    with listener, tempfile.TemporaryDirectory(prefix="coupledict-", ignore_cleanup_errors=True) as folder:
        app, jobs = build_app(Path(folder), Limits(max_megabytes, max_megapixels))
        guard = Guard(app, token=token, port=port, ticket=ticket if browser else None)
        tell(f"The page is at http://{HOST}:{port}/{token}/")
        tell("Only this machine can open it, and nothing leaves the machine. Ctrl-C ends it.")
        with _ended_by_signals():
            if browser:
                _open(f"http://{HOST}:{port}/{ticket}", tell)
            _make_server(guard).run(sockets=[listener])
        ended = jobs.close(PATIENCE)
    tell("Ended; what was uploaded and made is removed.")
    if not ended:
        # A thread inside a kernel cannot be stopped, and nobody needs its result.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _check(port: int, max_megabytes: float, max_megapixels: float) -> None:
    if not 0 <= port <= 65535:
        raise ValueError(f"Expected a port from 0 to 65535, got {port}.")
    for name, value in (("max_megabytes", max_megabytes), ("max_megapixels", max_megapixels)):
        if not 0 < value < float("inf"):
            raise ValueError(f"Expected {name} to be above 0, got {value}.")


def _check_packages() -> None:
    try:
        import PIL  # noqa: F401
        import python_multipart  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(MISSING) from error


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(64)  # from here on a browser waits instead of failing
    except OSError as error:
        listener.close()
        raise OSError(
            f"Expected port {port} of this machine to be free, but it cannot be had"
            f" ({(error.strerror or str(error)).lower()}); leave --port out to take a free one."
        ) from error
    return listener


def _make_server(app: Any) -> Any:
    import uvicorn

    # No log: an address in it would hold the token.
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="on",
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=0,
        )
    )


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM close the server in order; uvicorn handles them first and raises them again."""
    mine = threading.current_thread() is threading.main_thread()  # other threads get no signals
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler) if mine else None
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        if mine:
            signal.signal(signal.SIGTERM, previous)


def _open(address: str, tell: Callable[[str], None]) -> None:
    """Open the page in a graphical browser; a text browser in this terminal would block Ctrl-C."""
    windows = sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if not (windows and webbrowser.open(address)):
        tell("No browser was found to open it in; copy the address to yours.")
