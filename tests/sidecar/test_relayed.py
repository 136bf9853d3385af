"""Alertmanager's webhooks: a real Alertmanager with the generated rules' alerts, and bodies that are none."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import aiohttp
import pytest
import yaml
from fastapi.testclient import TestClient

from specwatch.alerting.receivers import receivers
from specwatch.alerting.watchdogs import HEARTBEAT
from specwatch.lab.scenario import Failure, Phase
from specwatch.lab.sink import Service, Sink
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.relayed import PostedGroup
from specwatch.sidecar.service import Service as Sidecar
from tests.sidecar.test_alert_keeping import Lives, delivered
from tests.sidecar.test_alerts import both, server, told, until
from tests.support.alertmanager import alertmanager
from tests.support.notifications import with_any_name
from tools.rehearsal import offstage, serving

PATH = "/webhooks/alertmanager"
LOW = "SpeculativeAcceptanceRateLow"


def posted(*servers: str, status: str = "firing", **labels: str) -> dict[str, Any]:
    """A webhook's body, with an alert for each of these servers."""
    common = {"alertname": LOW, "severity": "ticket", "model_name": "llama", "job": "vllm", **labels}
    alerts = [
        {
            "status": status,
            "labels": {**common, "instance": name},
            "annotations": {
                "summary": f"Draft acceptance is low on {name}",
                "description": f"{name} accepts 30%. Lower K.",
                "runbook_url": "https://docs.example/runbooks/x.md",
                "dashboard_url": "javascript:alert(1)",
            },
            "startsAt": "2026-01-02T03:04:05.678Z",
            "endsAt": "0001-01-01T00:00:00Z" if status == "firing" else "2026-01-02T04:04:05Z",
            "generatorURL": "http://prometheus.example/",
            "fingerprint": "1a30ba71cca2921f",
        }
        for name in servers
    ]
    return {
        "version": "4",
        "groupKey": '{}/{severity="ticket"}:{alertname="x"}',
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "specwatch",
        "groupLabels": {"alertname": LOW},
        "commonLabels": common,
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.example",
        "alerts": alerts,
    }


@pytest.fixture
def sink_files(tmp_path):
    """Where the receivers' secrets are."""
    for name in ("slack", "pagerduty"):
        (tmp_path / name).write_text("0" * 32)
        (tmp_path / name).chmod(0o600)
    return tmp_path


def book_of(folder: Any, sink: Sink, **settings: Any) -> AlertBook:
    (folder / "slack").write_text(sink.slack_url)
    return AlertBook(receivers(both(folder, sink)), **settings)


def _has_heard(sink: Sink, before: int) -> bool:
    return len(sink.slack) == len(sink.pagerduty) == before + 1


async def posts(book: AlertBook, *bodies: Any) -> list[int]:
    """Post these to a sidecar of this book, wait for what it sends, and return the answers' statuses."""
    statuses = []
    async with serving(create_app(Sidecar(), book)) as url, aiohttp.ClientSession() as http:
        for body in bodies:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            async with http.post(url + PATH, data=data, headers={"Content-Type": "application/json"}) as response:
                statuses.append(response.status)
        await until(lambda: all(entry.waiting == 0 for entry in book.view().deliveries))
    return statuses


async def test_a_group_is_one_message_and_one_incident_from_its_beginning_to_its_end(sink_files):
    async with Sink() as sink:
        statuses = await posts(
            book_of(sink_files, sink), posted("a:8000", "b:8000"), posted("a:8000", "b:8000", status="resolved")
        )
    assert statuses == [204, 204]
    assert told(sink, LOW) == {Service.SLACK: [True, False], Service.PAGERDUTY: [True, False]}
    assert sink.slack[0].text.title == "🟠 Firing: Draft acceptance is low on a:8000, and on 1 more"
    began, over = (message.payload for message in sink.pagerduty)
    assert began["dedup_key"] == over["dedup_key"]
    assert began["payload"]["custom_details"]["what to do"] == "a:8000 accepts 30%. Lower K."
    assert began["links"] == [{"href": "https://docs.example/runbooks/x.md", "text": "Runbook"}]
    assert sink.refused == []


async def test_models_and_alerts_of_a_group_are_told_apart(sink_files):
    mixed = posted("a:8000")
    mixed["alerts"] += posted("b:8000", model_name="qwen")["alerts"] + posted("c:8000", alertname="Other")["alerts"]
    async with Sink() as sink:
        await posts(book_of(sink_files, sink), mixed)
    assert len({message.payload["dedup_key"] for message in sink.pagerduty}) == 3


async def test_a_page_pages_and_the_sign_of_life_is_no_message(sink_files):
    async with Sink() as sink:
        await posts(
            book_of(sink_files, sink),
            posted("a:8000", severity="page"),
            posted("a:8000", severity="critical", alertname="Other"),
            posted("a:8000", alertname=HEARTBEAT.name),
        )
    assert [message.payload["payload"]["severity"] for message in sink.pagerduty] == ["critical", "critical"]


async def test_a_thousand_servers_are_one_message_that_says_how_many_it_leaves_out(sink_files):
    body = posted(*(f"gpu-{number}:8000" for number in range(1000))) | {"truncatedAlerts": 7}
    async with Sink() as sink:
        assert await posts(book_of(sink_files, sink), body) == [204]
    assert sink.slack[0].text.title.endswith("and on 1006 more")
    (also,) = [block["text"]["text"] for block in sink.slack[0].payload["blocks"] if "*Also*" in str(block)]
    assert int(also.split()[-2]) == 1006 - (also.count("\n") - 1)


@with_any_name
async def test_no_name_breaks_a_message(sink_files, name):
    async with Sink() as sink:
        statuses = await posts(book_of(sink_files, sink), posted(name, model_name=name))
    assert statuses in ([204], [422])  # a lone surrogate is no text
    assert len(sink.slack) == len(sink.pagerduty) == statuses.count(204)
    assert sink.refused == []


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"null", b"{", b'{"version": "4"}'),
        posted("a") | {"version": "3"},
        posted("a") | {"alerts": {}},
        posted("a") | {"alerts": [{}]},
        posted("a") | {"truncatedAlerts": -1},
        posted("a") | {"groupKey": 7},
        posted("a", status="pending"),
        posted("a") | {"alerts": [posted("a")["alerts"][0] | {"startsAt": "yesterday"}]},
        posted("a") | {"alerts": [posted("a")["alerts"][0] | {"labels": {"a": {}}}]},
    ],
)
def test_what_is_no_webhook_is_refused(body: Any, tmp_path):
    book = AlertBook()
    book.has_receivers = True
    http = TestClient(create_app(Sidecar(), book), base_url="http://127.0.0.1")
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert http.post(PATH, content=data, headers={"Content-Type": "application/json"}).status_code == 422


def test_an_empty_group_is_no_message_and_no_error(tmp_path):
    book = AlertBook()
    book.has_receivers = True
    http = TestClient(create_app(Sidecar(), book), base_url="http://127.0.0.1")
    assert http.post(PATH, json=posted()).status_code == 204


def test_a_sidecar_that_would_tell_nobody_says_so():
    http = TestClient(create_app(Sidecar(), AlertBook()), base_url="http://127.0.0.1")
    answer = http.post(PATH, json=posted("a"))
    assert answer.status_code == 409
    assert "no receiver" in answer.json()["detail"]


async def test_what_was_acknowledged_outlives_the_sidecar(tmp_path):
    async with Sink() as sink:
        lives = Lives(tmp_path, sink)
        sink.outage = 503
        async with lives.life(drain_seconds=0.05) as book:
            await book.relay(PostedGroup.model_validate(posted("a:8000")))
        sink.outage = None
        async with lives.life() as book:
            await delivered(book)
    assert [message.payload["payload"]["source"] for message in sink.pagerduty] == ["a:8000"]


async def test_with_relay_only_what_is_judged_here_is_shown_and_not_sent(sink_files):
    async with Sink() as sink, offstage([server()]) as rehearsal:
        book = book_of(sink_files, sink, clock=rehearsal.clock, relay_only=True)
        rehearsal.service._listener = book.judge
        async with book.delivering():
            rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
            await rehearsal.play(300, step=15)
            assert [alert.state for alert in book.view().alerts] == ["firing"]
            await delivered(book)
        # The diagnosis of a server that is watched here goes with what Alertmanager says of it.
        await posts(book, posted("gpu-3"))
    (message,) = sink.slack
    assert "The last scrape failed" in str(message.payload)


@pytest.mark.services
async def test_a_real_alertmanager_reaches_slack_and_pagerduty_through_the_sidecar(sink_files):
    async with Sink() as sink:
        book = book_of(sink_files, sink, relay_only=True)
        async with serving(create_app(Sidecar(), book)) as sidecar:
            config = sink_files / "alertmanager.yml"
            route = {"receiver": "specwatch", "group_by": ["alertname", "model_name"], "group_wait": "0s"}
            hook = {"url": sidecar + PATH, "send_resolved": True, "max_alerts": 100}
            config.write_text(
                yaml.safe_dump(
                    {
                        "route": {**route, "group_interval": "1s"},
                        "receivers": [{"name": "specwatch", "webhook_configs": [hook]}],
                    }
                )
            )
            async with alertmanager(sink_files, config) as url, aiohttp.ClientSession() as http:
                labels = {"alertname": LOW, "severity": "page", "model_name": "llama", "instance": "a:8000"}
                about = {"summary": "Draft acceptance is low on a:8000", "description": "Lower K."}
                over = {"startsAt": "2026-01-02T03:00:00Z", "endsAt": "2026-01-02T03:04:05Z"}
                for ending in ({}, over):
                    before = len(sink.pagerduty)
                    body = [{"labels": labels, "annotations": about, **ending}]
                    async with http.post(f"{url}/api/v2/alerts", json=body) as response:
                        assert response.status == 200
                    await until(partial(_has_heard, sink, before), 30)
    assert told(sink, LOW) == {Service.SLACK: [True, False], Service.PAGERDUTY: [True, False]}
    assert sink.pagerduty[0].payload["payload"]["severity"] == "critical"
    assert sink.slack[0].text.title == "🔴 Firing: Draft acceptance is low on a:8000"


async def test_what_alertmanager_posts_about_a_server_that_is_watched_comes_with_its_last_hours(sink_files):
    async with Sink() as sink, offstage([server()]) as rehearsal:
        book = book_of(sink_files, sink, clock=rehearsal.clock, relay_only=True)
        rehearsal.service._listener = book.judge
        async with book.delivering():
            await rehearsal.play(900, step=30)
        await posts(book, posted("gpu-3"), posted("gpu-4"))
    known, unknown = (message.payload["payload"]["custom_details"] for message in sink.pagerduty)
    assert known["lately"].startswith("Acceptance rate, ")
    assert "lately" not in unknown
