"""Posting one message once, and what its receiver made of it."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import aiohttp

from specwatch.alerting.notification import Notification
from specwatch.alerting.receivers import Receiver
from specwatch.alerting.text import clean, cut

LONGEST_RETRY_AFTER = 3600.0
"""Seconds; a receiver that asks for a longer pause is asked again after an hour."""

SHOWN_ANSWER = 200
"""Characters of a receiver's answer in a log line: its error, such as ``invalid_blocks``, comes first."""

READ_ANSWER = 4096
"""Bytes read of a receiver's answer."""


@dataclass(frozen=True)
class Attempt:
    """What came of posting a message once."""

    taken: bool
    worth_retrying: bool = False
    reason: str = ""
    retry_after: float = 0.0


async def post(
    session: aiohttp.ClientSession, receiver: Receiver, notification: Notification, timeout: float
) -> Attempt:
    """One attempt, of ``timeout`` seconds at most."""
    try:
        async with session.post(
            receiver.url.reveal(),
            json=receiver.payload(notification),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=timeout),
        ) as response:
            body = (await response.content.read(READ_ANSWER)).decode(errors="replace")
            return _judge(receiver, response.status, body, response.headers.get("Retry-After"))
    except asyncio.TimeoutError:
        return Attempt(taken=False, worth_retrying=True, reason=f"no answer within {timeout:g} s")
    except (aiohttp.ClientError, OSError) as problem:
        return Attempt(taken=False, worth_retrying=True, reason=_words(problem))


def _words(problem: Exception) -> str:
    """Why there was no answer. An exception's own text may hold the address, so none is passed on."""
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        return "no connection: its certificate is not trusted"
    if isinstance(problem, aiohttp.ClientSSLError):
        return "no connection: it does not speak TLS as we do"
    if isinstance(problem, aiohttp.ClientConnectorError):
        number = problem.os_error.errno or 0
        # A name that cannot be resolved comes with a negative number and words of its own.
        return f"no connection: {os.strerror(number) if number > 0 else problem.os_error.strerror}"
    return f"no answer: {type(problem).__name__}"


def _judge(receiver: Receiver, status: int, body: str, retry_after: str | None) -> Attempt:
    if receiver.accepts(status, body):
        return Attempt(taken=True)
    answer = cut(clean(receiver.redact(body)).strip(), SHOWN_ANSWER)
    # A success that does not come from the receiver itself is some proxy's page, which may go away.
    is_temporary = status == HTTPStatus.TOO_MANY_REQUESTS or status >= 500 or status < 300
    return Attempt(
        taken=False,
        worth_retrying=is_temporary,
        reason=f"HTTP {status} {answer}".strip(),
        retry_after=min(_seconds(retry_after, time.time()), LONGEST_RETRY_AFTER),
    )


def _seconds(retry_after: str | None, now: float) -> float:
    """What a ``Retry-After`` header asks for, in seconds or as a date; 0 where it cannot be read."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return 0.0
    if until.tzinfo is None:
        until = until.replace(tzinfo=timezone.utc)
    return max(until.timestamp() - now, 0.0)
