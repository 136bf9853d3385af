"""Is speculation lossless on a running server? It writes text, scores it itself, and the two are held together."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from specwatch.errors import InputError
from specwatch.measure.losslessness import GreedyTest, Limits, Reading, SampledTest, Scored, Verdict, test_at
from specwatch.measure.prompt_sets import BUILT_IN, domain
from specwatch.measure.verify_asking import Server
from specwatch.vllm.metrics import Counter, Dialect, Snapshot

T = TypeVar("T")

TEMPERATURES = (0.0, 0.7, 1.0)
"""Greedy, the usual one, and the model's own."""

COLDEST, HOTTEST = 0.01, 2.0
"""vLLM raises smaller temperatures above 0 to 0.01; clients send 2 at most."""

FEWEST_TOKENS = 100
"""With fewer even text that holds no surprise leaves a sound verdict out of reach."""

MOST_TOKENS = 100_000
"""An hour of a large server; more would find the last bits of its arithmetic."""


@dataclass(frozen=True)
class Plan:
    """What is asked of a server."""

    prompts: tuple[str, ...]
    temperatures: tuple[float, ...] = TEMPERATURES
    tokens: int = 1000
    """At each temperature, at most."""
    answer_tokens: int = 64
    """A request; short ones say more, for later tokens of a text tend to be certain."""
    concurrency: int = 4
    """Requests under way at once."""
    limits: Limits = field(default_factory=Limits)
    """``tests`` is filled in: temperatures above 0 share the error rate."""


@dataclass(frozen=True)
class Drafted:
    """What the server's page counted while the text was written, other traffic included."""

    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted: float = 0.0
    generated: float = 0.0

    def __add__(self, other: Drafted) -> Drafted:
        return Drafted(
            self.drafts + other.drafts,
            self.draft_tokens + other.draft_tokens,
            self.accepted + other.accepted,
            self.generated + other.generated,
        )


@dataclass(frozen=True)
class Result:
    """One temperature."""

    reading: Reading
    answers: int
    drafted: Drafted | None
    """None where the page could not be read, or does not tell."""
    speculates: bool | None
    """Whether the page says that the server speculates; None where it does not tell."""

    @property
    def shared(self) -> bool:
        """Whether the server wrote for others meanwhile, so that not all of ``drafted`` is this text's."""
        return self.drafted is not None and self.drafted.generated > SHARED * self.reading.tokens

    @property
    def untested(self) -> bool:
        """Whether the server speculates in general and did not for this text, so that nothing was tested."""
        return bool(self.speculates and self.drafted is not None and self.drafted.drafts == 0 and self.reading.tokens)

    @property
    def verdict(self) -> Verdict:
        """The reading's; inconclusive where nothing was drafted."""
        sound = self.reading.verdict is Verdict.SOUND
        return Verdict.INCONCLUSIVE if sound and self.untested else self.reading.verdict


@dataclass(frozen=True)
class Report:
    """What is known of a server, whole or as far as it came."""

    url: str
    model: str
    release: str | None
    listed: int | None
    """Log-probabilities a token, of ``whole`` vocabulary or of the likeliest; None before anything was scored."""
    whole: bool
    results: tuple[Result, ...]
    problem: str | None = None
    """What ended it early."""

    @property
    def verdict(self) -> Verdict:
        """Distorted if any temperature is, sound if all are."""
        found = {result.verdict for result in self.results}
        if Verdict.DISTORTED in found:
            return Verdict.DISTORTED
        return Verdict.SOUND if found == {Verdict.SOUND} and self.problem is None else Verdict.INCONCLUSIVE


SHARED = 1.1
"""Tokens that the page counts ÷ those of the text, from which on there is other traffic: a page that is read in the
middle of a step differs by a few."""

Told = Callable[[Result, Plan], None]
"""Hears how a temperature stands after each round."""


def built_in_prompts() -> tuple[str, ...]:
    """Code, JSON and prose in turn, from the sets that come with specwatch."""
    return tuple(itertools.chain.from_iterable(zip(*(domain(name).prompts for name in BUILT_IN), strict=False)))


async def verify(server: Server, plan: Plan, told: Told | None = None) -> Report:
    """Test every temperature of a plan; what prevents it is in the report, with the results so far.

    A temperature ends as soon as distortion is found: the evidence holds whenever one looks.
    """
    sampled = sum(temperature > 0 for temperature in plan.temperatures)
    limits = replace(plan.limits, tests=max(1, sampled))
    results: list[Result] = []
    problem = None
    try:
        for temperature in plan.temperatures:
            run = Run(temperature, limits)
            try:
                await _gather(server, plan, run, told)
            finally:
                results.append(run.result())
    except InputError as failure:
        problem = str(failure)
    return Report(
        server.target.server, server.model, server.release, server.listed, server.whole, tuple(results), problem
    )


async def _gather(server: Server, plan: Plan, run: Run, told: Told | None) -> None:
    for prompts in rounds(plan, run.temperature):
        await run.ask(server, prompts, plan)
        result = run.result()
        if told:
            told(result, plan)
        if result.reading.verdict is Verdict.DISTORTED or result.reading.tokens >= plan.tokens:
            return


def rounds(plan: Plan, temperature: float) -> Iterator[tuple[str, ...]]:
    """Prompts to ask at once: going round them, and at temperature 0 each only once, for its answer is the same again.

    Ends after four times the requests that full answers would take, for a model whose answers are short.
    """
    most = -(-4 * plan.tokens // plan.answer_tokens)
    count = min(len(plan.prompts), most) if temperature == 0 else most
    asked = list(itertools.islice(itertools.cycle(plan.prompts), count))
    for start in range(0, count, plan.concurrency):
        yield tuple(asked[start : start + plan.concurrency])


class Run:
    """One temperature under way: text so far, what the page counted meanwhile, and the test of both."""

    def __init__(self, temperature: float, limits: Limits) -> None:
        self.temperature = temperature
        self._limits = limits
        self._test: GreedyTest | SampledTest = test_at(temperature)
        self._answers = 0
        self._drafted: Drafted | None = Drafted()
        self._speculates: bool | None = None

    def result(self) -> Result:
        """What is known now."""
        return Result(self._test.reading(self._limits), self._answers, self._drafted, self._speculates)

    async def ask(self, server: Server, prompts: Sequence[str], plan: Plan) -> None:
        """Have these prompts answered and the answers scored, all at the same time."""
        before = await server.page()
        tokens = min(plan.answer_tokens, (server.max_model_len or plan.answer_tokens * 4) // 4)
        texts = await all_of(server.sample(prompt, self.temperature, tokens) for prompt in prompts)
        self._count(before, await server.page())
        for scored in await all_of(server.score(text) for text in texts):
            self._take(scored)

    def _take(self, scored: Sequence[Scored]) -> None:
        self._answers += bool(scored)
        for token in scored:
            self._test.take(token)

    def _count(self, before: Snapshot | None, after: Snapshot | None) -> None:
        drafted = _drafted(before, after)
        self._drafted = self._drafted + drafted if self._drafted and drafted else None
        self._speculates = _speculates(after)


def _speculates(page: Snapshot | None) -> bool | None:
    if page is None or page.dialect not in (Dialect.V1, Dialect.OFF):
        return None
    return page.dialect is Dialect.V1


def _drafted(before: Snapshot | None, after: Snapshot | None) -> Drafted | None:
    if _speculates(before) is None or _speculates(after) is None or before is None or after is None:
        return None

    def grown(counter: Counter) -> float:
        old, new = (
            sum(engine.counters.get(counter, 0.0) for engine in page.engines.values()) for page in (before, after)
        )
        return max(0.0, new - old)

    return Drafted(
        grown(Counter.DRAFTS),
        grown(Counter.DRAFT_TOKENS),
        grown(Counter.ACCEPTED_TOKENS),
        grown(Counter.GENERATION_TOKENS),
    )


async def all_of(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results of all calls, made at the same time; the first failure ends the others, and none is left running."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
