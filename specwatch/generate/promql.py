"""The catalogue's formulas as PromQL, over vLLM's raw counters and over what the recording rules make of them.

Counters become rates per server, recorded apart; signals are quotients of sums of those. So the same
increments give the same value here and in ``signals.formula``, for one server and for all of a model:
numerators and denominators are pooled first, and servers that lack one of the counters are left out of both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from enum import Enum

from specwatch.signals.catalogue import Signal
from specwatch.signals.formula import Computed, Formula, PerPosition, Ratio, Terms
from specwatch.vllm.metrics import GAUGES, POSITION_SERIES, SERIES, SPECULATION, V0_EFFICIENCY, Counter

INSTANCE_LABEL = "instance"
"""Prometheus' label for host and port of a server."""


class Level(Enum):
    """What a recorded series speaks of: its name's first word, and the labels it keeps."""

    ENGINE = ("engine", ("job", INSTANCE_LABEL, "model_name", "engine"))
    """One data-parallel engine of one server."""
    INSTANCE = ("instance", ("job", INSTANCE_LABEL, "model_name"))
    """One server, its data-parallel engines pooled."""
    MODEL = ("model", ("job", "model_name"))
    """All servers of one model."""
    FLEET = ("fleet", ("job",))
    """All servers of the job."""

    def __init__(self, word: str, labels: tuple[str, ...]) -> None:
        self.word = word
        self.labels = labels

    @property
    def is_pooled(self) -> bool:
        """Whether several servers are in it; then it is made from what is recorded of each."""
        return INSTANCE_LABEL not in self.labels


V1_ONLY = 'engine!=""'
"""Matches the V1 engine's series: V0 has corrupt ones of the same names, and only V1 labels them with an engine."""

EXPORTED_TOGETHER = (
    frozenset({Counter.DRAFTS}),
    frozenset({Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS}),
    frozenset(SERIES) - frozenset(SPECULATION),
    *(frozenset({gauge}) for gauge in GAUGES),
)
"""A server that exports one counter of a set has all of it, or counts nothing with the rest: 0.8.3 and 0.8.4 have
draft tokens without drafts, and servers that do not speculate have neither. Pooling needs care across sets only."""

POSITION = "position"

CACHE_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
"""Share of the KV cache in use. 0.9.2 renamed it and serves both names; 0.12 dropped the old one."""

V0_SIGNALS = ("acceptance_rate", "acceptance_length")
"""What the V0 engine's efficiency gauge tells where K is known; its counters and its own rate are wrong."""

UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
"""PromQL's units, in milliseconds."""


def duration(seconds: float) -> str:
    """Seconds as PromQL, Prometheus and Alertmanager write them, in the largest unit that is exact."""
    milliseconds = max(round(seconds * 1000), 1)
    return next(f"{milliseconds // size}{unit}" for unit, size in UNITS if milliseconds % size == 0)


def number(value: float) -> str:
    """A number as PromQL reads it, without float noise."""
    return f"{value:.10g}"


def quoted(text: str) -> str:
    """Text as a string literal of PromQL, in Alertmanager's matchers too."""
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True)
class Recording:
    """Names and expressions of the recording rules.

    ``selector`` holds the label matchers of vLLM's targets, ``job="vllm"``; ``window`` is the seconds over which
    rates are taken. ``v0_k`` is K of the V0 servers, whose acceptance is recorded where it is given: since their start,
    for that is all they tell, and by server alone, for averages cannot be pooled.
    """

    selector: str
    window: float
    v0_k: int | None = None

    def counter(self, counter: Counter, level: Level = Level.INSTANCE) -> str:
        """Name of the series that records a counter's rate, or a gauge's mean, over the window."""
        source, operation = (GAUGES[counter], "avg") if counter in GAUGES else (SERIES[counter][0], "rate")
        return f"{level.word}:{_metric(source)}:{operation}{duration(self.window)}"

    def accepted_at_position(self, level: Level = Level.INSTANCE) -> str:
        """Name of the series that records accepted tokens a second by position."""
        return f"{level.word}:{_metric(POSITION_SERIES)}:rate{duration(self.window)}"

    def drafts_at_position(self, level: Level = Level.INSTANCE) -> str:
        """Name of the series that records drafts a second of the engines that have a position."""
        return f"{level.word}:specwatch_position_drafts:rate{duration(self.window)}"

    def signal(self, signal: Signal, level: Level = Level.INSTANCE) -> str:
        """Name of the series that records a signal; for the rate of one counter, that counter's."""
        same = _counter_of(signal.formula)
        if same is not None:
            return self.counter(same, level)
        is_rate = isinstance(signal.formula, Ratio) and signal.formula.is_rate
        operation = "rate" if is_rate else "ratio_rate"
        return f"{level.word}:specwatch_{signal.name}:{operation}{duration(self.window)}"

    def counter_expression(self, counter: Counter, level: Level = Level.INSTANCE) -> str:
        """PromQL of ``counter``'s recording rule."""
        if level.is_pooled:
            return sum_by(level.labels, self.counter(counter))
        if counter in GAUGES:
            return sum_by(level.labels, self._over_window("avg_over_time", GAUGES[counter]))
        matchers = (V1_ONLY,) if counter in SPECULATION else ()
        return sum_by(level.labels, *(self._over_window("rate", name, *matchers) for name in SERIES[counter]))

    def accepted_at_position_expression(self, level: Level = Level.INSTANCE) -> str:
        """PromQL of ``accepted_at_position``'s recording rule."""
        labels = (*level.labels, POSITION)
        if level.is_pooled:
            return sum_by(labels, self.accepted_at_position())
        return sum_by(labels, self._over_window("rate", POSITION_SERIES, V1_ONLY))

    def drafts_at_position_expression(self, level: Level = Level.INSTANCE) -> str:
        """PromQL of ``drafts_at_position``'s recording rule: each position gets its own engine's drafts."""
        labels = (*level.labels, POSITION)
        if level.is_pooled:
            return sum_by(labels, self.drafts_at_position())
        positions = self._over_window("rate", POSITION_SERIES, V1_ONLY)
        drafts = self._over_window("rate", SERIES[Counter.DRAFTS][0], V1_ONLY)
        return sum_by(labels, at_each_position(positions, drafts))

    def signal_expression(self, signal: Signal, level: Level = Level.INSTANCE) -> str:
        """PromQL of ``signal``'s recording rule, over recorded rates alone but for V0; ValueError where it has none."""
        if isinstance(signal.formula, Computed) or not signal.in_promql:
            raise ValueError(f"{signal.name} has no PromQL: the sidecar alone tells it")
        if isinstance(signal.formula, PerPosition):
            drafts = self.drafts_at_position(level)
            enough = f"{drafts} >= {number(signal.formula.at_least / self.window)}"
            return f"{self.accepted_at_position(level)}\n/\n({enough})"
        text = self._ratio(signal.formula, level)
        if self.v0_k is not None and level is Level.INSTANCE and signal.name in V0_SIGNALS:
            return f"{text}\nor\n{self._since_start(signal.name, self.v0_k)}"
        return text

    def cache_usage(self, level: Level = Level.INSTANCE) -> str:
        """Name of the series that records how full the fullest engine's KV cache was, 0 to 1, as a mean."""
        return f"{level.word}:{_metric(CACHE_USAGE[0])}:max_avg{duration(self.window)}"

    def cache_usage_expression(self, level: Level = Level.INSTANCE) -> str:
        """PromQL of ``cache_usage``'s recording rule: a fleet has no one cache, so the fullest is told."""
        if level.is_pooled:
            return aggregated("max", level.labels, self.cache_usage())
        return aggregated("max", level.labels, *(self._over_window("avg_over_time", name) for name in CACHE_USAGE))

    def _since_start(self, name: str, k: int) -> str:
        """V0's averages: acceptance length is the efficiency times K + 1 (``vllm.metrics.SinceStart``).

        While nothing was drafted the gauge is NaN, which no comparison lets pass.
        """
        labels = Level.INSTANCE.labels
        length = f"{k + 1} * {aggregated('max', labels, f'{V0_EFFICIENCY}{{{self.selector}}} >= 0')}"
        return length if name == "acceptance_length" else f"({length} - 1)\n/ {k}"

    def _ratio(self, formula: Ratio, level: Level) -> str:
        needed = {*formula.numerator, *formula.denominator, *formula.at_least}

        def pooled(terms: Terms) -> str:
            return self._pooled(terms, level, needed)

        def enough(counter: Counter, least: float) -> str:
            return f"{pooled({counter: 1.0})} >= {number(least / self.window)}"

        return quotient(formula, pooled, enough)

    def _pooled(self, terms: Terms, level: Level, needed: Set[Counter]) -> str:
        """The weighted sum of recorded rates, over the servers that export every counter of ``needed``."""
        if not level.is_pooled or any(needed <= together for together in EXPORTED_TOGETHER):
            return weighted(terms, lambda counter: self.counter(counter, level))
        others = [self.counter(counter) for counter in witnesses(terms, needed)]
        return sum_by(level.labels, "\nand\n".join([weighted(terms, self.counter), *others]))

    def _over_window(self, function: str, series: str, *matchers: str) -> str:
        selector = ", ".join([self.selector, *matchers])
        return f"{function}({series}{{{selector}}}[{duration(self.window)}])"


def quotient(formula: Ratio, pooled: Callable[[Terms], str], enough: Callable[[Counter, float], str]) -> str:
    """A formula's value from ``pooled``, which writes a weighted sum, where ``enough`` holds for its minima."""
    text = pooled(formula.numerator)
    if formula.denominator:
        below = pooled(formula.denominator)
        # Enough of a counter that is part of the denominator keeps that above 0 already.
        positive = "" if set(formula.at_least) & set(formula.denominator) else " > 0"
        text = f"{_in_parentheses(text)}\n/\n{_in_parentheses(below + positive)}"
    if formula.offset:
        text = f"{number(formula.offset)} +\n{text}"
    return "\nand\n".join([text, *(enough(counter, least) for counter, least in formula.at_least.items())])


def weighted(terms: Terms, term: Callable[[Counter], str]) -> str:
    """The terms times their weights, added up; ``term`` writes one counter."""
    text = ""
    for counter, weight in terms.items():
        sign = "-" if weight < 0 else "+"
        factor = "" if abs(weight) == 1.0 else f"{number(abs(weight))} * "
        text += f" {sign} {factor}{term(counter)}"
    return text.removeprefix(" + ").lstrip()


def witnesses(terms: Terms, needed: Set[Counter]) -> list[Counter]:
    """One counter of each set that is needed and that ``terms`` do not show to be there."""
    return [
        next(counter for counter in Counter if counter in together & needed)
        for together in EXPORTED_TOGETHER
        if together & needed and not together & terms.keys()
    ]


def _metric(series: str) -> str:
    """A vLLM series' name as part of a recorded one: colons are for levels, and a rate is no total."""
    return series.replace("vllm:spec_decode_num_", "vllm_spec_decode_").replace("vllm:", "vllm_").removesuffix("_total")


def _counter_of(formula: Formula) -> Counter | None:
    """The counter whose rate the formula is, or None for any other formula."""
    if not isinstance(formula, Ratio) or not formula.is_rate or formula.offset or formula.at_least:
        return None
    terms = list(formula.numerator.items())
    return terms[0][0] if len(terms) == 1 and terms[0][1] == 1.0 else None


def at_each_position(positions: str, drafts: str) -> str:
    """``drafts`` once for every position that its engine has; ``positions`` has one series a position."""
    return f"0 * {positions}\n+ ignoring ({POSITION}) group_left ()\n{drafts}"


def sum_by(labels: Iterable[str], *alternatives: str) -> str:
    """The sum that keeps these labels, over the first of the alternatives that a series has."""
    return aggregated("sum", labels, *alternatives)


def aggregated(function: str, labels: Iterable[str], *alternatives: str) -> str:
    """The aggregation that keeps these labels, over the first of the alternatives that a series has."""
    body = re.sub("^", "  ", "\nor\n".join(alternatives), flags=re.MULTILINE)
    return f"{function} by ({', '.join(labels)}) (\n{body}\n)"


def _in_parentheses(text: str) -> str:
    """The text, safe as an operand of a division."""
    is_one_operand = re.fullmatch(r"[\w:]+|sum by \([^()]*\) \([^()]*\)", text)
    return text if is_one_operand else f"({text})"
