"""The sidecar's own alerting: judges every scrape by the alert catalogue and delivers what changes."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from specwatch.alerting.delivery import Delivery
from specwatch.alerting.diagnosis_text import in_words
from specwatch.alerting.evaluation import AlertEvaluator, AlertStatus, State, Transition
from specwatch.alerting.incidents import Incidents, News
from specwatch.alerting.inhibition import inhibited_by
from specwatch.alerting.notification import Notification, Places
from specwatch.alerting.receivers import Receiver
from specwatch.alerting.silences import Silence, Silences
from specwatch.sidecar.service import Clock, Findings
from specwatch.sidecar.watch import TargetWatch

REMEMBERED = 50
"""Resolved alerts that are still shown."""


@dataclass(frozen=True)
class AlertEntry:
    """One alert on one target, as the API and the page show it. Times are Unix seconds."""

    name: str
    target: str
    model: str
    severity: str
    state: str
    since: float
    at: float
    value: float
    threshold: float
    value_text: str
    condition: str
    """When the alert holds, in words: ``below 60%``."""
    summary: str
    description: str
    runbook: str
    """Its address where runbooks are published, else the name of its file."""
    silenced_by: str | None
    """Id of the silence because of which nothing is sent while it is active."""
    inhibited_by: str | None
    """Name of an alert that fires and makes this one no news, so nothing is sent of it either."""


@dataclass(frozen=True)
class DeliveryEntry:
    """How one receiver does."""

    receiver: str
    health: str
    sent: int
    failed: int
    dropped: int
    waiting: int
    last_success: float | None
    last_problem: str | None
    """What the receiver said when it last took nothing, secrets left out."""


@dataclass(frozen=True)
class AlertsView:
    """Alerts, firing ones first and those resolved lately last, and how their messages fare."""

    alerts: list[AlertEntry]
    deliveries: list[DeliveryEntry]


class AlertBook:
    """What fires where. Without receivers it judges all the same, for the page and the API."""

    def __init__(
        self,
        receivers: Sequence[Receiver] = (),
        places: Places | None = None,
        time_scale: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        self.now = (clock or Clock()).now
        self._evaluator = AlertEvaluator(time_scale=time_scale)
        self._silences = Silences()
        self._incidents = Incidents(time_scale)
        self._findings: dict[str, Findings] = {}
        """By target, what to ask for its diagnosis."""
        self._delivery = Delivery(receivers)
        self._places = places or Places()
        self._resolved: deque[Transition] = deque(maxlen=REMEMBERED)

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """Messages go out while this is open."""
        async with self._delivery:
            yield

    async def judge(self, watch: TargetWatch, at: float, findings: Findings) -> None:
        """Take in what a target's last scrape says, and send what changes."""
        changes = self._evaluator.evaluate(
            at, target=watch.target.name, model=watch.model_name or "", values=watch.judged_values(at)
        )
        name = watch.target.name
        self._findings[name] = findings
        await self._take(name, changes, at)

    async def forget(self, target: str) -> None:
        """Take in that a target is gone for good: what fires there is over."""
        self._findings.pop(target, None)
        await self._take(target, self._evaluator.forget(target), self.now())

    async def _take(self, target: str, changes: Sequence[Transition], at: float) -> None:
        for transition in changes:
            if transition.state is State.RESOLVED:
                self._resolved.appendleft(transition)
                self._incidents.over(transition)
        for status in self._evaluator.active(target):
            if status.state is State.FIRING:
                mute = self._incidents.withdraw if self._is_muted(status, at) else self._incidents.fires
                mute(status)
        for news in self._incidents.due(at, lambda status: self._is_muted(status, at)):
            await self._delivery.send(Notification.of(news, self._places, self._why(news)))

    def _why(self, news: News) -> str:
        """The diagnosis of the server that has fired for the longest."""
        findings = self._findings.get(news.firing[0].target) if news.firing else None
        return in_words(findings()) if findings else ""

    def _is_muted(self, status: AlertStatus, at: float) -> bool:
        """Whether nothing is to be sent of what fires."""
        return bool(self._silence_of(status, at) or self._inhibitor_of(status))

    def silences(self) -> list[Silence]:
        """Those in force, the ones that end first in front."""
        return self._silences.in_force(self.now())

    def silence(self, silence: Silence) -> None:
        """Send nothing of matching alerts until it ends; TooManySilences where there is no room."""
        self._silences.add(silence, self.now())

    def end_silence(self, silence_id: str) -> bool:
        """End a silence by hand; False where there is none of that id."""
        return self._silences.end(silence_id, self.now())

    def _inhibitor_of(self, status: AlertStatus) -> str | None:
        return inhibited_by(status.alert.name, status.target, status.model, self._evaluator.fires)

    def _silence_of(self, status: AlertStatus, at: float) -> str | None:
        silence = self._silences.of(status.alert.name, status.target, status.model, at)
        return silence.id if silence else None

    def view(self) -> AlertsView:
        """Everything there is to show."""
        now = self.now()
        active = [
            _entry(status, self._places, self._silence_of(status, now), self._inhibitor_of(status))
            for status in self._evaluator.active()
        ]
        return AlertsView(
            alerts=[*active, *(_entry(status, self._places) for status in self._resolved)],
            deliveries=[
                DeliveryEntry(
                    receiver=status.receiver,
                    health=status.health.name.lower(),
                    sent=status.sent,
                    failed=status.failed,
                    dropped=status.dropped,
                    waiting=status.waiting,
                    last_success=status.last_success,
                    last_problem=status.last_problem,
                )
                for status in self._delivery.statuses()
            ],
        )


def _entry(
    status: AlertStatus, places: Places, silence: str | None = None, inhibitor: str | None = None
) -> AlertEntry:
    alert = status.alert
    return AlertEntry(
        name=alert.name,
        target=status.target,
        model=status.model,
        severity=alert.severity.value,
        state=status.state.value,
        since=status.since,
        at=status.at,
        value=status.value,
        threshold=alert.threshold,
        value_text=status.value_text,
        condition=status.condition_text,
        summary=status.summary,
        description=status.description,
        runbook=places.runbook(alert.runbook) or alert.runbook,
        silenced_by=silence,
        inhibited_by=inhibitor,
    )
