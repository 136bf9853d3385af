"""What a real Prometheus records of served pages is what the formulas in Python make of the very samples it took."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specwatch.generate.promql import Level, duration
from specwatch.generate.rules import groups, recording
from specwatch.generate.rules_config import RulesConfig
from specwatch.lab.fleet import Fleet
from specwatch.lab.scenario import FOREIGN, HOME
from specwatch.lab.simulator import SimulatedServer
from specwatch.signals.catalogue import Signal, evaluate, signals
from specwatch.signals.catalogue import signal as signal_named
from specwatch.signals.formula import Ratio
from specwatch.signals.window import Increments, Ledger
from specwatch.vllm.metrics import GAUGES, read_page
from tests.support.prometheus import Prometheus, prometheus

pytestmark = pytest.mark.services

CONFIG = RulesConfig(time_scale=0.02)
"""Windows of six seconds, recorded every 0.6 s."""

SCRAPE_SECONDS = 1.0
SCRAPE_LASTS = 0.19
"""Longest that a scrape is taken to last; a few milliseconds on an idle machine."""
SPEED = 20.0
"""Simulated seconds a second, so that a window holds a few hundred drafts of every server."""

MODEL = "lab"

ACCEPTANCE_OF_MODEL = recording(CONFIG).signal(signal_named("acceptance_rate"), Level.MODEL)

Labels = tuple[tuple[str, str], ...]
"""A series' labels, sorted, without its name."""


def mixed_servers() -> list[SimulatedServer]:
    """What must be pooled with care: two values of K, two engines of one server, no speculation, the V0 engine."""
    return [
        SimulatedServer("k5", model_name=MODEL, k=5, traffic=HOME, running=8, seed=1),
        SimulatedServer("k3", model_name=MODEL, k=3, engines=2, traffic=FOREIGN, running=12, seed=2),
        SimulatedServer("off", model_name=MODEL, k=None, running=8, seed=3),
        SimulatedServer("v0", model_name=MODEL, k=5, release="0.8.5.post2", traffic=FOREIGN, running=8, seed=4),
    ]


@dataclass(frozen=True)
class Recorded:
    """Everything Prometheus holds at the time of one evaluation of the rules."""

    values: Mapping[str, Mapping[Labels, float]]
    """Recorded series by name."""
    increments: Mapping[str, list[Increments]]
    """What the raw samples within the window say, by server, one entry an engine."""


async def ask(server: Prometheus, query: str, at: float | None = None) -> list[dict[str, Any]]:
    parameters = {"query": query, **({} if at is None else {"time": f"{at:.3f}"})}
    async with server.session.get(f"{server.url}/api/v1/query", params=parameters) as response:
        answer = await response.json()
    assert answer["status"] == "success", answer
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def without_name(metric: Mapping[str, str]) -> Labels:
    return tuple(sorted((key, value) for key, value in metric.items() if key != "__name__"))


async def recorded_now(server: Prometheus) -> Recorded:
    """A recent evaluation, and the samples that it looked at."""
    at = await undisturbed_evaluation(server)
    values: dict[str, dict[Labels, float]] = defaultdict(dict)
    for entry in await ask(server, '{__name__=~"(instance|model):.+"}', at):
        values[entry["metric"]["__name__"]][without_name(entry["metric"])] = float(entry["value"][1])
    window = duration(CONFIG.scaled(CONFIG.rate_window))
    raw = await ask(server, f'{{__name__=~"vllm:.+", __name__!~".+_bucket|.+_created", job="vllm"}}[{window}]', at)
    return Recorded(values, increments_of(raw, at))


async def undisturbed_evaluation(server: Prometheus) -> float:
    """When the rules were evaluated while no scrape was under way.

    A sample bears the time at which its scrape began, and comes to be when that ends. An evaluation between the two
    misses a sample that a later question about the same moment finds. Evaluations every 0.6 s meet scrapes every
    second at five different moments, so that four servers always leave one free.
    """
    for _ in range(10):
        (evaluations,) = await ask(server, f"{ACCEPTANCE_OF_MODEL}[4s]")
        for at, _ in reversed(evaluations["values"]):
            scrapes = await ask(server, "timestamp(up)", at)
            if all(at - float(entry["value"][1]) > SCRAPE_LASTS for entry in scrapes):
                return float(at)
        await asyncio.sleep(SCRAPE_SECONDS)
    raise AssertionError("every evaluation fell into a scrape")


def increments_of(raw: list[dict[str, Any]], at: float) -> dict[str, list[Increments]]:
    """Raw samples put back into the pages that they came from, and read as the sidecar reads them."""
    pages: dict[str, dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
    for entry in raw:
        labels = {key: value for key, value in entry["metric"].items() if key not in ("__name__", "job", "instance")}
        written = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        for moment, value in entry["values"]:
            line = f"{entry['metric']['__name__']}{{{written}}} {value}\n"
            pages[entry["metric"]["instance"]][moment].append(line)
    return {instance: ledgers_over(by_moment, at) for instance, by_moment in pages.items()}


def ledgers_over(pages: Mapping[float, list[str]], at: float) -> list[Increments]:
    seconds = CONFIG.scaled(CONFIG.rate_window)
    ledgers: dict[str, Ledger] = {}
    for moment, lines in sorted(pages.items()):
        for engine, snapshot in read_page("".join(lines)).engines.items():
            ledgers.setdefault(engine, Ledger(keep_seconds=3600)).observe(moment, snapshot)
    found = [ledger.over(seconds, now=at) for ledger in ledgers.values()]
    return [to_the_windows_ends(increments, seconds) for increments in found if increments is not None]


def to_the_windows_ends(increments: Increments, seconds: float) -> Increments:
    """Servers are scraped at different moments; Prometheus extends each one's increments to the window's ends."""
    factor = seconds / increments.seconds
    return Increments(
        seconds=seconds,
        counts={counter: count * factor for counter, count in increments.counts.items()},
        accepted_per_position=tuple(count * factor for count in increments.accepted_per_position),
    )


@asynccontextmanager
async def watched(folder: Path, servers: list[SimulatedServer]) -> AsyncIterator[tuple[Prometheus, Fleet]]:
    """Prometheus with the generated rules, scraping these servers; counters are well away from 0."""
    async with Fleet(servers, speed=SPEED) as fleet:
        fleet.advance(600)
        targets = [url.removeprefix("http://") for url in fleet.urls]
        config = {
            "global": {"scrape_interval": duration(SCRAPE_SECONDS), "scrape_timeout": duration(SCRAPE_SECONDS)},
            "scrape_configs": [{"job_name": CONFIG.vllm_job, "static_configs": [{"targets": targets}]}],
        }
        async with prometheus(folder, config, groups(CONFIG)) as server:
            # Until then the first samples lie inside the window, and Prometheus extends a rate less far before these.
            evaluations = CONFIG.rate_window / CONFIG.interval + 3
            await server.wait_for(f"count_over_time({ACCEPTANCE_OF_MODEL}[1m]) >= {evaluations}")
            yield server, fleet


def python_values(signal: Signal, pooled: list[Increments], place: Mapping[str, str]) -> dict[Labels, float]:
    """What Python says, under the labels that Prometheus gives it."""
    value = evaluate([signal], pooled)[signal.name]
    by_position = enumerate(value) if isinstance(value, tuple) else [(None, value)]
    return {
        without_name(place if position is None else {**place, "position": str(position)}): number
        for position, number in by_position
        if number is not None
    }


def expected(signal: Signal, level: Level, told: Recorded) -> dict[Labels, float]:
    base = {"job": CONFIG.vllm_job, "model_name": MODEL}
    if level is Level.MODEL:
        return python_values(signal, [part for parts in told.increments.values() for part in parts], base)
    found: dict[Labels, float] = {}
    for instance, parts in told.increments.items():
        found |= python_values(signal, parts, {**base, "instance": instance})
    return found


def tolerance(signal: Signal) -> float:
    """Unix times in floats hold a window's length to about 1e-7; of a gauge, a mean counts one sample more."""
    of_gauge = isinstance(signal.formula, Ratio) and signal.formula.numerator.keys() & GAUGES.keys()
    return 0.2 if of_gauge else 1e-6


@dataclass(frozen=True)
class Mixed:
    """What was recorded of the mixed fleet, and its servers' addresses by name."""

    told: Recorded
    instances: Mapping[str, str]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    async def watch() -> Mixed:
        async with watched(tmp_path_factory.mktemp("mixed"), mixed_servers()) as (server, fleet):
            addresses = (url.removeprefix("http://") for url in fleet.urls)
            names = (entry.name for entry in fleet.servers)
            return Mixed(await recorded_now(server), dict(zip(names, addresses, strict=True)))

    return asyncio.run(watch())


def test_the_samples_show_four_servers_one_of_them_with_two_engines(mixed: Mixed):
    assert {name: len(mixed.told.increments[address]) for name, address in mixed.instances.items()} == {
        "k5": 1,
        "k3": 2,
        "off": 1,
        "v0": 1,
    }


@pytest.mark.parametrize("level", Level, ids=lambda level: level.word)
@pytest.mark.parametrize("signal", signals(), ids=lambda signal: signal.name)
def test_what_prometheus_records_is_what_the_formulas_say(signal: Signal, level: Level, mixed: Mixed):
    values = mixed.told.values[recording(CONFIG).signal(signal, level)]
    assert values == pytest.approx(expected(signal, level, mixed.told), rel=tolerance(signal), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "servers"),
    [
        ("acceptance_rate", {"k5", "k3"}),
        ("draft_coverage", {"k5", "k3"}),
        ("estimated_speedup", {"k5", "k3"}),
        ("position_acceptance", {"k5", "k3"}),
        ("tokens_per_step", {"k5", "k3", "off", "v0"}),
        ("tpot", {"k5", "k3", "off", "v0"}),
        ("generation_throughput", {"k5", "k3", "off", "v0"}),
    ],
)
def test_servers_have_the_signals_that_their_engine_can_tell(name: str, servers: set[str], mixed: Mixed):
    values = mixed.told.values[recording(CONFIG).signal(signal_named(name))]
    assert {dict(labels)["instance"] for labels in values} == {mixed.instances[server] for server in servers}


async def test_a_server_without_traffic_has_no_acceptance_instead_of_zero(tmp_path: Path):
    idle = SimulatedServer("idle", model_name=MODEL, k=5, running=0, seed=5)
    busy = SimulatedServer("busy", model_name=MODEL, k=5, running=8, seed=6)
    async with watched(tmp_path, [idle, busy]) as (server, fleet):
        told = await recorded_now(server)
        idle_instance = fleet.urls[0].removeprefix("http://")
    acceptance = told.values[recording(CONFIG).signal(signal_named("acceptance_rate"))]
    assert [dict(labels)["instance"] for labels in acceptance] == [fleet.urls[1].removeprefix("http://")]
    rates = told.values[recording(CONFIG).signal(signal_named("draft_throughput"))]
    assert {dict(labels)["instance"]: value for labels, value in rates.items()}[idle_instance] == 0.0
