"""From values to alerts that fire and resolve: one small state machine for each alert on each target.

    inactive ── condition holds ──▶ pending ── held for ``for_seconds`` ──▶ firing ── see below ──▶ inactive

The generated rules do the same in Prometheus, evaluation by evaluation. A firing alert ends

* when the condition has been known to be false for CLEAR_SECONDS;
* when nothing has been known for NO_DATA_SECONDS. Whoever is woken by "resolved" at three in the morning goes back to
  sleep, and no data is not "fixed": the server may be down, idle, or hidden behind a network fault. It ends at last, so
  that no incident stays open for ever, and the message says why;
* when its target is no longer watched.

Nothing is known without a value and below the alert's minimum traffic. An alert that is only pending starts over then:
its condition did not hold throughout. A scrape that fails is no such time: values are those of a window, and are known
until that is over. Else a server that is too busy to answer now and then would never be told of.

No clock is read: time arrives with every evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from specwatch.alerting.catalogue import ALERTS, RATE_WINDOW, Alert, Comparison, over_long_window
from specwatch.alerting.text import clean, cut, duration
from specwatch.signals.catalogue import Value

CLEAR_SECONDS = 60.0
"""How long a condition must be false before its alert resolves: a value that hovers about the threshold would
otherwise ring at every scrape. A minute is a fifth of the window that the values are taken over."""

NO_DATA_SECONDS = 3 * RATE_WINDOW
"""How long a firing alert outlives its data. One window after traffic returns there is a value again; three
windows without any are no pause between two requests."""

LABEL_LENGTH = 100
"""Characters of a target's or model's name in a sentence: the rest of the sentence must stay readable."""


class State(str, Enum):
    """Where an alert stands on a target."""

    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Ending(str, Enum):
    """Why an alert that fired does so no more."""

    CLEARED = "cleared"
    NO_DATA = "no_data"
    REMOVED = "removed"


@dataclass(frozen=True)
class AlertStatus:
    """How one alert stands on one target at one moment.

    Times are Unix seconds. ``since`` is when the condition began to hold, ``value`` the last that was known and
    ``value_at`` when that was.
    """

    alert: Alert
    target: str
    model: str
    state: State
    at: float
    since: float
    value: float
    value_at: float

    @property
    def summary(self) -> str:
        """One sentence: what is wrong, and where."""
        return self.alert.summary.format(**self._fields())

    @property
    def description(self) -> str:
        """What it means and what to do."""
        return self.alert.description.format(**self._fields())

    @property
    def value_text(self) -> str:
        """The value as people read it."""
        return _shown(self.value, self.alert)

    @property
    def threshold_text(self) -> str:
        """The threshold as people read it."""
        return _shown(self.alert.threshold, self.alert)

    @property
    def condition_text(self) -> str:
        """When the alert holds: ``below 60%``."""
        return f"{_RELATIONS[self.alert.comparison]} {self.threshold_text}"

    def _fields(self) -> dict[str, str]:
        return {
            "target": cut(clean(self.target), LABEL_LENGTH),
            "model": cut(clean(self.model), LABEL_LENGTH) or "model unknown",
            "value": self.value_text,
            "threshold": self.threshold_text,
        }


@dataclass(frozen=True)
class Transition(AlertStatus):
    """An alert that has just begun to fire, or has just resolved: ``state`` is one of the two."""

    ending: Ending | None = None
    """Why it resolved; None while it fires."""

    @property
    def description(self) -> str:
        """What it means and what to do; for a resolved alert, why it is over."""
        if self.ending is None:
            return super().description
        lasted = duration(self.at - self.since)
        silent = duration(self.at - self.value_at)
        return _ENDINGS[self.ending].format(**self._fields(), lasted=lasted, silent=silent)


_RELATIONS = {
    Comparison.BELOW: "below",
    Comparison.ABOVE: "above",
    Comparison.AT_LEAST: "at or above",
    Comparison.EQUALS: "at",
}

_ENDINGS = {
    Ending.CLEARED: "The condition no longer holds on {target} ({model}): {value} now. It began {lasted} ago.",
    Ending.NO_DATA: (
        "Closed for lack of data, not because it is known to be fixed: {target} ({model}) has given nothing to judge "
        "by for {silent}. The last value was {value}. See whether it still serves."
    ),
    Ending.REMOVED: "{target} ({model}) is no longer watched. The last value was {value}.",
}


class AlertEvaluator:
    """All alerts of a catalogue on any number of targets.

    ``time_scale`` multiplies every duration: 0.1 makes five minutes thirty seconds, for demonstrations and tests.
    """

    def __init__(self, alerts: Sequence[Alert] = ALERTS, *, time_scale: float = 1.0) -> None:
        if time_scale < 0:
            raise ValueError(f"time_scale must not be negative: {time_scale}")
        self._alerts = tuple(alerts)
        self._scale = time_scale
        self._targets: dict[str, _Target] = {}

    def evaluate(self, at: float, *, target: str, model: str, values: Mapping[str, Value]) -> list[Transition]:
        """Take in the values of one target at one moment, and return what changed.

        ``values`` maps names of signals, over the alerts' window, and of states to values, and those of alerts that
        ask for it over the long window (``over_long_window``); None or absent means unknown. ``at`` is Unix seconds
        from a clock that does not step; where it runs back, no time has passed.
        """
        watched = self._targets.setdefault(target, _Target())
        watched.model = model
        watched.at = now = max(at, watched.at)
        changes: list[Transition] = []
        for alert in self._alerts:
            track = watched.tracks.setdefault(alert.name, _Track())
            value = _known_value(alert, values)
            holds = value is not None and _is_past(alert, value, values)
            change = track.update(now, value, holds, alert.for_seconds, self._scale)
            if change is not None:
                changes.append(_transition(alert, target, watched, *change))
        return changes

    def restore(self, status: AlertStatus) -> None:
        """Take up what another process knew of an alert: what pends goes on to pend, what fires goes on to fire.

        No time counts as passed without data since then, nor as passed in good health.
        """
        watched = self._targets.setdefault(status.target, _Target())
        watched.model = status.model
        watched.at = max(watched.at, status.at)
        for alert in self._alerts:
            watched.tracks.setdefault(alert.name, _Track())
        watched.tracks[status.alert.name] = _Track(status.state, status.since, status.value, status.at)

    def forget(self, target: str) -> list[Transition]:
        """Stop watching a target: what fires there is resolved, and its state is gone."""
        watched = self._targets.pop(target, None)
        if watched is None:
            return []
        return [
            _transition(alert, target, watched, State.RESOLVED, Ending.REMOVED)
            for alert in self._alerts
            if watched.tracks[alert.name].state is State.FIRING
        ]

    def fires(self, alert: str, target: str | None = None, model: str | None = None) -> bool:
        """Whether an alert fires on this target and model; None for any. False for an alert of another catalogue."""
        if all(known.name != alert for known in self._alerts):
            return False
        names = self._targets if target is None else [target]
        return any(
            watched.tracks[alert].state is State.FIRING and model in (None, watched.model)
            for name in names
            if (watched := self._targets.get(name))
        )

    def active(self, target: str | None = None) -> list[AlertStatus]:
        """What is pending or firing, on one target or on all: firing ones first, the oldest first among equals."""
        names = self._targets if target is None else [target]
        statuses = [
            _status(alert, name, watched)
            for name in names
            if (watched := self._targets.get(name))
            for alert in self._alerts
            if watched.tracks[alert.name].state is not State.INACTIVE
        ]
        return sorted(statuses, key=lambda status: (status.state is not State.FIRING, status.since))


_Change = tuple[State, Ending | None]


@dataclass
class _Track:
    """One alert on one target."""

    state: State = State.INACTIVE
    since: float = 0.0
    value: float = math.nan
    value_at: float = 0.0
    clear_since: float | None = None

    def update(self, now: float, value: float | None, holds: bool, for_seconds: float, scale: float) -> _Change | None:
        """Take in a value, None for unknown; return the new state where somebody should hear of it."""
        if value is not None:
            self.value, self.value_at = value, now
        if self.state is not State.FIRING:
            return self._towards_firing(now, holds, for_seconds * scale)
        if holds:
            self.clear_since = None
            return None
        ending = self._ending(now, known=value is not None, scale=scale)
        if ending is None:
            return None
        self.state = State.INACTIVE
        return State.RESOLVED, ending

    def _towards_firing(self, now: float, holds: bool, for_seconds: float) -> _Change | None:
        if not holds:
            self.state = State.INACTIVE
            return None
        if self.state is State.INACTIVE:
            self.state, self.since = State.PENDING, now
        if now - self.since < for_seconds:
            return None
        self.state, self.clear_since = State.FIRING, None
        return State.FIRING, None

    def _ending(self, now: float, *, known: bool, scale: float) -> Ending | None:
        if not known:
            return Ending.NO_DATA if now - self.value_at >= NO_DATA_SECONDS * scale else None
        if self.clear_since is None:
            self.clear_since = now
        return Ending.CLEARED if now - self.clear_since >= CLEAR_SECONDS * scale else None


@dataclass
class _Target:
    model: str = ""
    at: float = -math.inf
    tracks: dict[str, _Track] = field(default_factory=dict)


def _known_value(alert: Alert, values: Mapping[str, Value]) -> float | None:
    """The value that the alert may judge; None when there is none, or too little traffic."""
    needed = {"draft_throughput": alert.min_draft_rate, "generation_throughput": alert.min_generation_rate}
    if any((_number(values, signal) or 0.0) < least for signal, least in needed.items()):
        return None
    return _number(values, alert.signal)


def _is_past(alert: Alert, value: float, values: Mapping[str, Value]) -> bool:
    """Whether the condition holds, over the long window as well where the alert asks for that."""
    long = _number(values, over_long_window(alert.signal)) if alert.long_window else value
    return all(known is not None and alert.comparison.holds(known, alert.threshold) for known in (value, long))


def _number(values: Mapping[str, Value], name: str) -> float | None:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _status(alert: Alert, target: str, watched: _Target) -> AlertStatus:
    track = watched.tracks[alert.name]
    return AlertStatus(
        alert=alert,
        target=target,
        model=watched.model,
        state=track.state,
        at=watched.at,
        since=track.since,
        value=track.value,
        value_at=track.value_at,
    )


def _transition(alert: Alert, target: str, watched: _Target, state: State, ending: Ending | None) -> Transition:
    fields = {**vars(_status(alert, target, watched)), "state": state}
    return Transition(**fields, ending=ending)


def _shown(value: float, alert: Alert) -> str:
    # Three digits: more would pretend to a precision that a five minute window does not have.
    return f"{value * 100:.3g}%" if alert.as_percentage else f"{value:.3g}"
