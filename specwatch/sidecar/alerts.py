"""The sidecar's own alerting: judges every scrape by the alert catalogue and delivers what changes."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from specwatch.alerting.delivery import Delivery
from specwatch.alerting.diagnosis_text import in_words
from specwatch.alerting.evaluation import AlertEvaluator, AlertStatus, State, Transition
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
        self._told: set[tuple[str, str]] = set()
        """Alerts, each with its target, that fire and whose message went out."""
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
        for transition in changes:
            if transition.state is State.RESOLVED:
                self._resolved.appendleft(transition)
                await self._tell_the_end(transition)
        for status in self._evaluator.active(watch.target.name):
            if status.state is State.FIRING:
                await self._tell(status, at, findings)

    async def _tell(self, status: AlertStatus, at: float, findings: Findings) -> None:
        """Send what fires, once, unless somebody wants no message of it."""
        key = (status.alert.name, status.target)
        if key in self._told or self._silence_of(status, at):
            return
        self._told.add(key)
        await self._delivery.send(Notification.of(status, self._places, in_words(findings())))

    async def _tell_the_end(self, transition: Transition) -> None:
        """Send that it is over to those who heard that it fires, silenced or not: else it stays open with them."""
        key = (transition.alert.name, transition.target)
        if key in self._told:
            self._told.remove(key)
            await self._delivery.send(Notification.of(transition, self._places))

    def silences(self) -> list[Silence]:
        """Those in force, the ones that end first in front."""
        return self._silences.in_force(self.now())

    def silence(self, silence: Silence) -> None:
        """Send nothing of matching alerts until it ends; TooManySilences where there is no room."""
        self._silences.add(silence, self.now())

    def end_silence(self, silence_id: str) -> bool:
        """End a silence by hand; False where there is none of that id."""
        return self._silences.end(silence_id, self.now())

    def _silence_of(self, status: AlertStatus, at: float) -> str | None:
        silence = self._silences.of(status.alert.name, status.target, status.model, at)
        return silence.id if silence else None

    def view(self) -> AlertsView:
        """Everything there is to show."""
        now = self.now()
        active = [_entry(status, self._places, self._silence_of(status, now)) for status in self._evaluator.active()]
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


def _entry(status: AlertStatus, places: Places, silenced_by: str | None = None) -> AlertEntry:
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
        silenced_by=silenced_by,
    )
