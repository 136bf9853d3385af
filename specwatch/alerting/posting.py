"""Posting one message once, and what its receiver made of it.

aiohttp is imported by the first message: a sidecar that tells nobody does without its nine megabytes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from specwatch import __version__
from specwatch.alerting.notification import Notification
from specwatch.alerting.receivers import Receiver, Verdict
from specwatch.alerting.secrets import Secret
from specwatch.alerting.text import clean, cut

if TYPE_CHECKING:
    import aiohttp

LONGEST_RETRY_AFTER = 3600.0
"""Seconds; a receiver that asks for a longer pause is asked again after an hour."""

SHOWN_ANSWER = 200
"""Characters of a receiver's answer in a log line: its error, such as ``invalid_blocks``, comes first."""

READ_ANSWER = 2**17
"""Bytes read of a receiver's answer. Slack repeats the message: 13,000 characters, up to six bytes each in JSON."""


@dataclass(frozen=True)
class Attempt:
    """What came of posting a message once."""

    taken: bool
    worth_retrying: bool = False
    reason: str = ""
    retry_after: float = 0.0
    thread: str | None = None
    """What the incident's next message is to be given."""


def session_for(is_local: bool, headers: Mapping[str, Secret] | None = None) -> aiohttp.ClientSession:
    """Connections to one receiver. Proxies of the environment lead out of the house; one on this machine is inside."""
    import aiohttp

    shown = {name: value.reveal() for name, value in (headers or {}).items()}
    return aiohttp.ClientSession(
        trust_env=not is_local,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"specwatch/{__version__}", "Accept-Encoding": "identity", **shown},
    )


async def post(
    session: aiohttp.ClientSession,
    receiver: Receiver,
    notification: Notification,
    thread: str | None,
    timeout: float,
) -> Attempt:
    """One attempt at all requests of a message, each of ``timeout`` seconds at most."""
    import aiohttp

    answer = ""
    for request in receiver.posts(notification, thread):
        try:
            async with session.post(
                request.url.reveal(),
                json=request.body,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout),
            ) as response:
                answer = await _read(response)
                verdict = request.judge(response.status, answer)
                if verdict is not Verdict.TAKEN:
                    wait = response.headers.get("Retry-After")
                    return _not_taken(receiver, verdict, response.status, answer, wait)
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as problem:
            return Attempt(taken=False, worth_retrying=True, reason=why_no_answer(problem, timeout))
    return Attempt(taken=True, thread=receiver.thread(notification, answer, thread))


async def _read(response: aiohttp.ClientResponse) -> str:
    """The answer's text, as much as is read of one."""
    body = b""
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) >= READ_ANSWER:
            break
    return body[:READ_ANSWER].decode(errors="replace")


def why_no_answer(problem: Exception, timeout: float) -> str:
    """What went wrong, for people. An exception's own text may hold the address, so none is passed on."""
    import aiohttp

    if isinstance(problem, asyncio.TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        return "no connection: its certificate is not trusted"
    if isinstance(problem, aiohttp.ClientSSLError):
        return "no connection: it does not speak TLS as we do"
    if isinstance(problem, aiohttp.ClientConnectorError):
        number = problem.os_error.errno or 0
        # A name that cannot be resolved comes with a negative number and words of its own.
        return f"no connection: {os.strerror(number) if number > 0 else problem.os_error.strerror}"
    return f"no answer: {type(problem).__name__}"


def _not_taken(receiver: Receiver, verdict: Verdict, status: int, body: str, retry_after: str | None) -> Attempt:
    answer = cut(clean(receiver.redact(body)).strip(), SHOWN_ANSWER)
    return Attempt(
        taken=False,
        worth_retrying=verdict is Verdict.LATER,
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
