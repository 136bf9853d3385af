"""What the dashboards should show of the recorded fleet, worked out in Python from what the simulator really did."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specwatch.generate.dashboards.asks import DAY_BEFORE, IDLE, MODEL, Asks
from specwatch.generate.live_promql import FLEET, SERVER
from specwatch.signals.catalogue import MIN_DRAFTS, signals
from specwatch.signals.formula import conditional_rates
from specwatch.signals.speedup import ASSUMED
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import SPECULATION, Counter, Dialect
from tests.support.recorded_fleet import DAY, NOW, SCRAPE, Member, Moment, Recorded

Labels = frozenset[tuple[str, str]]
Values = dict[Labels, float]
"""A value for each set of labels; what Prometheus gives, and what it should."""

ENGINE = (*SERVER, "engine")
WINDOW = 300.0


@dataclass(frozen=True)
class Part:
    """One engine's increments, and the labels it bears."""

    labels: Mapping[str, str]
    increments: Increments
    member: Member
    moments: Sequence[Moment]
    index: int

    def within(self, labels: Sequence[str]) -> Labels:
        """The labels that a sum by ``labels`` leaves."""
        return frozenset((name, self.labels[name]) for name in labels if self.labels.get(name))


@dataclass(frozen=True)
class Truth:
    """What is true of the chosen servers.

    ``chosen`` holds the variables' values. ``closed`` says whether a window of Prometheus holds the sample at its very
    beginning, as it does before 3.0.
    """

    recorded: Recorded
    chosen: Mapping[str, str]
    closed: bool
    told: Mapping[str, float]
    """By instance, the speedup that a sidecar knows."""

    def parts(self, window: float = WINDOW, at: float = NOW) -> Iterator[Part]:
        """Every chosen engine over a window."""
        for member in self.recorded.members:
            moments = self._moments(member, window, at)
            if len(moments) < 2:
                continue
            times = [time for time, _ in moments]
            span = times[-1] - times[0]
            whole = times[0] - (at - window) <= SCRAPE
            for index, engine in enumerate(moments[-1][1].page.engines):
                v1 = moments[-1][1].page.dialect is not Dialect.V0
                labels = {"job": member.job, "instance": member.instance, "model_name": member.server.model_name}
                labels |= {"engine": engine} if v1 else {}
                if self._chooses(labels):
                    told = [moment for _, moment in moments]
                    # Prometheus extends a rate to its window's ends. Where scrapes began within the window it goes back
                    # to where the counter was 0, one scrape earlier here; from 3.0 on by half a scrape at most.
                    covered = window if whole else span + SCRAPE * (1 if self.closed else 0.5)
                    found = _increments(told, index, span, covered / span)
                    yield Part(labels, found, member, told, index)

    def _moments(self, member: Member, window: float, at: float) -> list[tuple[float, Moment]]:
        first = at - window
        every = self.recorded.moments[member.instance].items()
        return [(t, moment) for t, moment in every if (first <= t if self.closed else first < t) and t <= at]

    def _chooses(self, labels: Mapping[str, str]) -> bool:
        names = ("job", "model_name", "instance", "engine")
        return all(re.fullmatch(self.chosen[name], labels.get(name, "")) for name in names)

    def pooled(
        self,
        labels: Sequence[str],
        value: Callable[[list[Increments]], float | None],
        window: float = WINDOW,
        at: float = NOW,
    ) -> Values:
        """``value`` of the engines that share these labels, where it has one."""
        groups: dict[Labels, list[Increments]] = defaultdict(list)
        for part in self.parts(window, at):
            groups[part.within(labels)].append(part.increments)
        found = {key: value(group) for key, group in groups.items()}
        return {key: number for key, number in found.items() if number is not None}

    def signal(self, name: str, labels: Sequence[str], window: float = WINDOW, at: float = NOW) -> Values:
        """A signal of the catalogue."""
        formula = next(entry for entry in signals(ASSUMED) if entry.name == name).formula
        groups: dict[Labels, list[Increments]] = defaultdict(list)
        for part in self.parts(window, at):
            groups[part.within(labels)].append(part.increments)
        found: Values = {}
        for key, group in groups.items():
            value = formula.over(group)
            if isinstance(value, tuple):
                positions = ((key | {("position", str(p))}, rate) for p, rate in enumerate(value) if rate is not None)
                found |= dict(positions)
            elif value is not None:
                found[key] = value
        return found

    def worth(self) -> Values:
        """The speedup of every chosen server that has one: a sidecar's, else the estimate."""
        servers = self.signal("running_requests", SERVER)
        told = {key: self.told[dict(key)["instance"]] for key in servers if dict(key)["instance"] in self.told}
        return {**self.signal("estimated_speedup", SERVER), **told}

    def speedups(self) -> list[float]:
        """All of them."""
        return list(self.worth().values())

    def gained(self, labels: Sequence[str], window: float) -> Values:
        """Tokens beyond those of plain decoding."""

        def tokens(group: list[Increments]) -> float | None:
            ours = [each.counts for each in group if Counter.DRAFTS in each.counts]
            drafted = sum(counts[Counter.DRAFT_TOKENS] for counts in ours)
            return sum(counts[Counter.ACCEPTED_TOKENS] for counts in ours) - ASSUMED.c * drafted if ours else None

        return self.pooled(labels, tokens, window)

    def hours_saved(self, labels: Sequence[str]) -> Values:
        """(Speedup - 1) × coverage × hours with requests over the last day, of servers that have drafted."""
        speedup, coverage = (self.signal(name, SERVER, DAY) for name in ("estimated_speedup", "draft_coverage"))
        found: Values = {}
        for part in self.parts(DAY):
            key = part.within(SERVER)
            if key in speedup:
                busy = self._busy_minutes(part) / 60
                hours = (speedup[key] - 1) * coverage[key] * busy
                found[part.within(labels)] = found.get(part.within(labels), 0.0) + hours
        return found

    def _busy_minutes(self, part: Part) -> int:
        """At how many whole minutes of the last day the engine had requests; a sample is good for five minutes."""
        moments = self.recorded.moments[part.member.instance]
        busy = 0
        for minute in range(0 if self.closed else 1, int(DAY / 60) + 1):
            at = NOW - DAY + 60 * minute
            seen = [t for t in moments if (at - WINDOW <= t if self.closed else at - WINDOW < t) and t <= at]
            if seen:
                engine = list(moments[max(seen)].page.engines.values())[part.index]
                busy += engine.gauges[Counter.RUNNING_SECONDS] > 0
        return busy

    def conditional(self, position: int, labels: Sequence[str]) -> Values:
        """Acceptance at a position given the one before, of the engines that have it."""

        def rate(group: list[Increments]) -> float | None:
            ours = [each for each in group if len(each.accepted_per_position) > position]
            if not ours:
                return None
            drafts = sum(each.counts[Counter.DRAFTS] for each in ours)
            accepted = [sum(e.accepted_per_position[i] for e in ours) for i in range(position + 1)]
            before = accepted[position - 1] if position else drafts
            if before < MIN_DRAFTS:
                return None
            return conditional_rates([count / drafts for count in accepted])[position]

        return self.pooled(labels, rate)

    def speedup_at(self, k: int, labels: Sequence[str]) -> Values:
        """The estimated speedup at a smaller K, of the engines that draft so many."""

        def value(group: list[Increments]) -> float | None:
            ours = [each for each in group if len(each.accepted_per_position) >= k]
            drafts = sum(each.counts[Counter.DRAFTS] for each in ours)
            accepted = sum(sum(each.accepted_per_position[:k]) for each in ours)
            return (1 + accepted / drafts) / (1 + k * ASSUMED.c) if drafts >= MIN_DRAFTS else None

        return self.pooled(labels, value)

    def states(self) -> dict[str, int]:
        """How many servers are in each state."""
        parts = {part.within(SERVER): part for part in self.parts()}
        drafting = {key for key, part in parts.items() if Counter.DRAFTS in part.increments.counts}
        v0 = {key for key, part in parts.items() if part.moments[-1].page.dialect is Dialect.V0}
        speedups = self.speedups()
        idle = self.undrafted()
        return {
            "paying": sum(value >= 1 for value in speedups),
            "losing": sum(value < 1 for value in speedups),
            "too few drafts": len(drafting) - len(self.signal("estimated_speedup", SERVER)) - len(idle),
            "V0": len(v0),
            "not drafting": len(parts) - len(drafting) - len(v0) + len(idle),
            "down": 0,
        }

    def undrafted(self) -> set[Labels]:
        """Servers that could draft, and decode without."""
        drafted = self.signal("estimated_speedup", SERVER)
        coverage = self.signal("draft_coverage", SERVER)
        return {key for key, share in coverage.items() if share < IDLE and key not in drafted}

    def v0(self, name: str) -> Values:
        """What really happened on V0 servers since they started."""
        found: Values = {}
        for part in self.parts():
            if part.moments[-1].page.dialect is Dialect.V0:
                truth = part.moments[-1].truth[part.index]
                value = truth.acceptance_rate if name == "acceptance_rate" else truth.acceptance_length
                if value is not None:
                    found[part.within(SERVER)] = value
        return found

    def cache(self) -> Values:
        """The fullest engine's share of the KV cache."""
        found: Values = {}
        for part in self.parts():
            mean = statistics.fmean(moment.samples["cache"][part.index] for moment in part.moments)
            found[part.within(SERVER)] = max(mean, found.get(part.within(SERVER), 0.0))
        return found

    def steps(self) -> Values:
        """Engine steps a second, of each server's fastest engine."""
        found: Values = {}
        for part in self.parts():
            truth = [moment.truth[part.index].engine_steps for moment in part.moments]
            rate = (truth[-1] - truth[0]) / ((len(truth) - 1) * SCRAPE)
            found[part.within(SERVER)] = max(rate, found.get(part.within(SERVER), 0.0))
        return found

    def mean_length(self, what: str, at: float = NOW) -> Values:
        """Mean tokens of the prompts or the answers of requests that ended, by model."""
        sums: Values = {}
        counts: Values = {}
        for part in self.parts(at=at):
            key = part.within(["model_name"])
            last, first = part.moments[-1].samples, part.moments[0].samples
            for total, name in ((sums, f"{what} tokens"), (counts, f"{what}s")):
                total[key] = total.get(key, 0.0) + last[name][part.index] - first[name][part.index]
        return {key: value / counts[key] for key, value in sums.items() if counts[key]}

    def nothing_cached(self) -> Values:
        """The simulator has no prefix cache: no prompt is in it, of all that V1 servers look up."""
        read = (part.within(MODEL) for part in self.parts() if "engine" in part.labels)
        prompts = {part.within(MODEL): part.increments.counts.get(Counter.FIRST_TOKENS, 0.0) for part in self.parts()}
        return {key: 0.0 for key in read if prompts[key]}

    def finished(self) -> Values:
        """Requests that ended a second, by reason."""
        found: Values = {}
        for part in self.parts():
            last, first = part.moments[-1].finished, part.moments[0].finished
            for reason, counts in last.items():
                added = counts[part.index] - first.get(reason, [0.0] * len(counts))[part.index]
                key = frozenset({("finished_reason", reason)})
                found[key] = found.get(key, 0.0) + added / ((len(part.moments) - 1) * SCRAPE)
        return found


def known(asks: Asks) -> dict[str, tuple[str, tuple[str, ...], float, float]]:
    """Signal, labels, window and moment by the expression that asks for just that."""
    found = {}
    for labels in (FLEET, MODEL, SERVER, ENGINE):
        for entry in (entry for entry in signals(ASSUMED) if entry.in_promql):
            found[asks.signal(entry.name, labels)] = (entry.name, labels, WINDOW, NOW)
            found[asks.over("6h").signal(entry.name, labels)] = (entry.name, labels, DAY / 4, NOW)
            found[asks.over("1d").signal(entry.name, labels)] = (entry.name, labels, DAY, NOW)
            found[asks.offset(DAY_BEFORE).signal(entry.name, labels)] = (entry.name, labels, WINDOW, NOW - DAY)
    return found


def difference(left: Values, right: Values) -> Values:
    """Left less right, where both are."""
    return {key: value - right[key] for key, value in left.items() if key in right}


def _increments(moments: Sequence[Moment], index: int, span: float, factor: float) -> Increments:
    """Sums of what was added between scrapes; less than before is a counter that began anew."""
    counts: dict[Counter, float] = defaultdict(float)
    positions: list[float] = []
    for earlier, later in pairwise(moments):
        before, after = _counts(earlier, index), _counts(later, index)
        for counter, value in after.items():
            counts[counter] += value - before[counter] if value >= before[counter] else value
        told = zip(later.truth[index].accepted_per_position, _padded(earlier, index), strict=False)
        added = [new - old if new >= old else new for new, old in told]
        positions = [a + b for a, b in zip(added, positions or [0.0] * len(added), strict=True)]
    for counter in (Counter.RUNNING_SECONDS, Counter.WAITING_SECONDS):
        engines = [list(moment.page.engines.values())[index] for moment in moments]
        counts[counter] = statistics.fmean(engine.gauges[counter] for engine in engines) * span
    spoken = Counter.DRAFTS in counts
    return Increments(
        seconds=span * factor,
        counts={counter: count * factor for counter, count in counts.items()},
        accepted_per_position=tuple(count * factor for count in positions) if spoken else (),
    )


def _padded(moment: Moment, index: int) -> list[float]:
    return [*moment.truth[index].accepted_per_position, *([0.0] * 64)]


def _counts(moment: Moment, index: int) -> dict[Counter, float]:
    """An engine's counters: the simulator's own figures where it keeps them, the page's elsewhere."""
    shown = list(moment.page.engines.values())[index].counters
    if moment.page.dialect is Dialect.V0:
        return {counter: value for counter, value in shown.items() if counter not in SPECULATION}
    truth = moment.truth[index]
    own = {
        Counter.DRAFTS: truth.drafts,
        Counter.DRAFT_TOKENS: truth.draft_tokens,
        Counter.ACCEPTED_TOKENS: truth.accepted_tokens,
        Counter.GENERATION_TOKENS: truth.generated_tokens,
        Counter.FIRST_TOKENS: truth.requests_started,
        Counter.DECODE_STEPS: truth.decode_steps,
        Counter.DECODE_STEP_SECONDS: truth.decode_seconds,
        Counter.FINISHED_REQUESTS: truth.requests_finished,
    }
    return {counter: float(own.get(counter, value)) for counter, value in shown.items()}
