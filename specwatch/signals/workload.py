"""Did the requests change? The workload's own drift, from what vLLM counts of them.

A draft that no longer fits usually met other traffic, and other traffic usually looks different before any token is
drafted: longer prompts, other endings. The measure is the population stability index between a reference and the
last minutes, over categories i with shares p (reference) and q (recent):

    PSI = Σ (qᵢ - pᵢ) · ln(qᵢ / pᵢ)

Its usual reading, from credit scoring (Siddiqi 2006): below 0.10 the same population, above 0.25 another one. It is
never 0 for two samples of one population: PSI ÷ (1/n + 1/m) then follows χ² with one degree of freedom less than
there are categories (Yurdakul 2018), so a small sample needs a larger PSI to mean anything.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from specwatch.vllm.metrics import EngineSnapshot
from specwatch.vllm.requests_seen import HIT, Census, Feature

SHIFTED = 0.25
"""PSI from which a population is another one."""

SMOOTHING = 0.5
"""Requests added to every category that either side has, so that an empty one has a logarithm (Jeffreys)."""

LENGTHS = frozenset({Feature.PROMPT_LENGTH, Feature.GENERATION_LENGTH})

LEAST_SHARE = 0.05
"""Share of the reference below which a bucket is put together with the next one: empty buckets add noise, no news."""

CLUSTERING = 1.5
"""Requests come in sessions of similar ones: taken as if one of three only repeated another."""

RARE = 2.33
"""Standard deviations of the normal law that one window in a hundred exceeds: a shift raises no alarm by itself, it
explains one."""

LEAST_REQUESTS = 20.0
"""Recent requests below which nothing is said: the noise of the PSI is then above 1."""

RECENT_BLOCKS = 10
"""Parts of the recent window: it moves on by a tenth."""

OLDEST = 6.0
"""Recent windows that little traffic may reach back to find enough requests."""


@dataclass(frozen=True)
class WorkloadSettings:
    """How much traffic makes a reference and a recent window."""

    learn_seconds: float = 600.0
    """Ten minutes, as acceptance's own reference takes at least."""
    learn_requests: float = 100.0
    """Below, a request in a category of its own moves the PSI by several hundredths."""
    keep_learning: float = 5000.0
    """Requests up to which the reference goes on growing while nothing shifted: its share of the noise is then below
    a tenth of that of 300 recent requests."""
    recent_seconds: float = 300.0
    """The window that findings speak of."""
    recent_requests: float = 100.0
    """As many as make a reference: with little traffic the window reaches back for them."""

    def in_scaled_time(self, factor: float) -> WorkloadSettings:
        """The same with every duration multiplied."""
        return replace(self, learn_seconds=self.learn_seconds * factor, recent_seconds=self.recent_seconds * factor)


@dataclass(frozen=True)
class Shift:
    """How far one property of the requests is from its reference."""

    feature: Feature
    psi: float
    noise: float
    """The PSI that one window in a hundred exceeds though nothing changed, at this many requests."""
    before: float
    """What is typical in the reference: the median of a length in tokens, roughly, as buckets are wide; the share of
    requests that ran into their limit; the share of prompt tokens found in the cache."""
    now: float
    """The same in the recent window."""

    @property
    def shifted(self) -> bool:
        """Whether this is another population, beyond what the number of requests explains."""
        return self.psi >= max(SHIFTED, self.noise)


@dataclass(frozen=True)
class WorkloadReading:
    """What is known of the requests now."""

    learned: float
    """Share of the reference learned, 0 to 1."""
    requests: float = 0.0
    """Requests in the recent window."""
    shifts: tuple[Shift, ...] = ()
    """One for each feature that the server counts; none while learning or with too few requests."""

    def shift(self, feature: Feature) -> Shift | None:
        """The shift of one feature, where it is known."""
        return next((shift for shift in self.shifts if shift.feature is feature), None)


_Counts = dict[Feature, dict[str, float]]


@dataclass
class _Block:
    began: float
    counts: _Counts = field(default_factory=dict)

    @property
    def requests(self) -> float:
        return _requests(self.counts)


class WorkloadTracker:
    """Feed it every scrape; it remembers a reference and at most OLDEST recent windows."""

    def __init__(self, settings: WorkloadSettings | None = None) -> None:
        self._settings = settings or WorkloadSettings()
        self._last: Mapping[str, Census] = {}
        self._at: float | None = None
        self.relearn()

    def relearn(self) -> None:
        """Forget the reference: what comes now is the new normal."""
        self._reference: _Counts = {}
        self._reference_seconds = 0.0
        self._recent: deque[_Block] = deque()
        self._block: _Block | None = None

    def observe(self, at: float, engines: Mapping[str, EngineSnapshot]) -> None:
        """Take in a page. A page that is not newer than the last is ignored."""
        if self._at is not None and at <= self._at:
            return
        began = at if self._at is None else self._at
        block = self._block = self._block or _Block(began)
        for name, engine in engines.items():
            before = self._last.get(name)
            if before is not None:
                _add_increments(block.counts, before, engine.requests)
        self._last = {name: engine.requests for name, engine in engines.items()}
        self._at = at
        if at - block.began >= self._settings.recent_seconds / RECENT_BLOCKS:
            self._block = None
            self._close(block, at)

    def reading(self) -> WorkloadReading:
        """The present state."""
        if not self._learned:
            seconds = self._reference_seconds / self._settings.learn_seconds
            requests = _requests(self._reference) / self._settings.learn_requests
            return WorkloadReading(learned=min(seconds, requests, 1.0))
        recent = self._pooled()
        requests = _requests(recent)
        if requests < LEAST_REQUESTS:
            return WorkloadReading(learned=1.0, requests=requests)
        return WorkloadReading(1.0, requests, tuple(_shifts(self._reference, recent)))

    @property
    def _learned(self) -> bool:
        return (
            self._reference_seconds >= self._settings.learn_seconds
            and _requests(self._reference) >= self._settings.learn_requests
        )

    def _pooled(self) -> _Counts:
        pooled: _Counts = {}
        for block in self._recent:
            _add(pooled, block.counts)
        return pooled

    def _close(self, block: _Block, at: float) -> None:
        if not self._learned:
            self._learn(block, at - block.began)
            return
        self._recent.append(block)
        requests = sum(old.requests for old in self._recent)
        while len(self._recent) > 1 and self._spare(self._recent[0], requests, at):
            oldest = self._recent.popleft()
            requests -= oldest.requests
            if _requests(self._reference) < self._settings.keep_learning and self._calm():
                self._learn(oldest, 0.0)

    def _learn(self, block: _Block, seconds: float) -> None:
        _add(self._reference, block.counts)
        self._reference_seconds += seconds

    def _spare(self, block: _Block, requests: float, at: float) -> bool:
        """Whether the recent window can do without its oldest block: there is enough, or it is too old to speak."""
        age, recent = at - block.began, self._settings.recent_seconds
        enough = requests - block.requests >= self._settings.recent_requests
        return age > recent * OLDEST or (age > recent and enough)

    def _calm(self) -> bool:
        return not any(shift.shifted for shift in self.reading().shifts)


def psi(before: Mapping[str, float], now: Mapping[str, float]) -> float:
    """Population stability index between two sets of counts; 0 where either has none."""
    present = [category for category in {**before, **now} if before.get(category) or now.get(category)]
    n, m = sum(before.values()), sum(now.values())
    if not n or not m:
        return 0.0
    spread = SMOOTHING * len(present)
    total = 0.0
    for category in present:
        p = (before.get(category, 0.0) + SMOOTHING) / (n + spread)
        q = (now.get(category, 0.0) + SMOOTHING) / (m + spread)
        total += (q - p) * math.log(q / p)
    return total


def psi_noise(categories: int, before: float, now: float) -> float:
    """The PSI that one window in a hundred exceeds though nothing changed, between this many requests.

    The quantile of χ² by Wilson and Hilferty's cube (1931), within 1 % from two degrees of freedom on.
    """
    freedom = max(categories - 1, 1)
    part = 2 / (9 * freedom)
    quantile = freedom * (1 - part + RARE * math.sqrt(part)) ** 3
    return CLUSTERING * quantile * (1 / before + 1 / now)


def _shifts(reference: _Counts, recent: _Counts) -> list[Shift]:
    n, m = _requests(reference), _requests(recent)
    found = []
    for feature, before in reference.items():
        now = recent.get(feature)
        if not now or not sum(before.values()) or not sum(now.values()):
            continue
        # Tokens looked up in the cache belong to requests, and only these are independent of each other.
        counts = _of(before, n), _of(now, m)
        reference_counts, recent_counts = _merged(*counts) if feature in LENGTHS else counts
        present = [
            name
            for name in {**reference_counts, **recent_counts}
            if reference_counts.get(name) or recent_counts.get(name)
        ]
        found.append(
            Shift(
                feature,
                psi=psi(reference_counts, recent_counts),
                noise=psi_noise(len(present), n, m),
                before=_typical(feature, before),
                now=_typical(feature, now),
            )
        )
    return found


def _merged(before: Mapping[str, float], now: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Both with neighbouring buckets put together until each has LEAST_SHARE of the reference, but for the last."""
    least = LEAST_SHARE * sum(before.values())
    merged: tuple[dict[str, float], dict[str, float]] = ({}, {})
    name: str | None = None
    for category in {**before, **now}:
        if name is None or merged[0][name] >= least:
            name = category
        for side, counts in zip(merged, (before, now), strict=True):
            side[name] = side.get(name, 0.0) + counts.get(category, 0.0)
    return merged


def _of(counts: Mapping[str, float], requests: float) -> dict[str, float]:
    total = sum(counts.values())
    return {category: count / total * requests for category, count in counts.items()}


def _typical(feature: Feature, counts: Mapping[str, float]) -> float:
    if feature is Feature.FINISH_REASON:
        return counts.get("length", 0.0) / sum(counts.values())
    if feature is Feature.PREFIX_CACHE:
        return counts.get(HIT, 0.0) / sum(counts.values())
    return _median(counts)


def _median(counts: Mapping[str, float]) -> float:
    """The median of a histogram, as if a bucket were filled evenly; of an open bucket, its lower bound."""
    half, below, reached = sum(counts.values()) / 2, 0.0, 0.0
    for bound, count in counts.items():
        if reached + count >= half and count:
            upper = float(bound)
            return below if math.isinf(upper) else below + (upper - below) * (half - reached) / count
        reached += count
        below = float(bound)
    return below


def _requests(counts: Mapping[Feature, Mapping[str, float]]) -> float:
    """Requests counted: by their ends, or by their prompts where a release counts no ends."""
    return sum(counts.get(Feature.FINISH_REASON, counts.get(Feature.PROMPT_LENGTH, {})).values())


def _add(total: _Counts, counts: _Counts) -> None:
    for feature, categories in counts.items():
        into = total.setdefault(feature, {})
        for category, count in categories.items():
            into[category] = into.get(category, 0.0) + count


def _add_increments(total: _Counts, before: Census, after: Census) -> None:
    """Add what was counted between two pages of an engine; one that counts less than before has started anew."""
    for feature, new in after.items():
        old = before.get(feature)
        if old is None or new == old:
            continue
        into = total.setdefault(feature, dict.fromkeys(new, 0.0))
        steps: Iterable[float] = [count - old.get(category, 0.0) for category, count in new.items()]
        if min(steps) < 0:
            steps = new.values()
        for category, step in zip(new, steps, strict=True):
            if step:
                into[category] = into.get(category, 0.0) + step
