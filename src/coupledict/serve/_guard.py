"""Access control: only this machine's browser may use the server, and only with the token of this run.

The socket is bound to 127.0.0.1, so other machines cannot reach it. Other programs and other web pages on this machine
can, and four checks keep them out. The first part of every path is a random token. The Host header must name this
machine; otherwise a page elsewhere could point its own host name at 127.0.0.1 (DNS rebinding). Requests that change
something must come from the page itself, according to the headers Origin and Sec-Fetch-Site. And the headers of every
response forbid the page to load anything from, or send anything to, other places.
"""

from __future__ import annotations

import hmac
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from typing import Any

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self';"
    " frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
SAFE_METHODS = ("GET", "HEAD")
OUTSIDE = "Expected the address that coupledict serve printed, with its token; copy it from the terminal."
ELSEWHERE = "Expected a request from the page itself, got one from elsewhere."


class Guard:
    """Forwards requests that have the token and come from this machine; answers all others with 403.

    Parameters
    ----------
    app : ASGI application
        Sees paths without the token.
    token : str
    port : int
        Port that the server is bound to.
    once : tuple of str and callable, optional
        A ticket that opens the page once, at ``/<ticket>``, and a function called when it is used.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        port: int,
        once: tuple[str, Callable[[], None]] | None = None,
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._once = once
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        if port == 80:
            self._hosts |= {"127.0.0.1", "localhost"}  # browsers omit the default port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(pair for pair in more if pair[0] not in given)]
            await send(message)

        headers = _read(scope)
        first, slash, rest = scope["path"].removeprefix("/").partition("/")
        if headers.get("host", "").lower() not in self._hosts:
            await _answer(send_guarded, HTTPStatus.FORBIDDEN, OUTSIDE)
        elif scope["method"] == "GET" and self._use_ticket(first):
            await _redirect(send_guarded, f"/{self._token.decode()}/")
        elif not _are_equal(first, self._token):
            await _answer(send_guarded, HTTPStatus.FORBIDDEN, OUTSIDE)
        elif scope["method"] not in SAFE_METHODS and not self._is_own(headers):
            await _answer(send_guarded, HTTPStatus.FORBIDDEN, ELSEWHERE)
        elif not slash:
            await _redirect(send_guarded, f"/{first}/")
        else:
            inner: MutableMapping[str, Any] = dict(scope) | {"path": f"/{rest}", "root_path": ""}
            await self._app(inner, receive, send_guarded)

    def _use_ticket(self, first: str) -> bool:
        if self._once is None or not _are_equal(first, self._once[0].encode()):
            return False
        used, self._once = self._once[1], None
        used()
        return True

    def _is_own(self, headers: dict[str, str]) -> bool:
        """Return whether the page itself sent this; programs other than browsers send neither header."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None and site != "same-origin":
            return False
        # A page that hides its address may have the origin "null"; then the browser must have set Sec-Fetch-Site.
        return (
            origin is None or origin == f"http://{headers['host'].lower()}" or (origin == "null" and site is not None)
        )


def _are_equal(given: str, secret: bytes) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret)


def _read(scope: Scope) -> dict[str, str]:
    """Return the headers; repeated ones are joined, so that they match no expected value."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        found[key] = f"{found[key]}, {value.decode('latin-1')}" if key in found else value.decode("latin-1")
    return found


async def _answer(send: Send, status: HTTPStatus, text: str, *headers: tuple[bytes, bytes]) -> None:
    kind = (b"content-type", b"text/plain; charset=utf-8")
    await send({"type": "http.response.start", "status": int(status), "headers": [kind, *headers]})
    await send({"type": "http.response.body", "body": text.encode()})


async def _redirect(send: Send, path: str) -> None:
    await _answer(send, HTTPStatus.SEE_OTHER, "", (b"location", path.encode()))
