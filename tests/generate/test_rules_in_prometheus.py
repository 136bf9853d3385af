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

from specwatch.collect.targets import Target
from specwatch.generate.promql import V0_SIGNALS, Level, duration
from specwatch.generate.recording_rules import CORE, LONG, recording, recording_rules
from specwatch.generate.rules import groups
from specwatch.generate.rules_config import RulesConfig
from specwatch.lab.fleet import Fleet
from specwatch.lab.scenario import FOREIGN, HOME
from specwatch.lab.simulator import SimulatedServer
from specwatch.lab.truth import Truth
from specwatch.sidecar.watch import TargetWatch, WatchSettings
from specwatch.signals.catalogue import Signal, evaluate, signals
from specwatch.signals.catalogue import signal as signal_named
from specwatch.signals.formula import Ratio
from specwatch.signals.window import Increments, Ledger
from specwatch.vllm.metrics import GAUGES, read_page
from tests.support.prometheus import Prometheus, prometheus

pytestmark = [pytest.mark.services, pytest.mark.timeout(400)]

V0_K = 5

CONFIG = RulesConfig(time_scale=0.02, v0_num_speculative_tokens=V0_K)
"""Windows of six seconds, recorded every 0.6 s; the long ones have 36 s."""

SCRAPE_SECONDS = 1.0
APPENDED_WITHIN = 0.05
"""Seconds after the end of a scrape within which its samples are there."""
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
    increments: Mapping[str, Mapping[str, Increments]]
    """What the raw samples within the window say, by server and engine."""
    watches: Mapping[str, TargetWatch]
    """The sidecar's, by server, which were given the same samples."""
    at: float


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
    for entry in await ask(server, '{__name__=~"(engine|instance|model|fleet):.+"}', at):
        values[entry["metric"]["__name__"]][without_name(entry["metric"])] = float(entry["value"][1])
    window = duration(CONFIG.scaled(CONFIG.rate_window))
    raw = await ask(server, f'{{__name__=~"vllm:.+", __name__!~".+_bucket|.+_created", job="vllm"}}[{window}]', at)
    pages = pages_of(raw)
    increments = {instance: ledgers_over(by_moment, at) for instance, by_moment in pages.items()}
    return Recorded(values, increments, {name: watch_of(by_moment) for name, by_moment in pages.items()}, at)


async def undisturbed_evaluation(server: Prometheus) -> float:
    """When the rules were evaluated while no scrape was under way.

    A sample bears the time at which its scrape began, and comes to be when that ends. An evaluation between the two
    misses a sample that a later question about the same moment finds. And a rate is extended to its window's ends only
    where no scrape is missing. Evaluations every 0.6 s meet scrapes every second at five different moments, so that
    four servers always leave one free.
    """
    window = CONFIG.scaled(CONFIG.rate_window)
    pages = f"count_over_time(up[{duration(window)}]) * min_over_time(up[{duration(window)}])"
    for _ in range(120):
        lately = await ask(server, f"{ACCEPTANCE_OF_MODEL}[4s]")
        for at, _ in reversed([value for series in lately for value in series["values"]]):
            lasting = await ask(server, "timestamp(up) + scrape_duration_seconds", at)
            undisturbed = all(at - float(entry["value"][1]) > APPENDED_WITHIN for entry in lasting)
            regular = all(
                float(entry["value"][1]) >= window // SCRAPE_SECONDS for entry in await ask(server, pages, at)
            )
            if undisturbed and regular:
                return float(at)
        await asyncio.sleep(SCRAPE_SECONDS)
    raise AssertionError("every evaluation fell into a scrape, or scrapes were missed")


def pages_of(raw: list[dict[str, Any]]) -> dict[str, dict[float, list[str]]]:
    """Raw samples put back into the pages that they came from: lines by server and moment."""
    pages: dict[str, dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
    for entry in raw:
        labels = {key: value for key, value in entry["metric"].items() if key not in ("__name__", "job", "instance")}
        written = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        for moment, value in entry["values"]:
            line = f"{entry['metric']['__name__']}{{{written}}} {value}\n"
            pages[entry["metric"]["instance"]][moment].append(line)
    return pages


def watch_of(pages: Mapping[float, list[str]]) -> TargetWatch:
    """The sidecar's view of a server whose pages are these."""
    seconds = CONFIG.scaled(CONFIG.rate_window)
    watch = TargetWatch(Target("server", "http://server/metrics"), WatchSettings(windows=(seconds,), headline=seconds))
    for moment, lines in sorted(pages.items()):
        watch.observe(moment, read_page("".join(lines)))
    return watch


def ledgers_over(pages: Mapping[float, list[str]], at: float) -> dict[str, Increments]:
    seconds = CONFIG.scaled(CONFIG.rate_window)
    ledgers: dict[str, Ledger] = {}
    for moment, lines in sorted(pages.items()):
        for engine, snapshot in read_page("".join(lines)).engines.items():
            ledgers.setdefault(engine, Ledger(keep_seconds=3600)).observe(moment, snapshot)
    found = {engine: ledger.over(seconds, now=at) for engine, ledger in ledgers.items()}
    return {engine: to_the_windows_ends(told, seconds) for engine, told in found.items() if told is not None}


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
    places: dict[Labels, list[Increments]] = defaultdict(list)
    for instance, engines in told.increments.items():
        for engine, part in engines.items():
            labels = {"job": CONFIG.vllm_job, "instance": instance, "model_name": MODEL, "engine": engine}
            places[without_name({name: labels[name] for name in level.labels})].append(part)
    found: dict[Labels, float] = {}
    for place, parts in places.items():
        found |= python_values(signal, parts, dict(place))
    return found


def but(server: str, values: Mapping[Labels, float]) -> dict[Labels, float]:
    """The values of all other servers."""
    return {labels: value for labels, value in values.items() if dict(labels).get("instance") != server}


def tolerance(signal: Signal) -> float:
    """Unix times in floats hold a window's length to about 1e-7; of a gauge, a mean counts one sample more."""
    of_gauge = isinstance(signal.formula, Ratio) and signal.formula.numerator.keys() & GAUGES.keys()
    return 0.2 if of_gauge else 1e-6


@dataclass(frozen=True)
class Mixed:
    """What was recorded of the mixed fleet, and its servers' addresses by name."""

    told: Recorded
    instances: Mapping[str, str]
    truth: Mapping[str, Truth]
    """What really happened while Prometheus looked, by server."""
    truth_since_start: Mapping[str, Truth]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    async def watch() -> Mixed:
        servers = mixed_servers()
        async with watched(tmp_path_factory.mktemp("mixed"), servers) as (server, fleet):
            addresses = (url.removeprefix("http://") for url in fleet.urls)
            instances = dict(zip((entry.name for entry in fleet.servers), addresses, strict=True))
            at_first = {entry.name: entry.truth() for entry in servers}
            await asyncio.sleep(CONFIG.scaled(CONFIG.rate_window) * LONG.factor)
            told = await recorded_now(server)
            ended = {entry.name: entry.truth() for entry in servers}
        return Mixed(told, instances, {name: truth - at_first[name] for name, truth in ended.items()}, ended)

    return asyncio.run(watch())


def test_the_samples_show_four_servers_one_of_them_with_two_engines(mixed: Mixed):
    assert {name: len(mixed.told.increments[address]) for name, address in mixed.instances.items()} == {
        "k5": 1,
        "k3": 2,
        "off": 1,
        "v0": 1,
    }


RECORDED = {rule["record"] for rule in recording_rules(CONFIG)}
"""Names of everything that is recorded."""

EACH_RECORDED = [
    pytest.param(signal, level, id=f"{signal.name} by {level.word}")
    for level in Level
    for signal in signals()
    if recording(CONFIG).signal(signal, level) in RECORDED
]


@pytest.mark.parametrize(("signal", "level"), EACH_RECORDED)
def test_what_prometheus_records_is_what_the_formulas_say(signal: Signal, level: Level, mixed: Mixed):
    values = mixed.told.values[recording(CONFIG).signal(signal, level)]
    said = expected(signal, level, mixed.told)
    # V0 names no engine, and its acceptance is one since its start.
    if level is Level.ENGINE or (level is Level.INSTANCE and signal.name in V0_SIGNALS):
        values, said = (but(mixed.instances["v0"], each) for each in (values, said))
    assert values == pytest.approx(said, rel=tolerance(signal), abs=1e-9)


@pytest.mark.parametrize(
    "name", [*CORE, "draft_coverage", "tokens_per_step", "tpot", "token_latency", "step_latency", "truncated_share"]
)
def test_what_prometheus_records_of_a_server_is_what_the_sidecar_says(name: str, mixed: Mixed):
    told = {}
    for instance, watch in mixed.told.watches.items():
        value = watch.view(mixed.told.at).headline.values[name]
        if value is not None:
            told[instance] = value
    values = but(mixed.instances["v0"], mixed.told.values[recording(CONFIG).signal(signal_named(name))])
    told.pop(mixed.instances["v0"], None)
    assert told
    assert {dict(labels)["instance"]: value for labels, value in values.items()} == pytest.approx(told, rel=1e-6)


@pytest.mark.parametrize("server", ["k5", "k3"])
def test_over_a_long_window_acceptance_is_what_really_happened(server: str, mixed: Mixed):
    names = recording(CONFIG, LONG)
    place = without_name({"job": CONFIG.vllm_job, "instance": mixed.instances[server], "model_name": MODEL})
    rate, length = (mixed.told.values[names.signal(signal_named(name))][place] for name in V0_SIGNALS)
    # The window and the truth begin and end within a scrape or two of each other.
    assert rate == pytest.approx(mixed.truth[server].acceptance_rate, abs=0.02)
    assert length == pytest.approx(mixed.truth[server].acceptance_length, rel=0.03)


def test_of_v0_acceptance_is_what_really_happened_since_its_start(mixed: Mixed):
    truth = mixed.truth_since_start["v0"]
    server = without_name({"job": CONFIG.vllm_job, "instance": mixed.instances["v0"], "model_name": MODEL})
    told = {name: mixed.told.values[recording(CONFIG).signal(signal_named(name))][server] for name in V0_SIGNALS}
    # Its gauge is at most five seconds old.
    assert told["acceptance_rate"] == pytest.approx(truth.acceptance_rate, abs=0.01)
    assert told["acceptance_length"] == pytest.approx(truth.acceptance_length, rel=0.02)


def test_the_cache_of_both_engines_is_recorded_under_one_name(mixed: Mixed):
    values = mixed.told.values[recording(CONFIG).cache_usage()]
    assert {dict(labels)["instance"] for labels in values} == set(mixed.instances.values())
    assert all(0 < value < 1 for value in values.values())


@pytest.mark.parametrize(
    ("name", "servers"),
    [
        ("acceptance_rate", {"k5", "k3", "v0"}),
        ("acceptance_length", {"k5", "k3", "v0"}),
        ("draft_coverage", {"k5", "k3"}),
        ("estimated_speedup", {"k5", "k3"}),
        ("position_acceptance", {"k5", "k3"}),
        ("tokens_per_step", {"k5", "k3"}),
        ("token_latency", {"k5", "k3"}),
        ("delivered_acceptance_rate", {"k5", "k3"}),
        ("truncated_share", {"k5", "k3"}),
        ("decoding_requests", {"k5", "k3", "off", "v0"}),
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
