"""Servers that exist only as their pages, each at an address of its own: what a load test scrapes.

    python -m benchmarks.scrape_servers 0 500        # the first 500; prints one address a line, serves until killed

Pages are a simulated vLLM server's, rendered ahead, so that serving one costs hardly anything beside reading it: they
go on every five seconds, and begin anew, as after a restart, when they are used up. As vLLM does, they are packed in
gzip for whoever takes that.
"""

from __future__ import annotations

import asyncio
import gzip
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from specwatch.lab.scenario import HOME
from specwatch.lab.simulator import SimulatedServer

STEP_SECONDS = 5.0
"""Between two pages of a server."""

PAGES = 144
"""Twelve minutes of them: a run of ten sees no restart."""

MODELS = 10
"""Served by the fleet: replicas of a model have the same labels, as they do in one."""

LAST_LINE = "all-of-them"
"""Said once all listen."""

BEGAN = time.monotonic()

BACKLOG = 16
"""Connections that wait for a server: two readers do."""


@dataclass(frozen=True)
class Page:
    """A whole answer, as it is and packed."""

    plain: bytes
    packed: bytes


def answer(page: bytes, packed: bool) -> bytes:
    """The page behind its head."""
    body = gzip.compress(page, compresslevel=6) if packed else page
    kind = "Content-Type: text/plain; version=0.0.4\r\n" + ("Content-Encoding: gzip\r\n" if packed else "")
    return f"HTTP/1.1 200 OK\r\n{kind}Content-Length: {len(body)}\r\n\r\n".encode() + body


def pages(count: int = PAGES, models: int = MODELS) -> list[list[Page]]:
    """Of every model, in their order."""
    server = SimulatedServer("a", model_name="model-0", k=5, traffic=HOME, running=8, seed=1)
    texts = []
    for _ in range(count):
        server.advance(STEP_SECONDS)
        texts.append(server.page().encode())
    named = [[text.replace(b"model-0", f"model-{model}".encode()) for text in texts] for model in range(models)]
    return [[Page(answer(text, False), answer(text, True)) for text in of_model] for of_model in named]


class Answering(asyncio.Protocol):
    """One connection: any question is answered with the page of now, or that there is none."""

    def __init__(self, of_model: Sequence[Page]) -> None:
        self._pages = of_model
        self._asked = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where answers go."""
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every whole question."""
        self._asked += data
        *questions, self._asked = self._asked.split(b"\r\n\r\n")
        for question in questions:
            self._transport.write(self._answer(question))

    def _answer(self, question: bytes) -> bytes:
        if not question.startswith(b"GET /metrics"):
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        page = self._pages[int((time.monotonic() - BEGAN) / STEP_SECONDS) % len(self._pages)]
        return page.packed if b"gzip" in question.lower() else page.plain


def address(number: int) -> str:
    """A server's own: loopback has sixteen million."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


async def serve(first: int, count: int) -> None:
    """Listen on a free port of every address, and say where."""
    loop = asyncio.get_running_loop()
    rendered = pages()
    ended = asyncio.Event()
    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, ended.set)
    for number in range(first, first + count):
        of_model = rendered[number % MODELS]
        server = await loop.create_server(partial(Answering, of_model), address(number), 0, backlog=BACKLOG)
        host, port = server.sockets[0].getsockname()
        print(f"{host}:{port}")
    print(LAST_LINE, flush=True)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
