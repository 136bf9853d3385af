"""A closed-loop load: so many requests under way at all times, each answered before the next is sent."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from specwatch.errors import InputError
from specwatch.measure.connector import connector

REQUEST_TIMEOUT_SECONDS = 120.0
"""A request that takes longer is an error: several times what a small server on a CPU needs for 1000 tokens."""

PAUSE_AFTER_ERROR_SECONDS = 0.2
"""Rest of a worker after a failed request, so that a server that refuses is not asked thousands of times a second."""

ANSWER_BYTES = 8 * 1024 * 1024
"""Most that is read of one answer; 1000 tokens with log probabilities stay below 1 MiB."""

KEPT_ANSWERS = 10_000
"""Answers that a load remembers, the latest ones; its totals count all of them."""


@dataclass(frozen=True)
class RequestSpeculation:
    """What vLLM 0.29+ says about one request with ``--per-request-spec-decode-metrics``.

    ``acceptance_histogram[j]`` counts the steps that accepted exactly j draft tokens.
    """

    num_spec_steps: int
    num_draft_tokens: int
    num_accepted_draft_tokens: int
    acceptance_histogram: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """One answered request: its generated tokens, its duration, and its speculation where the server tells."""

    tokens: int
    seconds: float
    speculation: RequestSpeculation | None


@dataclass(frozen=True)
class Totals:
    """What a load has done so far. ``seconds`` runs from its start to its latest answer or error."""

    requests: int = 0
    errors: int = 0
    tokens: int = 0
    seconds: float = 0.0
    last_error: str | None = None

    @property
    def tokens_per_second(self) -> float | None:
        """Generated tokens per second over all requests; None before anything was answered."""
        return self.tokens / self.seconds if self.requests and self.seconds > 0 else None


class Load:
    """Keeps ``concurrency`` completions under way at an OpenAI-compatible server, going round its prompts.

    ``url`` is the server's root, without ``/v1``. The defaults suit measurements: greedy, and every answer
    ``max_tokens`` long whatever the model would end with. ``use``, ``stop`` and ``totals`` may be called from
    another thread.
    """

    def __init__(
        self,
        url: str,
        model: str,
        prompts: Sequence[str],
        concurrency: int,
        max_tokens: int,
        temperature: float = 0.0,
        ignore_eos: bool = True,
    ) -> None:
        if concurrency < 1:
            raise InputError(f"concurrency is {concurrency}: a load needs at least 1 request under way")
        self.answers: deque[Answer] = deque(maxlen=KEPT_ANSWERS)
        self._url = url.rstrip("/") + "/v1/completions"
        self._body = {
            "model": model,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "ignore_eos": ignore_eos,
        }
        self._concurrency = concurrency
        self._stopped = False
        self._totals = Totals()
        self._begin = 0.0
        self._prompts = _rounds(prompts)

    @property
    def totals(self) -> Totals:
        """What the run under way has done so far, or the last one did."""
        return self._totals

    def use(self, prompts: Sequence[str]) -> None:
        """Go on with other prompts, from the next request on."""
        self._prompts = _rounds(prompts)

    def stop(self) -> None:
        """Send no further request; ``run`` returns when those under way are answered."""
        self._stopped = True

    async def run(self, seconds: float | None = None, requests: int | None = None) -> Totals:
        """Send requests for so many seconds, or so many of them (failed ones count), whichever ends first.

        Requests under way at the end are waited for, so that the counts here and on the server agree; cancel the
        task to break them off. InputError when there is no bound.
        """
        if seconds is None and requests is None:
            raise InputError("a load needs an end: give seconds, requests, or both")
        self._totals = Totals()
        self.answers.clear()
        self._begin = time.monotonic()
        deadline = math.inf if seconds is None else self._begin + seconds
        turns: Iterator[int] = itertools.count() if requests is None else iter(range(requests))
        limits = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=limits, connector=connector(self._concurrency)) as session:
            work = (self._work(session, deadline, turns) for _ in range(self._concurrency))
            await asyncio.gather(*work)
        return self._totals

    async def _work(self, session: aiohttp.ClientSession, deadline: float, turns: Iterator[int]) -> None:
        for _ in turns:
            if self._stopped or time.monotonic() >= deadline:
                return
            try:
                self._count(await self._ask(session))
            except (aiohttp.ClientError, asyncio.TimeoutError, UnusableAnswer) as problem:
                self._count_error(problem)
                await asyncio.sleep(PAUSE_AFTER_ERROR_SECONDS)

    async def _ask(self, session: aiohttp.ClientSession) -> Answer:
        sent = time.monotonic()
        async with session.post(self._url, json={**self._body, "prompt": next(self._prompts)}) as response:
            body = await _read(response)
            if response.status != 200:
                raise UnusableAnswer(f"HTTP {response.status}: {body[:200].decode(errors='replace')}")
        return _answer(body, time.monotonic() - sent)

    def _count(self, answer: Answer) -> None:
        self.answers.append(answer)
        self._totals = dataclasses.replace(
            self._totals,
            requests=self._totals.requests + 1,
            tokens=self._totals.tokens + answer.tokens,
            seconds=time.monotonic() - self._begin,
        )

    def _count_error(self, problem: Exception) -> None:
        self._totals = dataclasses.replace(
            self._totals,
            errors=self._totals.errors + 1,
            seconds=time.monotonic() - self._begin,
            last_error=f"{self._url}: {str(problem) or type(problem).__name__}",
        )


class UnusableAnswer(Exception):
    """A response that counts as an error: not 200, too long, or not a completion."""


def _rounds(prompts: Sequence[str]) -> Iterator[str]:
    """The prompts, again and again. InputError when there are none."""
    if not prompts:
        raise InputError("a load needs at least one prompt")
    return itertools.cycle(tuple(prompts))


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > ANSWER_BYTES:
            raise UnusableAnswer(f"an answer of more than {ANSWER_BYTES} bytes")
    return bytes(body)


def _answer(body: bytes, seconds: float) -> Answer:
    try:
        page = json.loads(body)
        return Answer(int(page["usage"]["completion_tokens"]), seconds, _speculation(page))
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        start = body[:200].decode(errors="replace")
        raise UnusableAnswer(f"not an OpenAI completion: {start}") from problem


def _speculation(page: dict[str, Any]) -> RequestSpeculation | None:
    """``metrics.speculative_decoding`` beside ``choices``; null without the flag, absent before vLLM 0.29."""
    numbers = (page.get("metrics") or {}).get("speculative_decoding")
    if numbers is None:
        return None
    return RequestSpeculation(
        num_spec_steps=int(numbers["num_spec_steps"]),
        num_draft_tokens=int(numbers["num_draft_tokens"]),
        num_accepted_draft_tokens=int(numbers["num_accepted_draft_tokens"]),
        acceptance_histogram=tuple(int(count) for count in numbers["acceptance_histogram"]),
    )
