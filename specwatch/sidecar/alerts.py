"""The sidecar's own alerting: judges every scrape by the alert catalogue and delivers what changes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from specwatch.alerting import catalogue
from specwatch.alerting.alertmanager import Address, Alertmanagers
from specwatch.alerting.catalogue import RATE_WINDOW
from specwatch.alerting.delivery import DeadLetter, Delivery, Message
from specwatch.alerting.diagnosis_text import in_words
from specwatch.alerting.evaluation import NO_DATA_SECONDS, AlertEvaluator, AlertStatus, Ending, State, Transition
from specwatch.alerting.incidents import Incidents, News
from specwatch.alerting.inhibition import inhibited_by
from specwatch.alerting.notification import Notification, Places
from specwatch.alerting.receivers import Receiver
from specwatch.alerting.silences import Silence, Silences
from specwatch.alerting.sparkline import Course
from specwatch.sidecar.alert_keeping import Keeper
from specwatch.sidecar.relayed import PostedGroup, notifications
from specwatch.sidecar.service import Clock, Findings
from specwatch.sidecar.store.alerts import Changes, Kept, KeptAlert
from specwatch.sidecar.store.database import Database
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
    dead_letters: list[DeadLetter]
    """Messages that were given up, the latest first."""


@dataclass(frozen=True)
class AlertsView:
    """Alerts, firing ones first and those resolved lately last, and how their messages fare."""

    alerts: list[AlertEntry]
    deliveries: list[DeliveryEntry]


class AlertBook:
    """What fires where. Without receivers it judges all the same, for the page and the API.

    With a database, a restart repeats no message, loses none, and starts no alert's time over.
    """

    def __init__(
        self,
        receivers: Sequence[Receiver] = (),
        places: Places | None = None,
        time_scale: float = 1.0,
        clock: Clock | None = None,
        database: Database | None = None,
        alertmanagers: Sequence[Address] = (),
        relay_only: bool = False,
    ) -> None:
        """``relay_only`` judges for the page and the API, and sends nothing but what Alertmanager posts."""
        self.now = (clock or Clock()).now
        self._scale = time_scale
        self._relay_only = relay_only
        self.has_receivers = bool(receivers)
        self._evaluator = AlertEvaluator(time_scale=time_scale)
        self._silences = Silences()
        self._incidents = Incidents(time_scale)
        self._findings: dict[str, Findings] = {}
        """By target, what to ask for its diagnosis."""
        self._courses: dict[str, Callable[[float], Course]] = {}
        """By target, its last hours up to a moment."""
        self._keeper = Keeper(database, self.now, self._everything)
        self._delivery = Delivery(
            receivers, settled=self._keeper.settled, is_kept=bool(database and database.status.path)
        )
        self._places = places or Places()
        self._alertmanagers = Alertmanagers(alertmanagers, self._places, self.now)
        self._resolved: deque[Transition] = deque(maxlen=REMEMBERED)
        self._kept: dict[str, list[KeptAlert]] = {}
        """By target, its alerts as they were noted last."""
        self._restored: set[str] = set()
        """Targets of which an earlier process knew, and that nobody has judged yet."""
        self._restored_at = 0.0

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """What an earlier process kept is taken up, and messages go out, while this is open."""
        async with self._delivery:
            await self._restore(await self._keeper.load())
            keeping = asyncio.create_task(self._keeper.run(self._delivery))
            telling = asyncio.create_task(self._alertmanagers.run())
            try:
                yield
            finally:
                self._keeper.end()
                telling.cancel()
                await asyncio.gather(keeping, telling, return_exceptions=True)
                await self._alertmanagers.finish()

    async def judge(self, watch: TargetWatch, at: float, findings: Findings) -> None:
        """Take in what a target's last scrape says, and send what changes."""
        name = watch.target.name
        self._findings[name] = findings
        self._courses[name] = watch.last_hours
        self._restored.discard(name)
        model = watch.model_name or ""
        self._take(name, self._evaluator.evaluate(at, target=name, model=model, values=watch.judged_values(at)), at)
        if self._restored and at - self._restored_at >= NO_DATA_SECONDS * self._scale:
            for gone in list(self._restored):
                await self.forget(gone)

    async def relay(self, group: PostedGroup) -> None:
        """Send what Alertmanager posted; on the disk when this returns, where there is one."""
        now = self.now()
        found = notifications(group, self._places, self._why, now)
        messages = [message for one in found for message in self._delivery.address(self._with_course(one), now)]
        await self._keeper.accept(messages, self._delivery)

    async def forget(self, target: str) -> None:
        """Take in that a target is gone for good: what fires there is over."""
        self._findings.pop(target, None)
        self._courses.pop(target, None)
        self._restored.discard(target)
        self._take(target, self._evaluator.forget(target), self.now())

    def _take(self, target: str, changes: Sequence[Transition], at: float) -> None:
        for transition in changes:
            if transition.state is State.RESOLVED:
                self._resolved.appendleft(transition)
                self._incidents.over(transition)
                self._alertmanagers.over(transition)
        for status in self._evaluator.active(target):
            if status.state is State.FIRING and not self._relay_only:
                is_muted = self._is_muted(status, at)
                (self._incidents.withdraw if is_muted else self._incidents.fires)(status)
                if not is_muted or self._alertmanagers.knows(status):
                    self._alertmanagers.fires(status)
        news = self._incidents.due(at, lambda status: self._is_muted(status, at))
        told = {status.target for one in news for status in (*one.firing, *one.over)}
        messages = [message for one in news for message in self._delivery.address(self._told_as(one), at)]
        self._note({target, *told}, messages)

    def _note(self, targets: Iterable[str], messages: list[Message]) -> None:
        """Have written down what changed on these targets, and sent what is to be told of it."""
        changes = Changes(messages=messages)
        for target in targets:
            kept = list(self._to_keep(target))
            if kept != self._kept.get(target, []):
                changes.states[target] = self._kept[target] = kept
            if not kept:
                self._kept.pop(target, None)
        if changes.states or changes.messages:
            self._keeper.note(changes)

    def _to_keep(self, target: str) -> Iterator[KeptAlert]:
        for status in (*self._evaluator.active(target), *self._incidents.endings(target)):
            yield KeptAlert(
                alert=status.alert.name,
                model=status.model,
                state=status.state.value,
                since=status.since,
                value=status.value,
                at=status.at,
                incident=self._incidents.key_of(status.alert.name, target),
                ending=status.ending.value if isinstance(status, Transition) and status.ending else None,
            )

    def _everything(self) -> Kept:
        return Kept(self._kept, self.silences(), self._delivery.waiting(), self._delivery.threads())

    async def _restore(self, kept: Kept) -> None:
        """Take up what an earlier process knew and had not sent."""
        now = self._restored_at = self.now()
        self._silences = Silences(kept.silences)
        for dead in kept.dead_letters:
            self._delivery.bury(dead)
        # Nobody knows whether what was pending held on through a pause as long as the window of its values.
        is_fresh = now - kept.seen_at <= RATE_WINDOW * self._scale
        self._kept = {target: list(alerts) for target, alerts in kept.states.items()}
        self._restored = set(self._kept)
        alerts = [(target, alert) for target, alerts in self._kept.items() for alert in alerts]
        for target, alert in sorted(alerts, key=lambda entry: entry[1].since):
            status = _status(target, alert, now)
            if status is None or (status.state is State.PENDING and not is_fresh):
                continue
            if not isinstance(status, Transition):
                self._evaluator.restore(status)
            if alert.incident:
                self._incidents.restore(status, alert.incident, now)
        self._delivery.resume(kept.threads)
        await self._delivery.send(kept.messages)

    def _told_as(self, news: News) -> Notification:
        """The message, with the diagnosis of the server that has fired for the longest."""
        why = self._why(news.firing[0].target) if news.firing else ""
        return self._with_course(Notification.of(news, self._places, why))

    def _with_course(self, told: Notification) -> Notification:
        """The message with the last hours of the server that it speaks of, where that is watched here."""
        course = self._courses.get(told.first.target)
        return replace(told, course=course(self.now())) if course else told

    def _why(self, target: str) -> str:
        findings = self._findings.get(target)
        return in_words(findings()) if findings else ""

    def _is_muted(self, status: AlertStatus, at: float) -> bool:
        """Whether nothing is to be sent of what fires."""
        return bool(self._silence_of(status, at) or self._inhibitor_of(status))

    def silences(self) -> list[Silence]:
        """Those in force, the ones that end first in front."""
        return self._silences.in_force(self.now())

    async def silence(self, silence: Silence) -> None:
        """Send nothing of matching alerts until it ends; TooManySilences where there is no room."""
        self._silences.add(silence, self.now())
        await self._keeper.add_silence(silence)

    async def end_silence(self, silence_id: str) -> bool:
        """End a silence by hand; False where there is none of that id."""
        was_in_force = self._silences.end(silence_id, self.now())
        await self._keeper.remove_silence(silence_id)
        return was_in_force

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
                    dead_letters=list(status.dead_letters),
                )
                for status in (*self._delivery.statuses(), *self._alertmanagers.statuses())
            ],
        )


def _entry(status: AlertStatus, places: Places, silence: str | None = None, inhibitor: str | None = None) -> AlertEntry:
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


def _status(target: str, kept: KeptAlert, now: float) -> AlertStatus | None:
    """How an alert stood before the restart; None for one that this release does not have."""
    try:
        alert = catalogue.alert(kept.alert)
    except KeyError:
        return None
    before: dict[str, Any] = {"alert": alert, "target": target, "model": kept.model, "since": kept.since}
    before |= {"state": State(kept.state), "value": kept.value}
    if kept.ending:
        return Transition(**before, at=kept.at, value_at=kept.at, ending=Ending(kept.ending))
    return AlertStatus(**before, at=now, value_at=now)
