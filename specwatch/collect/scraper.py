"""Fetching a metrics page, within limits of time and size."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from specwatch import __version__
from specwatch.collect.targets import Target
from specwatch.vllm.metrics import PageError, Snapshot, read_page

TEXT_FORMAT = "text/plain;version=0.0.4"
"""Asked for by name: exporters that are offered OpenMetrics may rename ``vllm:`` to ``vllm_``."""


class ScrapeError(Exception):
    """A page that could not be had or read; the text says why in words for a person."""


@dataclass(frozen=True)
class Limits:
    """What a target may cost."""

    seconds: float = 5.0
    """From connecting to the last byte."""
    bytes: int = 16 * 2**20
    """Of the decompressed page. A page of vLLM is about 54 kB an engine."""


@asynccontextmanager
async def http_session() -> AsyncIterator[aiohttp.ClientSession]:
    """A session that keeps connections open between scrapes."""
    headers = {"Accept": TEXT_FORMAT, "User-Agent": f"specwatch/{__version__}"}
    async with aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield session


async def scrape(session: aiohttp.ClientSession, target: Target, limits: Limits | None = None) -> Snapshot:
    """Fetch and read one page; ScrapeError when that is not possible."""
    limits = limits or Limits()
    body = await _fetch(session, target.url, limits)
    try:
        # In a thread: a page at the limit takes seconds to read, and other targets are to be scraped meanwhile.
        return await asyncio.to_thread(read_page, body.decode("utf-8"))
    except UnicodeDecodeError:
        raise ScrapeError("the page is not text") from None
    except PageError as problem:
        raise ScrapeError(str(problem)) from None


async def server_release(session: aiohttp.ClientSession, target: Target, limits: Limits | None = None) -> str | None:
    """What the server's ``/version`` says, or None where it does not say."""
    try:
        body = await _fetch(session, f"{target.server}/version", limits or Limits(seconds=2.0, bytes=4096))
        version: Any = json.loads(body).get("version")
    except (ScrapeError, ValueError, AttributeError):
        return None
    return version if isinstance(version, str) and len(version) < 64 and version.isprintable() else None


async def _fetch(session: aiohttp.ClientSession, url: str, limits: Limits) -> bytes:
    timeout = aiohttp.ClientTimeout(total=limits.seconds)
    try:
        async with session.get(url, timeout=timeout, allow_redirects=False) as response:
            if response.status != 200:
                raise ScrapeError(f"the server answers {url} with HTTP {response.status}")
            return await _read(response, limits.bytes)
    except asyncio.TimeoutError:
        raise ScrapeError(f"no complete answer within {limits.seconds:g} s") from None
    except aiohttp.ClientConnectorError as problem:
        raise ScrapeError(f"no connection: {_reason(problem)}") from None
    except aiohttp.ClientPayloadError:
        raise ScrapeError("the connection ended in the middle of the page") from None
    except aiohttp.ServerDisconnectedError:
        raise ScrapeError("the server closed the connection without an answer") from None
    except aiohttp.ClientResponseError:
        raise ScrapeError("the answer is not HTTP as we speak it") from None
    except (aiohttp.ClientError, OSError, ValueError) as problem:
        raise ScrapeError(f"the request failed: {type(problem).__name__}") from None


def _reason(problem: aiohttp.ClientConnectorError) -> str:
    """Why there is no connection, in a few words; certificate errors carry no system error."""
    cause = getattr(problem, "os_error", None)
    if isinstance(cause, ssl.SSLError) or cause is None:
        return f"the TLS handshake failed ({getattr(cause, 'reason', None) or type(problem).__name__})"
    if isinstance(cause, socket.gaierror):
        return "the host name is not known"
    return os.strerror(cause.errno).lower() if cause.errno else str(cause)


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(2**16):
        body += chunk
        if len(body) > most:
            raise ScrapeError(f"the page is larger than {most / 2**20:g} MiB")
    return bytes(body)
