"""A test message through every receiver, once each, and what came back: firing, and at once over again.

Alertmanager gathers before it sends, and would send nothing of what is over already: there the test ends by itself, as
whatever is not sent again does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from specwatch.alerting.alertmanager import Address, Alertmanagers
from specwatch.alerting.catalogue import Alert, Comparison, Severity
from specwatch.alerting.evaluation import AlertStatus, Ending, State, Transition
from specwatch.alerting.incidents import News, alert_key
from specwatch.alerting.notification import Notification, Places
from specwatch.alerting.posting import post, session_for
from specwatch.alerting.receivers import Receiver

TIMEOUT = 10.0
"""Seconds for each answer, as in earnest."""

TEST = Alert(
    name="SpecwatchTest",
    signal="target_up",
    comparison=Comparison.EQUALS,
    threshold=1.0,
    for_seconds=0.0,
    severity=Severity.TICKET,
    summary="TEST: a message from specwatch, nothing is wrong",
    description="Somebody ran specwatch notify-test on {target} to see whether messages arrive. Nothing is to be done.",
)
"""Not of the catalogue: a ticket, so that it wakes nobody."""


@dataclass(frozen=True)
class Answer:
    """What one receiver made of it."""

    receiver: str
    problem: str | None
    """Why it was not taken, secrets left out; None: it was."""


async def send_to_all(
    receivers: Sequence[Receiver], addresses: Sequence[Address], places: Places, host: str, at: float
) -> list[Answer]:
    """Ask everybody at the same time; ``host`` is where the message says it is from, ``at`` Unix seconds."""
    status = AlertStatus(alert=TEST, target=host, model="", state=State.FIRING, at=at, since=at, value=1.0, value_at=at)
    asked = [_send(receiver, status, places) for receiver in receivers]
    return await asyncio.gather(*asked, *(_tell(address, status, places) for address in addresses))


async def _send(receiver: Receiver, status: AlertStatus, places: Places) -> Answer:
    began = Notification.of(News(alert_key(TEST.name, status.target), (status,), ()), places)
    over = Notification.of(News(began.key, (), (_over(status),)), places)
    # There is no runbook of a test.
    async with session_for(receiver.is_local, receiver.headers) as session:
        first = await post(session, receiver, _without_runbook(began), None, TIMEOUT)
        if not first.taken:
            return Answer(receiver.name, first.reason)
        last = await post(session, receiver, _without_runbook(over), first.thread, TIMEOUT)
    return Answer(receiver.name, None if last.taken else f"it began, and could not be ended: {last.reason}")


async def _tell(address: Address, status: AlertStatus, places: Places) -> Answer:
    told = Alertmanagers([address], Places(page=places.page), lambda: status.at)
    told.fires(status)
    await told.finish()
    (how,) = told.statuses()
    return Answer(address.name, how.last_problem)


def _without_runbook(notification: Notification) -> Notification:
    return replace(notification, links=tuple(link for link in notification.links if link.text != "Runbook"))


def _over(status: AlertStatus) -> Transition:
    fields = {**vars(status), "state": State.RESOLVED}
    return Transition(**fields, ending=Ending.CLEARED)
