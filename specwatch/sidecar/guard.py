"""What every request passes before a route sees it: hosts, origins, tokens and sizes. New routes are closed by it.

Pure ASGI: a fleet's Prometheus and many open pages ask all the time, and Starlette's own middleware class costs a task
a request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import HTTPException
from fastapi.responses import PlainTextResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specwatch.config import is_loopback
from specwatch.sidecar.access import Access, Role
from specwatch.waiting import within

log = logging.getLogger(__name__)

LARGEST_BODY = 2**20
"""Bytes of a request: Alertmanager's messages about a thousand alerts take as much, all others a few hundred."""

BODY_SECONDS = 10.0
"""Longest a request may take to arrive once its head is there."""

QUIET_SECONDS = 60.0
"""Between two lines about refused tokens: whoever tries them must not fill the disk."""

READING = ("GET", "HEAD")

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

CHALLENGES = {"WWW-Authenticate": 'Basic realm="specwatch", charset="UTF-8"'}
"""Basic, for it is what browsers ask people for by themselves; programs may send the token as a bearer's."""

REASONS = ("host", "origin", "token", "role", "size")
"""Why requests are refused: values of a label."""


@dataclass(frozen=True)
class Refusal:
    """An answer in place of the route's."""

    reason: str
    """One of REASONS."""
    status: int
    text: str
    headers: Mapping[str, str] | None = None


class Guard:
    """Middleware around the whole application."""

    def __init__(
        self, app: ASGIApp, access: Access, local_only: bool, refused: Counter[str], public_url: str | None = None
    ) -> None:
        """``local_only`` answers to loopback addresses alone, and to the name that a proxy gives us: ``public_url``.

        ``refused`` counts refused requests by reason.
        """
        self._app = app
        self._access = access
        self._local_only = local_only
        self._refused = refused
        self._public = _place(public_url or "")
        self._told = -QUIET_SECONDS
        self._untold = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or refuse it; what is no HTTP request is not served at all."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, _secured(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is None:
            changing = scope["method"] not in READING
            await self._app(scope, _bounded(receive), _audited(scope, send) if changing else send)
            return
        self._refused[refusal.reason] += 1
        if refusal.reason in ("token", "role"):
            self._tell(scope, refusal)
        answer = PlainTextResponse(refusal.text + "\n", refusal.status, headers=refusal.headers)
        await answer(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        return (
            (self._foreign_host(headers) if self._local_only else None)
            or self._foreign_origin(scope["method"], headers)
            or self._stranger(scope, headers)
            or _too_large(headers)
        )

    def _foreign_host(self, headers: Headers) -> Refusal | None:
        """Refuse a Host header that is not ours: a site whose name resolves to 127.0.0.1 reads nothing."""
        host = headers.get("host", "")
        if is_loopback(_host(host)) or (self._public and host == self._public):
            return None
        return Refusal("host", 400, "this sidecar is to be asked for by a loopback address")

    def _foreign_origin(self, method: str, headers: Headers) -> Refusal | None:
        """Refuse what another site's page would change here; browsers say where such a request comes from."""
        origin = headers.get("origin")
        if method in READING or not origin:
            return None
        place = _place(origin)
        if place and place in (headers.get("host"), self._public):
            return None
        return Refusal("origin", 403, "this sidecar takes changes from its own page and from programs only")

    def _stranger(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Reading needs the role read, anything else admin: a route need not say so."""
        if scope["path"] in self._access.open_paths and scope["method"] in READING:
            return None
        authorization = headers.get("authorization", "")
        role = self._access.role(authorization)
        if role is None:
            text = "this sidecar asks for a token: as a bearer's, or as the password of any user"
            return Refusal("token", 401, text, CHALLENGES)
        if role is Role.READ and scope["method"] not in READING:
            # A browser that is refused so asks for another password, and its user can become admin.
            by_browser = authorization.lower().startswith("basic ")
            status, challenges = (401, CHALLENGES) if by_browser else (403, None)
            return Refusal("role", status, "this token may read; changes take a token of the role admin", challenges)
        return None

    def _tell(self, scope: Scope, refusal: Refusal) -> None:
        self._untold += 1
        if time.monotonic() - self._told < QUIET_SECONDS:
            return
        what = "no valid token" if refusal.reason == "token" else "a token without the role admin"
        log.warning("refused %s of %s, %s; so far: %d", _asked(scope), _client(scope), what, self._untold)
        self._told, self._untold = time.monotonic(), 0


def _too_large(headers: Headers) -> Refusal | None:
    length = headers.get("content-length", "0")
    if length.isdecimal() and len(length) < 16 and int(length) <= LARGEST_BODY:
        return None
    return Refusal("size", 413, f"a request has at most {LARGEST_BODY} bytes")


def _host(header: str) -> str:
    """The host in a Host header, without its port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _place(origin: str) -> str:
    """Host and port of an address such as an Origin header holds, in lower case; "" for none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _bounded(receive: Receive) -> Receive:
    """Messages of a body that is neither endless nor slow, whatever its head said of it."""
    taken = 0
    whole = False

    async def bounded() -> Message:
        nonlocal taken, whole
        if whole:  # what follows is only ever that the client has gone
            return await receive()
        try:
            message = await within(BODY_SECONDS, receive())
        except asyncio.TimeoutError:
            raise HTTPException(408, detail=f"the request took longer than {BODY_SECONDS:.0f} s to arrive") from None
        taken += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if taken > LARGEST_BODY:
            raise HTTPException(413, detail=f"a request has at most {LARGEST_BODY} bytes")
        return message

    return bounded


def _secured(send: Send) -> Send:
    """Answers with the security headers, whatever the route sets."""

    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            MutableHeaders(scope=message).update(SECURITY_HEADERS)
        await send(message)

    return secured


def _audited(scope: Scope, send: Send) -> Send:
    """Says who changed what."""

    async def audited(message: Message) -> None:
        if message["type"] == "http.response.start":
            log.info("%s by %s: %d", _asked(scope), _client(scope), message["status"])
        await send(message)

    return audited


def _asked(scope: Scope) -> str:
    """Method and path, without the query: both are the client's words, and bounded here."""
    return f"{scope['method'][:20]!r} {scope['path'][:200]!r}"


def _client(scope: Scope) -> Any:
    return (scope.get("client") or ("nobody",))[0]
