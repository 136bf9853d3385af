"""The load of one block: every prompt asked once, so many at a time, answers streamed and timed token by token."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import aiohttp

from specwatch import __version__
from specwatch.collect.scraper import TEXT_FORMAT
from specwatch.measure import load
from specwatch.measure.connector import connector
from specwatch.measure.load import UnusableAnswer

_DONE = b"[DONE]"
READ_BYTES = 2**18
"""Longest line of a stream: an event of one token has a few hundred bytes."""


@dataclass(frozen=True)
class Answer:
    """One answer as it arrived."""

    tokens: int
    text: str
    first_seconds: float
    """From sending to the first token."""
    decode_seconds: float
    """From the first token to the last."""
    gaps: tuple[float, ...]
    """Seconds between arrivals; with speculation one may bring several tokens."""

    @property
    def tpot(self) -> float | None:
        """Seconds per token after the first; None where there is none."""
        return self.decode_seconds / (self.tokens - 1) if self.tokens > 1 and self.decode_seconds > 0 else None


@dataclass(frozen=True)
class Answers:
    """What a load brought, in the order of its prompts."""

    seconds: float
    answers: tuple[Answer | None, ...]
    """None: an error, or no answer in time."""
    errors: int
    """Failed requests, timeouts among them."""
    timeouts: int
    last_error: str | None


@dataclass(frozen=True)
class Asking:
    """Where and how to ask."""

    url: str
    """The server's root, without ``/v1``."""
    model: str
    max_tokens: int
    temperature: float
    salt: str
    """Keeps answers of one block out of the prefix cache of another, where the release knows ``cache_salt``."""

    def body(self, place: int, prompt: str) -> dict[str, Any]:
        """The request; every answer is of full length whatever the model would end with."""
        return {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "cache_salt": f"{self.salt}-{place}",
        }


@asynccontextmanager
async def asking_session(key: str | None) -> AsyncIterator[aiohttp.ClientSession]:
    """A session for questions and measurements; ``key`` is what the servers ask of their clients."""
    headers = {"User-Agent": f"specwatch/{__version__}", "Accept": f"{TEXT_FORMAT}, */*;q=0.5"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession(
        headers=headers,
        connector=connector(),  # a block limits itself
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_BYTES,
    ) as session:
        yield session


async def ask_all(session: aiohttp.ClientSession, asking: Asking, prompts: Sequence[str], concurrency: int) -> Answers:
    """Ask every prompt once, ``concurrency`` of them at a time; failed requests are counted, not repeated."""
    found: list[Answer | None] = [None] * len(prompts)
    problems: list[Exception] = []
    turns = iter(enumerate(prompts))
    began = time.monotonic()

    async def work() -> None:
        for place, prompt in turns:
            try:
                found[place] = await _ask(session, asking, place, prompt)
            except (aiohttp.ClientError, asyncio.TimeoutError, UnusableAnswer, ValueError) as problem:
                problems.append(problem)
                await asyncio.sleep(load.PAUSE_AFTER_ERROR_SECONDS)

    await asyncio.gather(*(work() for _ in range(concurrency)))
    last = f"{asking.url}: {str(problems[-1]) or type(problems[-1]).__name__}" if problems else None
    timeouts = sum(isinstance(problem, asyncio.TimeoutError) for problem in problems)
    return Answers(time.monotonic() - began, tuple(found), len(problems), timeouts, last)


async def _ask(session: aiohttp.ClientSession, asking: Asking, place: int, prompt: str) -> Answer:
    sent = time.monotonic()
    url = asking.url.rstrip("/") + "/v1/completions"
    limits = aiohttp.ClientTimeout(total=load.REQUEST_TIMEOUT_SECONDS)
    body = asking.body(place, prompt)
    async with session.post(url, json=body, timeout=limits, allow_redirects=False) as response:
        if response.status != 200:
            start = await response.content.read(200)
            raise UnusableAnswer(f"HTTP {response.status}: {start.decode(errors='replace')}")
        return await _follow(response, sent)


async def _follow(response: aiohttp.ClientResponse, sent: float) -> Answer:
    """Read a stream to its end, noting when each of its parts came."""
    texts: list[str] = []
    times: list[float] = []
    tokens: int | None = None
    size = 0
    async for line in response.content:
        size += len(line)
        if size > load.ANSWER_BYTES:
            raise UnusableAnswer(f"an answer of more than {load.ANSWER_BYTES} bytes")
        word, _, data = line.strip().partition(b": ")
        if word != b"data" or data == _DONE:
            continue
        text, usage = _part(data)
        if text is not None:
            texts.append(text)
            times.append(time.monotonic())
        tokens = usage if usage is not None else tokens
    if tokens is None or not times:
        raise UnusableAnswer("not a streamed OpenAI completion with its usage at the end")
    gaps = tuple(later - earlier for earlier, later in pairwise(times))
    return Answer(tokens, "".join(texts), times[0] - sent, times[-1] - times[0], gaps)


def _part(data: bytes) -> tuple[str | None, int | None]:
    """Text and completed tokens of one event; None where it has none."""
    try:
        event = json.loads(data)
        choices = event.get("choices") or ()
        usage = event.get("usage")
        text = str(choices[0]["text"]) if choices else None
        return text, None if usage is None else int(usage["completion_tokens"])
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        start = data[:200].decode(errors="replace")
        raise UnusableAnswer(f"not a streamed OpenAI completion: {start}") from problem
