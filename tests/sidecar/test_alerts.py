"""The sidecar's own alerting over a simulated fleet, in stepped time, with messages over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from specwatch.alerting.alertmanager import addresses
from specwatch.alerting.receivers import receivers
from specwatch.alerting.silences import Silence
from specwatch.config import SidecarConfig
from specwatch.lab.scenario import FOREIGN, HOME, Failure, Phase
from specwatch.lab.simulated_engine import StepCost
from specwatch.lab.simulator import SimulatedServer
from specwatch.lab.sink import Service, Sink
from specwatch.sidecar.alerts import REMEMBERED, AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.exporter import render
from specwatch.sidecar.service import Service as Sidecar
from tools.rehearsal import Rehearsal, offstage

LOW = "SpeculativeAcceptanceRateLow"

SLOW = StepCost(weights_seconds=0.2)
"""Five steps a second: enough to tell acceptance, and twelve times fewer to simulate."""


def server(name: str = "gpu-3") -> SimulatedServer:
    return SimulatedServer(name, model_name="llama", traffic=HOME, running=2, cost=SLOW)


def both(folder: Path, sink: Sink) -> SidecarConfig:
    """Slack and PagerDuty, both of them the sink."""
    return SidecarConfig(
        slack_webhook_file=folder / "slack",
        pagerduty_routing_key_file=folder / "pagerduty",
        pagerduty_url=sink.pagerduty_url,
    )


@asynccontextmanager
async def watched(folder: Path, *servers: SimulatedServer) -> AsyncIterator[tuple[Rehearsal, AlertBook, Sink]]:
    """A fleet, whose alerts go to a sink."""
    async with Sink() as sink:
        for name, secret in (("slack", sink.slack_url), ("pagerduty", "0" * 32)):
            (folder / name).write_text(secret)
            (folder / name).chmod(0o600)
        told = receivers(both(folder, sink))
        async with offstage(servers, receivers=told) as rehearsal, rehearsal.alerts.delivering():
            yield rehearsal, rehearsal.alerts, sink


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    for _ in range(round(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not so after {seconds:g} s")


async def delivered(book: AlertBook) -> None:
    """Wait until nothing is on its way."""
    await until(lambda: all(entry.waiting == 0 for entry in book.view().deliveries))


def told(sink: Sink, about: str) -> dict[Service, list[bool]]:
    """What each service was told of an alert, in order: True for firing."""
    return {
        Service.SLACK: ["Firing" in m.text.title for m in sink.slack if about in str(m.payload)],
        Service.PAGERDUTY: [
            m.payload["event_action"] == "trigger" for m in sink.pagerduty if about in m.payload["dedup_key"]
        ],
    }


def states(book: AlertBook) -> dict[str, str]:
    return {alert.name: alert.state for alert in book.view().alerts}


async def test_acceptance_falls_a_message_goes_to_both_and_another_when_it_is_over(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        await rehearsal.play(300, step=15)
        assert states(book) == {}
        rehearsal.fleet.apply(Phase(traffic=FOREIGN))
        await rehearsal.play(150, step=15)
        assert states(book)[LOW] == "pending"
        assert told(sink, LOW) == {Service.SLACK: [], Service.PAGERDUTY: []}
        await rehearsal.play(450, step=15)
        assert states(book)[LOW] == "firing"
        await delivered(book)
        assert told(sink, LOW) == {Service.SLACK: [True], Service.PAGERDUTY: [True]}
        rehearsal.fleet.apply(Phase(traffic=HOME))
        await rehearsal.play(600, step=15)
        await delivered(book)
        assert told(sink, LOW) == {Service.SLACK: [True, False], Service.PAGERDUTY: [True, False]}
    over = next(alert for alert in book.view().alerts if alert.name == LOW)
    assert (over.state, over.target, over.model) == ("resolved", "gpu-3", "llama")
    assert over.value > 0.6
    assert "no longer holds" in over.description
    assert sink.refused == []


async def test_what_the_message_says_is_what_the_api_says(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        rehearsal.fleet.apply(Phase(traffic=FOREIGN))
        await rehearsal.play(600, step=15)
        await delivered(book)
    firing = next(alert for alert in book.view().alerts if alert.name == LOW)
    event = next(message for message in sink.pagerduty if LOW in message.payload["dedup_key"]).payload
    assert event["payload"]["summary"] == firing.summary
    assert event["payload"]["source"] == firing.target
    assert event["payload"]["severity"] == "warning"
    # The value is the last one known; the message tells the one that fired.
    assert 0.2 < firing.value < 0.4
    assert firing.threshold == 0.6


async def test_a_target_that_goes_down_says_so_and_nothing_else(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        await rehearsal.play(300, step=15)
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(105, step=15)
        assert states(book) == {"SpeculationTargetDown": "pending"}
        # Long enough for every window to empty, and for every alert on a value to have fired on none.
        await rehearsal.play(2400, step=60)
        assert states(book) == {"SpeculationTargetDown": "firing"}
        await delivered(book)
        assert [message.payload["payload"]["severity"] for message in sink.pagerduty] == ["critical"]
        rehearsal.fleet.apply(Phase(failure=Failure.NONE))
        await rehearsal.play(120, step=15)
        await delivered(book)
    assert told(sink, "SpeculationTargetDown") == {Service.SLACK: [True, False], Service.PAGERDUTY: [True, False]}
    assert len(sink.slack) == len(sink.pagerduty) == 2


async def test_a_target_that_was_never_up_is_told_of_too(tmp_path):
    away = server("away")
    away.failure = Failure.DOWN
    async with watched(tmp_path, away, server("here")) as (rehearsal, book, sink):
        await rehearsal.play(180, step=15)
        await delivered(book)
    assert [(alert.target, alert.name, alert.state) for alert in book.view().alerts] == [
        ("away", "SpeculationTargetDown", "firing")
    ]
    assert "away cannot be scraped" in sink.slack[0].text.title


async def test_a_server_that_falls_silent_while_it_fires_is_not_called_mended(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        rehearsal.fleet.apply(Phase(traffic=FOREIGN))
        await rehearsal.play(600, step=15)
        rehearsal.fleet.apply(Phase(running=0))
        await rehearsal.play(600, step=30)
        assert states(book)[LOW] == "firing"
        await rehearsal.play(900, step=60)
        await delivered(book)
    assert told(sink, LOW)[Service.PAGERDUTY] == [True, False]
    over = next(alert for alert in book.view().alerts if alert.name == LOW)
    assert over.description.startswith("Closed for lack of data, not because it is known to be fixed")


async def test_deliveries_are_counted_by_receiver_and_outcome(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        sink.fail_next(1, 403, service=Service.SLACK)
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(180, step=15)
        await delivered(book)
        rehearsal.fleet.apply(Phase(failure=Failure.NONE))
        await rehearsal.play(120, step=15)
        await delivered(book)
        slack, pagerduty = book.view().deliveries
        page = render(rehearsal.service, book).decode()
    assert (slack.receiver, slack.sent, slack.failed, slack.dropped, slack.waiting) == ("slack", 1, 1, 0, 0)
    assert [(dead.title, dead.reason) for dead in slack.dead_letters] == [
        ("Firing: gpu-3 cannot be scraped", "HTTP 403 told to fail")
    ]
    assert 'specwatch_receiver_health{receiver="pagerduty"} 0.0' in page
    assert 'specwatch_receiver_last_success_timestamp_seconds{receiver="slack"} 1.' in page
    assert (pagerduty.receiver, pagerduty.sent, pagerduty.failed, pagerduty.health) == ("pagerduty", 2, 0, "working")
    assert pagerduty.last_success is not None
    counted = {
        (sample.labels["receiver"], sample.labels["outcome"]): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "specwatch_notifications_total"
    }
    assert counted == {
        **{("slack", "sent"): 1.0, ("slack", "failed"): 1.0, ("slack", "dropped"): 0.0},
        **{("pagerduty", "sent"): 2.0, ("pagerduty", "failed"): 0.0, ("pagerduty", "dropped"): 0.0},
    }


async def test_metrics_show_what_is_pending_and_firing_and_forget_what_is_over(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, _):
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        shown = []
        for seconds in (60, 120):
            await rehearsal.play(seconds, step=15)
            shown.append(render(rehearsal.service, book).decode())
        rehearsal.fleet.apply(Phase(failure=Failure.NONE))
        await rehearsal.play(120, step=15)
        shown.append(render(rehearsal.service, book).decode())
    active = 'specwatch_alert_active{alertname="SpeculationTargetDown",state="%s",target="gpu-3"} 1.0'
    assert [active % "pending" in page for page in shown] == [True, False, False]
    assert [active % "firing" in page for page in shown] == [False, True, False]
    assert states(book) == {"SpeculationTargetDown": "resolved"}


async def test_without_receivers_alerts_are_judged_all_the_same():
    away = server()
    away.failure = Failure.DOWN
    async with offstage([away]) as rehearsal:
        await rehearsal.play(180, step=15)
        alerts = TestClient(rehearsal.app, base_url="http://127.0.0.1").get("/api/v1/alerts").json()
    assert [(alert["name"], alert["state"]) for alert in alerts["alerts"]] == [("SpeculationTargetDown", "firing")]
    assert alerts["deliveries"] == []


async def test_only_so_many_resolved_alerts_are_remembered_the_latest_first():
    gpu = server()
    async with offstage([gpu]) as rehearsal:
        book = AlertBook(time_scale=0.001)
        rehearsal.service._listener = book.judge
        for _ in range(REMEMBERED + 5):
            for failure in (Failure.DOWN, Failure.NONE):
                rehearsal.fleet.apply(Phase(failure=failure))
                await rehearsal.play(2, step=1)
    view = book.view()
    assert len(view.alerts) == REMEMBERED
    assert [alert.at for alert in view.alerts] == sorted((alert.at for alert in view.alerts), reverse=True)


def test_an_application_without_targets_has_no_alerts():
    client = TestClient(create_app(Sidecar([]), AlertBook()), base_url="http://127.0.0.1")
    assert client.get("/api/v1/alerts").json() == {"alerts": [], "deliveries": []}


async def test_servers_of_a_model_that_fail_together_are_one_message_and_one_incident(tmp_path):
    fleet = [server(f"gpu-{number}") for number in range(5)]
    async with watched(tmp_path, *fleet) as (rehearsal, book, sink):
        await rehearsal.play(30, step=15)
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(300, step=15)
        rehearsal.fleet.apply(Phase(failure=Failure.NONE))
        await rehearsal.play(450, step=15)
        await delivered(book)
    assert told(sink, "SpeculationTargetDown") == {Service.SLACK: [True, False], Service.PAGERDUTY: [True, False]}
    assert sink.slack[0].text.title == "🔴 Firing: gpu-0 cannot be scraped, and on 4 more"


async def test_a_server_that_goes_down_silences_what_was_said_of_it_before(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        rehearsal.fleet.apply(Phase(traffic=FOREIGN))
        await rehearsal.play(315, step=15)
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(300, step=15)
        await delivered(book)
        shown = {alert.name: alert.inhibited_by for alert in book.view().alerts}
    assert shown["SpeculationTargetDown"] is None
    assert all(by == "SpeculationTargetDown" for name, by in shown.items() if name != "SpeculationTargetDown")
    keys = [message.payload["dedup_key"] for message in sink.pagerduty]
    assert keys[-1] == "specwatch/SpeculationTargetDown/gpu-3"


async def test_what_fires_on_a_target_that_is_gone_for_good_is_over(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(300, step=15)
        await book.forget("gpu-3")
        await delivered(book)
    assert told(sink, "SpeculationTargetDown")[Service.PAGERDUTY] == [True, False]
    assert "is no longer watched" in str(sink.slack[-1].payload)


async def test_alertmanagers_are_told_of_what_fires_and_of_nothing_that_is_silenced():
    gpu = server()
    async with offstage([gpu]) as rehearsal:
        told = addresses(SidecarConfig(alertmanager=("http://127.0.0.1:9",)))
        book = AlertBook(clock=rehearsal.clock, alertmanagers=told)
        rehearsal.service._listener = book.judge
        await book.silence(Silence("1", "*", "*", "*", rehearsal.clock.now() + 300, "", ""))
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(240, step=15)
        assert book._alertmanagers.bodies() == []
        await rehearsal.play(120, step=15)
        assert [body["labels"]["alertname"] for body in book._alertmanagers.bodies()] == ["SpeculationTargetDown"]
        # Silenced afterwards it goes on to be told: that it ended would be wrong.
        await book.silence(Silence("2", "*", "*", "*", rehearsal.clock.now() + 3600, "", ""))
        await rehearsal.play(120, step=15)
        (body,) = book._alertmanagers.bodies()
        assert datetime.fromisoformat(body["endsAt"]).timestamp() > rehearsal.clock.now()


async def test_a_message_shows_how_acceptance_was_in_the_last_hours(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        await rehearsal.play(1800, step=30)
        rehearsal.fleet.apply(Phase(traffic=FOREIGN))
        await rehearsal.play(900, step=30)
        await delivered(book)
    event = next(message for message in sink.pagerduty if LOW in message.payload["dedup_key"]).payload
    title, line = event["payload"]["custom_details"]["lately"].split(": ")
    drawn, lowest, _, highest = line.split()
    assert title.startswith("Acceptance rate, ")
    # A window that begins with the last scrape before its end has nothing to tell.
    assert (drawn.lstrip("·")[0], drawn[-1]) == ("█", "▁")
    assert float(lowest.strip("%")) < 60 < float(highest.strip("%"))
