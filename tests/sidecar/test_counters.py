from __future__ import annotations

from typing import Any

import httpx

from specwatch.alerting.catalogue import ALERTS
from specwatch.collect.targets import Target
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service
from specwatch.vllm.metrics import read_page


def client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:9108")


async def test_raw_counters_are_those_of_the_last_page_by_engine():
    server = SimulatedServer("gpu-0", engines=2, running=4)
    server.advance(60)
    page = read_page(server.page())
    service = Service([Target("gpu-0", "http://127.0.0.1:1/metrics")])
    service.watches["gpu-0"].observe(1000.0, page)
    async with client(create_app(service, AlertBook())) as http:
        told = (await http.get("/api/v1/counters", params={"target": "gpu-0"})).json()
    assert (told["target"], told["at"], told["process_start"]) == ("gpu-0", 1000.0, page.process_start)
    assert [entry["engine"] for entry in told["engines"]] == list(page.engines)
    for entry, engine in zip(told["engines"], page.engines.values(), strict=True):
        assert {c["name"]: c["value"] for c in entry["counters"]} == {c.value: v for c, v in engine.counters.items()}
        assert entry["accepted_per_position"] == list(engine.accepted_per_position)
        assert entry["gauges"].keys() == {"running_requests", "waiting_requests"}
    drafts = next(count for count in told["engines"][0]["counters"] if count["name"] == "drafts")
    assert drafts["series"] == ["vllm:spec_decode_num_drafts_total"]


async def test_before_the_first_scrape_there_are_no_counters_and_an_unknown_target_is_not_found():
    service = Service([Target("gpu-0", "http://127.0.0.1:1/metrics")])
    async with client(create_app(service, AlertBook())) as http:
        told = (await http.get("/api/v1/counters", params={"target": "gpu-0"})).json()
        assert told == {"target": "gpu-0", "at": None, "process_start": None, "engines": []}
        assert (await http.get("/api/v1/counters", params={"target": "x"})).status_code == 404


async def test_thresholds_are_those_of_the_alert_catalogue():
    async with client(create_app(Service([]), AlertBook())) as http:
        told = (await http.get("/api/v1/thresholds")).json()
    assert [(entry["alert"], entry["signal"], entry["threshold"]) for entry in told] == [
        (alert.name, alert.signal, alert.threshold) for alert in ALERTS
    ]
