"""Measuring one block, and what is kept of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp
from pydantic import TypeAdapter, ValidationError

from specwatch.errors import InputError
from specwatch.measure.calibration.blocks import WARM_UP_TOKENS, Block, Design
from specwatch.measure.calibration.load import Answers, Asking, ask_all
from specwatch.measure.calibration.servers import Counts, Identity, count, printable, settled
from specwatch.measure.calibration.stats import binned
from specwatch.vllm.metrics import Counter

MOST_ERRORS = 0.1
"""Share of failed requests of a block above which it measures the failures more than the server."""
FOREIGN = 0.01
"""Share of tokens that others may have generated during a block without moving its figures by more than noise does."""
WATCH_SECONDS = 1.0
"""A server that decodes makes tokens within a second, unless it takes longer for one than anybody waits."""
KEPT = (
    Counter.DRAFTS,
    Counter.DRAFT_TOKENS,
    Counter.ACCEPTED_TOKENS,
    Counter.GENERATION_TOKENS,
    Counter.FIRST_TOKENS,
    Counter.DECODE_STEPS,
    Counter.DECODE_STEP_SECONDS,
)


@dataclass(frozen=True)
class Kept:
    """What is kept of one answer."""

    tokens: int
    tpot: float | None
    text: str


@dataclass(frozen=True)
class Run:
    """One block as it was measured. ``counts`` are increments of the server's counters over it."""

    block: Block
    seconds: float
    answers: tuple[Kept | None, ...]
    """By prompt; None: it failed."""
    errors: int
    timeouts: int
    last_error: str | None
    decode_seconds: float
    """From first to last token, all answers added."""
    decode_tokens: int
    """Tokens after the first."""
    gaps: dict[int, int]
    """Times between arrivals, in bins of ``calibrate_stats.BIN``."""
    counts: dict[Counter, float]
    accepted_per_position: tuple[float, ...]

    @property
    def tpot(self) -> float:
        """Seconds per token after the first, over all answers: what a speedup compares.

        By the server's own clock where it counts its steps. On a busy machine the client's would not do: tokens then
        arrive in bursts, long after they were made, and the first of them as late as the last.
        """
        seconds = self.counts.get(Counter.DECODE_STEP_SECONDS, 0.0)
        generated, first = (self.counts.get(c, 0.0) for c in (Counter.GENERATION_TOKENS, Counter.FIRST_TOKENS))
        if seconds > 0 and generated > first:
            return seconds / (generated - first)
        return self.decode_seconds / self.decode_tokens

    @property
    def tokens(self) -> int:
        """Generated tokens of all answers."""
        return sum(answer.tokens for answer in self.answers if answer)

    @property
    def step_seconds(self) -> float | None:
        """Mean duration of a decode step by the server's own counters."""
        steps, seconds = self.counts.get(Counter.DECODE_STEPS), self.counts.get(Counter.DECODE_STEP_SECONDS)
        return seconds / steps if steps and seconds else None

    @property
    def batch_size(self) -> float | None:
        """Mean number of requests that decoded at once."""
        seconds = self.counts.get(Counter.DECODE_STEP_SECONDS)
        return seconds / self.seconds if seconds else None


_RUN = TypeAdapter(Run)


def as_json(run: Run) -> Any:
    """A run as JSON has it."""
    return _RUN.dump_python(run, mode="json")


def from_json(entry: Any) -> Run:
    """A run from what ``as_json`` made; ValueError for anything else."""
    try:
        return _RUN.validate_python(entry, strict=False)
    except ValidationError as problem:
        raise ValueError(str(problem)) from None


async def warm_up(session: aiohttp.ClientSession, design: Design, identity: Identity) -> None:
    """A round of short answers at every concurrency, of which nothing is kept: what compiles, compiles now."""
    prompts = design.domains[0]
    for concurrency in design.ladder:
        asking = Asking(identity.url, identity.served_as, WARM_UP_TOKENS, design.temperatures[0], "warm-up")
        await ask_all(session, asking, prompts.some(concurrency, start=0), concurrency)


async def measure(session: aiohttp.ClientSession, design: Design, block: Block, identity: Identity, salt: str) -> Run:
    """Ask what the block asks and count what the server did; InputError where that measures something else."""
    before = await _idle(session, identity)
    asking = Asking(
        identity.url,
        identity.served_as,
        design.max_tokens,
        block.cell.temperature,
        f"{salt}-{block.repetition}-{block.cell.domain}-{block.cell.concurrency}-{block.cell.temperature}",
    )
    prompts = design.prompts(block)
    found = await ask_all(session, asking, prompts, block.cell.concurrency)
    if found.errors > MOST_ERRORS * len(prompts):
        raise InputError(
            f"{block}: {found.errors} of {len(prompts)} requests failed, the last one with: "
            f"{printable(found.last_error or '')}"
        )
    try:
        added = await settled(session, identity.url, before, len(prompts) - found.errors)
    except InputError as problem:
        raise InputError(f"{identity.url}: {problem}") from None
    run = _run(block, found, added)
    _refuse_foreign(identity, run)
    _refuse_drafts(identity, run)
    if not run.decode_tokens or run.decode_seconds <= 0:
        raise InputError(f"{block}: too few tokens to conclude anything: no answer has two that came one after another")
    return run


async def _idle(session: aiohttp.ClientSession, identity: Identity) -> Counts:
    """The counters of a server that does nothing; InputError where it works for somebody else.

    The gauge alone proves nothing: vLLM sets it after a step, so a request that was broken off stays in it until the
    next one runs.
    """
    before = await count(session, identity.url)
    if not before.running:
        return before
    await asyncio.sleep(WATCH_SECONDS)
    now = await count(session, identity.url)
    if now.since(before).counters.get(Counter.GENERATION_TOKENS):
        raise InputError(f"{identity.url}: {now.running:g} requests of somebody else run on it: calibrate it alone")
    return now


def _run(block: Block, found: Answers, added: Counts) -> Run:
    answers = [answer for answer in found.answers if answer is not None]
    decoded = [answer for answer in answers if answer.tpot is not None]
    return Run(
        block=block,
        seconds=found.seconds,
        answers=tuple(Kept(a.tokens, a.tpot, a.text) if a is not None else None for a in found.answers),
        errors=found.errors,
        timeouts=found.timeouts,
        last_error=found.last_error,
        decode_seconds=sum(answer.decode_seconds for answer in decoded),
        decode_tokens=sum(answer.tokens - 1 for answer in decoded),
        gaps=binned(gap for answer in answers for gap in answer.gaps),
        counts={counter: added.counters[counter] for counter in KEPT if counter in added.counters},
        accepted_per_position=added.accepted_per_position,
    )


def _refuse_foreign(identity: Identity, run: Run) -> None:
    """InputError where the server generated more than was asked for here. With errors it rightly may have."""
    generated = run.counts.get(Counter.GENERATION_TOKENS)
    if generated is None or run.errors:
        return
    others = generated - run.tokens
    if others > FOREIGN * run.tokens:
        raise InputError(
            f"{identity.url}: other traffic during the run: it generated {generated:g} tokens by its counters, and "
            f"{run.tokens} were asked for here; calibrate it alone"
        )


def _refuse_drafts(identity: Identity, run: Run) -> None:
    drafted = run.counts.get(Counter.DRAFT_TOKENS, 0.0)
    if run.block.k == 0 and drafted:
        raise InputError(f"{identity.url}: the baseline speculates after all: {drafted:g} draft tokens by its page")
