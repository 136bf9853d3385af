"""Alerts for Alertmanager's API v2: all of several, because those of a cluster do not tell each other.

Alertmanager gathers, silences and repeats by itself, so it is given states, not messages: what fires is sent again and
again, each time with an end some minutes ahead, and what is over is sent with its end for a quarter of an hour. So
nothing needs to be kept: an Alertmanager that was away hears how things stand when it is back, and where the sidecar
is gone for good its alerts end. Prometheus does the same: https://prometheus.io/docs/alerting/latest/alerts_api/.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from specwatch.alerting.delivery import Health, ReceiverStatus
from specwatch.alerting.evaluation import AlertStatus, Transition
from specwatch.alerting.notification import Places, ServerNews
from specwatch.alerting.posting import session_for, why_no_answer
from specwatch.alerting.receivers import bearer
from specwatch.alerting.secrets import Secret, check_url
from specwatch.alerting.webhook import own_labels, timestamp, to_text
from specwatch.config import SidecarConfig, is_loopback
from specwatch.errors import InputError
from specwatch.waiting import within

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

PATH = "/api/v2/alerts"

RESEND_SECONDS = 60.0
"""Prometheus' ``--rules.alert.resend-delay``."""

VALID_SECONDS = 4 * RESEND_SECONDS
"""How far ahead the end of what fires is set, as Prometheus does: three of four posts may fail."""

OVER_SECONDS = 900.0
"""How long what is over is sent with its end, as Prometheus does."""

BATCH = 100
"""Alerts in one request, each of two or three kilobytes."""

TIMEOUT = 10.0


@dataclass(frozen=True)
class Address:
    """One Alertmanager."""

    name: str
    url: Secret
    headers: dict[str, Secret]

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return is_loopback(urlsplit(self.url.reveal()).hostname or "")


def addresses(config: SidecarConfig) -> tuple[Address, ...]:
    """Those that the configuration names; InputError for one that cannot be used."""
    headers = bearer(config.alertmanager_token_file, "--alertmanager-token-file")
    found = []
    for url in config.alertmanager:
        check_url(url, "--alertmanager", "an address such as http://alertmanager:9093")
        parts = urlsplit(url)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InputError("--alertmanager: an address without user, password, ? and #; a token comes from a file")
        found.append(Address(f"alertmanager {parts.netloc}{parts.path.rstrip('/')}", Secret(_api(url)), headers))
    if len({address.name for address in found}) < len(found):
        raise InputError("--alertmanager: the same address twice")
    return tuple(found)


def _api(url: str) -> str:
    return url.rstrip("/") + PATH


@dataclass
class _Told:
    """An alert that is or was sent."""

    status: AlertStatus
    over_at: float | None = None


class Alertmanagers:
    """Keeps every Alertmanager told while ``run`` runs. ``now`` is Unix seconds."""

    def __init__(self, addresses: Sequence[Address], places: Places, now: Callable[[], float]) -> None:
        self._peers = [_Peer(address) for address in addresses]
        self._places = places
        self._now = now
        self._told: dict[tuple[str, str], _Told] = {}

    def knows(self, status: AlertStatus) -> bool:
        """Whether it was sent that this alert fires."""
        told = self._told.get(_key(status))
        return told is not None and told.over_at is None

    def fires(self, status: AlertStatus) -> None:
        """Take in that an alert fires and is to be told."""
        if not self._peers:
            return
        is_news = not self.knows(status)
        self._told[_key(status)] = _Told(status)
        if is_news:
            self._wake()

    def over(self, transition: Transition) -> None:
        """Take in that an alert is over."""
        if self.knows(transition):
            self._told[_key(transition)] = _Told(transition, transition.at)
            self._wake()

    async def run(self) -> None:
        """Send to all of them, each at its own pace; returns only by cancellation."""
        await asyncio.gather(*(peer.run(self.bodies) for peer in self._peers))

    async def finish(self) -> None:
        """Send once more what is not sent."""
        await asyncio.gather(*(peer.finish(self.bodies) for peer in self._peers))

    def statuses(self) -> list[ReceiverStatus]:
        """How each does."""
        return [peer.status() for peer in self._peers]

    def bodies(self) -> list[dict[str, Any]]:
        """What is to be sent now."""
        now = self._now()
        self._told = {
            key: told for key, told in self._told.items() if told.over_at is None or now - told.over_at < OVER_SECONDS
        }
        return [self._body(told, now) for told in self._told.values()]

    def _body(self, told: _Told, now: float) -> dict[str, Any]:
        status = told.status
        server = ServerNews.of(status)
        runbook = self._places.runbook(status.alert.runbook)
        return {
            "labels": own_labels(status.alert.name, status.alert.severity, status.model, status.target),
            "annotations": {
                "summary": to_text(server.summary),
                "description": to_text(server.description),
                "value": server.value,
                "condition": status.condition_text,
                **({"runbook_url": runbook} if runbook else {}),
            },
            "startsAt": timestamp(status.since),
            "endsAt": timestamp(now + VALID_SECONDS if told.over_at is None else told.over_at),
            **({"generatorURL": self._places.page} if self._places.page else {}),
        }

    def _wake(self) -> None:
        for peer in self._peers:
            peer.news.set()


class _Peer:
    """One Alertmanager, and how it does."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.news = asyncio.Event()
        self._failures_in_a_row = 0
        self._sent = self._failed = 0
        self._last_success: float | None = None
        self._last_problem: str | None = None

    async def run(self, bodies: Callable[[], list[dict[str, Any]]]) -> None:
        async with self._session() as session:
            while True:
                self.news.clear()
                await self._send(session, bodies())
                pause = min(2.0**self._failures_in_a_row, RESEND_SECONDS) if self._failures_in_a_row else RESEND_SECONDS
                try:
                    await within(pause, self._cause())
                except asyncio.TimeoutError:
                    continue

    async def finish(self, bodies: Callable[[], list[dict[str, Any]]]) -> None:
        if self.news.is_set():
            async with self._session() as session:
                await self._send(session, bodies())

    def status(self) -> ReceiverStatus:
        return ReceiverStatus(
            receiver=self._address.name,
            health=Health.RETRYING if self._failures_in_a_row else Health.WORKING,
            waiting=int(self.news.is_set() or self._failures_in_a_row > 0),
            sent=self._sent,
            failed=self._failed,
            dropped=0,
            last_success=self._last_success,
            last_problem=self._last_problem,
            dead_letters=(),
        )

    async def _cause(self) -> None:
        """Wait for news; where it is away, news is no cause to ask again at once."""
        if self._failures_in_a_row:
            await asyncio.Event().wait()
        await self.news.wait()

    def _session(self) -> aiohttp.ClientSession:
        return session_for(self._address.is_local, self._address.headers)

    async def _send(self, session: aiohttp.ClientSession, alerts: list[dict[str, Any]]) -> None:
        for batch in _batches(alerts):
            problem = await self._post(session, batch)
            if problem is not None:
                self._note_failure(problem)
                return
            self._sent += 1
            self._last_success = time.time()
        if self._failures_in_a_row and alerts:
            log.info("%s: takes alerts again", self._address.name)
        self._failures_in_a_row = 0
        self._last_problem = None

    async def _post(self, session: aiohttp.ClientSession, batch: list[dict[str, Any]]) -> str | None:
        import aiohttp

        try:
            async with session.post(
                self._address.url.reveal(),
                json=batch,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=TIMEOUT),
            ) as response:
                return None if 200 <= response.status < 300 else f"HTTP {response.status}"
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as problem:
            return why_no_answer(problem, TIMEOUT)

    def _note_failure(self, problem: str) -> None:
        if not self._failures_in_a_row:
            log.warning("%s: not told yet, trying again: %s", self._address.name, problem)
        self._failed += 1
        self._failures_in_a_row += 1
        self._last_problem = problem


def _batches(alerts: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for begin in range(0, len(alerts), BATCH):
        yield alerts[begin : begin + BATCH]


def _key(status: AlertStatus) -> tuple[str, str]:
    return status.alert.name, status.target
