from __future__ import annotations

import json
from typing import Any

import httpx

from specwatch.collect.targets import Target
from specwatch.lab.scenario import HOME, Failure
from specwatch.lab.simulated_engine import StepCost
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.server_board import SHOWN_SIGNALS
from specwatch.sidecar.service import Clock, Service
from tools.rehearsal import offstage

SLOW = StepCost(weights_seconds=0.2)
"""Five steps a second: enough to tell acceptance, and twelve times fewer to simulate."""


def client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:9108")


async def test_a_line_says_what_all_the_signals_say_of_the_same_moment():
    fleet = [SimulatedServer("good", traffic=HOME, running=2, cost=SLOW), SimulatedServer("away")]
    fleet[-1].failure = Failure.DOWN
    async with offstage(fleet) as stage:
        await stage.play(600, step=30)
        async with client(stage.app) as http:
            short = (await http.get("/api/v1/servers")).json()
            whole = (await http.get("/api/v1/signals")).json()
    assert (short["at"], short["version"]) == (whole["at"], whole["version"])
    for line, full in zip(short["targets"], whole["targets"], strict=True):
        assert line["target"]["name"] == full["target"]["name"]
        for same in ("up", "last_scrape", "model_name", "k", "headline_window", "since_start"):
            assert line[same] == full[same], same
        window = line["headline_window"]
        assert list(line["windows"]) == [window]
        values, of_all = line["windows"][window]["values"], full["windows"][window]["values"]
        assert values.keys() == set(SHOWN_SIGNALS)
        for name, value in values.items():
            assert value == (None if of_all[name] is None else round(of_all[name], 4)), name
        assert [f["text"] for f in line["findings"]] == [f["text"] for f in full["findings"]][: len(line["findings"])]


async def test_a_trend_has_a_value_a_minute_and_ends_with_the_one_shown():
    async with offstage([SimulatedServer("good", running=2, cost=SLOW)]) as stage:
        await stage.play(1200, step=30)
        async with client(stage.app) as http:
            (line,) = (await http.get("/api/v1/servers")).json()["targets"]
    trend, values = line["trend"], line["windows"]["5m"]["values"]
    assert trend["step"] == 60
    assert 20 <= len(trend["values"]) <= 22
    assert trend["values"][-1] == round(values["acceptance_rate"], 3)
    assert 0 <= stage.clock.now() - trend["end"] < 60


async def test_a_thousand_servers_fit_into_two_megabytes():
    async with offstage([SimulatedServer("good", running=2, cost=SLOW)]) as stage:
        await stage.play(4000, step=60)
        async with client(stage.app) as http:
            (line,) = (await http.get("/api/v1/servers")).json()["targets"]
    assert len(line["trend"]["values"]) == 60
    assert 1000 * len(json.dumps(line)) <= 2_000_000


async def test_what_the_asker_has_already_is_not_sent_again_until_something_is_scraped():
    async with offstage([SimulatedServer("good", running=2, cost=SLOW)]) as stage:
        await stage.play(300, step=30)
        async with client(stage.app) as http:
            for path in ("/api/v1/servers", "/api/v1/signals", "/api/v1/signals?target=good"):
                first = await http.get(path)
                known = {"If-None-Match": first.headers["etag"]}
                again = await http.get(path, headers=known)
                assert (first.status_code, again.status_code, again.content) == (200, 304, b""), path
                assert (await http.get(path, headers={"If-None-Match": 'W/"other"'})).status_code == 200
            known = {"If-None-Match": (await http.get("/api/v1/signals")).headers["etag"]}
            await stage.play(30, step=30)
            assert (await http.get("/api/v1/signals", headers=known)).status_code == 200


async def test_alerts_that_the_asker_has_already_are_not_sent_again_until_one_of_them_changes():
    away = SimulatedServer("away")
    away.failure = Failure.DOWN
    async with offstage([away]) as stage, client(stage.app) as http:
        quiet = (await http.get("/api/v1/alerts")).headers["etag"]
        await stage.play(600, step=30)
        firing = await http.get("/api/v1/alerts", headers={"If-None-Match": quiet})
        assert [alert["name"] for alert in firing.json()["alerts"]] == ["SpeculationTargetDown"]
        known = {"If-None-Match": f"{quiet}, {firing.headers['etag']}"}
        again = await http.get("/api/v1/alerts", headers=known)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", firing.headers["etag"])
        away.failure = Failure.NONE
        await stage.play(600, step=30)
        assert (await http.get("/api/v1/alerts", headers=known)).json()["alerts"][0]["state"] == "resolved"


async def test_another_start_of_the_sidecar_never_says_that_nothing_changed():
    service = Service([Target("gpu-0", "http://127.0.0.1:1/metrics")])
    async with client(create_app(service, AlertBook())) as http:
        known = {"If-None-Match": (await http.get("/api/v1/servers")).headers["etag"]}
    async with client(create_app(service, AlertBook())) as http:
        assert (await http.get("/api/v1/servers", headers=known)).status_code == 200


async def test_one_target_is_told_alone_and_an_unknown_one_is_not_found():
    service = Service([Target(name, "http://127.0.0.1:1/metrics") for name in ("one", "two")], clock=Clock())
    async with client(create_app(service, AlertBook())) as http:
        told = (await http.get("/api/v1/signals", params={"target": "two"})).json()
        assert [target["target"]["name"] for target in told["targets"]] == ["two"]
        assert (await http.get("/api/v1/signals", params={"target": "three"})).status_code == 404
