"""Every expression of the dashboard, run against a real Prometheus that scrapes a simulated fleet."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from specwatch.generate.dashboards import EVERY_SERVER, Settings, speculation
from specwatch.lab.fleet import Fleet
from specwatch.lab.scenario import FOREIGN, HOME
from specwatch.lab.simulator import SimulatedServer
from tests.support.dashboards import panels, substituted, variables
from tests.support.http import serving, text_page
from tests.support.prometheus import Prometheus, Sample, prometheus

WINDOW_SECONDS = 8
"""What $__rate_interval stands for here: eight scrapes."""

SCRAPES = 14
"""Scrapes of every server before the expressions are run: a whole window, and the restart before it."""

MODEL = "meta-llama/Llama-3.1-70B-Instruct"

DASHBOARD = speculation(Settings())
TITLES = {panel["title"]: panel for panel in panels(DASHBOARD)}


@dataclass(frozen=True)
class Scene:
    """The fleet, and the Prometheus that has scraped it."""

    prometheus: Prometheus
    servers: Mapping[str, SimulatedServer]
    instances: Mapping[str, str]
    """Prometheus' name of each server, by the simulator's."""

    async def panel(self, title: str, values: Mapping[str, str], query: int = 0) -> list[Sample]:
        """What a panel's query gives; the panel is named by any part of its title."""
        (panel,) = (panel for name, panel in TITLES.items() if title in name)
        return await self.prometheus.query(substituted(panel["targets"][query]["expr"], values))

    def chosen(self, **labels: str) -> dict[str, str]:
        """Values of the variables: all, but for the labels given."""
        everything = {name: entry["allValue"] for name, entry in variables(DASHBOARD).items()}
        return {**everything, **labels, "__rate_interval": f"{WINDOW_SECONDS}s"}

    def one(self) -> dict[str, str]:
        """One value of every variable: the first engine of the server at home."""
        instance = self.instances["home"].replace(".", "\\\\.")
        return self.chosen(job="vllm", model_name=MODEL, instance=instance, engine="0")


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    """Two engines at home with K = 5, one on foreign traffic with K = 3, one restarted without speculation, one V0."""
    servers = [
        SimulatedServer("home", k=5, engines=2, traffic=HOME, running=12, waiting=2),
        SimulatedServer("foreign", k=3, traffic=FOREIGN, running=8),
        SimulatedServer("plain", k=None, running=8),
        SimulatedServer("old", release="0.8.5.post2", k=5, running=8),
    ]
    async with Fleet(servers) as fleet:
        addresses = {server.name: urlsplit(url).netloc for server, url in zip(servers, fleet.urls, strict=True)}
        drift = f'specwatch_drift_score{{target="{addresses["home"]}",model_name="{MODEL}"}} 0.4\n'
        async with serving({"/metrics": text_page(drift)}) as sidecar:
            config = {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "scrape_configs": [
                    {"job_name": "vllm", "static_configs": [{"targets": list(addresses.values())}]},
                    {"job_name": "specwatch", "static_configs": [{"targets": [urlsplit(sidecar).netloc]}]},
                ],
            }
            async with prometheus(folder, config, rules=[_FIRING]) as server:
                await server.wait_for(f"count(count_over_time({EVERY_SERVER}[1m]) >= 4) >= {len(servers)}")
                fleet.catch_up()
                servers[2].restart()
                await server.wait_for(f"count(count_over_time({EVERY_SERVER}[1m]) >= {SCRAPES}) >= {len(servers)}")
                yield Scene(server, {server.name: server for server in servers}, addresses)


_FIRING = {
    "name": "firing",
    "rules": [
        {"alert": "SpeculativeAcceptanceRateLow", "expr": f"{EVERY_SERVER} > 0", "labels": {"severity": "ticket"}},
        {"alert": "SpeculationSlowerThanNone", "expr": f"{EVERY_SERVER} > 0", "labels": {"severity": "page"}},
        {"alert": "SpeculationNoTargets", "expr": "vector(1)", "labels": {"severity": "page"}},
        {"alert": "SomebodyElses", "expr": "vector(1)", "labels": {"severity": "page"}},
    ],
}


@pytest.mark.services
async def test_the_dashboard_shows_what_a_scraped_fleet_does(tmp_path: Path):
    async with scene(tmp_path) as fleet:
        for values in (fleet.chosen(), fleet.one()):
            await every_panel_has_plausible_values(fleet, values)
        await variables_list_the_fleet(fleet)
        await acceptance_is_the_truth(fleet)
        await positions_are_divided_by_engines_that_have_them(fleet)
        await the_table_has_a_row_for_every_v1_server(fleet)
        await lanes_show_this_projects_alerts(fleet)
        await the_restart_is_marked_and_nothing_else(fleet)


async def every_panel_has_plausible_values(fleet: Scene, values: Mapping[str, str]) -> None:
    for title, panel in TITLES.items():
        for target in panel["targets"]:
            samples = await fleet.prometheus.query(substituted(target["expr"], values))
            assert samples, f"{title} {target['refId']} is empty with {values}"
            assert all(math.isfinite(sample.value) and sample.value >= 0 for sample in samples), title
            if panel["fieldConfig"]["defaults"]["unit"] == "percentunit":
                assert all(sample.value <= 1 for sample in samples), title


async def variables_list_the_fleet(fleet: Scene) -> None:
    instances = sorted(fleet.instances.values())
    expected = {"job": ["vllm"], "model_name": [MODEL], "instance": instances, "engine": ["0", "1"]}
    for values in (fleet.chosen(), fleet.chosen(job="vllm")):
        for name, variable in variables(DASHBOARD).items():
            series, label = variable["query"]["query"].removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
            assert await fleet.prometheus.label_values(label, substituted(series, values)) == expected[name]


async def acceptance_is_the_truth(fleet: Scene) -> None:
    shown = await fleet.panel("Does acceptance stay", fleet.chosen())
    by_instance = {sample.labels["instance"]: sample.value for sample in shown}
    # V0's counters of the same names are corrupt, and the plain server has none.
    assert by_instance.keys() == {fleet.instances["home"], fleet.instances["foreign"]}
    for name in ("home", "foreign"):
        assert by_instance[fleet.instances[name]] == pytest.approx(fleet.servers[name].truth().acceptance_rate, abs=0.1)
    (pooled,) = await fleet.panel("Acceptance rate", fleet.chosen())
    assert min(by_instance.values()) < pooled.value < max(by_instance.values())


async def positions_are_divided_by_engines_that_have_them(fleet: Scene) -> None:
    shown = {sample.labels["position"]: sample.value for sample in await fleet.panel("lose the thread", fleet.chosen())}
    assert list(shown) == ["0", "1", "2", "3", "4"]
    home = fleet.servers["home"].truth()
    assert shown["4"] == pytest.approx(home.accepted_per_position[4] / home.drafts, abs=0.1)


async def the_table_has_a_row_for_every_v1_server(fleet: Scene) -> None:
    speedups = {s.labels["instance"]: s.value for s in await fleet.panel("gain least", fleet.chosen())}
    assert speedups[fleet.instances["foreign"]] < speedups[fleet.instances["home"]]
    batches = await fleet.panel("gain least", fleet.chosen(), query=5)
    assert {sample.labels["instance"] for sample in batches} == set(fleet.instances.values())


async def lanes_show_this_projects_alerts(fleet: Scene) -> None:
    home = fleet.instances["home"]
    for query, value, ours in ((0, 1, "SpeculativeAcceptanceRateLow"), (1, 2, "SpeculationSlowerThanNone")):
        lanes = await fleet.panel("alerts are firing", fleet.one(), query)
        assert {lane.value for lane in lanes} == {value}
        about_home = {lane.labels["alertname"] for lane in lanes if lane.labels.get("instance") == home}
        others = {lane.labels["alertname"] for lane in lanes if lane.labels.get("instance") != home}
        assert about_home == {ours}
        assert others == ({"SpeculationNoTargets"} if query else set())


async def the_restart_is_marked_and_nothing_else(fleet: Scene) -> None:
    (annotation,) = DASHBOARD["annotations"]["list"]
    now = time.time()
    marks = await fleet.prometheus.query_range(substituted(annotation["expr"], fleet.chosen()), now - 60, now, step=1)
    assert [labels["instance"] for labels, _ in marks] == [fleet.instances["plain"]]
