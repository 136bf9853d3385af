"""What is known of one target: its counters over time, its drift, its last error. No I/O, no clock of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from specwatch.alerting.catalogue import RATE_WINDOW
from specwatch.alerting.text import clean, cut
from specwatch.collect.targets import Target
from specwatch.sidecar.views import HistoryPoint, TargetView, WindowView, number, states, window_label
from specwatch.signals.catalogue import Value, evaluate, signals
from specwatch.signals.diagnosis import Evidence, Finding, Level, diagnose
from specwatch.signals.drift import DriftDetector, DriftSettings
from specwatch.signals.speedup import ASSUMED, DraftCost
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
                acceptance_rate=number(headline, "acceptance_rate"),
                estimated_speedup=number(headline, "estimated_speedup"),
                drift_score=self._drift.reading().score,
                running_requests=number(headline, "running_requests"),
            )
        )

    def headline_values(self, now: float) -> dict[str, Value]:
        """Every signal over the headline window, by name, pooled over the engines."""
        return evaluate(self._signals, self._increments(self._settings.headline, now))

    def judged_values(self, now: float) -> dict[str, Value]:
        """What alerts judge: every signal over the headline window, and the states of the alert catalogue."""
        values = self.headline_values(now)
        dialect = self._dialect(self._snapshot) if self._snapshot else None
        return {**values, **states(self.up, dialect, self._drift.reading(), values, self._settings.cost)}

    @property
    def model_name(self) -> str | None:
        """The model as the page names it."""
        return self._snapshot.model_name if self._snapshot else None

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
            model_name=self.model_name,
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
