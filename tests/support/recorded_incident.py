"""A recorded incident: what some servers' pages counted over hours, and when nobody could read them.

The servers are simulated, so it is the same every time. It is there for whoever judges by pages, and as the series that
Prometheus' rule engine takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from specwatch.generate.rule_traffic import Series, named
from specwatch.lab.scenario import FOREIGN, HOME, Domain, Failure, Phase
from specwatch.lab.simulated_engine import StepCost
from specwatch.lab.simulator import SimulatedServer
from specwatch.vllm.metrics import GAUGES, POSITION_SERIES, SERIES, Snapshot

SCRAPE = 15
"""Seconds between scrapes: two an evaluation of the rules."""

MINUTE = 60.0
LENGTH = 180 * MINUTE

MODEL = "llama"

SLOW = StepCost(weights_seconds=0.5)
"""Two steps a second: a window holds thousands of drafts all the same, and hours are simulated in seconds."""

HOPELESS = Domain("hopeless", acceptance=0.1)
"""Acceptance of 2 %: below what a draft token costs, so that speculation loses."""

DEAD = Phase(failure=Failure.DOWN, running=0)
BACK = Phase(failure=Failure.NONE, running=4, restart=True)


@dataclass(frozen=True)
class Story:
    """What happens to one server, by the minute in which it begins."""

    server: str
    at_first: Domain
    happens: Mapping[float, Phase]
    distorts: tuple[float, float] = (0.0, 0.0)
    """The minutes from and up to which checks of losslessness find its text distorted."""
    blinks: tuple[float, ...] = ()
    """Minutes at which one scrape of it fails."""


def after(minutes: float, **what: object) -> dict[float, Phase]:
    """One thing that happens."""
    return {minutes: Phase(**what)}  # type: ignore[arg-type]


STORIES = (
    Story("steady", HOME, after(70, restart=True), blinks=(20, 40.25)),
    Story("falls", HOME, after(40, traffic=HOPELESS) | after(100, traffic=HOME)),
    Story("falls-briefly", HOME, after(60, traffic=HOPELESS) | after(70, traffic=HOME)),
    Story("restarts", FOREIGN, after(30, restart=True) | after(60, traffic=HOME, restart=True)),
    Story("dies", HOME, {30: DEAD, 55: BACK, 120: DEAD, 121: BACK}),
    Story("dies-while-low", FOREIGN, {20: DEAD, 28: BACK, 70: DEAD, 110: BACK}),
    Story("quiet", FOREIGN, after(30, running=0) | after(38, running=4) | after(80, running=0) | after(130, running=4)),
    Story("blinks", FOREIGN, after(90, traffic=HOME), blinks=(3, 7.25, 45.5, 93)),
    Story("rests", HOME, after(20, drafting=False) | after(80, drafting=True)),
    Story("distorts", HOME, {}, distorts=(30, 75)),
)
"""A fall of acceptance, a server dying, times without traffic, restarts, and what is over again."""


@dataclass(frozen=True)
class Scrape:
    """What one scrape of a server brought."""

    at: float
    """Seconds since the incident's beginning."""
    page: Snapshot | None
    """None where it failed."""
    distorted: bool


def scrapes(story: Story) -> Iterator[Scrape]:
    """A server's scrapes, the first at 0."""
    server = SimulatedServer(
        story.server, model_name=MODEL, traffic=story.at_first, running=4, cost=SLOW, seed=1, epoch=0.0
    )
    happens = dict(story.happens)
    for at in range(0, int(LENGTH) + 1, SCRAPE):
        server.advance(SCRAPE if at else 0)
        for minute in [minute for minute in happens if minute * MINUTE <= at]:
            server.apply(happens.pop(minute))
        is_away = server.failure is Failure.DOWN or at / MINUTE in story.blinks
        begins, ends = story.distorts
        yield Scrape(float(at), None if is_away else server.snapshot(), begins <= at / MINUTE < ends)


def series_of(server: str, seen: Sequence[Scrape], job: str) -> Iterator[Series]:
    """The scrapes as Prometheus keeps them, and its own word on each."""
    target = {"job": job, "instance": server}
    yield named("up", target, written([float(scrape.page is not None) for scrape in seen]))
    own = {**target, "model_name": MODEL, "engine": "0"}
    engines = [scrape.page.engines["0"] if scrape.page else None for scrape in seen]
    for counter, names in SERIES.items():
        yield named(names[0], own, written([engine and engine.counters[counter] for engine in engines]))
    for counter, name in GAUGES.items():
        yield named(name, own, written([engine and engine.gauges[counter] for engine in engines]))
    positions = max(len(engine.accepted_per_position) for engine in engines if engine)
    for position in range(positions):
        by_position = [engine and engine.accepted_per_position[position] for engine in engines]
        yield named(POSITION_SERIES, {**own, "position": str(position)}, written(by_position))


def written(values: Sequence[float | None]) -> str:
    """Values in promtool's notation; Prometheus marks the first scrape that no longer has a series."""
    words = []
    for before, value in zip([None, *values], values, strict=False):
        words.append(f"{value:.6f}" if value is not None else "_" if before is None else "stale")
    return " ".join(words)
