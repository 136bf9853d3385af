"""Watching that speculation stays lossless: now and then a few tokens of every server are tested, a few at a time.

What a server's checks find is pooled until it concludes: sound or distorted. Then the next test begins from nothing. A
lossless server is called distorted in at most one of 1 / error rate conclusions, however long this goes on and whenever
one looks, because the evidence within a test may be looked at after every token.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from specwatch.alerting.text import clean, cut
from specwatch.collect.credentials import Credentials
from specwatch.collect.targets import Target
from specwatch.config import SidecarConfig
from specwatch.errors import InputError
from specwatch.measure import prompt_sets
from specwatch.measure.losslessness import Limits, Verdict
from specwatch.measure.verify import Plan, Run, built_in_prompts
from specwatch.measure.verify_asking import Server
from specwatch.secret_files import read_secret

log = logging.getLogger(__name__)

Asking = Callable[[], Credentials | None]
"""Tells how a target is asked now: a reload may change it."""

ERROR_RATE = 1e-4
"""Of a conclusion. With one check an hour, and at least one check a conclusion, a lossless server is called distorted
less than once in 14 months."""

TO_CLEAR = 4
"""Times as many tokens in a check of what was distorted: enough to conclude, so that a page ends one interval after its
cause."""

REQUEST_SECONDS = 60.0
"""Longest a request of a check may take: a server that is slower is busy, and is asked another time."""


@dataclass(frozen=True)
class CheckSettings:
    """How often servers are checked, and with what."""

    every: float
    """Seconds between checks of a target."""
    prompts: tuple[str, ...]
    temperatures: tuple[float, ...] = (0.0, 1.0)
    tokens: int = 256
    """At each temperature in one check, at most; TO_CLEAR times as many where the last verdict was distorted."""
    api_key: str | None = None
    answer_tokens: int = 64
    limits: Limits = field(default_factory=lambda: Limits(error_rate=ERROR_RATE))

    @property
    def plan(self) -> Plan:
        """The same as the command's plan: one request at a time."""
        return Plan(self.prompts, self.temperatures, self.tokens, self.answer_tokens, concurrency=1, limits=self.limits)


@dataclass
class TemperatureState:
    """What is known of one target at one temperature."""

    run: Run
    """The test under way."""
    tokens: int = 0
    """Tested in all."""
    verdict: Verdict | None = None
    """The last sound or distorted one; None before the first, or where nothing is drafted."""
    verdict_at: float | None = None
    """Unix seconds."""
    verdicts: Counter[Verdict] = field(default_factory=Counter)


@dataclass
class TargetState:
    """What is known of one target."""

    temperatures: dict[float, TemperatureState]
    prompts: Iterator[str]
    checks: int = 0
    failures: int = 0
    problem: str | None = None
    """Why the last check came to nothing."""

    @property
    def distorted(self) -> bool | None:
        """Whether any temperature is; None before the first verdict."""
        verdicts = {state.verdict for state in self.temperatures.values() if state.verdict}
        return Verdict.DISTORTED in verdicts if verdicts else None


class LosslessnessChecks:
    """Checks targets again and again, one check at a time."""

    def __init__(self, settings: CheckSettings, now: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._now = now
        self._one_check = asyncio.Lock()
        sampled = sum(temperature > 0 for temperature in settings.temperatures)
        self._limits = replace(settings.limits, tests=max(1, sampled))
        self.states: dict[str, TargetState] = {}
        """By target, from its first check on."""

    def _fresh(self) -> TargetState:
        runs = {
            temperature: TemperatureState(Run(temperature, self._limits)) for temperature in self._settings.temperatures
        }
        return TargetState(runs, itertools.cycle(self._settings.prompts))

    def distorted(self, target: str) -> bool | None:
        """What is known of a target, by its name; None where nothing is."""
        state = self.states.get(target)
        return state.distorted if state else None

    def forget(self, target: str) -> None:
        """Let go of what is known of a target."""
        self.states.pop(target, None)

    async def keep_checking(self, target: Target, credentials: Asking = lambda: None) -> None:
        """Check a target until cancelled; several take their turns spread over the interval.

        ``credentials`` tells before each check how the target is scraped.
        """
        await asyncio.sleep(self._settings.every * _phase(target.name))
        while True:
            async with self._one_check:
                await self.check(target, credentials())
            await asyncio.sleep(self._settings.every)

    async def check(self, target: Target, credentials: Credentials | None = None) -> None:
        """One check of one target; what prevents it is counted, and logged when it begins or changes."""
        name = target.name
        if name not in self.states:
            self.states[name] = self._fresh()
        state = self.states[name]
        before = state.problem
        state.checks += 1
        try:
            await self._ask(target, state, credentials)
            state.problem = None
        except InputError as problem:
            state.problem = cut(clean(str(problem)), 300)
        except Exception:
            state.problem = "a defect of specwatch"
            log.exception("%r: a defect of specwatch in checking losslessness", name, extra={"target": name})
        state.failures += state.problem is not None
        if state.problem and state.problem != before:
            log.warning("%r: losslessness not checked: %s", name, state.problem, extra={"target": name})

    async def _ask(self, target: Target, state: TargetState, credentials: Credentials | None) -> None:
        asking = Server(
            target,
            token=self._settings.api_key,
            seconds=REQUEST_SECONDS,
            credentials=credentials,
            key_option="--verify-token-file",
        )
        async with asking as server:
            for temperature in self._settings.temperatures:
                await self._test(server, state, state.temperatures[temperature], target.name)

    async def _test(self, server: Server, state: TargetState, at: TemperatureState, name: str) -> None:
        plan, asked = self._settings.plan, 0
        budget = plan.tokens * (TO_CLEAR if at.verdict is Verdict.DISTORTED else 1)
        while asked < budget:
            before = at.run.result().reading.tokens
            await at.run.ask(server, [next(state.prompts)], plan)
            result = at.run.result()
            at.tokens += result.reading.tokens - before
            asked += plan.answer_tokens
            if result.reading.verdict is not Verdict.INCONCLUSIVE:
                self._conclude(at, result.verdict, name)
                return

    def _conclude(self, at: TemperatureState, verdict: Verdict, name: str) -> None:
        at.verdicts[verdict] += 1
        if verdict is Verdict.INCONCLUSIVE:  # Sound, and nothing was drafted: nothing is known of speculation.
            at.verdict = None
        else:
            if verdict is not at.verdict:
                level = logging.WARNING if verdict is Verdict.DISTORTED else logging.INFO
                log.log(level, "%r: text at temperature %g is %s", name, at.run.temperature, verdict.value)
            at.verdict, at.verdict_at = verdict, self._now()
        at.run = Run(at.run.temperature, self._limits)


def from_config(config: SidecarConfig) -> LosslessnessChecks | None:
    """The checks that are configured, or None; InputError for files that cannot be used."""
    if config.verify_every is None:
        return None
    file, key = config.verify_prompts, config.verify_token_file
    settings = CheckSettings(
        every=config.verify_every * config.time_scale,
        prompts=prompt_sets.read(file, f"verify_prompts {file}") if file else built_in_prompts(),
        temperatures=tuple(dict.fromkeys(config.verify_temperature)),
        tokens=config.verify_tokens,
        api_key=read_secret(key, "verify_token_file") if key else None,
    )
    return LosslessnessChecks(settings)


def _phase(name: str) -> float:
    """Where in the interval a target's first check falls, 0 to 1: the same after every start, spread over targets."""
    return int.from_bytes(hashlib.blake2b(f"losslessness {name}".encode(), digest_size=4).digest(), "big") / 2**32


def families(checks: LosslessnessChecks) -> Iterator[Metric]:
    """What the checks did, as metrics. Whether a target is distorted is among the alert catalogue's states."""
    done = CounterMetricFamily("specwatch_losslessness_checks", "Checks of losslessness begun.", labels=["target"])
    failed = CounterMetricFamily(
        "specwatch_losslessness_check_failures", "Checks that came to nothing.", labels=["target"]
    )
    labels = ["target", "temperature"]
    tokens = CounterMetricFamily("specwatch_losslessness_tokens", "Tokens tested.", labels=labels)
    verdicts = CounterMetricFamily(
        "specwatch_losslessness_verdicts",
        "Tests concluded; inconclusive: sound, but nothing was drafted.",
        labels=[*labels, "verdict"],
    )
    evidence = GaugeMetricFamily(
        "specwatch_losslessness_evidence_ratio",
        "Evidence of distortion in the test under way; 1 concludes.",
        labels=labels,
    )
    latest = GaugeMetricFamily(
        "specwatch_losslessness_verdict_timestamp_seconds", "When a test last found sound or distorted.", labels=labels
    )
    for name, state in checks.states.items():
        done.add_metric([name], state.checks)
        failed.add_metric([name], state.failures)
        for temperature, at in state.temperatures.items():
            where = [name, f"{temperature:g}"]
            tokens.add_metric(where, at.tokens)
            evidence.add_metric(where, at.run.result().reading.evidence)
            for verdict in Verdict:
                verdicts.add_metric([*where, verdict.value], at.verdicts[verdict])
            if at.verdict_at is not None:
                latest.add_metric(where, at.verdict_at)
    yield from (done, failed, tokens, verdicts, evidence, latest)
