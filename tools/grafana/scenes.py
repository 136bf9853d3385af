"""What a dashboard is looked at with: a fleet of 5 or 200 servers, healthy or in each kind of incident."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specwatch.lab import incidents
from specwatch.lab.scenario import Domain, Phase
from specwatch.lab.simulator import SimulatedServer
from tools.grafana.twins import LONGEST_LAG, Original, Twin

STRETCH = 1 / incidents.SCALE
"""Story seconds in a simulated one, as in the incidents' scripts."""

SEED = 8
"""Any: the same scene is the same pictures."""

FEW, MANY = 5, 200

LIVED = 40
"""Bystanders that are simulated; further ones are their twins."""

MODELS = ("meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen3-32B")

HOMES = (
    Domain("chat", acceptance=0.9, prompt_tokens=90, output_tokens=120),
    Domain("code", acceptance=0.94, prompt_tokens=110, output_tokens=100),
    Domain("summaries", acceptance=0.85, prompt_tokens=120, output_tokens=80),
)
"""Traffic that drafts fit well, as far as they usually do: acceptance rates at K = 5 of about 0.75, 0.84 and 0.63."""


@dataclass(frozen=True)
class Scene:
    """Servers that live through a story of so many seconds, and the one that it is about."""

    name: str
    servers: tuple[SimulatedServer, ...]
    seconds: float
    subject: str


def healthy(count: int) -> Scene:
    """A fleet of two models in which nothing happens, but that a server restarts."""
    seconds = (incidents.NORMAL + incidents.AFTER) * STRETCH
    return Scene(_name("healthy", count), tuple(_bystanders(0, count)), seconds, "server-000")


def incident(story: incidents.Story, count: int) -> Scene:
    """The servers of an incident among healthy ones, ``count`` in all."""
    told = _told(story)
    servers = (*told.servers, *_bystanders(len(told.servers), count))
    return Scene(_name(told.kind, count), servers, told.seconds * STRETCH, told.subject)


def scenes() -> Mapping[str, tuple[incidents.Story | None, int]]:
    """By name, the story and the number of servers of every scene; None is the healthy one."""
    stories = {"healthy": None, **{_told(story).kind: story for story in incidents.ILL}}
    return {_name(kind, count): (story, count) for count in (FEW, MANY) for kind, story in stories.items()}


def scene(name: str) -> Scene:
    """The scene of that name."""
    story, count = scenes()[name]
    return incident(story, count) if story else healthy(count)


def _told(story: incidents.Story) -> incidents.Incident:
    return story(random.Random(f"{SEED}/{story.__name__}"))  # noqa: S311 (a simulation)


def _name(kind: str, count: int) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-")
    return f"{words}-{count}"


def _bystanders(first: int, count: int) -> Sequence[SimulatedServer]:
    """Healthy servers: most speculate, every tenth runs plain or idles, and one restarts in the middle."""
    lived = [_bystander(index) for index in range(first, min(count, first + LIVED))]
    # One after the other, twins of one server are ever further behind it.
    twins = [
        Twin(_called(index), lived[index % len(lived)], lag=index // len(lived) % (LONGEST_LAG + 1))
        for index in range(first + len(lived), count)
    ]
    return [*lived, *twins]


def _called(index: int) -> str:
    return f"server-{index:03d}"


def _bystander(index: int) -> Original:
    home = HOMES[index % len(HOMES)]
    running = 0 if index % 20 == 13 else 3 + index % 5
    restart = [Phase(incidents.NORMAL / 2, traffic=home, running=running), Phase(restart=True)]
    return Original(
        _called(index),
        model_name=MODELS[index % 3 == 2],
        k=None if index % 20 == 4 else (5, 3)[index % 2],
        traffic=home,
        running=running,
        engines=2 if index % 20 == 1 else 1,
        release="0.8.5.post2" if index % 50 == 27 else "0.32.0",
        script=restart if index == 3 else (),
        seed=SEED + index,
    )
