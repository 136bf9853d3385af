from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import httpx
import pytest
import pytest_asyncio

from specwatch import __version__
from specwatch.collect.targets import Target
from specwatch.lab.scenario import FOREIGN, HOME, Failure
from specwatch.lab.simulated_engine import StepCost
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import PAGE_FILES, create_app
from specwatch.sidecar.service import Service, ServiceSettings
from specwatch.signals.catalogue import signals
from specwatch.vllm.metrics import read_page
from tests.support.http import serving as serving_pages
from tests.support.http import text_page
from tests.support.pages import page_text
from tools.rehearsal import Rehearsal, offstage, serving

SCRIPT = "<script>alert('x')</script><img src=x onerror=alert(1)>"

SLOW = StepCost(weights_seconds=0.2)
"""Five steps a second: enough to tell acceptance, and twelve times fewer to simulate."""

API = (
    "/api/v1/servers",
    "/api/v1/signals",
    "/api/v1/signals?target=good",
    "/api/v1/catalogue",
    "/api/v1/history?target=good",
    "/api/v1/alerts",
    "/api/v1/references",
    "/api/v1/openapi.json",
)
ROUTES = (*API, "/", "/metrics", "/healthz", *(f"/page/{name}" for name in PAGE_FILES))
REFUSED = (
    *("/nothing", "/docs", "/redoc", "/openapi.json", "/page/nothing.js"),
    *("/api/v1/history", "/api/v1/history?target=x"),
)


@pytest_asyncio.fixture
async def rehearsal() -> AsyncIterator[Rehearsal]:
    """A server that is well, one that is not, and one that is away, watched for ten minutes."""
    fleet = [
        SimulatedServer("good", model_name=SCRIPT, traffic=HOME, running=2, cost=SLOW),
        SimulatedServer("poor", traffic=FOREIGN, running=2, cost=SLOW),
        SimulatedServer("away"),
    ]
    fleet[-1].failure = Failure.DOWN
    async with offstage(fleet) as stage:
        await stage.play(600, step=30)
        yield stage


def client(app: Any, host: str = "127.0.0.1:9108") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{host}")


def quiet(*names: str) -> Any:
    """The application with targets that have not been scraped yet."""
    return create_app(Service([Target(name, "http://127.0.0.1:1/metrics") for name in names]), AlertBook())


async def test_every_route_answers_and_every_answer_carries_the_security_headers(rehearsal):
    async with client(rehearsal.app) as http:
        answers = {route: await http.get(route) for route in (*ROUTES, *REFUSED)}
        answers["POST"] = await http.post("/api/v1/signals", json={})
        answers["foreign"] = await http.get("/", headers={"Host": "evil.example"})
    assert {route: answers[route].status_code for route in ROUTES} == dict.fromkeys(ROUTES, 200)
    assert {answers[route].status_code for route in REFUSED} == {404, 422}
    assert answers["POST"].status_code == 405
    for route, answer in answers.items():
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'"), route
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9108", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1:80", "0.0.0.0"],
)
async def test_a_foreign_host_header_is_refused_everywhere(host):
    async with client(quiet()) as http:
        for route in ROUTES:
            answer = await http.get(route, headers={"Host": host})
            assert (answer.status_code, "targets" in answer.text) == (400, False)


@pytest.mark.parametrize("host", ["", "[", "evil.example#@127.0.0.1", "127.0.0.1@evil.example", "[::1", "127.0.0.1 x"])
async def test_a_host_header_that_cannot_be_read_is_refused(host):
    async with client(quiet()) as http:
        assert (await http.get("/healthz", headers={"Host": host})).status_code == 400


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:9108", "127.0.0.2:80", "localhost:1", "LOCALHOST", "[::1]:1"])
async def test_loopback_is_asked_for_by_any_of_its_names(host):
    async with client(quiet()) as http:
        assert (await http.get("/healthz", headers={"Host": host})).text == "ok\n"


async def test_a_sidecar_that_is_open_to_others_answers_by_any_name():
    app = create_app(Service([]), AlertBook(), local_only=False)
    async with client(app) as http:
        assert (await http.get("/healthz", headers={"Host": "specwatch.example.com"})).status_code == 200


async def test_signals_tell_every_target_in_the_order_given(rehearsal):
    async with client(rehearsal.app) as http:
        told = (await http.get("/api/v1/signals")).json()
    assert told["version"] == __version__
    assert told["at"] == rehearsal.clock.now()
    good, poor, away = told["targets"]
    assert [target["target"]["name"] for target in told["targets"]] == ["good", "poor", "away"]
    assert (good["up"], good["dialect"], good["model_name"], good["k"], good["release"]) == (
        *(True, "v1", SCRIPT, 5),
        "0.32.0",
    )
    assert good["headline_window"] in good["windows"]
    assert list(good["windows"]) == ["1m", "5m", "30m", "6h"]
    for window in good["windows"].values():
        assert window["values"].keys() == {signal.name for signal in signals()}
    assert good["windows"]["5m"]["values"]["acceptance_rate"] > 0.8 > poor["windows"]["5m"]["values"]["acceptance_rate"]
    assert (away["up"], away["windows"]["5m"]["values"]["acceptance_rate"]) == (False, None)
    assert away["findings"][0]["code"] == "unreachable"


async def test_the_catalogue_explains_every_signal():
    async with client(quiet()) as http:
        told = (await http.get("/api/v1/catalogue")).json()
    assert [entry["name"] for entry in told] == [signal.name for signal in signals()]
    for entry in told:
        assert entry["metric"] == f"specwatch_{entry['name']}_{entry['unit']}"
        assert entry["title"]
        assert entry["help"]


async def test_history_ends_with_the_last_scrape(rehearsal):
    async with client(rehearsal.app) as http:
        told = (await http.get("/api/v1/history", params={"target": "good"})).json()
        now = (await http.get("/api/v1/signals")).json()["targets"][0]
    assert told["target"] == "good"
    assert [point["at"] for point in told["points"]] == sorted(point["at"] for point in told["points"])
    last = told["points"][-1]
    values = now["windows"][now["headline_window"]]["values"]
    assert last["at"] == now["last_scrape"]
    for point, signal in (
        ("acceptance_rate", "acceptance_rate"),
        ("speedup", "estimated_speedup"),
        ("running_requests", "running_requests"),
    ):
        assert last[point] == pytest.approx(values[signal])


async def test_an_unknown_target_has_no_history():
    async with client(quiet("good")) as http:
        answer = await http.get("/api/v1/history", params={"target": SCRIPT})
        assert (answer.status_code, answer.json()) == (404, {"detail": "no target of that name"})
        assert (await http.get("/api/v1/history")).status_code == 422
        assert (await http.get("/api/v1/history?target=good")).json()["points"] == []


async def test_alerts_tell_what_fires_and_what_is_pending(rehearsal):
    async with client(rehearsal.app) as http:
        told = (await http.get("/api/v1/alerts")).json()
    states = {(alert["name"], alert["target"]): alert["state"] for alert in told["alerts"]}
    assert states["SpeculativeAcceptanceRateLow", "poor"] == "firing"
    assert states["SpeculationTargetDown", "away"] == "firing"
    assert "good" not in {target for _, target in states}
    low = next(alert for alert in told["alerts"] if alert["target"] == "poor")
    assert (low["threshold"], low["severity"]) == (0.6, "ticket")
    assert low["runbook"] == "SpeculativeAcceptanceRateLow.md"
    assert low["summary"] == "Draft acceptance is low on poor"
    assert told["deliveries"] == []


async def test_the_openapi_document_lists_the_routes_with_what_they_are_for():
    async with client(quiet()) as http:
        document = (await http.get("/api/v1/openapi.json")).json()
    assert document["info"] == {"title": "specwatch sidecar", "version": __version__}
    reading = [f"/api/v1/{name}" for name in ("servers", "signals", "events", "catalogue", "history", "alerts")]
    changing = [f"/api/v1/references/{name}" for name in ("freeze", "relearn")]
    methods = {path: list(operations) for path, operations in document["paths"].items()}
    assert methods.items() >= {path: ["get"] for path in (*reading, "/healthz")}.items()
    assert methods.items() >= {path: ["post"] for path in changing}.items()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["description"], (method, path)
    content = document["paths"]["/api/v1/signals"]["get"]["responses"]["200"]["content"]
    assert content["application/json"]["schema"]["$ref"].endswith("/SignalsView")


async def test_no_name_reaches_a_document_that_a_browser_would_run(rehearsal):
    """Names are hostile: they leave as JSON or as metrics, never inside HTML."""
    app = create_app(Service([Target(SCRIPT, "http://127.0.0.1:1/metrics")]), AlertBook())
    for application in (app, rehearsal.app):
        async with client(application) as http:
            for route in (*ROUTES, *REFUSED, f"/api/v1/history?target={SCRIPT}", f"/{SCRIPT}", f"/page/{SCRIPT}"):
                answer = await http.get(route)
                kind = answer.headers["content-type"]
                if kind.startswith("text/html"):
                    assert route in ("/", "/page/index.html")
                    assert SCRIPT not in answer.text
                elif SCRIPT in answer.text:
                    assert kind.partition(";")[0] in ("application/json", "text/plain")


async def test_metrics_tell_of_targets_that_fail_from_their_first_failure():
    service = Service(
        [Target("away", "http://127.0.0.1:1/metrics"), Target("off", "http://127.0.0.1:1/metrics")],
        settings=ServiceSettings(interval=0.05),
    )
    async with serving(create_app(service, AlertBook())) as url, aiohttp.ClientSession() as http:
        for _ in range(500):
            async with http.get(f"{url}/metrics") as answer:
                page = await answer.text()
            if page.count("specwatch_target_up{") == 2:
                break
            await asyncio.sleep(0.02)
    for name in ("away", "off"):
        assert f'specwatch_target_up{{model_name="",target="{name}"}} 0.0\n' in page


async def test_what_is_no_number_is_null():
    service = Service([Target("odd", "http://127.0.0.1:1/metrics")])
    page = page_text("vllm-0.32.0-v1-draft_model-json")
    odd, changed = re.subn(r"(?m)^(vllm:generation_tokens_total{.*}) .*$", r"\1 +Inf", page)
    assert changed == 1
    for age, text in ((10, page), (0, odd)):
        service.watches["odd"].observe(service.clock.now() - age, read_page(text))
    async with client(create_app(service, AlertBook())) as http:
        answer = await http.get("/api/v1/signals")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    told = json.loads(answer.text, parse_constant=refuse)
    assert told["targets"][0]["windows"]["5m"]["values"]["generation_throughput"] is None


async def test_the_application_scrapes_while_it_is_served_and_no_longer():
    asked = 0

    async def page(request):
        nonlocal asked
        asked += 1
        return await text_page(page_text("vllm-0.32.0-v1-draft_model-json"))(request)

    async with serving_pages({"/metrics": page}) as url:
        service = Service([Target("a", f"{url}/metrics")], settings=ServiceSettings(interval=0.02))
        async with serving(create_app(service, AlertBook())) as sidecar, aiohttp.ClientSession() as http:
            for _ in range(500):
                async with http.get(f"{sidecar}/api/v1/signals") as answer:
                    if (await answer.json())["targets"][0]["up"]:
                        break
                await asyncio.sleep(0.02)
            else:
                raise AssertionError("nothing was scraped")
        until = asked
        await asyncio.sleep(0.1)
        assert asked == until
