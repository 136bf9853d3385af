"""Ask an application without a server, a stream included: its answer begins, and then we are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Route


@dataclass
class Answer:
    """What came back."""

    status: int = 0
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""


async def ask(
    app: FastAPI,
    method: str,
    path: str,
    headers: Iterable[tuple[str, str]] = (),
    *,
    query: bytes = b"",
    body: bytes | Iterable[bytes] = b"",
    host: str = "127.0.0.1:9108",
) -> Answer:
    """One request; a body in several pieces arrives as such."""
    answer = Answer()
    begun = asyncio.Event()
    pieces = [body] if isinstance(body, bytes) else list(body)

    async def receive() -> dict[str, Any]:
        if pieces:
            piece = pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], Headers(raw=message["headers"])
        else:
            answer.body += message.get("body", b"")
            begun.set()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": quote(path, errors="surrogatepass").encode(),
        "query_string": query,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in (("host", host), *headers)],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 9108),
        "root_path": "",
    }
    await app(scope, receive, send)
    return answer


def _flat(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """Routes, those of included routers too: newer releases of FastAPI keep such a router whole."""
    for route in routes:
        included = getattr(route, "original_router", None)
        yield from _flat(included.routes) if included else (route,)


def every_route(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Method and path of all that the application answers, placeholders in the path filled in."""
    for route in _flat(app.routes):
        assert isinstance(route, Route), f"{route}: neither known to be guarded nor not"
        path = route.path
        for name in route.param_convertors:
            path = path.replace("{" + name + "}", "x")
        yield from ((method, path) for method in sorted(route.methods or ()))
