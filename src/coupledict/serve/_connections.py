"""Limits for clients that are slow, silent or too many, whose connections uvicorn would keep forever.

While the server waits for a client, a window of some seconds runs, in which the client has to finish the head or the
body of its request, or send a fair piece of the body. Otherwise it is disconnected. The number of connections is
limited; one more replaces the oldest without a request in progress.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SILENCE = 20.0  # seconds
LEAST = 1 << 16  # bytes of a body that have to arrive within that time: 3 kB/s
MOST = 128  # connections; a browser holds six, and one for each job that it watches


def most_connections() -> int:
    """Return the largest number of connections: at most a quarter of the files that the process may have open.

    As many may be accepted before the first of them is handled; the other half is for our files.
    """
    if sys.platform == "win32":
        return MOST
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if files == resource.RLIM_INFINITY else max(8, min(MOST, files // 4))


class Limited(H11Protocol):
    """A connection with a time window, one of a limited number."""

    silence: ClassVar[float]
    most: ClassVar[int]
    alive: ClassVar[dict[Limited, None]]  # of one server, the oldest first

    _timer: asyncio.TimerHandle | None = None
    _come = 0  # bytes within this window

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, in place of an idle one if there are too many."""
        super().connection_made(transport)
        if len(self.alive) >= self.most:
            leaving = next((other for other in self.alive if other._is_idle()), self)
            leaving.transport.abort()
            self.alive.pop(leaving, None)
            if leaving is self:
                return
        self.alive[self] = None
        self._begin_window()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self.alive.pop(self, None)
        self._end_window()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what a client sends."""
        self._come += len(data)
        try:
            super().data_received(data)
        except h11.LocalProtocolError:
            self.transport.abort()  # not HTTP, and too late to say so
            return
        if self.conn.their_state is h11.DONE or self._come >= LEAST:
            self._begin_window()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._begin_window()
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection without a further request."""
        self.transport.close()

    def shutdown(self) -> None:
        """Close a connection because the server ends."""
        if self._is_idle():
            self.transport.close()
        else:
            super().shutdown()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _is_waited_for(self) -> bool:
        """Return whether the client has to send something; it has not while we do not read."""
        return not self.flow.read_paused and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _begin_window(self) -> None:
        self._end_window()
        self._come = 0
        self._timer = self.loop.call_later(self.silence, self._check_window)

    def _end_window(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_window(self) -> None:
        if self._is_waited_for():
            self.transport.abort()
        else:
            self._begin_window()


def limited(silence: float, most: int) -> type[Limited]:
    """Return the connection protocol of one server."""
    return type("Limited", (Limited,), {"silence": silence, "most": most, "alive": {}})


def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore broken connections, so that clients cannot flood the terminal."""
    if not isinstance(context.get("exception"), OSError | h11.ProtocolError):
        loop.default_exception_handler(context)
