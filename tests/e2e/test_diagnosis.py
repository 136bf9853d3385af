"""What the sidecar says of a real vLLM: load beyond its schedule, and then another domain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from specwatch.lab import stage
from specwatch.lab.models import LabModels
from specwatch.measure.load import Load
from specwatch.signals.workload import WorkloadSettings
from tests.support.lab import FOREIGN, HOME, LabServer, launched, some_prompts, watched

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

LIMIT = 4
"""Requests up to which the server drafts."""

TOKENS = 60
"""Tokens of an answer: short, so that there are enough requests to tell what they look like."""

MANY = range(46, 76, 2)
"""Tokens of the answers of as many requests: those of one length end together, and for some steps there are so few
requests then that the server drafts again."""

PATIENCE = 240.0
"""Seconds after which something that should be said is taken as never said: several times what it needs."""

CHANGES = {"traffic-changed", "drifted", "replica-off", "outputs-garbled", "deploy-changed", "draft-decays"}
"""Findings that acceptance changed."""


@pytest.fixture(scope="module")
def scheduled(lab_models: LabModels, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A vLLM that stops drafting above LIMIT requests, and its sidecar."""
    folder = tmp_path_factory.mktemp("scheduled")
    with launched(lab_models, folder, "--max-spec-concurrency", str(LIMIT)) as server:
        yield server
        server.launch.process.terminate()
        assert server.launch.exit_code(seconds=60.0) == 0, server.launch.tail()


@asynccontextmanager
async def requests_under_way(server: LabServer, count: int, tokens: int = TOKENS) -> AsyncIterator[Load]:
    load = Load(server.url, stage.SERVED_NAME, some_prompts(HOME), count, tokens)
    sending = asyncio.create_task(load.run(seconds=3 * PATIENCE))
    try:
        yield load
    finally:
        load.stop()
        totals = await sending
    assert totals.errors == 0, totals.last_error


async def until(server: LabServer, what: str, seen: Callable[[dict[str, Any]], bool]) -> set[str]:
    """Wait until the sidecar says it; returns the codes of the first findings on the way."""
    deadline, said = time.monotonic() + PATIENCE, set()
    while True:
        target = await watched(server.page)
        said.add(target["findings"][0]["code"])
        if seen(target):
            return said
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}; {target['findings']}"
        await asyncio.sleep(1.0)


def first_is(code: str) -> Callable[[dict[str, Any]], bool]:
    return lambda target: target["findings"][0]["code"] == code


def normal_is_known(target: dict[str, Any], load: Load) -> bool:
    return target["drift"]["learned"] == 1 and load.totals.requests > 1.2 * WorkloadSettings().learn_requests


async def test_load_beyond_the_schedule_is_called_so_and_another_domain_is_called_traffic(
    scheduled: LabServer, record_property: Callable[[str, object], None]
):
    async with requests_under_way(scheduled, 2) as load:
        await until(scheduled, "what is normal is learned", lambda target: normal_is_known(target, load))
        async with AsyncExitStack() as beyond:
            for tokens in MANY:
                await beyond.enter_async_context(requests_under_way(scheduled, 1, tokens))
            said = await until(scheduled, "the schedule is named", first_is("off-by-schedule"))
        assert not said & CHANGES
        said = await until(scheduled, "it is well again", first_is("healthy"))
        assert not said & CHANGES

        load.use(two_in_one(some_prompts(FOREIGN)))
        began = time.monotonic()
        await until(scheduled, "the traffic is named", first_is("traffic-changed"))
        record_property("seconds until the change of domain was named", round(time.monotonic() - began))


def two_in_one(prompts: list[str]) -> list[str]:
    """Prompts twice as long: a new domain usually shows there too."""
    return [f"{first}\n{second}" for first, second in pairwise(prompts)]
