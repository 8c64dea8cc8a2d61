"""Connections of clients that are slow, silent or too many, which uvicorn by itself would keep for ever.

While the server waits for a client, a window of some seconds runs. Within it the client has to finish what it sends,
the head of a request or its body, or send a good piece of a body. Whoever does neither is left. There may be so many
connections; one more takes the place of the oldest that has no request under way.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SILENCE = 20.0  # seconds
LEAST = 1 << 16  # bytes of a body that have to come within that time: 3 kB/s
MOST = 128  # connections; a browser holds six, and one for each job that it watches


def most_connections() -> int:
    """Return how many connections there may be: a quarter of the files that the process may have open, if that is less.

    The same number may be accepted before the first of them is looked at; the other half is for our files.
    """
    if sys.platform == "win32":
        return MOST
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if files == resource.RLIM_INFINITY else max(8, min(MOST, files // 4))


class Limited(H11Protocol):
    """A connection with its window, one of at most so many."""

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
            self.transport.abort()  # what came is no HTTP, and it is too late to say so
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
        """Tell whether the client is to send something; not so while we do not read what it sends."""
        return not self.flow.read_paused and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _begin_window(self) -> None:
        self._end_window()
        self._come = 0
        self._timer = self.loop.call_later(self.silence, self._look)

    def _end_window(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        if self._is_waited_for():
            self.transport.abort()
        else:
            self._begin_window()


def limited(silence: float, most: int) -> type[Limited]:
    """Return the protocol of connections for one server."""
    return type("Limited", (Limited,), {"silence": silence, "most": most, "alive": {}})


def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Be silent about connections that break: clients may do what they like, and the terminal is not theirs."""
    if not isinstance(context.get("exception"), OSError | h11.ProtocolError):
        loop.default_exception_handler(context)
