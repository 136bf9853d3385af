"""What is known of one target: its counters over time, its drift, its last error. No I/O, no clock of its own."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from specwatch.alerting.catalogue import ALERTS, LONG_WINDOWS, RATE_WINDOW, STATES, over_long_window
from specwatch.alerting.sparkline import MOST_WINDOWS
from specwatch.alerting.sparkline import Course as AcceptanceCourse
from specwatch.alerting.text import clean, cut
from specwatch.collect.targets import Target
from specwatch.sidecar.headline_window import HeadlineWindow, covered
from specwatch.sidecar.lately import Lately
from specwatch.sidecar.views import Standing, Stretch, TargetView, WindowView, number, window_label
from specwatch.signals.catalogue import LazyValues, Value, by_name, evaluate, signals
from specwatch.signals.cost import CostCurve
from specwatch.signals.course import BLOCK_SECONDS, Course, Setup
from specwatch.signals.diagnosis import diagnose
from specwatch.signals.drift import DriftDetector, DriftSettings
from specwatch.signals.evidence import Evidence
from specwatch.signals.findings import Finding, Level
from specwatch.signals.fingerprint import Fingerprint, nearest
from specwatch.signals.plain_speed import PlainSpeed
from specwatch.signals.roofline import Bound
from specwatch.signals.speedup import ASSUMED, DraftCost, Speedup, SpeedupKind
from specwatch.signals.window import Increments, Ledgers, add_up
from specwatch.signals.workload import WorkloadSettings, WorkloadTracker
from specwatch.signals.worth import Basis
from specwatch.vllm.metrics import Counter, Dialect, PageReader, Snapshot

WINDOWS = (60.0, RATE_WINDOW, LONG_WINDOWS * RATE_WINDOW, 72 * RATE_WINDOW)
"""Seconds of the windows that signals are told over: a minute, and the three of the recording rules."""

MOST_STRETCHES = 720
"""What waits at most for whoever keeps the history, and fetches it every second: an hour of scrapes five apart."""

SHORTEST_STRETCH = 1.0
"""Seconds: scrapes that follow each other faster are kept as one, so that a history's size is bounded."""

TREND_STEP = 60.0
"""Seconds from one point of a trend to the next: sixty points an hour are all that a small drawing can show."""

TREND_POINTS = 60
"""An hour of them."""

DRIFT_COUNTERS = frozenset({Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS})
"""Counters without which there is nothing to watch for drift."""

DRAFTS_VARY = frozenset({"ngram", "ngram_gpu", "suffix"})
"""Methods that draft fewer than K tokens where they find fewer."""

TRAFFIC = ("draft_throughput", "generation_throughput")
"""Signals of which alerts want some least."""

JUDGED = frozenset([*TRAFFIC, *(alert.signal for alert in ALERTS if alert.signal not in STATES)])
"""Signals that alerts look at."""

LASTING = frozenset(alert.signal for alert in ALERTS if alert.long_window)
"""Signals that alerts look at over the long window too."""

LONGEST_REASON = 300
"""Characters kept of why a scrape failed: it may quote the page, and goes into logs, terminals and the API."""


@dataclass(frozen=True)
class WatchSettings:
    """What the user said about a target, and how time runs."""

    k: int | None = None
    """Configured K, where a launch record or the user tells it."""
    method: str | None = None
    schedule: tuple[tuple[int, int, int], ...] = ()
    """K by batch size as launched: first and last batch size, K."""
    cost: DraftCost = ASSUMED
    curve: CostCurve | None = None
    """What steps cost, from a calibration of this deployment."""
    accelerators: int = 1
    """GPUs of the server."""
    bound: Bound | None = None
    """Model and GPUs, where they are known."""
    fingerprints: tuple[Fingerprint, ...] = ()
    """Domains whose acceptance by position is known."""
    drift: DriftSettings = field(default_factory=DriftSettings)
    workload: WorkloadSettings = field(default_factory=WorkloadSettings)
    block_seconds: float = BLOCK_SECONDS
    """Length of the blocks in which a server's course is remembered, at first."""
    windows: tuple[float, ...] = WINDOWS
    """Seconds."""
    headline: float = RATE_WINDOW
    """The window, one of ``windows``, that findings, alerts and the page's first figures speak of: the same one, so
    that whoever is woken by a value finds that value."""

    def in_scaled_time(self, factor: float) -> WatchSettings:
        """The same with every duration multiplied: for rehearsals, which cannot wait five minutes."""
        if factor == 1.0:
            return self
        return replace(
            self,
            drift=replace(self.drift, block_seconds=self.drift.block_seconds * factor),
            workload=self.workload.in_scaled_time(factor),
            block_seconds=self.block_seconds * factor,
            windows=tuple(seconds * factor for seconds in self.windows),
            headline=self.headline * factor,
        )


class TargetWatch:
    """Takes in pages of one target and answers what they mean."""

    def __init__(self, target: Target, settings: WatchSettings | None = None) -> None:
        self.target = target
        self.release: str | None = None
        self.steps: tuple[Increments, ...] = ()
        """What each engine did between the last two pages."""
        self.distorted: bool | None = None
        """What the checks of losslessness last found; None where there are none, or nothing yet."""
        self.twins: PlainSpeed | None = None
        """What servers of the same model without speculation did; None without such servers."""
        self.settings = settings or WatchSettings()
        self._signals = signals(self.settings.cost)
        self._lasting = tuple(signal for signal in self._signals if signal.name in LASTING)
        self._ledgers = Ledgers(max(self.settings.windows))
        self.drift = DriftDetector(self.settings.drift)
        self._workload = WorkloadTracker(self.settings.workload)
        self._course = Course(self.settings.block_seconds)
        self._snapshot: Snapshot | None = None
        self._headline: HeadlineWindow | None = None
        self._error: str | None = None
        self._unheard = False
        """Whether nobody knows how it is."""
        self._last_scrape: float | None = None
        self.reader = PageReader()
        """Reads its pages."""
        self.stretches: deque[Stretch] = deque(maxlen=MOST_STRETCHES)
        """What it did lately, until the history has fetched it."""
        self.trend = Lately(TREND_STEP, TREND_POINTS)
        """Acceptance over the headline window, in small steps."""
        self.hours = Lately(self.settings.headline, MOST_WINDOWS)
        """The same, one headline window after the other."""

    @property
    def up(self) -> bool | None:
        """Whether the last scrape worked; None before the first, and while nobody knows."""
        untried = self._last_scrape is None and self._error is None
        return None if untried or self._unheard else self._error is None

    @property
    def error(self) -> str | None:
        """Why the last scrape failed, or None."""
        return self._error

    @property
    def last_scrape(self) -> float | None:
        """When a scrape last worked, unix seconds."""
        return self._last_scrape

    @property
    def snapshot(self) -> Snapshot | None:
        """What the last readable page said."""
        return self._snapshot

    @property
    def dialect(self) -> Dialect | None:
        """How the last page speaks of speculation; None before the first."""
        return self._dialect(self._snapshot) if self._snapshot else None

    def failed(self, reason: str) -> None:
        """Take in that a scrape failed; what is known stays known, and ages out of the windows."""
        self._error, self._unheard = cut(clean(reason), LONGEST_REASON), False

    def unheard(self, reason: str) -> None:
        """Take in that nobody can tell, because what scrapes it says nothing: that is no server that is down."""
        self._error, self._unheard = cut(clean(reason), LONGEST_REASON), True

    @property
    def regime(self) -> str:
        """What makes acceptance incomparable when it changes: positions, method, release, schedule."""
        engines = self._snapshot.engines.values() if self._snapshot else ()
        positions = max((len(engine.accepted_per_position) for engine in engines), default=0)
        parts = [f"{positions} positions", self.settings.method, self.release and f"vLLM {self.release}"]
        return ", ".join([*filter(None, parts), *(f"{first}-{last}: {k}" for first, last, k in self.settings.schedule)])

    def observe(self, at: float, snapshot: Snapshot) -> Increments:
        """Take in a page; returns what all engines did together since the one before, nothing where it is the first."""
        self._unheard = False
        self._error, self._last_scrape, self._snapshot, self._headline = None, at, snapshot, None
        self.steps = tuple(self._ledgers.observe(at, snapshot.engines, snapshot.process_start))
        step = add_up(self.steps)
        self._update_drift(at, step)
        self._workload.observe(at, snapshot.engines)
        self._course.observe(at, step, Setup(self.k, self.settings.method, self.release), self._ledgers.restarts)
        self._remember(at, step)
        return step

    def _remember(self, at: float, step: Increments) -> None:
        rate = number(self.headline_values(at), "acceptance_rate")
        self.trend.note(at, rate)
        self.hours.note(at, rate)
        if step.seconds <= 0:
            return
        speedup, kind = self.best_speedup(at)
        stretch = Stretch(at, _finite(step), speedup, kind, self.drift.reading().score)
        if self.stretches and max(self.stretches[-1].did.seconds, step.seconds) < SHORTEST_STRETCH:
            stretch = stretch.after(self.stretches.pop())
        self.stretches.append(stretch)

    def last_hours(self, now: float) -> AcceptanceCourse:
        """What messages show of its past."""
        return AcceptanceCourse("Acceptance rate", self.hours.step, self.hours.until(now))

    def headline_values(self, now: float) -> Mapping[str, Value]:
        """Every signal over the headline window, by name, pooled over the engines."""
        return self._headline_at(now).values

    def headline_view(self, now: float) -> WindowView:
        """The headline window, with what it really covers."""
        headline = self._headline_at(now)
        return WindowView(headline.seconds, headline.values)

    def speedups(self, now: float) -> tuple[Speedup, ...]:
        """Every way in which the speedup over the headline window is known, the best known first."""
        return self._headline_at(now).speedups

    def best_speedup(self, now: float) -> tuple[float | None, SpeedupKind]:
        """The speedup over the headline window as it is shown: where it is known, else the catalogue's estimate."""
        is_more_known = self.settings.curve is not None or self.twins is not None
        best = next(iter(self.speedups(now)), None) if is_more_known else None
        if best and best.kind is not SpeedupKind.ESTIMATED:
            return best.value, best.kind
        return number(self.headline_values(now), "estimated_speedup"), SpeedupKind.ESTIMATED

    def _known_speedup(self, now: float) -> float | None:
        value, kind = self.best_speedup(now)
        return None if kind is SpeedupKind.ESTIMATED else value

    def _headline_at(self, now: float) -> HeadlineWindow:
        """Computed once for a moment: alerts, findings and the page ask for the same."""
        if self._headline is None or self._headline.at != now:
            increments = self._ledgers.over(self.settings.headline, now)
            basis = Basis(
                cost=self.settings.cost,
                curve=self.settings.curve,
                twins=self.twins,
                drafts_vary=self.settings.method in DRAFTS_VARY,
                accelerators=self.settings.accelerators,
            )
            self._headline = HeadlineWindow(now, increments, LazyValues(by_name(self.settings.cost), increments), basis)
        return self._headline

    def judged_values(self, now: float) -> dict[str, Value]:
        """What alerts judge: signals over the headline window, some over the long one, and the catalogue's states."""
        values = self.headline_values(now)
        dialect = self.dialect
        drift, cost = self.drift.reading(), self.settings.cost
        standing = Standing(self.up, dialect, values, cost, drift, self._known_speedup(now), self.distorted)
        lasting = evaluate(self._lasting, self._ledgers.over(LONG_WINDOWS * self.settings.headline, now))
        long = {over_long_window(name): value for name, value in lasting.items()}
        return {**{name: values[name] for name in JUDGED}, **long, **standing.states()}

    @property
    def model_name(self) -> str | None:
        """The model as the page names it."""
        return self._snapshot.model_name if self._snapshot else None

    def evidence(self, now: float) -> Evidence | None:
        """What a diagnosis at ``now`` rests on; None while there is no readable page."""
        if self._snapshot is None or self._error:
            return None
        return Evidence(
            dialect=self._dialect(self._snapshot),
            values=self.headline_values(now),
            window_seconds=self.settings.headline,
            now=now,
            engines=self._ledgers.engines,
            model_name=self.model_name,
            cost=self.settings.cost,
            speedup=next(iter(self.speedups(now)), None),
            drift=self.drift.reading(),
            workload=self._workload.reading(),
            course=self._course.view(),
            schedule=self.settings.schedule,
            likeness=self._likeness(now),
        )

    def _likeness(self, now: float) -> tuple[str, float] | None:
        rates, k = self.headline_values(now)["position_acceptance"], self.k
        return nearest(self.settings.fingerprints, rates, k) if isinstance(rates, tuple) and k else None

    def view(self, now: float, findings: Sequence[Finding] | None = None) -> TargetView:
        """Everything there is to say at ``now``.

        ``findings`` are those of a diagnosis that saw the other replicas as well; without, this server alone is seen.
        """
        windows = {window_label(seconds): self._window(seconds, now) for seconds in self.settings.windows}
        headline = window_label(self.settings.headline)
        return TargetView(
            target=self.target,
            up=self.up,
            error=self._error,
            last_scrape=self.last_scrape,
            release=self.release,
            dialect=self.dialect,
            model_name=self.model_name,
            engines=self._ledgers.engines,
            k=self.k,
            method=self.settings.method,
            cost=self.settings.cost,
            restarts=self._ledgers.restarts,
            windows=windows,
            headline_window=headline,
            since_start=self.since_start,
            drift=self.drift.reading(),
            workload=self._workload.reading(),
            speedups=self.speedups(now),
            findings=tuple(findings or self.findings(now)),
            distorted=self.distorted,
            share_of_bound=self._share_of_bound(now),
            before_change=self._before_change(),
        )

    def _before_change(self) -> WindowView | None:
        since = self.drift.reading().since
        parts = [] if since is None else self._ledgers.before(since)
        return WindowView(covered(parts), evaluate(self._signals, parts)) if parts else None

    def _share_of_bound(self, now: float) -> float | None:
        values = self.headline_values(now)
        seconds, batch = number(values, "step_latency"), number(values, "decoding_requests")
        if self.settings.bound is None or not seconds or batch is None:
            return None
        drafted = (number(values, "draft_length") or 0.0) * (number(values, "draft_coverage") or 0.0)
        return self.settings.bound.share(seconds, batch, drafted + 1)

    def _window(self, seconds: float, now: float) -> WindowView:
        parts = self._ledgers.over(seconds, now)
        return WindowView(
            seconds=covered(parts),
            values=evaluate(self._signals, parts),
        )

    def _update_drift(self, at: float, step: Increments) -> None:
        if step.counts.keys() >= DRIFT_COUNTERS:
            self.drift.update(
                at,
                seconds=step.seconds,
                drafts=step.counts[Counter.DRAFTS],
                draft_tokens=step.counts[Counter.DRAFT_TOKENS],
                accepted=step.counts[Counter.ACCEPTED_TOKENS],
                regime=self.regime,
            )

    def _dialect(self, snapshot: Snapshot) -> Dialect:
        """With --disable-log-stats vLLM's page holds no series of its own; /version still tells that it is vLLM."""
        silent = snapshot.dialect is Dialect.NOT_VLLM and self.release is not None
        return Dialect.NO_STATS if silent else snapshot.dialect

    @property
    def k(self) -> int | None:
        """K as configured, or as the page shows it: it has one series a draft position."""
        if self.settings.k is not None or self._snapshot is None:
            return self.settings.k
        return max((len(e.accepted_per_position) for e in self._snapshot.engines.values()), default=0) or None

    @property
    def since_start(self) -> dict[str, float]:
        """Acceptance since the server's start, for the V0 engine alone."""
        averages, k = self._snapshot.since_start if self._snapshot else None, self.settings.k
        if averages is None or k is None:
            return {}
        return {
            "acceptance_rate": averages.acceptance_rate(k),
            "acceptance_length": averages.acceptance_length(k),
        }

    def findings(self, now: float) -> tuple[Finding, ...]:
        """What is wrong, as far as this server alone shows."""
        if self._unheard:
            return (Finding("no-news", Level.NOTICE, f"Nothing is known of it now: {self._error}."),)
        if self._error:
            return (Finding("unreachable", Level.PROBLEM, f"The last scrape failed: {self._error}."),)
        if self._snapshot is None:
            return (Finding("waiting", Level.NOTICE, "Waiting for the first scrape."),)
        evidence = self.evidence(now)
        return diagnose(evidence) if evidence else ()


def _finite(step: Increments) -> Increments:
    """Without counts that are no numbers, which would spoil every sum that they are part of."""
    if all(map(math.isfinite, step.counts.values())):
        return step
    return replace(step, counts={counter: count for counter, count in step.counts.items() if math.isfinite(count)})
