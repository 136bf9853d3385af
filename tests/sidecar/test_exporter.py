from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from specwatch import __version__
from specwatch.alerting.catalogue import STATES
from specwatch.collect.targets import Target
from specwatch.lab.scenario import FOREIGN, HOME, Failure
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.exporter import START_WINDOW, gather, render
from specwatch.sidecar.service import Service
from specwatch.sidecar.watch import WatchSettings
from specwatch.signals.catalogue import signals
from specwatch.signals.formula import PerPosition
from specwatch.vllm.metrics import read_page
from tests.support.pages import page_text
from tools.rehearsal import PlayedClock, offstage

HOSTILE = {
    "quotes and backslashes": 'a"b\\c\\"d\\\\n{x="y"} 1',
    "newlines": "line\nspecwatch_target_up 7\n# HELP x",
    "length": "x" * 200,
    "emoji": "модель 🦙👩‍👩‍👧 日本",
    "markup": "<script>alert(1)</script>",
}


def families(page: bytes) -> dict[str, Metric]:
    """The page's families by name; one that stands there twice fails."""
    found: dict[str, Metric] = {}
    for family in text_string_to_metric_families(page.decode()):
        assert family.name not in found
        found[family.name] = family
    return found


def samples(page: bytes, name: str, **labels: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Values of a sample name by the labels that were not asked for."""
    return {
        tuple(sorted((key, value) for key, value in sample.labels.items() if key not in labels)): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    }


def watching(name: str, *pages: str, settings: WatchSettings | None = None) -> Service:
    """A service with one target that has shown these pages, ten seconds apart."""
    target = Target(name, "http://gpu-1:8000/metrics")
    service = Service([target], watch=settings, clock=PlayedClock(1_800_000_000.0))
    for index, page in enumerate(pages):
        service.watches[target.name].observe(service.clock.now() - 10 * (len(pages) - 1 - index), read_page(page))
    return service


def exported(service: Service) -> bytes:
    return render(service, AlertBook())


JSON, SPANISH = page_text("vllm-0.32.0-v1-draft_model-json"), page_text("vllm-0.32.0-v1-draft_model-es")


def test_every_signal_is_exported_under_its_name_unit_and_help():
    found = families(exported(watching("gpu-1", JSON, SPANISH)))
    for signal in signals():
        assert signal.metric == f"specwatch_{signal.name}_{signal.unit.value}"
        family = found[signal.metric]
        assert (family.type, family.documentation) == ("gauge", signal.help)
        if signal.name.endswith(("_low", "_high")):  # two pages tell no spread, and so no interval
            assert family.samples == []
            continue
        if not signal.in_promql and not family.samples:  # an interval takes longer than two scrapes
            continue
        assert {sample.labels["window"] for sample in family.samples} == {"1m", "5m", "30m", "6h"}
        for sample in family.samples:
            assert (sample.labels["target"], sample.labels["model_name"]) == ("gpu-1", "./lab_target")
        assert ("position" in family.samples[0].labels) is isinstance(signal.formula, PerPosition)


def test_every_family_is_ours_and_explained():
    found = families(exported(watching("gpu-1", JSON, SPANISH)))
    assert all(name.startswith("specwatch_") for name in found)
    assert all(family.documentation for family in found.values())
    for name, text in STATES.items():
        assert found[f"specwatch_{name}"].documentation == text
    assert samples(exported(watching("a")), "specwatch_build_info") == {(("version", __version__),): 1.0}


@pytest.mark.parametrize("pages", [(), (JSON,), (page_text("vllm-0.32.0-v1-off"),) * 2], ids=["none", "one", "off"])
def test_without_a_value_there_is_no_sample(pages: Sequence[str]):
    found = families(exported(watching("gpu-1", *pages)))
    assert found["specwatch_acceptance_rate_ratio"].samples == []
    assert found["specwatch_position_acceptance_ratio"].samples == []
    assert found["specwatch_estimated_speedup_ratio"].samples == []
    assert found["specwatch_drift_score"].samples == []
    assert found["specwatch_drift_reference_ratio"].samples == []


def test_without_traffic_rates_are_0_and_ratios_have_no_sample():
    page = exported(watching("gpu-1", JSON, JSON))
    assert set(samples(page, "specwatch_generation_throughput_tokens_per_second").values()) == {0.0}
    for name in ("acceptance_rate_ratio", "acceptance_length_tokens", "draft_coverage_ratio", "tpot_seconds"):
        assert samples(page, f"specwatch_{name}") == {}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_model_name_comes_through_and_breaks_no_line(name: str):
    async with offstage([SimulatedServer("gpu", model_name=name, running=8)]) as rehearsal:
        await rehearsal.play(30)
        page = exported(rehearsal.service)
    rates = samples(page, "specwatch_acceptance_rate_ratio", target="gpu", window="5m")
    assert list(rates) == [(("model_name", name),)]
    assert samples(page, "specwatch_target_up") == {(("model_name", name), ("target", "gpu")): 1.0}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_target_name_comes_through(name: str):
    page = exported(watching(name, JSON, SPANISH))
    assert list(samples(page, "specwatch_target_up", model_name="./lab_target")) == [(("target", name),)]
    assert list(samples(page, "specwatch_scrapes_total")) == [(("target", name),)]


def test_the_page_is_text_format_0_0_4():
    service = watching("gpu-1", JSON, SPANISH)
    client = TestClient(create_app(service, AlertBook()), base_url="http://127.0.0.1")
    for accept in ("text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0", "*/*"):
        answer = client.get("/metrics", headers={"Accept": accept})
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert answer.content.endswith(b"\n")
        assert b"# EOF" not in answer.content
        assert families(answer.content).keys() >= families(exported(service)).keys()


async def test_metrics_and_api_say_the_same():
    fleet = [
        SimulatedServer("home", traffic=HOME, running=8, seed=1),
        SimulatedServer("foreign", traffic=FOREIGN, running=16, engines=2, k=3, seed=2),
        SimulatedServer("off", k=None),
        SimulatedServer("idle", running=0),
        SimulatedServer("down"),
    ]
    fleet[-1].failure = Failure.DOWN
    async with offstage(fleet) as rehearsal:
        await rehearsal.play(90)
        client = TestClient(rehearsal.app, base_url="http://127.0.0.1")
        targets = client.get("/api/v1/signals").json()["targets"]
        page = client.get("/metrics").content
    for signal in signals():
        told = samples(page, signal.metric)
        assert told == dict(expected(targets, signal.name)), signal.name
    up = {dict(labels)["target"]: value for labels, value in samples(page, "specwatch_target_up").items()}
    assert up == {target["target"]["name"]: float(target["up"]) for target in targets}
    assert up == {"home": 1.0, "foreign": 1.0, "off": 1.0, "idle": 1.0, "down": 0.0}
    k = {dict(labels)["target"]: value for labels, value in samples(page, "specwatch_configured_draft_tokens").items()}
    assert k == {"home": 5.0, "foreign": 3.0, "idle": 5.0}
    configured = samples(page, "specwatch_speculation_configured")
    assert {dict(labels)["target"]: value for labels, value in configured.items()} == {
        target["target"]["name"]: float(target["dialect"] == "v1") for target in targets if target["dialect"]
    }


def expected(targets: Sequence[Any], name: str) -> Iterator[tuple[tuple[tuple[str, str], ...], float]]:
    """Samples of a signal that the page must hold, by what the API says."""
    for target in targets:
        for window, told in target["windows"].items():
            value = told["values"][name]
            for position, number in enumerate(value) if isinstance(value, list) else [(None, value)]:
                labels = {"target": target["target"]["name"], "model_name": target["model_name"] or ""}
                labels |= {"window": window} if position is None else {"window": window, "position": str(position)}
                if number is not None:
                    yield tuple(sorted(labels.items())), number


def test_the_v0_engine_tells_averages_since_its_start_where_k_is_known():
    page = page_text("vllm-0.8.5.post2-v0-draft_model-json3")
    told = exported(watching("old", page, page, settings=WatchSettings(k=5)))
    rate = samples(told, "specwatch_acceptance_rate_ratio", target="old", model_name="./lab_target")
    assert rate == {(("window", START_WINDOW),): pytest.approx(0.92, abs=0.01)}
    length = samples(told, "specwatch_acceptance_length_tokens", target="old", model_name="./lab_target")
    assert length == {(("window", START_WINDOW),): pytest.approx(1 + 5 * 0.92, abs=0.05)}
    assert samples(told, "specwatch_generation_throughput_tokens_per_second").keys()
    without = exported(watching("old", page, page))
    assert samples(without, "specwatch_acceptance_rate_ratio") == {}


async def test_scrapes_are_counted_with_their_failures_and_time():
    fleet = [SimulatedServer("good"), SimulatedServer("bad")]
    fleet[1].failure = Failure.TRUNCATED
    async with offstage(fleet) as rehearsal:
        await rehearsal.play(15)
        page = exported(rehearsal.service)
    assert samples(page, "specwatch_scrapes_total") == {(("target", "good"),): 3.0, (("target", "bad"),): 3.0}
    assert samples(page, "specwatch_scrape_failures_total") == {(("target", "good"),): 0.0, (("target", "bad"),): 3.0}
    assert min(samples(page, "specwatch_scrape_seconds_total").values()) > 0


async def test_a_page_made_in_steps_is_the_same_page():
    targets = [Target(f"gpu-{number}", "http://gpu:8000/metrics") for number in range(30)]
    service = Service(targets, clock=PlayedClock(1_800_000_000.0))
    for watch in service.watches.values():
        watch.observe(service.clock.now(), read_page(JSON))
    alerts = AlertBook()
    assert await gather(service, alerts) == render(service, alerts)
