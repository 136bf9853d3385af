"""The demonstration's plot: traffic the draft was made for, then traffic it was not, then the first again.

Every scene ends when what it shows can be seen, and fails loudly when it cannot: the show is also a test.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from specwatch.errors import SpecwatchError
from specwatch.lab.sink import Received, Sink
from specwatch.lab.stage import Stage, Traffic

ALERT = "SpeculativeAcceptanceRateLow"
"""The alert that the show is about."""

LOOK_EVERY = 0.5
"""Seconds between two looks at the sidecar."""


@dataclass(frozen=True)
class Look:
    """What can be seen at one moment."""

    signals: list[dict[str, Any]]
    """The targets of ``/api/v1/signals``."""
    alerts: list[dict[str, Any]]
    """The alerts of ``/api/v1/alerts``."""
    messages: tuple[Received, ...]
    """What Slack and PagerDuty would have got in this scene, oldest first."""

    def headline(self, name: str) -> list[float]:
        """A signal over the headline window, of every server that has a value."""
        values = [target["windows"][target["headline_window"]]["values"][name] for target in self.signals]
        return [value for value in values if value is not None]

    def drift_scores(self) -> list[float]:
        """Drift scores of the servers that have learned their normal."""
        return [score for target in self.signals if (score := target["drift"]["score"]) is not None]

    def firing(self) -> list[dict[str, Any]]:
        """Alerts that fire."""
        return [alert for alert in self.alerts if alert["state"] == "firing"]


@dataclass(frozen=True)
class Scene:
    """One act: which traffic, what to look for, and how long it may take."""

    title: str
    explanation: str
    traffic: Callable[[Traffic], None]
    seen: Callable[[Look], bool]
    at_most: float
    """Seconds after which the show has failed."""


def _home_is_learned(look: Look) -> bool:
    rates = look.headline("acceptance_rate")
    return bool(rates) and len(look.drift_scores()) == len(look.signals) and min(rates) > 0.6


def _alarm_has_arrived(look: Look) -> bool:
    drifted = any(score >= 1 for score in look.drift_scores())
    return drifted and {"slack", "pagerduty"} <= _told(look, firing=True)


def _all_is_well_again(look: Look) -> bool:
    return not look.firing() and {"slack", "pagerduty"} <= _told(look, firing=False)


def _told(look: Look, firing: bool) -> set[str]:
    """Which services have the message that the acceptance alert fires, or is over."""
    return {message.service.value for message in look.messages if is_about(message, firing)}


def is_about(message: Received, firing: bool) -> bool:
    """Whether a message says that the acceptance alert fires, or is over."""
    payload = message.payload
    if "event_action" in payload:
        return ALERT in payload["dedup_key"] and (payload["event_action"] == "trigger") is firing
    return ALERT in str(payload) and ("Firing" if firing else "Resolved") in message.text.title


SCENES: tuple[Scene, ...] = (
    Scene(
        "Traffic the draft was made for",
        "JSON: the draft guesses most tokens right. specwatch learns what is normal here.",
        lambda traffic: traffic.home(),
        _home_is_learned,
        at_most=240.0,
    ),
    Scene(
        "Traffic the draft was not made for",
        "Technical prose in Spanish: guesses are rejected, and every rejected token was work for nothing.",
        lambda traffic: traffic.foreign(),
        _alarm_has_arrived,
        at_most=240.0,
    ),
    Scene(
        "The first traffic again",
        "Acceptance returns, the alerts resolve.",
        lambda traffic: traffic.home(),
        _all_is_well_again,
        at_most=240.0,
    ),
)

Watcher = Callable[[Scene, float, Look], None]
"""Hears, several times a second, which scene runs, for how many seconds, and what can be seen."""


@dataclass
class Show:
    """Plays scenes on a stage."""

    stage: Stage
    sink: Sink
    watcher: Watcher
    _session: aiohttp.ClientSession | None = field(default=None, repr=False)

    async def play(self, scenes: Sequence[Scene] = SCENES) -> None:
        """Play the scenes to their ends; SpecwatchError when one does not show what it should in time."""
        async with self._looking():
            for scene in scenes:
                await self._play(scene)

    async def _play(self, scene: Scene) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        scene.traffic(self.stage.traffic)
        since = time.time()
        while True:
            look = await self._look(since)
            elapsed = loop.time() - began
            if look is not None:
                self.watcher(scene, elapsed, look)
                if scene.seen(look):
                    return
            if elapsed > scene.at_most:
                blind = "" if look else f", and the sidecar at {self.stage.page} does not answer"
                raise SpecwatchError(
                    f"“{scene.title}” did not show what it should within {scene.at_most:g} s{blind}; "
                    f"the log is {self.stage.child.log}"
                )
            await asyncio.sleep(LOOK_EVERY)

    async def _look(self, since: float) -> Look | None:
        """What can be seen now; None when the sidecar gives no answer, which it may the next time."""
        if (reason := self.stage.child.died()) is not None:
            raise SpecwatchError(reason)
        try:
            signals, alerts = await asyncio.gather(self._get("signals"), self._get("alerts"))
        except (aiohttp.ClientError, asyncio.TimeoutError):
            return None
        messages = sorted((*self.sink.slack, *self.sink.pagerduty), key=lambda message: message.at)
        # Messages of an earlier scene are not what this one waits for.
        return Look(signals["targets"], alerts["alerts"], tuple(m for m in messages if m.at >= since))

    async def _get(self, what: str) -> Any:
        if self._session is None:
            raise RuntimeError("the show is not being played")
        async with self._session.get(f"{self.stage.page}/api/v1/{what}") as response:
            return await response.json()

    @contextlib.asynccontextmanager
    async def _looking(self) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10.0)) as session:
            self._session = session
            yield
