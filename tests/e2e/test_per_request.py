"""What vLLM says of each request, added up, is what the sidecar makes of the counters over the same requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from specwatch.collect.scraper import http_session
from specwatch.lab.stage import SERVED_NAME, K
from specwatch.measure.calibration.servers import count, settled
from specwatch.measure.load import Answer, Load, RequestSpeculation
from tests.support.daemon import daemon
from tests.support.lab import FOREIGN, HOME, LabServer, some_prompts, specwatch, watched

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

LENGTHS = (1, 2, 7, 120)
"""Tokens asked for: without a decode step, with one, ending within a draft, and many."""

BLOCK = 128
"""Tokens of a block of vLLM's prefix cache on the CPU."""

REQUESTS = 12
"""Of each domain and length."""

CONCURRENCY = 3
PATIENCE = 60.0


@asynccontextmanager
async def fresh_sidecar(server: LabServer, folder: Path) -> AsyncIterator[str]:
    """A sidecar that has seen nothing of the server's past; gives its URL."""

    def command(port: int) -> list[str | Path]:
        listen = ("--listen", f"127.0.0.1:{port}")
        return specwatch("sidecar", "--target", f"lab={server.url}", "--interval", "0.5", *listen)

    async with daemon(command, folder / "sidecar.log", ready="/healthz") as page:
        await scraped_since(page, time.time())
        yield page


async def scraped_since(page: str, moment: float) -> dict[str, Any]:
    """What the sidecar says once it has read the server's page after this moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        target = await watched(page)
        if (target["last_scrape"] or 0.0) > moment:
            return target
        assert time.monotonic() < deadline, f"no scrape within {PATIENCE:g} s: {target['error']}"
        await asyncio.sleep(0.2)


async def ask(server: LabServer, prompts: list[str], max_tokens: int) -> list[Answer]:
    """The answers to so many requests, each with what vLLM says of it."""
    load = Load(server.url, SERVED_NAME, prompts, CONCURRENCY, max_tokens)
    totals = await load.run(requests=REQUESTS)
    assert (totals.requests, totals.errors) == (REQUESTS, 0), totals.last_error
    return list(load.answers)


async def ask_all_kinds(server: LabServer) -> list[Answer]:
    """Requests that are counted in every way that vLLM has, as the assertions say."""
    answers: list[Answer] = []
    for domain in (HOME, FOREIGN):
        for length in LENGTHS:
            answers += await ask(server, some_prompts(domain), length)
    accepted_past_the_end = sum(
        1 + told(a).num_spec_steps + told(a).num_accepted_draft_tokens - a.tokens for a in answers
    )
    assert accepted_past_the_end > 0, "tokens are counted as accepted that the request had no room for"

    # A block and the token that begins every prompt: once the block is cached, a single token is left to work out,
    # and vLLM fills its step up with dummies for a draft.
    prompts = [prompt[:BLOCK] for prompt in some_prompts(HOME) if len(prompt) >= BLOCK]
    answers += await ask(server, prompts, 1)
    cached = await ask(server, prompts, 1)
    assert {(told(a).num_spec_steps, told(a).num_draft_tokens, told(a).num_accepted_draft_tokens) for a in cached} == {
        (1, K, 0)
    }
    return answers + cached


def accepted_past_the_end(answer: Answer) -> int:
    """Tokens that are counted although the request had no room for them; prefill and every step bring one more."""
    return 1 + told(answer).num_spec_steps + told(answer).num_accepted_draft_tokens - answer.tokens


def told(answer: Answer) -> RequestSpeculation:
    assert answer.speculation is not None, "the server was started with --per-request-spec-decode-metrics"
    return answer.speculation


async def test_requests_add_up_to_what_the_sidecar_says(lab_server: LabServer, tmp_path: Path):
    async with fresh_sidecar(lab_server, tmp_path) as page, http_session() as session:
        before = await count(session, lab_server.url)
        requests = [told(answer) for answer in await ask_all_kinds(lab_server)]
        await settled(session, lab_server.url, before, len(requests))
        under_way = await scraped_since(page, time.time())
        # Only the next page was surely asked for after the last step was counted.
        target = await scraped_since(page, under_way["last_scrape"])
    steps = sum(request.num_spec_steps for request in requests)
    drafted = sum(request.num_draft_tokens for request in requests)
    accepted = sum(request.num_accepted_draft_tokens for request in requests)
    said = target["windows"]["30m"]["values"]
    assert said["acceptance_rate"] == pytest.approx(accepted / drafted, rel=1e-9)
    assert said["acceptance_length"] == pytest.approx(1 + accepted / steps, rel=1e-9)
    assert said["draft_length"] == pytest.approx(drafted / steps, rel=1e-9)
    assert said["position_acceptance"] == pytest.approx(list(by_position(requests, steps)), rel=1e-9)


def by_position(requests: Iterable[RequestSpeculation], steps: int) -> Iterator[float]:
    """Share of steps whose token at each position was accepted: those that accepted more tokens than come before it."""
    for position in range(K):
        yield sum(sum(request.acceptance_histogram[position + 1 :]) for request in requests) / steps
