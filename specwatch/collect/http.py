"""Asking servers over HTTP, within limits of time and size. Nobody's redirect is followed."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, TypeAlias

from specwatch.collect.asking import Answer, Cause, Limits, ScrapeError, refused
from specwatch.collect.connections import Connections, Ended, NotConnected
from specwatch.collect.credentials import Credentials, Terms
from specwatch.collect.raw_answer import NoAnswer, NotHttp, TooLarge
from specwatch.collect.unpacking import Unpacking
from specwatch.errors import InputError

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Answer", "Asker", "Cause", "Limits", "ScrapeError", "connection_failure", "fetch", "http_session"]

Asker: TypeAlias = "aiohttp.ClientSession | Connections"
"""What carries questions: connections are quicker where the same servers are asked again and again."""


def http_session(headers: Mapping[str, str] | None = None) -> AbstractAsyncContextManager[aiohttp.ClientSession]:
    """A session that keeps connections open between questions, and asks as many servers at once as there are."""
    from specwatch.collect import aiohttp_session

    return aiohttp_session.opened(headers)


async def fetch(
    session: Asker,
    url: str,
    limits: Limits,
    credentials: Credentials | None = None,
    headers: Mapping[str, str] | None = None,
    also: Sequence[int] = (),
) -> Answer:
    """The whole answer, where its status is 200 or one of ``also``; ScrapeError for anything else."""
    try:
        terms = credentials.terms() if credentials else Terms()
        shown = {"Accept-Encoding": "gzip", **(headers or {}), **terms.headers}
        if isinstance(session, Connections):
            return await _over_connections(session, url, shown, limits, terms, (200, *also))
        from specwatch.collect import aiohttp_session

        return await aiohttp_session.get(session, url, shown, limits, terms, (200, *also))
    except InputError as problem:
        raise ScrapeError(str(problem), Cause.CREDENTIALS) from None
    except asyncio.TimeoutError:
        raise ScrapeError(f"no complete answer within {limits.seconds:g} s", Cause.TIMEOUT) from None
    except TooLarge:
        raise ScrapeError(f"the page is larger than {limits.bytes / 2**20:g} MiB", Cause.SIZE) from None
    except (NoAnswer, OSError, ValueError) as problem:
        raise ScrapeError(_no_answer(problem)) from None


def _no_answer(problem: Exception) -> str:
    if isinstance(problem, NotConnected):
        return f"no connection: {why_not(problem.__cause__)}"
    if isinstance(problem, Ended) and problem.begun:
        return "the connection ended in the middle of the page"
    if isinstance(problem, Ended):
        return "the server closed the connection without an answer"
    if isinstance(problem, NotHttp):
        return "the answer is not HTTP as we speak it"
    return f"the request failed: {type(problem.__cause__ or problem).__name__}"


def connection_failure(problem: aiohttp.ClientConnectorError) -> str:
    """Why there is no connection, in a few words; certificate errors may carry no system error."""
    return why_not(getattr(problem, "os_error", None) or problem)


def why_not(cause: BaseException | None) -> str:
    """Why no connection could be made."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the server's certificate does not hold: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError) or not isinstance(cause, OSError):
        return f"the TLS handshake failed ({getattr(cause, 'reason', None) or type(cause).__name__})"
    if isinstance(cause, socket.gaierror):
        return "the host name is not known"
    return os.strerror(cause.errno).lower() if cause.errno else str(cause)


async def _over_connections(
    connections: Connections, url: str, headers: Mapping[str, str], limits: Limits, terms: Terms, wanted: Sequence[int]
) -> Answer:
    answer = await connections.get(url, headers, limits, terms, wanted)
    if answer.status not in wanted:
        raise refused(url, answer.status)
    unpacking = Unpacking(answer.headers.get("content-encoding", "identity"), limits.bytes)
    unpacking.feed(answer.body)
    media_type = answer.headers.get("content-type", "application/octet-stream").partition(";")[0].strip()
    return Answer(unpacking.result(), media_type, answer.status)
