"""What Slack and PagerDuty get when a real Alertmanager runs the generated configuration."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from specwatch.alerting.catalogue import ALERTS, Severity
from specwatch.alerting.watchdogs import alert
from specwatch.generate import alert_files
from specwatch.generate.files import write_all
from specwatch.generate.rules_config import Audience, RulesConfig
from specwatch.lab.sink import Received, Sink
from tests.support.alertmanager import alertmanager

pytestmark = pytest.mark.services

EXTERNAL = "http://alertmanager.example"
"""Where people find Alertmanager."""

RUNBOOK = "https://docs.example/runbooks/x.md"
DASHBOARD = "https://grafana.example/d/x?var-job=vllm&var-instance=vllm-a%3A8000"

HOSTILE = {
    "markup": "<!channel> <http://evil.example|click> & &lt; `code` *bold*",
    "quotes": '"\'`\\{{ .Alerts }}{{ template "x" }}',
    "Unicode": "日本語 💥 e\u0301 \u202egnitirw",
    "lines": "first\nsecond\r\n\tthird\u2028fourth\x00\x1b[31mred",
    "long": "a" * 20_000,
    "long markup": "&<>" * 7000,
    "long emoji": "💥" * 20_000,
}


@dataclass(frozen=True)
class Loop:
    """A running Alertmanager, and what its messages reach."""

    url: str
    session: aiohttp.ClientSession
    sink: Sink

    @property
    def silence(self) -> str:
        """Where the alert of ``firing`` is silenced."""
        matchers = 'alertname="SpeculativeAcceptanceRateLow",job="vllm",model_name="llama"'
        return f"{EXTERNAL}/#/silences/new?filter={quote('{' + matchers + '}', safe='')}"

    async def post(self, alerts: Sequence[dict[str, Any]]) -> None:
        """Tell Alertmanager of alerts as Prometheus does."""
        async with self.session.post(f"{self.url}/api/v2/alerts", json=list(alerts)) as response:
            assert response.status == 200, await response.text()

    async def alerts(self) -> list[dict[str, Any]]:
        """What Alertmanager holds, with the state of each."""
        async with self.session.get(f"{self.url}/api/v2/alerts") as response:
            found: list[dict[str, Any]] = await response.json()
        return found

    async def until(self, come_true: Callable[[], bool]) -> None:
        """Wait for something to come true; an AssertionError when it does not."""
        for _ in range(300):
            if come_true():
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"received {self.sink.slack} and {self.sink.pagerduty}, refused {self.sink.refused}")


@asynccontextmanager
async def loop(folder: Path, **choices: Any) -> AsyncIterator[Loop]:
    """Alertmanager with the generated configuration, and a sink in place of Slack and PagerDuty."""
    async with Sink() as sink:
        (folder / "slack").write_text(sink.slack_url)
        (folder / "pagerduty").write_text("0" * 32)
        config = RulesConfig(
            time_scale=0.01,
            slack_url_file=str(folder / "slack"),
            pagerduty_key_file=str(folder / "pagerduty"),
            pagerduty_url=sink.pagerduty_url,
            **choices,
        )
        write_all(folder, alert_files.alert_files(config))
        async with (
            alertmanager(
                folder,
                folder / alert_files.ALERTMANAGER,
                # Its pages stay where tests ask for them, whatever people's way to it.
                [f"--web.external-url={EXTERNAL}", "--web.route-prefix=/"],
            ) as url,
            aiohttp.ClientSession() as session,
        ):
            yield Loop(url, session, sink)


def firing(name: str = "SpeculativeAcceptanceRateLow", **labels: str) -> dict[str, Any]:
    """An alert as Prometheus posts it."""
    severity = alert(name).severity.value
    own = {"job": "vllm", "instance": "vllm-a:8000", "model_name": "llama", **labels}
    return {
        "labels": {"alertname": name, "severity": severity, **own},
        "annotations": {
            "summary": f"Draft acceptance is low on {own['instance']}",
            "description": f"{own['instance']} ({own['model_name']}) accepts 31.4% of its draft tokens, below 60%.",
            "runbook_url": RUNBOOK,
            "dashboard_url": DASHBOARD,
        },
    }


def over(posted: dict[str, Any]) -> dict[str, Any]:
    """The same alert, ended a second ago."""
    now = datetime.now(timezone.utc)
    return {
        **posted,
        "startsAt": (now - timedelta(minutes=1)).isoformat(),
        "endsAt": (now - timedelta(seconds=1)).isoformat(),
    }


def attachment(received: Received) -> dict[str, Any]:
    (only,) = received.payload["attachments"]
    assert isinstance(only, dict)
    return only


async def test_an_alert_arrives_at_both_with_its_texts_and_links(tmp_path: Path):
    async with loop(tmp_path) as running:
        await running.post([firing()])
        await running.until(lambda: bool(running.sink.slack and running.sink.pagerduty))
    message = attachment(running.sink.slack[0])
    assert message["title"] == "[FIRING] SpeculativeAcceptanceRateLow · llama"
    assert message["color"] == "warning"
    assert message["footer"] == "ticket · job vllm"
    assert message["text"].splitlines() == [
        "*Draft acceptance is low on vllm-a:8000*",
        "vllm-a:8000 (llama) accepts 31.4% of its draft tokens, below 60%.",
        f"<{DASHBOARD.replace('&', '&amp;')}|Dashboard>  <{RUNBOOK}|Runbook>  <{running.silence}|Silence>",
    ]
    event = running.sink.pagerduty[0].payload
    assert event["payload"]["summary"] == "[FIRING] Draft acceptance is low on vllm-a:8000"
    assert event["payload"]["severity"] == "warning"
    assert event["payload"]["component"] == "llama"
    assert "accepts 31.4%" in event["payload"]["custom_details"]["firing"]
    assert [link["href"] for link in event["links"]] == [RUNBOOK, DASHBOARD, running.silence]


async def test_a_page_is_critical_and_says_how_many_servers_it_is_about(tmp_path: Path):
    async with loop(tmp_path) as running:
        pages = [firing("SpeculationSlowerThanNone", instance=f"vllm-{name}:8000") for name in "abcdefg"]
        await running.post(pages)
        await running.until(lambda: bool(running.sink.slack and running.sink.pagerduty))
    message, event = attachment(running.sink.slack[0]), running.sink.pagerduty[0].payload
    assert message["title"] == "[FIRING:7] SpeculationSlowerThanNone · llama"
    assert message["color"] == "danger"
    assert message["text"].count("Draft acceptance is low on") == 5
    assert "The first 5 of 7 are shown." in message["text"]
    assert event["payload"]["severity"] == "critical"
    assert event["payload"]["summary"].endswith("(7 in all)")


async def test_both_hear_that_an_alert_is_over(tmp_path: Path):
    async with loop(tmp_path) as running:
        await running.post([firing()])
        await running.until(lambda: bool(running.sink.slack and running.sink.pagerduty))
        await running.post([over(firing())])
        await running.until(lambda: len(running.sink.slack) == len(running.sink.pagerduty) == 2)
    message = attachment(running.sink.slack[1])
    assert message["title"] == "[RESOLVED] SpeculativeAcceptanceRateLow · llama"
    assert message["color"] == "good"
    assert message["text"].startswith("Resolved: Draft acceptance is low on vllm-a:8000")
    opened, closed = (received.payload for received in running.sink.pagerduty)
    assert (opened["event_action"], closed["event_action"]) == ("trigger", "resolve")
    assert opened["dedup_key"] == closed["dedup_key"]


async def test_whatever_labels_hold_both_take_the_message_and_nothing_in_it_is_markup(tmp_path: Path):
    hostile = [
        firing(instance=f"{number} {text}", model_name=text) for text in HOSTILE.values() for number in range(20)
    ]
    async with loop(tmp_path) as running:
        await running.post(hostile)
        groups = len(HOSTILE)
        await running.until(lambda: len(running.sink.slack) == len(running.sink.pagerduty) == groups)
    assert running.sink.refused == []
    for received in running.sink.slack:
        message = attachment(received)
        shown = [message[key] for key in ("title", "text", "fallback", "footer")]
        assert sum(map(len, shown)) < 6000
        for text in shown:
            without_links = re.sub(rf"<(?:https://(?:docs|grafana)\.example|{EXTERNAL})/[^<>|]*\|\w+>", "", text)
            assert not re.search(r"[<>]|&(?!(?:amp|lt|gt);)", without_links)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", "".join(shown))
    for received in running.sink.pagerduty:
        event = received.payload
        assert len(event["payload"]["summary"]) <= 220
        assert max(len(str(value)) for value in event["payload"]["custom_details"].values()) < 6000


async def test_a_text_that_is_cut_shows_it_and_is_not_cut_within_an_escaped_character(tmp_path: Path):
    async with loop(tmp_path) as running:
        await running.post([firing(model_name=" " * shift + "<" * 5000) for shift in (0, 1, 2, 3)])
        await running.until(lambda: len(running.sink.slack) == 4)
    for received in running.sink.slack:
        assert re.fullmatch(r"\[FIRING\] SpeculativeAcceptanceRateLow · ?\s*(&lt;)+…", attachment(received)["title"])


async def test_without_links_the_runbook_is_named_and_no_link_is_empty(tmp_path: Path):
    posted = firing()
    posted["annotations"] |= {"runbook_url": "docs/runbooks/x.md", "dashboard_url": "javascript:alert(1)"}
    async with loop(tmp_path) as running:
        await running.post([posted])
        await running.until(lambda: bool(running.sink.slack and running.sink.pagerduty))
    assert running.sink.refused == []
    last = attachment(running.sink.slack[0])["text"].splitlines()[-1]
    assert last == f"Runbook: docs/runbooks/x.md  <{running.silence}|Silence>"
    assert [link["text"] for link in running.sink.pagerduty[0].payload["links"]] == ["Silence"]


async def test_a_dead_server_silences_what_else_fires_on_it_and_no_other_server(tmp_path: Path):
    down = firing("SpeculationTargetDown")
    del down["labels"]["model_name"]
    symptoms = [firing(entry.name) for entry in ALERTS if entry.name != "SpeculationTargetDown"]
    symptoms += [firing(name) for name in ("SpeculationReplicaOff", "SpeculationPastConcurrencyLimit")]
    elsewhere = firing("SpeculationDrifted", instance="vllm-b:8000")
    async with loop(tmp_path) as running:
        await running.post([down, *symptoms, elsewhere])
        await running.until(lambda: len(running.sink.slack) == 2)
        states = {
            (entry["labels"]["alertname"], entry["labels"]["instance"]): entry["status"]["state"]
            for entry in await running.alerts()
        }
    assert states == {
        ("SpeculationTargetDown", "vllm-a:8000"): "active",
        ("SpeculationDrifted", "vllm-b:8000"): "active",
        **{(entry["labels"]["alertname"], "vllm-a:8000"): "suppressed" for entry in symptoms},
    }


async def test_a_dead_fleet_silences_its_servers_and_a_fallen_model_its_replicas(tmp_path: Path):
    fleet = firing("SpeculationNoTargets", job="dead")
    del fleet["labels"]["instance"], fleet["labels"]["model_name"]
    model = firing("SpeculationBelowLastWeek")
    del model["labels"]["instance"]
    told = [fleet, model, firing("SpeculationTargetDown", job="alive")]
    silenced = [
        firing("SpeculationTargetDown", job="dead"),
        firing("SpeculationSlowerThanNone", job="dead"),
        firing("SpeculativeAcceptanceRateLow"),
        firing("SpeculationReplicaOff"),
    ]
    async with loop(tmp_path) as running:
        await running.post([*told, *silenced])
        await running.until(lambda: len(running.sink.slack) == len(told))
        suppressed = [entry["labels"] for entry in await running.alerts() if entry["status"]["state"] == "suppressed"]

    def by_name(labels: dict[str, str]) -> tuple[str, str]:
        return labels["alertname"], labels["job"]

    assert sorted(map(by_name, suppressed)) == sorted(by_name(entry["labels"]) for entry in silenced)


async def test_a_server_that_speculation_slows_down_is_not_told_of_its_low_acceptance_as_well(tmp_path: Path):
    async with loop(tmp_path) as running:
        await running.post(
            [
                firing("SpeculationSlowerThanNone"),
                firing("SpeculativeAcceptanceRateLow"),
                firing("SpeculationDrifted"),
                firing("SpeculativeAcceptanceRateLow", model_name="other"),
            ]
        )
        await running.until(lambda: len(running.sink.slack) == 3)
        suppressed = [
            (entry["labels"]["alertname"], entry["labels"]["model_name"])
            for entry in await running.alerts()
            if entry["status"]["state"] == "suppressed"
        ]
    assert suppressed == [("SpeculativeAcceptanceRateLow", "llama")]


async def test_pagerduty_for_pages_alone_hears_of_no_ticket(tmp_path: Path):
    assert alert("SpeculationDrifted").severity is Severity.TICKET
    async with loop(tmp_path, pagerduty_for=Audience.PAGE) as running:
        await running.post([firing("SpeculationDrifted"), firing("SpeculationSlowerThanNone")])
        await running.until(lambda: len(running.sink.slack) == 2 and bool(running.sink.pagerduty))
    assert [received.payload["payload"]["class"] for received in running.sink.pagerduty] == [
        "SpeculationSlowerThanNone"
    ]
