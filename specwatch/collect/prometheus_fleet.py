"""From samples to the pages that were scraped: all samples of a target with one time are of one scrape.

Answers overlap, so that a sample which reaches the engine late is still met. Of every server its last moment is
remembered, and what is newer is taken in the order of time. Whoever is scraped twice is followed where one of the two
scrapes it, as long as that one speaks: counters by two clocks, mixed, would run backwards.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from specwatch.collect.discovery import LeftOut
from specwatch.collect.prometheus_query import UP
from specwatch.collect.prometheus_servers import Own, as_text, contested, parted, target_of, without
from specwatch.collect.targets import Target
from specwatch.scrape_config import PrometheusConfig

LOOKBACK = 300.0
"""Seconds that the first question reaches back, and later ones at most: Prometheus itself takes what is older for gone.
They fill the window that signals and alerts speak of."""

SLACK = 15.0
"""Seconds that a question reaches back beyond what is known: clocks may differ by as much."""

AHEAD = 300.0
"""Seconds by which a sample may lie in the future of our clock. One that lies further would end its server's time."""

LATE_SCRAPES = 3
"""Scrapes that may be missing before a server's figures are no longer fresh: one is missed now and then."""

USUAL_GAP = 60.0
"""Seconds between scrapes, before two of them are known: Prometheus' default."""

LONGEST_GAP = LOOKBACK / LATE_SCRAPES
"""Seconds: a longer one is a pause and not how often a server is scraped."""

FAILOVER = 30.0
"""Seconds of silence before a server is followed by what another Prometheus scrapes of it: Mimir's default."""

MOST_TEXTS = 100_000
"""Series by name and vLLM's own labels that are remembered as text: a thousand models' hundred."""

Key = frozenset[tuple[str, str]]
"""A target's labels."""


class _Scrape:
    """Samples with one time."""

    __slots__ = ("texts", "up", "values")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.values = array("d")
        self.up = math.nan

    @property
    def failed(self) -> bool:
        return self.up == 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was scraped: VictoriaMetrics shows the marks of a target that left, as NaN."""
        return math.isnan(self.up) and not any(map(math.isfinite, self.values))

    def page(self) -> str | None:
        """Lines in an order that stays, whatever the answer's is: such pages are read faster. None where it failed."""
        if self.failed:
            return None
        pairs = sorted(zip(self.texts, self.values, strict=True))
        return "".join([f"{UP} 1\n", *(f"{text} {value!r}\n" for text, value in pairs)])


@dataclass(frozen=True)
class Moment:
    """One scrape."""

    server: str
    """Name of what was scraped."""
    at: float
    """Unix seconds."""
    scrape: _Scrape

    @property
    def page(self) -> str | None:
        """What was read, in Prometheus' text format; None where the scrape failed.

        Put together when asked for: servers that another sidecar watches take no page, and nobody waits for all.
        """
        return self.scrape.page()


@dataclass(frozen=True)
class News:
    """What an answer brought."""

    told: list[Target | LeftOut]
    """All servers that there are, and what is none."""
    moments: list[Moment]
    """New ones of all servers, in the order of time."""
    late: Mapping[str, float]
    """As ``Fleet.late`` has it."""


class _Origin:
    """A set of target labels: what one Prometheus scrapes of one server."""

    def __init__(self, labels: Mapping[str, str], target: Target | LeftOut, server: _Server | None) -> None:
        self.labels = labels
        self.target = target
        self.server = server
        self.began, self.newest = math.inf, -math.inf
        """Times of the first sample that was seen, and of the newest."""
        self.scrapes: dict[float, _Scrape] = {}
        """By time, of the present answer, those that are new."""

    def add(self, name: str, text: str, samples: Sequence[tuple[float, float]], last: float, until: float) -> None:
        """Take in those of a series' samples that are later than ``last``."""
        self.began, self.newest = min(self.began, samples[0][0]), max(self.newest, samples[-1][0])
        for at, value in samples:
            if not last < at <= until:
                continue
            scrape = self.scrapes.get(at) or self.scrapes.setdefault(at, _Scrape())
            if name == UP:
                scrape.up = value
            else:
                scrape.texts.append(text)
                scrape.values.append(value)

    def times(self) -> list[float]:
        """Of new scrapes, in order."""
        return sorted(at for at, scrape in self.scrapes.items() if not scrape.is_empty)

    def overlaps(self, other: _Origin) -> bool:
        """Whether both were seen at the same time."""
        return self.began <= other.newest and other.began <= self.newest


@dataclass(eq=False)
class _Server:
    name: str
    moved: float
    """When something new was last known of it, by our clock."""
    last: float = -math.inf
    """Up to when it is known, by the engine's times."""
    gap: float = USUAL_GAP
    """Seconds between its last two scrapes."""
    followed: _Origin | None = None
    origins: list[_Origin] = field(default_factory=list)
    """Those of the present answer."""
    series: frozenset[str] = frozenset()
    """On its last page."""

    def is_late(self, now: float) -> bool:
        """Whether nothing new is known for longer than is usual."""
        return now - self.moved > LATE_SCRAPES * self.gap

    def choose(self) -> None:
        """Follow one of several that scrape it."""
        newest = {origin: times[-1] for origin in self.origins if (times := origin.times())}
        if not newest or self.followed in newest:
            return
        chosen = max(newest, key=lambda origin: (newest[origin], sorted(origin.labels.items())))
        if self.followed is None or newest[chosen] > self.last + FAILOVER:
            self.followed = chosen

    def take(self, now: float) -> Iterator[Moment]:
        """New moments, as far as they are known to be whole."""
        self.choose()
        scrapes = self.followed.scrapes if self.followed else {}
        times = self.followed.times() if self.followed else []
        for number, at in enumerate(times):
            scrape, later = scrapes[at], times[number + 1 :]
            lost = frozenset() if scrape.failed else self.series.difference(scrape.texts)
            if lost and not later:
                return  # Perhaps the others are on their way; the next answer has this scrape again.
            if lost and any(not lost.isdisjoint(scrapes[other].texts) for other in later):
                continue  # They never came, and the counters go on: a scrape the less.
            self.series = frozenset() if scrape.failed else frozenset(scrape.texts)
            self.gap = min(at - self.last, LONGEST_GAP) if self.last > -math.inf else USUAL_GAP
            self.last, self.moved = at, now
            yield Moment(self.name, at, scrape)


class Fleet:
    """All servers of an engine: an answer is begun, its series are added, and it is ended."""

    def __init__(self, config: PrometheusConfig, url: str) -> None:
        self.newest = -math.inf
        """Time of the newest scrape that was taken, unix seconds."""
        self._config = config
        self._url = url
        self._servers: dict[str, _Server] = {}
        self._origins: dict[Key, _Origin] = {}
        self._met: dict[Key, _Origin] = {}
        self._texts: dict[Own, str] = {}
        self._now = -math.inf

    def reach(self, now: float) -> float:
        """Seconds that a question has to reach back."""
        known = [server.last for server in self._servers.values() if not server.is_late(now)]
        return min(max(now - min(known, default=-math.inf), 0.0) + SLACK, LOOKBACK)

    def begin(self, now: float) -> None:
        """Another answer comes."""
        self._now, self._met = now, {}
        for origin in self._origins.values():
            origin.scrapes.clear()

    def add(self, labels: dict[str, str], samples: Sequence[tuple[float, float]]) -> None:
        """Take in a series, whose labels are used up, and its samples in the order of time."""
        own, targets = parted(labels)
        key = frozenset(targets.items())
        origin = self._met.get(key) or self._meet(key, targets)
        if origin.server:
            text = self._texts.get(own) or self._remember(own)
            origin.add(own[0] or "", text, samples, origin.server.last, self._now + AHEAD)

    def _meet(self, key: Key, labels: Mapping[str, str]) -> _Origin:
        origin = self._origins.get(key)
        if origin is None:
            target = target_of(labels, self._config, self._url)
            server = self._server(target.name) if isinstance(target, Target) else None
            origin = _Origin(labels, target, server)
        self._met[key] = origin
        return origin

    def _server(self, name: str) -> _Server:
        return self._servers.setdefault(name, _Server(name, moved=self._now))

    def _remember(self, own: Own) -> str:
        if len(self._texts) >= MOST_TEXTS:
            self._texts.clear()
        return self._texts.setdefault(own, as_text(own))

    def end(self, whole: bool) -> News:
        """What the answer brought. Unless it is ``whole``, nobody is gone because of what it lacks."""
        told: list[Target | LeftOut] = []
        for server in self._servers.values():
            server.origins = []
        for origin in self._met.values():
            if origin.server:
                origin.server.origins.append(origin)
            else:
                told.append(origin.target)
        found = [moment for server in self._servers.values() for moment in server.take(self._now)]
        moments = sorted(found, key=lambda moment: moment.at)
        self.newest = max([self.newest, *(moment.at for moment in moments)])
        if whole:
            self._forget()
        # Whoever is followed may be missing in one answer and in the next be what it was.
        followed = [server.followed for server in self._servers.values() if server.followed]
        kept = {frozenset(origin.labels.items()): origin for origin in followed}
        self._origins = {**kept, **{key: origin for key, origin in self._met.items() if self._knows(origin)}}
        for server in self._servers.values():
            told += _told(server, self._config)
        return News(told, moments, self.late(self._now))

    def late(self, now: float) -> dict[str, float]:
        """Servers that nothing new is known of for longer than is usual, with the time of the last, unix seconds."""
        return {server.name: server.last for server in self._servers.values() if server.is_late(now)}

    def _forget(self) -> None:
        """Let go of whoever nobody scrapes any more, as the others show."""
        oldest = self.newest - LOOKBACK
        self._servers = {name: server for name, server in self._servers.items() if server.last > oldest}

    def _knows(self, origin: _Origin) -> bool:
        return origin.server is None or self._servers.get(origin.server.name) is origin.server


def _told(server: _Server, config: PrometheusConfig) -> Iterator[Target | LeftOut]:
    """The server, and who has its name besides."""
    if server.followed is None:
        return
    yield server.followed.target
    mine = without(server.followed.labels, config.replica_labels)
    for other in server.origins:
        theirs = without(other.labels, config.replica_labels)
        if theirs != mine and other.overlaps(server.followed):
            yield contested(server.name, mine, theirs)
