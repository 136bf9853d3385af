"""The servers of a calibration: what each of them is, and whether they are the same but for speculation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from specwatch.collect.asking import PATIENT
from specwatch.collect.scraper import ScrapeError, scrape, server_release
from specwatch.collect.targets import Target, parse
from specwatch.errors import InputError
from specwatch.vllm.metrics import Counter, Dialect, Snapshot

MODELS_BYTES = 2**20
"""Most that is read of such an answer."""
SETTLE_SECONDS = 5.0
"""Longest to wait until a page has counted what was answered: vLLM counts a step when it is over, a little later."""
SETTLE_PAUSE = 0.1
LONGEST_NAME = 1000
"""Characters that are kept of a model's name: a path has 4096 at most, and hardly ever 200."""
USABLE = {Dialect.V1, Dialect.OFF, Dialect.V1_MIN}
"""Dialects whose counters can be differenced."""
_UNFIT = {
    Dialect.NOT_VLLM: "its /metrics is not vLLM's",
    Dialect.MANGLED: "its metrics are renamed on the way; name the server itself, not an exporter",
    Dialect.NO_STATS: "it exports no statistics: start it without --disable-log-stats",
    Dialect.V0: "it runs the V0 engine, whose page has averages since its start only; measure a release from 0.8.5 on",
    Dialect.DIFFUSION: "it serves a diffusion model, which drafts nothing",
}


@dataclass(frozen=True)
class Identity:
    """What a server says it is."""

    url: str
    served_as: str
    """What requests call the model."""
    model: str
    """What is served: a repository or folder."""
    max_model_len: int | None
    release: str | None
    positions: int
    """Draft positions on its page, K as a rule; 0 without speculation."""
    tokens: tuple[int, ...] | None = None
    """A sample text in its tokenizer's numbers; None where it does not tell."""


@dataclass(frozen=True)
class Counts:
    """A page's cumulative counters, all engines added."""

    counters: Mapping[Counter, float]
    accepted_per_position: tuple[float, ...]
    running: float
    """Requests in the batch now."""

    def since(self, before: Counts) -> Counts:
        """What was added; InputError where a counter fell, for the server has started anew."""
        counters = {key: value - before.counters.get(key, 0.0) for key, value in self.counters.items()}
        if any(value < 0 for value in counters.values()):
            raise InputError("it was started anew during the measurement: its counters fell")
        padded = (*before.accepted_per_position, *([0.0] * len(self.accepted_per_position)))
        positions = tuple(now - then for now, then in zip(self.accepted_per_position, padded, strict=False))
        return Counts(counters, positions, self.running)


async def identify(session: aiohttp.ClientSession, url: str, sample: str) -> Identity:
    """What the server at ``url`` is; InputError where no calibration can use it."""
    target = parse(url)
    page = await _page(session, target)
    if page.dialect not in USABLE:
        raise InputError(f"{target.server}: {_UNFIT[page.dialect]}")
    model = await _model(session, target.server)
    served_as = _text(model["id"])
    positions = max((len(engine.accepted_per_position) for engine in page.engines.values()), default=0)
    length = model.get("max_model_len")
    return Identity(
        url=target.server,
        served_as=served_as,
        model=printable(_text(model.get("root") or served_as)),
        max_model_len=length if isinstance(length, int) else None,
        release=await server_release(session, target, PATIENT.seconds),
        positions=positions,
        tokens=await _tokens(session, target.server, served_as, sample),
    )


def _text(value: Any) -> str:
    return str(value)[:LONGEST_NAME]


def printable(text: str) -> str:
    """A server's words as a terminal may show them."""
    return "".join(character if character.isprintable() else "?" for character in text)


def refuse_different(first: Identity, other: Identity) -> None:
    """InputError naming every way in which two servers are not the same but for speculation."""
    pairs = (
        ("model", first.model, other.model),
        ("vLLM", first.release, other.release),
        ("max_model_len", first.max_model_len, other.max_model_len),
    )
    found = [f"{what} {one} and {two}" for what, one, two in pairs if one != two and None not in (one, two)]
    if first.tokens != other.tokens and None not in (first.tokens, other.tokens):
        found.append("tokenizers that split the same text differently")
    if found:
        raise InputError(f"{first.url} and {other.url} have {', '.join(found)}: they must differ by speculation alone")


def refuse_role(identity: Identity, k: int) -> None:
    """InputError where a baseline speculates, or a server that should does not, or with another K."""
    if k == 0 and identity.positions:
        raise InputError(
            f"{identity.url}: the baseline speculates after all, with K {identity.positions} by its page; start it "
            "without speculation"
        )
    if k and not identity.positions:
        raise InputError(f"{identity.url}: it does not speculate: its page has no counters of drafts")
    if k and identity.positions != k:
        raise InputError(f"{identity.url}: it drafts {identity.positions} tokens a step by its page, not {k}")


async def count(session: aiohttp.ClientSession, url: str) -> Counts:
    """The counters of the server at ``url`` now."""
    page = await _page(session, parse(url))
    engines = list(page.engines.values())
    names = {counter for engine in engines for counter in engine.counters}
    positions = max((len(engine.accepted_per_position) for engine in engines), default=0)
    padded = [(*engine.accepted_per_position, *([0.0] * positions))[:positions] for engine in engines]
    return Counts(
        {name: sum(engine.counters.get(name, 0.0) for engine in engines) for name in sorted(names)},
        tuple(sum(column) for column in zip(*padded, strict=True)),
        sum(engine.gauges.get(Counter.RUNNING_SECONDS, 0.0) for engine in engines),
    )


async def settled(session: aiohttp.ClientSession, url: str, before: Counts, requests: int) -> Counts:
    """What was added since ``before``, once the page has counted so many requests or nothing more comes."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_SECONDS
    while True:
        added = (await count(session, url)).since(before)
        finished = added.counters.get(Counter.FINISHED_REQUESTS, requests)
        if (finished >= requests and added.running == 0) or loop.time() >= deadline:
            return added
        await asyncio.sleep(SETTLE_PAUSE)


async def _page(session: aiohttp.ClientSession, target: Target) -> Snapshot:
    try:
        return await scrape(session, target, PATIENT)
    except ScrapeError as problem:
        raise InputError(f"{target.server}: {problem}") from None


async def _model(session: aiohttp.ClientSession, server: str) -> Mapping[str, Any]:
    answer = await _asked(session, "GET", f"{server}/v1/models")
    try:
        model = answer["data"][0]
        str(model["id"])
    except (LookupError, TypeError):
        raise InputError(f"{server}: /v1/models names no model") from None
    return dict(model)


async def _tokens(session: aiohttp.ClientSession, server: str, model: str, sample: str) -> tuple[int, ...] | None:
    try:
        answer = await _asked(session, "POST", f"{server}/tokenize", {"model": model, "prompt": sample})
        return tuple(int(token) for token in answer["tokens"])
    except (InputError, LookupError, TypeError, ValueError):
        return None


async def _asked(session: aiohttp.ClientSession, method: str, url: str, body: Mapping[str, Any] | None = None) -> Any:
    timeout = aiohttp.ClientTimeout(total=PATIENT.seconds)
    try:
        async with session.request(method, url, json=body, timeout=timeout, allow_redirects=False) as response:
            raw = await response.content.read(MODELS_BYTES)
            if response.status != 200:
                wanted = "; it wants a key: --api-key-file" if response.status in (401, 403) else ""
                raise InputError(f"the server answers {url} with HTTP {response.status}{wanted}")
            return json.loads(raw)
    except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as problem:
        raise InputError(f"{url}: {str(problem) or type(problem).__name__}") from None


def sample_of(texts: Sequence[str]) -> str:
    """A text to compare tokenizers by: the beginnings of some prompts."""
    return "\n".join(text[:200] for text in texts[:5])
