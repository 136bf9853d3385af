"""What is known of one target: its counters over time, its drift, its last error. No I/O, no clock of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from specwatch.alerting.catalogue import RATE_WINDOW
from specwatch.alerting.text import clean, cut
from specwatch.collect.targets import Target
from specwatch.signals.catalogue import Value, evaluate, signals
from specwatch.signals.diagnosis import Evidence, Finding, Level, diagnose
from specwatch.signals.drift import DriftDetector, DriftReading, DriftSettings
from specwatch.signals.speedup import ASSUMED, DraftCost, last_position_worth
from specwatch.signals.window import Increments, Ledger, add_up
from specwatch.vllm.metrics import Counter, Dialect, SinceStart, Snapshot

WINDOWS = (60.0, RATE_WINDOW, 1800.0)
"""Seconds of the windows that signals are told over."""

HISTORY_POINTS = 720
"""Points kept for sparklines: an hour at a scrape every five seconds."""


LONGEST_REASON = 300
"""Characters kept of why a scrape failed: it may quote the page, and goes into logs, terminals and the API."""


@dataclass(frozen=True)
class WatchSettings:
    """What the user said about a target, and how time runs."""

    k: int | None = None
    """Configured K, where a launch record or the user tells it."""
    method: str | None = None
    cost: DraftCost = ASSUMED
    drift: DriftSettings = field(default_factory=DriftSettings)
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
            windows=tuple(seconds * factor for seconds in self.windows),
            headline=self.headline * factor,
        )


def window_label(seconds: float) -> str:
    """How a window is called: ``5m``, ``90s``."""
    minutes, rest = divmod(seconds, 60)
    return f"{seconds:g}s" if rest or not minutes else f"{minutes:g}m"


@dataclass(frozen=True)
class WindowView:
    """Signals over one window."""

    seconds: float | None
    """Seconds that the window really covers; None without two scrapes in it."""
    values: Mapping[str, Value]


@dataclass(frozen=True)
class HistoryPoint:
    """One scrape's headline figures, for a sparkline."""

    at: float
    acceptance_rate: float | None
    estimated_speedup: float | None
    drift_score: float | None
    running_requests: float | None


@dataclass(frozen=True)
class TargetView:
    """Everything there is to say of a target at one moment."""

    target: Target
    up: bool | None
    """None before the first scrape."""
    error: str | None
    last_scrape: float | None
    release: str | None
    dialect: Dialect | None
    model_name: str | None
    engines: int
    k: int | None
    method: str | None
    cost: DraftCost
    restarts: int
    windows: Mapping[str, WindowView]
    """By label, shortest first."""
    headline_window: str
    since_start: Mapping[str, float]
    """Acceptance since the server's start, for the V0 engine alone, which tells nothing newer."""
    drift: DriftReading
    findings: tuple[Finding, ...]

    @property
    def headline(self) -> WindowView:
        """The window that findings and alerts speak of."""
        return self.windows[self.headline_window]

    @property
    def speculation_configured(self) -> bool | None:
        """Whether the server speculates; None while the page does not tell."""
        if self.dialect in (Dialect.V1, Dialect.V0):
            return True
        return False if self.dialect is Dialect.OFF else None

    def states(self) -> dict[str, float | None]:
        """The values of the alert catalogue's STATES; None where unknown."""
        configured = self.speculation_configured
        return {
            "target_up": None if self.up is None else float(self.up),
            "speculation_configured": None if configured is None else float(configured),
            "drift_score": self.drift.score,
            "last_position_worth": self._last_position_worth(),
        }

    def _last_position_worth(self) -> float | None:
        rates = self.headline.values["position_acceptance"]
        drafted = _number(self.headline.values, "draft_length")
        return last_position_worth(rates, drafted, self.cost) if isinstance(rates, tuple) else None


class TargetWatch:
    """Takes in pages of one target and answers what they mean."""

    def __init__(self, target: Target, settings: WatchSettings | None = None) -> None:
        self.target = target
        self.release: str | None = None
        self._settings = settings or WatchSettings()
        self._signals = signals(self._settings.cost)
        self._engines: dict[str, Ledger] = {}
        self._drift = DriftDetector(self._settings.drift)
        self._snapshot: Snapshot | None = None
        self._error: str | None = None
        self._last_scrape: float | None = None
        self._history: deque[HistoryPoint] = deque(maxlen=HISTORY_POINTS)

    @property
    def up(self) -> bool | None:
        """Whether the last scrape worked; None before the first."""
        return None if self._last_scrape is None and self._error is None else self._error is None

    @property
    def error(self) -> str | None:
        """Why the last scrape failed, or None."""
        return self._error

    @property
    def history(self) -> tuple[HistoryPoint, ...]:
        """Headline figures of the last scrapes, oldest first."""
        return tuple(self._history)

    def failed(self, reason: str) -> None:
        """Take in that a scrape failed; what is known stays known, and ages out of the windows."""
        self._error = cut(clean(reason), LONGEST_REASON)

    def observe(self, at: float, snapshot: Snapshot) -> None:
        """Take in a page."""
        self._error, self._last_scrape, self._snapshot = None, at, snapshot
        keep = max(self._settings.windows)
        self._engines = {name: self._engines.get(name) or Ledger(keep) for name in snapshot.engines}
        steps = [
            self._engines[name].observe(at, engine, snapshot.process_start) for name, engine in snapshot.engines.items()
        ]
        self._update_drift(at, [step for step in steps if step])
        headline = self.headline_values(at)
        self._history.append(
            HistoryPoint(
                at=at,
                acceptance_rate=_number(headline, "acceptance_rate"),
                estimated_speedup=_number(headline, "estimated_speedup"),
                drift_score=self._drift.reading().score,
                running_requests=_number(headline, "running_requests"),
            )
        )

    def headline_values(self, now: float) -> dict[str, Value]:
        """Every signal over the headline window, by name, pooled over the engines."""
        return evaluate(self._signals, self._increments(self._settings.headline, now))

    def view(self, now: float) -> TargetView:
        """Everything there is to say at ``now``."""
        snapshot = self._snapshot
        windows = {window_label(seconds): self._window(seconds, now) for seconds in self._settings.windows}
        headline = window_label(self._settings.headline)
        return TargetView(
            target=self.target,
            up=self.up,
            error=self._error,
            last_scrape=self._last_scrape,
            release=self.release,
            dialect=self._dialect(snapshot) if snapshot else None,
            model_name=snapshot.model_name if snapshot else None,
            engines=len(self._engines),
            k=self._k(),
            method=self._settings.method,
            cost=self._settings.cost,
            restarts=max((ledger.restarts for ledger in self._engines.values()), default=0),
            windows=windows,
            headline_window=headline,
            since_start=self._since_start(snapshot.since_start if snapshot else None),
            drift=self._drift.reading(),
            findings=self._findings(windows[headline].values),
        )

    def _increments(self, seconds: float, now: float) -> list[Increments]:
        parts = (ledger.over(seconds, now) for ledger in self._engines.values())
        return [part for part in parts if part]

    def _window(self, seconds: float, now: float) -> WindowView:
        parts = self._increments(seconds, now)
        return WindowView(
            seconds=max((part.seconds for part in parts), default=None),
            values=evaluate(self._signals, parts),
        )

    def _update_drift(self, at: float, steps: Sequence[Increments]) -> None:
        pooled = add_up(steps)
        if not {Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS} <= pooled.counts.keys():
            return
        self._drift.update(
            at,
            seconds=pooled.seconds,
            drafts=pooled.counts[Counter.DRAFTS],
            draft_tokens=pooled.counts[Counter.DRAFT_TOKENS],
            accepted=pooled.counts[Counter.ACCEPTED_TOKENS],
            regime=(len(pooled.accepted_per_position), self._settings.method, self.release),
        )

    def _dialect(self, snapshot: Snapshot) -> Dialect:
        """With --disable-log-stats vLLM's page holds no series of its own; /version still tells that it is vLLM."""
        silent = snapshot.dialect is Dialect.NOT_VLLM and self.release is not None
        return Dialect.NO_STATS if silent else snapshot.dialect

    def _k(self) -> int | None:
        """K as configured, or as the page shows it: it has one series a draft position."""
        if self._settings.k is not None or self._snapshot is None:
            return self._settings.k
        return max((len(e.accepted_per_position) for e in self._snapshot.engines.values()), default=0) or None

    def _since_start(self, averages: SinceStart | None) -> dict[str, float]:
        k = self._settings.k
        if averages is None or k is None:
            return {}
        return {
            "acceptance_rate": averages.acceptance_rate(k),
            "acceptance_length": averages.acceptance_length(k),
        }

    def _findings(self, values: Mapping[str, Value]) -> tuple[Finding, ...]:
        if self._error:
            return (Finding("unreachable", Level.PROBLEM, f"The last scrape failed: {self._error}."),)
        if self._snapshot is None:
            return (Finding("waiting", Level.NOTICE, "Waiting for the first scrape."),)
        return diagnose(
            Evidence(
                dialect=self._dialect(self._snapshot),
                values=values,
                engines=len(self._engines),
                cost=self._settings.cost,
                drift=self._drift.reading(),
            )
        )


def _number(values: Mapping[str, Value], name: str) -> float | None:
    value = values[name]
    return value if isinstance(value, float) else None
