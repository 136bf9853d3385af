"""The scrape loop: every target on its own schedule, one failing target never holding up another."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import Metric

from specwatch.alerting.evaluation import NO_DATA_SECONDS
from specwatch.collect.connections import connections
from specwatch.collect.credentials import Credentials
from specwatch.collect.discovery import Discovery
from specwatch.collect.http import Asker, Cause
from specwatch.collect.scraper import Limits, ScrapeError, scrape, server_release
from specwatch.collect.targets import Target
from specwatch.sidecar.launched import Launched
from specwatch.sidecar.pauses import Pauses
from specwatch.sidecar.pools import Pools
from specwatch.sidecar.views import TargetView
from specwatch.sidecar.watch import TargetWatch, WatchSettings
from specwatch.signals.findings import Finding
from specwatch.signals.fleet_diagnosis import diagnose_fleet
from specwatch.signals.plain_speed import PlainSpeed
from specwatch.vllm.calibration import CalibratedCell
from specwatch.vllm.metrics import Dialect, Snapshot

if TYPE_CHECKING:
    from specwatch.sidecar.losslessness import LosslessnessChecks

log = logging.getLogger(__name__)

Findings = Callable[[], Sequence[Finding]]
"""Diagnoses a target among its replicas, when it is asked to."""

Listener = Callable[[TargetWatch, float, Findings], Awaitable[None]]
"""Told after every scrape, successful or not, with the time."""

Forgotten = Callable[[str], Awaitable[None]]
"""Told the name of a target that is gone for good."""


class FleetReader(Protocol):
    """Brings what was scraped of all targets."""

    @property
    def last_success(self) -> float | None:
        """When it was last answered, unix seconds."""

    @property
    def error(self) -> str | None:
        """Why it was not, or not wholly."""

    def run(self, service: Service) -> Awaitable[None]:
        """Bring it again and again; returns only by cancellation."""

    def families(self, now: float) -> Iterable[Metric]:
        """Metrics about that."""


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


GONE_SECONDS = NO_DATA_SECONDS
"""How long what is known of a target outlives its place among the targets. Gone is one more way to say nothing, so its
alerts end when those of a silent one do; and a server that is started anew loads its model in less."""

DIAGNOSED_SECONDS = 1.0
"""How long a diagnosis of the fleet serves those who fire: where half of it goes down, that is hundreds at once, and
each diagnosis looks at all of it."""

RELEASE_SECONDS = 300.0
"""Time between questions for the release to a server that did not tell it: what stands before vLLM may never do so."""

SWEEP_SECONDS = 10.0
"""Time between looks for targets that are gone for good: nothing waits for it."""


@dataclass
class ScrapeTally:
    """Counts about the scrapes of one target."""

    scrapes: int = 0
    failures: int = 0
    release_asked: float = -math.inf
    """When the server was last asked for its release, on the monotonic clock."""
    seconds: float = 0.0
    """Time spent waiting for and reading pages."""
    last_seconds: float = 0.0
    """The last scrape's part of it."""
    ended_at: float | None = None
    """When the last scrape ended, Unix seconds, whatever came of it."""
    lag: float = 0.0
    """Seconds by which the last scrape began later than planned."""
    missed: int = 0
    """Turns left out, because the scrape before them took that long or this process was held up."""


@dataclass(frozen=True)
class _Gone:
    """A target that is no target now, and may be one again."""

    watch: TargetWatch
    tally: ScrapeTally
    since: float


class Service:
    """Watches targets that come and go, until it is cancelled.

    What is known of one stays when another leaves, when its labels or its address change, and when it returns within
    GONE_SECONDS, which ``scale`` multiplies.
    """

    def __init__(
        self,
        targets: Iterable[Target] = (),
        watch: WatchSettings | None = None,
        settings: ServiceSettings | None = None,
        listener: Listener | None = None,
        clock: Clock | None = None,
        launched: Launched | None = None,
        losslessness: LosslessnessChecks | None = None,
        cells: Iterable[CalibratedCell] = (),
        forgotten: Forgotten | None = None,
        scale: float = 1.0,
        discovery: Discovery | None = None,
        reader: FleetReader | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.settings = settings or ServiceSettings()
        self.watches: dict[str, TargetWatch] = {}
        """Of the present targets, by name, in the order given."""
        self.tallies: dict[str, ScrapeTally] = {}
        self.causes: Counter[Cause] = Counter()
        """Scrapes that gave no page, by why, of all targets that there ever were."""
        self._watch = watch or WatchSettings()
        self._gone: dict[str, _Gone] = {}
        self._gone_seconds = GONE_SECONDS * scale
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._session: Asker | None = None
        """While it runs."""
        self.pools = Pools(self._watch.drift)
        self._plain: dict[str, PlainSpeed] = {}
        """By model, how fast its servers without speculation are."""
        self.cells = tuple(cells)
        self.launched = launched
        self.losslessness = losslessness
        self._listener = listener
        self._forgotten = forgotten
        self._diagnosed: Mapping[str, Sequence[Finding]] = {}
        self._diagnosed_at = -math.inf
        self.discovery = discovery
        self.reader = reader
        """What tells of all targets in place of scraping them."""
        self.follow(targets)

    @property
    def headline(self) -> float:
        """Seconds of the window that findings and alerts speak of."""
        return self._watch.headline

    def follow(self, targets: Iterable[Target]) -> None:
        """Watch these from now on, and no others. Names are unique."""
        wanted = {target.name: target for target in targets}
        for name in self.watches.keys() - wanted.keys():
            self._leave(name)
        for target in wanted.values():
            self._take_in(target)
        self.watches = {name: self.watches[name] for name in wanted}

    def _leave(self, name: str) -> None:
        self._end(name)
        self._gone[name] = _Gone(self.watches.pop(name), self.tallies.pop(name), self.clock.now())
        log.info("%r: no longer a target", name, extra={"target": name})

    def _take_in(self, target: Target) -> None:
        name = target.name
        if name in self.watches and self.watches[name].target.url == target.url:
            self.watches[name].target = target
            return
        self._end(name)
        if back := self._gone.pop(name, None):
            self.watches[name], self.tallies[name] = back.watch, back.tally
        watch = self.watches.setdefault(name, TargetWatch(target, self._watch))
        watch.target = target
        self.tallies.setdefault(name, ScrapeTally())
        if self._session is not None:
            self._begin(self._session, watch)

    def views(self) -> list[TargetView]:
        """What is known of every target now, in the order given."""
        now = self.clock.now()
        findings = self._findings(now)
        return [watch.view(now, findings.get(name)) for name, watch in self.watches.items()]

    async def gather_views(self) -> list[TargetView]:
        """The same as ``views``, in small steps between which scrapes go on."""
        now = self.clock.now()
        watches = dict(self.watches)
        evidences = {name: watch.evidence(now) async for name, watch in _in_steps(watches)}
        known = {name: evidence for name, evidence in evidences.items() if evidence}
        findings = diagnose_fleet(known)
        return [watch.view(now, findings.get(name)) async for name, watch in _in_steps(watches)]

    def _findings(self, now: float) -> Mapping[str, Sequence[Finding]]:
        """Of every target that has a readable page, with its replicas in view."""
        return diagnose_fleet({name: known for name, watch in self.watches.items() if (known := watch.evidence(now))})

    def _findings_of(self, watch: TargetWatch, now: float) -> Sequence[Finding]:
        if not 0 <= now - self._diagnosed_at < DIAGNOSED_SECONDS:
            self._diagnosed, self._diagnosed_at = self._findings(now), now
        return self._diagnosed.get(watch.target.name) or watch.findings(now)

    async def run(self) -> None:
        """Scrape every target again and again; returns only by cancellation."""
        async with connections() as session:
            self._session = session
            try:
                for watch in self.watches.values():
                    self._begin(session, watch)
                finding = [self.discovery.run(self.follow)] if self.discovery else []
                reading = [self.reader.run(self)] if self.reader else []
                await asyncio.gather(self._keep_sweeping(), *finding, *reading)
            finally:
                self._session = None
                tasks = list(self._tasks.values())
                self._tasks.clear()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_sweeping(self) -> None:
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, self._gone_seconds))
            await self.sweep()

    async def sweep(self) -> None:
        """Forget models that nobody serves and targets that are gone for good; tell whoever else remembers these."""
        served = {watch.model_name for watch in self.watches.values()}
        self._plain = {model: speed for model, speed in self._plain.items() if model in served}
        now = self.clock.now()
        for name in [name for name, gone in self._gone.items() if now - gone.since >= self._gone_seconds]:
            del self._gone[name]
            self.pools.leave(name)
            if self.losslessness:
                self.losslessness.forget(name)
            if self._forgotten:
                try:
                    await self._forgotten(name)
                except Exception:
                    log.exception("%r: a defect of specwatch in forgetting it", name, extra={"target": name})

    def _begin(self, session: Asker, watch: TargetWatch) -> None:
        if self.reader:
            return
        self._tasks[watch.target.name] = asyncio.create_task(self._keep_looking(session, watch))

    def _end(self, name: str) -> None:
        if task := self._tasks.pop(name, None):
            task.cancel()

    async def _keep_looking(self, session: Asker, watch: TargetWatch) -> None:
        checking = self.losslessness
        checks = [checking.keep_checking(watch.target, lambda: self._credentials(watch))] if checking else []
        await asyncio.gather(self._keep_scraping(session, watch), *checks)

    def _credentials(self, watch: TargetWatch) -> Credentials | None:
        """How a target is asked, whatever for."""
        return self.discovery.credentials(watch.target) if self.discovery else None

    async def _keep_scraping(self, session: Asker, watch: TargetWatch) -> None:
        name = watch.target.name
        tally = self.tallies[name]
        due = time.monotonic() + self.settings.interval * _phase(name) * (len(self.watches) > 1)
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tally.lag = max(0.0, time.monotonic() - due)
            await self.scrape_once(session, watch)
            # A scrape that took longer than the interval goes on at the nearest turn instead of catching up. Turns stay
            # where they were, so that targets that all hung at once do not all come at once ever after.
            interval = self.settings.interval
            turns = max(1, round((time.monotonic() - due) / interval))
            tally.missed += turns - 1
            due += turns * interval

    async def scrape_once(self, session: Asker, watch: TargetWatch) -> None:
        """Scrape one target, record what came of it, tell the listener."""
        tally = self.tallies[watch.target.name]
        began = time.monotonic()
        before = watch.error
        try:
            await self._observe(session, watch, tally)
        except ScrapeError as problem:
            watch.failed(str(problem))
            self.causes[problem.cause] += 1
        except Exception as problem:
            self.tripped(watch, before, problem)
        tally.failures += watch.error is not None
        tally.scrapes += 1
        tally.ended_at = self.clock.now()
        tally.last_seconds = time.monotonic() - began
        tally.seconds += tally.last_seconds
        report_change(watch, before)
        # A page is judged at its own moment, for which its values are known already.
        await self.tell(watch, tally.ended_at if watch.error or watch.last_scrape is None else watch.last_scrape)

    def tripped(self, watch: TargetWatch, before: str | None, problem: Exception) -> None:
        """Take in that a page trips over a defect of ours, to be called where that is handled; ``before`` was known.

        It must not end the watch over this target, nor over any other.
        """
        self.causes[Cause.DEFECT] += 1
        watch.failed(f"specwatch itself failed at this page ({type(problem).__name__})")
        if watch.error != before:
            name = watch.target.name
            log.exception("%r: a defect of specwatch", name, extra={"target": name})

    async def _observe(self, session: Asker, watch: TargetWatch, tally: ScrapeTally) -> None:
        credentials = self._credentials(watch)
        snapshot = await scrape(session, watch.target, self.settings.limits, credentials, watch.reader)
        # The page is of this moment, however long the question about the release takes.
        at = self.clock.now()
        silent = watch.release is None and time.monotonic() - tally.release_asked >= RELEASE_SECONDS
        if watch.error is not None or silent:
            tally.release_asked = time.monotonic()
            watch.release = await server_release(session, watch.target, credentials=credentials)
        self.take(watch, at, snapshot)

    def take(self, watch: TargetWatch, at: float, snapshot: Snapshot) -> None:
        """Take in a page of a target, of that moment."""
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
        watch.twins = self._plain.get(model or "")

    async def tell(self, watch: TargetWatch, now: float) -> None:
        """Let the listener know what has been taken in of a target."""
        if self._listener is None:
            return
        try:
            await self._listener(watch, now, lambda: self._findings_of(watch, now))
        except Exception:
            name = watch.target.name
            log.exception("%r: a defect of specwatch in judging it", name, extra={"target": name})


async def _in_steps(watches: Mapping[str, TargetWatch]) -> AsyncIterator[tuple[str, TargetWatch]]:
    """All of them, with pauses for whoever is due."""
    pauses = Pauses()
    for named in watches.items():
        yield named
        await pauses.after_a_step()


def _phase(name: str) -> float:
    """Where in the interval a target's scrapes fall, 0 to 1: the same after every start, spread over targets."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big") / 2**32


def report_change(watch: TargetWatch, before: str | None) -> None:
    """Log a failure when it begins or changes, and its end: not at every scrape."""
    if watch.error == before:
        return
    name = watch.target.name
    if watch.error is None:
        log.info("%r: answers again", name, extra={"target": name})
    else:
        log.warning("%r at %s: %s", name, watch.target.url, watch.error, extra={"target": name})
