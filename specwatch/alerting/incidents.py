"""From alerts that fire to messages: one message for all servers of a model on which the same alert fires.

They share the cause more often than not, so they are one incident, with one key at PagerDuty. As in the Alertmanager
configuration that ``generate`` writes, an incident's first message waits GROUP_WAIT for servers that fail together, and
news of an open incident waits GROUP_INTERVAL. Its end waits for nothing: that all is well need not be gathered.

    fires ──▶ waits ──▶ told ──▶ over, told with the next message ──▶ forgotten
                │
                └──▶ over, or silenced: nobody hears of it

What was told as firing is told as over, whatever has silenced it since: else it stays open with who heard of it.

No clock is read: time arrives with every call, in Unix seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from specwatch.alerting.evaluation import AlertStatus, Transition

GROUP_WAIT = 30.0
"""Seconds to wait for more alerts of a group before its first message: one evaluation of the rules, so that the
servers of a model that fail together come together."""

GROUP_INTERVAL = 300.0
"""Seconds between messages about changes within a group; Alertmanager's own default."""

KEY_LENGTH = 255
"""Longest key that identifies an alert: PagerDuty's limit of a ``dedup_key``."""


@dataclass(frozen=True)
class News:
    """What is to be told of an incident: what fires in it now, and what is over since the last message."""

    key: str
    """Identifies the incident from its first message to its last."""
    firing: tuple[AlertStatus, ...]
    """All of it, told before or not; the first that fired in front. Empty: the incident is over."""
    over: tuple[Transition, ...]


class Incidents:
    """Those that are open. ``time_scale`` multiplies the waits."""

    def __init__(self, time_scale: float = 1.0) -> None:
        self._wait = GROUP_WAIT * time_scale
        self._interval = GROUP_INTERVAL * time_scale
        self._open: dict[tuple[str, str], _Incident] = {}
        """By alert and model."""
        self._of: dict[tuple[str, str], _Incident] = {}
        """By alert and target."""

    def fires(self, status: AlertStatus) -> None:
        """Take in that an alert fires and is to be told, again and again while it does."""
        incident = self._of.get(_where(status)) or self._join(status)
        incident.firing[status.target] = status
        # One that was over, and fires again before anybody heard: no news.
        incident.over.pop(status.target, None)

    def withdraw(self, status: AlertStatus) -> None:
        """Let nobody hear of an alert that nobody has heard of yet."""
        incident = self._of.get(_where(status))
        if incident is not None and status.target not in incident.told:
            self._remove(incident, status)

    def over(self, transition: Transition) -> None:
        """Take in that an alert is over."""
        self.withdraw(transition)
        incident = self._of.get(_where(transition))
        if incident is not None:
            incident.firing.pop(transition.target, None)
            incident.over[transition.target] = transition

    def due(self, at: float, is_muted: Callable[[AlertStatus], bool]) -> list[News]:
        """What is to be told now; it counts as told. What ``is_muted`` and was not told before is withdrawn."""
        return [news for incident in list(self._open.values()) if (news := self._tell(incident, at, is_muted))]

    def key_of(self, alert: str, target: str) -> str | None:
        """Key of the incident in which this alert was told as firing, until it is told as over."""
        incident = self._of.get((alert, target))
        return incident.key if incident and target in incident.told else None

    def endings(self, target: str) -> Iterator[Transition]:
        """What is over on a target, was told as firing, and waits to be told as over."""
        for incident in self._open.values():
            if target in incident.over:
                yield incident.over[target]

    def restore(self, status: AlertStatus, key: str, at: float) -> None:
        """Take up what another process told as firing in an incident of this key, or as over and had not told yet."""
        incident = self._reopen(key, status, at)
        incident.told.add(status.target)
        incident.told_at = at
        self._of[_where(status)] = incident
        if isinstance(status, Transition):
            incident.over[status.target] = status
        else:
            incident.firing[status.target] = status

    def _reopen(self, key: str, status: AlertStatus, at: float) -> _Incident:
        """The incident of this key, whatever the model was called when it began: PagerDuty knows it by its key."""
        for incident in self._open.values():
            if incident.key == key:
                return incident
        group = (status.alert.name, status.model)
        # Where another incident has the group, nothing joins this one any more.
        place = group if group not in self._open else (status.alert.name, key)
        return self._open.setdefault(place, _Incident(key, opened_at=at))

    def _join(self, status: AlertStatus) -> _Incident:
        group = (status.alert.name, status.model)
        if group not in self._open:
            self._open[group] = _Incident(self._new_key(status), opened_at=status.at)
        incident = self._of[_where(status)] = self._open[group]
        return incident

    def _new_key(self, status: AlertStatus) -> str:
        """Named after the first server, so that no other sidecar's incident has it."""
        key = alert_key(status.alert.name, status.target)
        # A server whose model became known meanwhile may have begun an incident that others keep open.
        taken = any(incident.key == key for incident in self._open.values())
        return alert_key(status.alert.name, f"{status.target} {status.model}") if taken else key

    def _tell(self, incident: _Incident, at: float, is_muted: Callable[[AlertStatus], bool]) -> News | None:
        if not incident.has_news or at < incident.due_at(self._wait, self._interval):
            return None
        for status in [status for target, status in incident.firing.items() if target not in incident.told]:
            if is_muted(status):
                self._remove(incident, status)
        if not incident.has_news:
            return None
        news = News(incident.key, tuple(incident.firing.values()), tuple(incident.over.values()))
        for transition in news.over:
            self._remove(incident, transition)
        incident.told = set(incident.firing)
        incident.told_at = at
        return news

    def _remove(self, incident: _Incident, status: AlertStatus) -> None:
        self._of.pop(_where(status), None)
        for known in (incident.firing, incident.over):
            known.pop(status.target, None)
        if not incident.firing and not incident.over:
            self._open = {group: other for group, other in self._open.items() if other is not incident}


@dataclass
class _Incident:
    key: str
    opened_at: float
    told_at: float | None = None
    firing: dict[str, AlertStatus] = field(default_factory=dict)
    """By target, those to be told included."""
    told: set[str] = field(default_factory=set)
    """Targets told as firing."""
    over: dict[str, Transition] = field(default_factory=dict)
    """By target, what is to be told as over."""

    @property
    def has_news(self) -> bool:
        return bool(self.over) or not self.firing.keys() <= self.told

    def due_at(self, wait: float, interval: float) -> float:
        if not self.firing:
            return 0.0
        return self.opened_at + wait if self.told_at is None else self.told_at + interval


def alert_key(alert: str, target: str) -> str:
    """What identifies an alert on a target; a name that is too long or not printable goes in as its digest."""
    key = f"specwatch/{alert}/{target}"
    if len(key) <= KEY_LENGTH and key.isprintable():
        return key
    digest = hashlib.sha256(target.encode(errors="backslashreplace")).hexdigest()
    return f"specwatch/{alert}/sha256:{digest}"


def _where(status: AlertStatus) -> tuple[str, str]:
    return status.alert.name, status.target
