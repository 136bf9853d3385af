"""The scrape loop: every target on its own schedule, one failing target never holding up another."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from specwatch.collect.scraper import Limits, ScrapeError, http_session, scrape, server_release
from specwatch.collect.targets import Target
from specwatch.sidecar.launched import Launched
from specwatch.sidecar.losslessness import LosslessnessChecks
from specwatch.sidecar.pools import Pools
from specwatch.sidecar.views import TargetView
from specwatch.sidecar.watch import TargetWatch, WatchSettings
from specwatch.signals.drift import DriftSettings
from specwatch.signals.findings import Finding
from specwatch.signals.fleet_diagnosis import diagnose_fleet
from specwatch.signals.plain_speed import PlainSpeed
from specwatch.vllm.calibration import CalibratedCell
from specwatch.vllm.metrics import Dialect, Snapshot

log = logging.getLogger(__name__)

Findings = Callable[[], Sequence[Finding]]
"""Diagnoses a target among its replicas, when it is asked to."""

Listener = Callable[[TargetWatch, float, Findings], Awaitable[None]]
"""Told after every scrape, successful or not, with the time."""


class Clock:
    """Unix time that never steps: it starts at the wall clock and then runs with the monotonic one."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._offset + time.monotonic()


@dataclass(frozen=True)
class ServiceSettings:
    """How often and how patiently targets are scraped."""

    interval: float = 5.0
    limits: Limits = field(default_factory=Limits)


@dataclass
class ScrapeTally:
    """Counts about the service itself."""

    scrapes: int = 0
    failures: int = 0
    seconds: float = 0.0
    """Time spent waiting for and reading pages."""


class Service:
    """Watches a fixed set of targets until it is cancelled."""

    def __init__(
        self,
        targets: Sequence[Target],
        watch: Mapping[str, WatchSettings] | None = None,
        settings: ServiceSettings | None = None,
        listener: Listener | None = None,
        clock: Clock | None = None,
        launched: Launched | None = None,
        losslessness: LosslessnessChecks | None = None,
        cells: Iterable[CalibratedCell] = (),
    ) -> None:
        settings_by_name = watch or {}
        self.clock = clock or Clock()
        self.settings = settings or ServiceSettings()
        self.watches = {t.name: TargetWatch(t, settings_by_name.get(t.name)) for t in targets}
        self.tallies = {target.name: ScrapeTally() for target in targets}
        drift = next((watch.settings.drift for watch in self.watches.values()), DriftSettings())
        self.pools = Pools(drift)
        self._plain: dict[str, PlainSpeed] = {}
        """By model, how fast its servers without speculation are."""
        self.cells = tuple(cells)
        self.launched = launched
        self.losslessness = losslessness
        self._listener = listener

    def views(self) -> list[TargetView]:
        """What is known of every target now, in the order given."""
        now = self.clock.now()
        findings = self._findings(now)
        return [watch.view(now, findings.get(name)) for name, watch in self.watches.items()]

    def _findings(self, now: float) -> Mapping[str, Sequence[Finding]]:
        """Of every target that has a readable page, with its replicas in view."""
        return diagnose_fleet({name: known for name, watch in self.watches.items() if (known := watch.evidence(now))})

    async def run(self) -> None:
        """Scrape every target again and again; returns only by cancellation."""
        async with http_session() as session:
            checks = [self.losslessness.run()] if self.losslessness else []
            await asyncio.gather(*(self._keep_scraping(session, watch) for watch in self.watches.values()), *checks)

    async def _keep_scraping(self, session: aiohttp.ClientSession, watch: TargetWatch) -> None:
        interval = self.settings.interval
        due = time.monotonic() + interval * _phase(watch.target.name) * (len(self.watches) > 1)
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self.scrape_once(session, watch)
            # A scrape that took longer than the interval skips the turns it missed instead of catching up.
            due = max(due + interval, time.monotonic())

    async def scrape_once(self, session: aiohttp.ClientSession, watch: TargetWatch) -> None:
        """Scrape one target, record what came of it, tell the listener."""
        tally = self.tallies[watch.target.name]
        began = time.monotonic()
        before = watch.error
        try:
            await self._observe(session, watch)
        except ScrapeError as problem:
            watch.failed(str(problem))
        except Exception as problem:
            # A page that trips over a defect of ours must not end the watch over this target, nor over any other.
            watch.failed(f"specwatch itself failed at this page ({type(problem).__name__})")
            if watch.error != before:
                log.exception("%r: a defect of specwatch", watch.target.name)
        tally.failures += watch.error is not None
        tally.scrapes += 1
        tally.seconds += time.monotonic() - began
        _report_change(watch, before)
        await self._tell_listener(watch)

    async def _observe(self, session: aiohttp.ClientSession, watch: TargetWatch) -> None:
        snapshot = await scrape(session, watch.target, self.settings.limits)
        # The page is of this moment, however long the question about the release takes.
        at = self.clock.now()
        if watch.error is not None or watch.release is None:
            watch.release = await server_release(session, watch.target)
        watch.distorted = self.losslessness.distorted(watch.target.name) if self.losslessness else None
        step = watch.observe(at, snapshot)
        self.pools.take(watch.target.name, watch.model_name or "", at, step, watch.regime)
        self._compare_with_twins(watch, snapshot)

    def _compare_with_twins(self, watch: TargetWatch, snapshot: Snapshot) -> None:
        """Remember how fast a server without speculation is, and let those that serve its model know."""
        model = watch.model_name
        if snapshot.dialect is Dialect.OFF and model:
            for step in watch.steps:
                self._plain.setdefault(model, PlainSpeed()).observe(step)
            served = {other.model_name for other in self.watches.values()}
            self._plain = {name: speed for name, speed in self._plain.items() if name in served}
        watch.twins = self._plain.get(model or "")

    async def _tell_listener(self, watch: TargetWatch) -> None:
        if self._listener is None:
            return
        try:
            now = self.clock.now()
            await self._listener(watch, now, lambda: self._findings(now).get(watch.target.name) or watch.findings(now))
        except Exception:
            log.exception("%r: a defect of specwatch in judging it", watch.target.name)


def _phase(name: str) -> float:
    """Where in the interval a target's scrapes fall, 0 to 1: the same after every start, spread over targets."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big") / 2**32


def _report_change(watch: TargetWatch, before: str | None) -> None:
    """Log a failure when it begins or changes, and its end: not at every scrape."""
    if watch.error == before:
        return
    if watch.error is None:
        log.info("%r: answers again", watch.target.name)
    else:
        log.warning("%r at %s: %s", watch.target.name, watch.target.url, watch.error)
