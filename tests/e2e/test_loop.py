"""The whole loop, everything real: vLLM, the sidecar, Prometheus, Alertmanager; only Slack and PagerDuty are played.

Prometheus and Alertmanager load what ``specwatch gen-alerts`` writes, with its own time scale.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from specwatch.generate.promql import duration
from specwatch.generate.rules import recording
from specwatch.generate.rules_config import RulesConfig
from specwatch.lab.sink import Received, Sink
from specwatch.lab.stage import ROUTING_KEY, SERVED_NAME
from specwatch.measure.load import Load
from specwatch.signals.catalogue import signal
from tests.support.alertmanager import alertmanager
from tests.support.lab import FOREIGN, HOME, TIME_SCALE, LabServer, some_prompts, specwatch, traffic, watched
from tests.support.programs import run
from tests.support.prometheus import Prometheus, prometheus

pytestmark = [pytest.mark.vllm, pytest.mark.services, pytest.mark.timeout(1800)]

ALERT = "SpeculativeAcceptanceRateLow"
RUNBOOKS = "https://example.com/specwatch/docs/runbooks"
CONFIG = RulesConfig(time_scale=TIME_SCALE)
ACCEPTANCE = recording(CONFIG).signal(signal("acceptance_rate"))
WINDOW = CONFIG.scaled(CONFIG.rate_window)
UNTIL_ALARM = 2 * WINDOW + 5.0
"""Seconds from bad traffic to a message: the window fills, the alert waits as long again, Alertmanager groups."""

PATIENCE = 180.0
"""Seconds after which something that should happen is taken as not happening: several times what it needs."""

AGREEMENT = 0.03
"""Sidecar and Prometheus may differ by this much on steady traffic: their windows end at different scrapes."""


@dataclass(frozen=True)
class Loop:
    """Everything that runs, and what can be seen of it."""

    server: LabServer
    prometheus: Prometheus
    alertmanager: str
    sink: Sink
    load: Load

    async def recorded(self) -> float | None:
        """The server's acceptance as the recording rule has it now."""
        samples = await self.prometheus.query(f'{ACCEPTANCE}{{instance="{self.server.instance}"}}')
        return samples[0].value if samples else None

    async def told_by_sidecar(self) -> float | None:
        """The server's acceptance over the same window as the sidecar has it now."""
        target = await watched(self.server.page)
        value: float | None = target["windows"][target["headline_window"]]["values"]["acceptance_rate"]
        return value

    async def scraped_from_sidecar(self) -> float | None:
        """The same as Prometheus last scraped it from the sidecar."""
        samples = await self.prometheus.query(f'specwatch_acceptance_rate_ratio{{window="{duration(WINDOW)}"}}')
        return samples[0].value if samples else None

    async def firing(self) -> list[Mapping[str, str]]:
        """Labels of the acceptance alerts that Alertmanager holds as firing."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.alertmanager}/api/v2/alerts") as response:
            alerts = await response.json()
        return [alert["labels"] for alert in alerts if alert["labels"]["alertname"] == ALERT]

    def messages(self, kept: list[Received], *, firing: bool) -> list[Received]:
        """Those in ``kept`` that say that the acceptance alert fires, or is over."""
        return [message for message in kept if is_about_acceptance(message) and says_firing(message) is firing]

    async def until(self, what: str, seen: Callable[[], bool]) -> None:
        """Wait for something; the failure says everything that was seen instead."""
        deadline = time.monotonic() + PATIENCE
        while not seen():
            assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}; {await self.state()}"
            await asyncio.sleep(0.5)

    async def state(self) -> str:
        """What is going on, for a failure's message."""
        alerts = await self.prometheus.query("ALERTS")
        return "\n".join(
            [
                f"acceptance {await self.recorded()} in Prometheus, {await self.told_by_sidecar()} in the sidecar",
                f"alerts: {[dict(sample.labels) for sample in alerts]}",
                f"traffic: {self.load.totals}",
                *(f"{m.service.value}: {m.text.title}" for m in (*self.sink.slack, *self.sink.pagerduty)),
                *(f"refused: {refusal}" for refusal in self.sink.refused),
                self.server.launch.tail(),
            ]
        )


def is_about_acceptance(message: Received) -> bool:
    return ALERT in str(message.payload)


def says_firing(message: Received) -> bool:
    action = message.payload.get("event_action")
    return action == "trigger" if action else "FIRING" in message.text.title


def write_configuration(folder: Path, sink: Sink) -> None:
    """What a platform team does: generate, and put the secrets where Alertmanager reads them."""
    slack, pagerduty = folder / "slack-url", folder / "pagerduty-key"
    slack.write_text(sink.slack_url)
    pagerduty.write_text(ROUTING_KEY)
    options = ["--slack-url-file", slack, "--pagerduty-key-file", pagerduty, "--pagerduty-url", sink.pagerduty_url]
    options += ["--runbook-base", RUNBOOKS, "--time-scale", str(TIME_SCALE)]
    run(specwatch("gen-alerts", "--output", folder, *options))


@asynccontextmanager
async def watching(server: LabServer, folder: Path) -> AsyncIterator[Loop]:
    """Prometheus on vLLM and the sidecar, Alertmanager behind it, home traffic on the server."""
    async with Sink() as sink:
        write_configuration(folder, sink)
        async with alertmanager(folder, folder / "alertmanager.yml") as alerts:
            scraped = {CONFIG.vllm_job: server.url, CONFIG.specwatch_job: server.page}
            config = {
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                "rule_files": [str(folder / "specwatch.rules.yml")],
                "alerting": {"alertmanagers": [static(alerts)]},
                "scrape_configs": [{"job_name": job, **static(url)} for job, url in scraped.items()],
            }
            # Prometheus resends what fires only after this delay, a minute unless told.
            flags = [f"--rules.alert.resend-delay={duration(CONFIG.scaled(CONFIG.interval))}"]
            async with prometheus(folder, config, flags=flags) as engine, traffic(server.url, HOME) as load:
                yield Loop(server, engine, alerts, sink, load)


def static(url: str) -> dict[str, Any]:
    return {"static_configs": [{"targets": [url.removeprefix("http://")]}]}


async def test_the_alert_rings_at_slack_and_pagerduty_when_the_traffic_leaves_the_draft_and_resolves_on_its_return(
    lab_server: LabServer, tmp_path: Path, record_property: Callable[[str, object], None]
):
    assert "left vLLM with 0.8.3: written as --speculative-config" in lab_server.launch.output()
    async with watching(lab_server, tmp_path) as loop:
        await stays_quiet_on_traffic_the_draft_was_made_for(loop)
        home = await sidecar_and_prometheus_agree(loop)

        loop.load.use(some_prompts(FOREIGN))
        await loop.until(
            "both are told that acceptance is low",
            lambda: all(loop.messages(kept, firing=True) for kept in (loop.sink.slack, loop.sink.pagerduty)),
        )
        await the_alert_names_the_server(loop)
        the_messages_say_what_to_do(loop)
        foreign = await sidecar_and_prometheus_agree(loop)

        loop.load.use(some_prompts(HOME))
        await loop.until(
            "both are told that it is over",
            lambda: all(loop.messages(kept, firing=False) for kept in (loop.sink.slack, loop.sink.pagerduty)),
        )
        the_messages_say_that_it_is_over(loop)
        assert loop.sink.refused == []
    record_property("acceptance by the sidecar and by Prometheus", f"{home} at home, {foreign} on foreign traffic")


async def stays_quiet_on_traffic_the_draft_was_made_for(loop: Loop) -> None:
    """No message in a time in which one would have come, while acceptance is recorded and high."""
    await loop.prometheus.wait_for(f"{ACCEPTANCE} > 0.6", PATIENCE)
    began = time.monotonic()
    deadline = began + PATIENCE
    while time.monotonic() < began + UNTIL_ALARM:
        acceptance = await loop.recorded()
        if acceptance is None:  # a busy machine delayed every scrape of a window: the time begins anew
            began = time.monotonic()
        assert acceptance is None or acceptance > 0.6, await loop.state()
        assert time.monotonic() < deadline, await loop.state()
        await asyncio.sleep(1.0)
    kept = (*loop.sink.slack, *loop.sink.pagerduty)
    assert [message.text for message in kept if is_about_acceptance(message)] == []


async def sidecar_and_prometheus_agree(loop: Loop) -> str:
    """While the window holds one kind of traffic only, both say the same of it, as soon as both have been asked."""
    deadline = time.monotonic() + PATIENCE
    while True:
        told, *others = await asyncio.gather(loop.told_by_sidecar(), loop.recorded(), loop.scraped_from_sidecar())
        # On a busy machine a scrape may be late by seconds, and there is no value then, or an older one.
        if told is not None and None not in others and others == pytest.approx([told, told], abs=AGREEMENT):
            return f"{told:.1%} and {others[0]:.1%}"
        assert time.monotonic() < deadline, f"{told}, {others}: {await loop.state()}"
        await asyncio.sleep(1.0)


async def the_alert_names_the_server(loop: Loop) -> None:
    deadline = time.monotonic() + PATIENCE
    # What Prometheus is too busy to send again is over for Alertmanager, until it comes.
    while not (labels := await loop.firing()):
        assert time.monotonic() < deadline, await loop.state()
        await asyncio.sleep(0.5)
    assert labels == [
        {
            "alertname": ALERT,
            "severity": "ticket",
            "job": CONFIG.vllm_job,
            "instance": loop.server.instance,
            "model_name": SERVED_NAME,
        }
    ]


def the_messages_say_what_to_do(loop: Loop) -> None:
    instance = loop.server.instance
    (slack, *_), (pagerduty, *_) = (loop.messages(kept, firing=True) for kept in (loop.sink.slack, loop.sink.pagerduty))
    (attachment,) = slack.payload["attachments"]
    assert attachment["title"] == f"[FIRING] {ALERT} · {SERVED_NAME}"
    assert attachment["color"] == "warning"
    assert attachment["footer"] == f"ticket · job {CONFIG.vllm_job}"
    assert f"<{RUNBOOKS}/{ALERT}.md|Runbook>" in attachment["text"]
    says_how_low_and_what_to_do(attachment["text"], instance)

    event = pagerduty.payload
    assert event["routing_key"] == ROUTING_KEY
    assert event["payload"]["summary"] == f"[FIRING] Draft acceptance is low on {instance}"
    assert event["payload"]["severity"] == "warning"
    assert event["payload"]["class"] == ALERT
    assert event["payload"]["component"] == SERVED_NAME
    assert event["payload"]["group"] == CONFIG.vllm_job
    assert {"text": "Runbook", "href": f"{RUNBOOKS}/{ALERT}.md"} in event["links"]
    says_how_low_and_what_to_do(event["payload"]["custom_details"]["firing"], instance)


def says_how_low_and_what_to_do(text: str, instance: str) -> None:
    said = re.search(
        rf"{re.escape(instance)} \({SERVED_NAME}\) accepts ([\d.]+)% of its draft tokens, below 60%\.", text
    )
    assert said, text
    assert 0.0 < float(said[1]) < 60.0
    assert "lower K, change the draft, or turn speculation off" in text


def the_messages_say_that_it_is_over(loop: Loop) -> None:
    (slack, *_), (pagerduty, *_) = (
        loop.messages(kept, firing=False) for kept in (loop.sink.slack, loop.sink.pagerduty)
    )
    (attachment,) = slack.payload["attachments"]
    assert attachment["title"] == f"[RESOLVED] {ALERT} · {SERVED_NAME}"
    assert attachment["color"] == "good"
    assert f"Resolved: Draft acceptance is low on {loop.server.instance}" in attachment["text"]
    keys = {message.payload["dedup_key"] for message in loop.messages(loop.sink.pagerduty, firing=True)}
    assert keys == {pagerduty.payload["dedup_key"]}, "the incident that was opened is the one that is closed"
    assert pagerduty.payload["event_action"] == "resolve"
