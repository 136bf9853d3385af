from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from specwatch.alerting import pagerduty, slack
from specwatch.errors import SpecwatchError
from specwatch.lab import show as module
from specwatch.lab.child import running
from specwatch.lab.show import ALERT, SCENES, Look, Scene, Show, is_about
from specwatch.lab.sink import Received, Service, Sink
from specwatch.lab.stage import Stage
from tests.support.http import serving
from tests.support.notifications import notification

ROUTING_KEY = "0" * 32


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(module, "LOOK_EVERY", 0.01)


@dataclass
class Traffic:
    """Remembers what it was asked for."""

    asked: list[str] = field(default_factory=list)

    def home(self) -> None:
        """The draft's own traffic."""
        self.asked.append("home")

    def foreign(self) -> None:
        """The other."""
        self.asked.append("foreign")


def server(name: str = "a", rate: float | None = 0.9, score: float | None = 0.0) -> dict[str, Any]:
    """A target as /api/v1/signals tells it."""
    return {
        "target": {"name": name},
        "headline_window": "15s",
        "windows": {"15s": {"values": {"acceptance_rate": rate, "estimated_speedup": 3.0}}},
        "drift": {"score": score, "reference": 0.9, "learned": 1.0},
    }


def received(service: Service, **changes: Any) -> Received:
    payload = (
        slack.payload(notification(**changes))
        if service is Service.SLACK
        else pagerduty.payload(notification(**changes), ROUTING_KEY)
    )
    return Received(0.0, service, payload)


def look(*servers: dict[str, Any], firing: tuple[str, ...] = (), messages: tuple[Received, ...] = ()) -> Look:
    alerts = [{"name": name, "target": "a", "state": "firing"} for name in firing]
    return Look(list(servers), alerts, messages)


def scene(seen: Callable[[Look], bool], *, at_most: float = 30.0, title: str = "A scene") -> Scene:
    return Scene(title, "What happens.", lambda traffic: traffic.home(), seen, at_most)


@asynccontextmanager
async def playing(tmp_path, answer: Callable[[str], Any], program: str = "import time; time.sleep(60)"):
    """A stage whose sidecar answers what ``answer`` makes of the path's end, and what was watched."""

    async def handler(request: web.Request) -> web.StreamResponse:
        content = answer(request.path.rpartition("/")[2])
        return content if isinstance(content, web.StreamResponse) else web.json_response(content)

    watched: list[tuple[str, Look]] = []
    async with (
        Sink() as sink,
        serving({"/api/v1/signals": handler, "/api/v1/alerts": handler}) as page,
        running("the sidecar", [sys.executable, "-c", program], tmp_path / "log") as child,
    ):
        stage = Stage(page, ("http://127.0.0.1:1",), Traffic(), child)
        yield Show(stage, sink, lambda scene, _, seen: watched.append((scene.title, seen))), watched


def healthy(what: str) -> Any:
    return {"targets": [server()]} if what == "signals" else {"alerts": []}


async def post(url: str, payload: dict[str, Any]) -> None:
    async with aiohttp.ClientSession() as session, session.post(url, json=payload) as response:
        response.raise_for_status()


async def test_every_scene_brings_its_traffic_and_ends_when_it_is_seen(tmp_path):
    async with playing(tmp_path, healthy) as (show, watched):
        await show.play(
            [
                Scene("one", "", lambda traffic: traffic.home(), lambda seen: True, 30),
                Scene("two", "", lambda traffic: traffic.foreign(), lambda seen: len(watched) >= 4, 30),
            ]
        )
        assert show.stage.traffic.asked == ["home", "foreign"]
    assert [title for title, _ in watched] == ["one", "two", "two", "two"]
    assert watched[0][1].headline("acceptance_rate") == [0.9]


async def test_a_scene_that_does_not_show_what_it_should_fails_and_names_the_log(tmp_path):
    async with playing(tmp_path, healthy) as (show, watched):
        with pytest.raises(SpecwatchError) as caught:
            await show.play([scene(lambda seen: False, at_most=5.0, title="Nothing to see")])
    assert str(caught.value) == (
        f"“Nothing to see” did not show what it should within 5 s; the log is {tmp_path / 'log'}"
    )
    assert len(watched) > 1


async def test_a_sidecar_that_answers_later_is_waited_for(tmp_path):
    asked: list[str] = []

    def answer(what: str) -> Any:
        asked.append(what)
        return healthy(what) if len(asked) > 6 else web.Response(status=503, text="not yet")

    async with playing(tmp_path, answer) as (show, watched):
        await show.play([scene(lambda seen: True)])
    assert len(watched) == 1


async def test_a_sidecar_that_never_answers_is_named(tmp_path):
    async with playing(tmp_path, lambda what: web.Response(status=503)) as (show, watched):
        with pytest.raises(SpecwatchError, match=r"and the sidecar at http://\S+ does not answer; the log"):
            await show.play([scene(lambda seen: True, at_most=0.2)])
    assert watched == []


async def test_the_death_of_what_everything_hangs_on_ends_the_show_with_its_log(tmp_path):
    program = "import time; print('the reason', flush=True); time.sleep(0.3); raise SystemExit(5)"
    async with playing(tmp_path, healthy, program) as (show, _):
        with pytest.raises(SpecwatchError) as caught:
            await show.play([scene(lambda seen: False)])
    assert "the sidecar ended with code 5" in str(caught.value)
    assert "the reason" in str(caught.value)


async def test_messages_of_an_earlier_scene_are_none_of_this_one(tmp_path):
    async with playing(tmp_path, healthy) as (show, watched):
        await post(show.sink.slack_url, slack.payload(notification(target="before")))
        await asyncio.sleep(0.01)

        def seen(look: Look) -> bool:
            return len(watched) > 2

        await show.play([scene(seen)])
        assert [len(entry.messages) for _, entry in watched] == [0, 0, 0]


async def test_messages_of_this_scene_come_in_the_order_of_arrival(tmp_path):
    async with playing(tmp_path, healthy) as (show, watched):
        sending: list[asyncio.Task[None]] = []

        async def send() -> None:
            await post(show.sink.pagerduty_url, pagerduty.payload(notification(target="first"), ROUTING_KEY))
            await post(show.sink.slack_url, slack.payload(notification(target="second")))

        def seen(look: Look) -> bool:
            if not sending:
                sending.append(asyncio.create_task(send()))
            return len(look.messages) == 2

        await show.play([scene(seen)])
    assert [message.service for message in watched[-1][1].messages] == [Service.PAGERDUTY, Service.SLACK]


@pytest.mark.parametrize("service", list(Service))
def test_a_message_about_the_alert_is_told_from_others(service):
    assert is_about(received(service), firing=True)
    assert not is_about(received(service), firing=False)
    assert is_about(received(service, firing=False), firing=False)
    assert not is_about(received(service, firing=False), firing=True)
    assert not is_about(received(service, alert="SpeculationDrifted", links=()), firing=True)


BOTH = (received(Service.SLACK, alert=ALERT), received(Service.PAGERDUTY, alert=ALERT))
BOTH_RESOLVED = tuple(received(service, alert=ALERT, firing=False) for service in Service)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (look(server()), True),
        (look(server("a"), server("b", score=None)), False),
        (look(server("a"), server("b", rate=None)), True),
        (look(server(rate=None)), False),
        (look(server("a"), server("b", rate=0.5)), False),
    ],
)
def test_the_first_scene_ends_when_every_server_has_learned_its_normal_and_it_is_good(seen, expected):
    assert SCENES[0].seen(seen) is expected


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (look(server(score=1.2), messages=BOTH), True),
        (look(server(score=0.9), messages=BOTH), False),
        (look(server(score=1.2), messages=BOTH[:1]), False),
        (look(server(score=1.2), messages=BOTH[1:]), False),
        (look(server(score=1.2), messages=BOTH_RESOLVED), False),
    ],
)
def test_the_second_scene_ends_when_drift_is_raised_and_both_services_were_told(seen, expected):
    assert SCENES[1].seen(seen) is expected


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (look(server(), messages=BOTH_RESOLVED), True),
        (look(server(), messages=BOTH_RESOLVED, firing=("SpeculationDrifted",)), False),
        (look(server(), messages=BOTH_RESOLVED[:1]), False),
        (look(server(), messages=BOTH), False),
    ],
)
def test_the_last_scene_ends_when_nothing_fires_and_both_services_were_told_so(seen, expected):
    assert SCENES[2].seen(seen) is expected
