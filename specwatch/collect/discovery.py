"""Which servers to watch now: targets named by hand and those found in files, told by servers, or known to DNS.

Every source is read again and again. One that fails keeps what it last said, and says so, because a server that is
still there must not go unwatched only since the list of servers is gone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from specwatch.collect import shards
from specwatch.collect.connections import connections
from specwatch.collect.credentials import Credentials
from specwatch.collect.dns_sd import DnsSource
from specwatch.collect.file_sd import FileSource
from specwatch.collect.groups import DiscoveryError, TargetGroup
from specwatch.collect.http import Asker
from specwatch.collect.http_sd import HttpSource
from specwatch.collect.labelled import NoTarget, labelled_target
from specwatch.collect.shards import Shard
from specwatch.collect.targets import Target, parse_all
from specwatch.config import SidecarConfig
from specwatch.errors import InputError
from specwatch.scrape_config import DnsSdConfig, FileSdConfig, HttpClient, HttpSdConfig, ScrapeConfig

log = logging.getLogger(__name__)

MOST_TARGETS = 10_000
"""Of one sidecar. Ten times the thousand that it is made for: past that, a list is more likely wrong than a fleet."""

Follow = Callable[[Sequence[Target]], None]
"""Told all targets whenever they change."""


class Drop(str, Enum):
    """Why an address that was found is no target here."""

    RELABEL = "relabel"
    SHARD = "shard"
    DUPLICATE = "duplicate"
    INVALID = "invalid"
    LIMIT = "limit"


UNASKED = (Drop.DUPLICATE, Drop.INVALID, Drop.LIMIT)
"""Those that no rule asked for: they are worth a word."""


@dataclass(frozen=True)
class LeftOut:
    """What was found and is no target."""

    drop: Drop
    why: str


class Reader(Protocol):
    """Reads the groups of one source."""

    def read(self, session: Asker) -> Awaitable[list[TargetGroup]]:
        """The groups now; DiscoveryError where they cannot be had."""


@dataclass
class Source:
    """One place where targets are found, and what it last said."""

    config: ScrapeConfig
    kind: str
    """Its key in the configuration."""
    identity: str
    """Two with the same one say the same."""
    groups: Sequence[TargetGroup] = ()
    reader: Reader | None = None
    """None: it never changes."""
    refresh: float = 0.0
    """Seconds from one reading to the next."""
    error: str | None = None
    last_success: float | None = None
    """Unix seconds."""
    told: Sequence[Target | LeftOut] = ()
    """What whoever else reads it made of it: no address to be labelled, and no reader."""

    @property
    def found(self) -> int:
        """Addresses that it last told."""
        return sum(len(group.targets) for group in self.groups) + len(self.told)


@dataclass(frozen=True)
class Wanted:
    """What the configuration says about targets."""

    targets: tuple[Target, ...] = ()
    scrape_configs: tuple[ScrapeConfig, ...] = ()
    shard: Shard = field(default_factory=Shard)
    most: int = MOST_TARGETS

    @classmethod
    def of(cls, config: SidecarConfig) -> Wanted:
        """InputError where no server could ever be found, or two things have one name."""
        found = config.scrape_configs or config.from_prometheus
        targets = () if found and not config.target else parse_all(config.target)
        jobs = Counter(part.job_name for part in config.scrape_configs)
        if twice := [job for job, count in jobs.items() if count > 1]:
            raise InputError(f"scrape_configs: two jobs are called {twice[0]!r}")
        return cls(targets, config.scrape_configs, shards.parse(config.shard))


class Discovery:
    """Keeps the targets up to date; InputError where the credentials of a job cannot be used."""

    def __init__(self, wanted: Wanted) -> None:
        self.sources: list[Source] = []
        self.dropped: Counter[Drop] = Counter()
        """Addresses found last that are no targets, by why."""
        self.invalid: str | None = None
        """One of those that no rule left out, and why."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._session: Asker | None = None
        self._follow: Follow = lambda _: None
        self._said: object = {}
        self._pushed: list[Source] = []
        self.configure(wanted)

    def configure(self, wanted: Wanted) -> None:
        """Take up another configuration; InputError, and all stays as it is, where it cannot be used."""
        credentials = {config.job_name: _usable(config, config.job_name) for config in wanted.scrape_configs}
        now = [source for config in wanted.scrape_configs for source in _sources(config)]
        known = {source.identity: source for source in self.sources}
        sources: dict[str, Source] = {}
        for source in now:
            # What has not changed goes on, by whatever rules its targets are now relabelled.
            kept = sources[source.identity] = known.get(source.identity, source)
            kept.config = source.config
        self.sources, self._wanted, self._credentials = [*self._pushed, *sources.values()], wanted, credentials
        for gone in self._tasks.keys() - sources.keys():
            self._tasks.pop(gone).cancel()
        self._start()

    def push(self, source: Source) -> None:
        """Take its targets as they are ``told``; whoever changes these says so to ``tell``."""
        self._pushed.append(source)
        self.sources.insert(0, source)

    def credentials(self, target: Target) -> Credentials | None:
        """How a target is asked; None: without any."""
        return self._credentials.get(target.job)

    async def run(self, follow: Follow) -> None:
        """Tell ``follow`` the targets now and whenever they change; returns only by cancellation."""
        async with connections() as session:
            self._session, self._follow = session, follow
            try:
                self._start()
                await asyncio.Event().wait()
            finally:
                self._session = None
                tasks = list(self._tasks.values())
                self._tasks.clear()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def targets(self) -> list[Target]:
        """All targets, those named by hand first; ``dropped`` counts what is none."""
        self.dropped, self.invalid = Counter(), None
        found: dict[str, Target] = {}
        for target in self._candidates():
            drop = target if isinstance(target, Drop) else self._unwanted(target, found)
            if isinstance(target, Target) and drop is None:
                found[target.name] = target
            elif drop:
                self.dropped[drop] += 1
        return list(found.values())

    def _unwanted(self, target: Target, found: Mapping[str, Target]) -> Drop | None:
        if not self._wanted.shard.has(target.name):
            return Drop.SHARD
        if target.name in found:
            return Drop.DUPLICATE
        return Drop.LIMIT if len(found) >= self._wanted.most else None

    def _candidates(self) -> Iterator[Target | Drop]:
        yield from self._wanted.targets
        for source in self.sources:
            yield from map(self._as_told, source.told)
            for group in source.groups:
                for address in group.targets:
                    yield self._candidate(address, group, source.config)

    def _as_told(self, told: Target | LeftOut) -> Target | Drop:
        if isinstance(told, Target):
            return told
        if told.drop in UNASKED:
            self.invalid = told.why
        return told.drop

    def _candidate(self, address: str, group: TargetGroup, config: ScrapeConfig) -> Target | Drop:
        try:
            return labelled_target(address, group, config) or Drop.RELABEL
        except NoTarget as problem:
            self.invalid = f"{address[:60]!r} of {group.found_in}: {problem}"
            return Drop.INVALID

    def _start(self) -> None:
        """Read what is not yet read, and tell what is known."""
        if self._session is None:
            return
        for source in self.sources:
            if source.reader and source.identity not in self._tasks:
                keep_reading = self._keep_reading(source, source.reader, self._session)
                self._tasks[source.identity] = asyncio.create_task(keep_reading)
        self.tell()

    async def _keep_reading(self, source: Source, reader: Reader, session: Asker) -> None:
        while True:
            before = source.groups
            await _read(source, reader, session)
            if source.groups != before:
                self.tell()
            await asyncio.sleep(source.refresh)

    def tell(self) -> None:
        """Let who follows know the targets as they are now."""
        self._follow(self.targets())
        left_out = {drop.value: self.dropped[drop] for drop in UNASKED if self.dropped[drop]}
        if left_out and left_out != self._said:
            example = f"; for instance {self.invalid}" if self.invalid else ""
            log.warning("found, and not watched: %s%s", left_out, example)
        self._said = left_out


async def _read(source: Source, reader: Reader, session: Asker) -> None:
    """Read once; what prevents it is kept, and logged when it begins, changes or ends."""
    before, job = source.error, source.config.job_name
    try:
        source.groups = await reader.read(session)
        source.error, source.last_success = None, time.time()
    except DiscoveryError as problem:
        source.groups = source.groups if problem.groups is None else problem.groups
        source.error = str(problem)
    except Exception as problem:
        source.error = f"a defect of specwatch ({type(problem).__name__})"
        if source.error != before:
            log.exception("job %r, %s: a defect of specwatch", job, source.kind)
    if source.error and source.error != before:
        log.warning("job %r, %s: %s; what it said before stands", job, source.kind, source.error)
    elif before and not source.error:
        log.info("job %r, %s: can be read again", job, source.kind)


def _usable(client: HttpClient, job: str) -> Credentials:
    credentials = Credentials(client)
    try:
        credentials.terms()
    except InputError as problem:
        raise InputError(f"scrape_configs, job {job!r}: {problem}") from None
    return credentials


def _sources(config: ScrapeConfig) -> Iterator[Source]:
    """Every source of a job; InputError where one cannot be asked from here."""
    job = config.job_name
    for number, static in enumerate(config.static_configs):
        group = TargetGroup(static.targets, static.labels, f"static_configs of {job}")
        yield Source(config, "static_configs", f"{job} {number} {static.model_dump_json()}", [group])
    for told in config.http_sd_configs:
        _usable(told, job)
    readers: list[tuple[str, FileSdConfig | HttpSdConfig | DnsSdConfig, Reader]] = [
        *(("file_sd_configs", part, FileSource(part)) for part in config.file_sd_configs),
        *(("http_sd_configs", part, HttpSource(part)) for part in config.http_sd_configs),
        *(("dns_sd_configs", part, DnsSource(part)) for part in config.dns_sd_configs),
    ]
    for kind, part, reader in readers:
        identity = f"{job} {kind} {part.model_dump_json()}"
        yield Source(config, kind, identity, reader=reader, refresh=part.refresh_interval)
