"""Alerts for Alertmanager's API v2: what is sent when, to real Alertmanagers and to one that is away."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from specwatch.alerting.alertmanager import OVER_SECONDS, VALID_SECONDS, Alertmanagers, addresses
from specwatch.alerting.catalogue import alert
from specwatch.alerting.delivery import Health
from specwatch.alerting.evaluation import AlertStatus, Ending, State, Transition
from specwatch.alerting.notification import Places
from specwatch.config import SidecarConfig
from specwatch.errors import InputError
from tests.support.alertmanager import alertmanager
from tests.support.http import serving
from tests.support.notifications import with_any_name

PLACES = Places("http://specwatch.example/", "https://docs.example/runbooks")


def firing(target: str = "gpu-3", at: float | None = None) -> AlertStatus:
    moment = time.time() if at is None else at
    return AlertStatus(
        alert=alert("SpeculationTargetDown"),
        target=target,
        model="llama",
        state=State.FIRING,
        at=moment,
        since=moment - 120,
        value=0.0,
        value_at=moment,
    )


def over(status: AlertStatus, at: float) -> Transition:
    return Transition(**{**vars(status), "at": at, "state": State.RESOLVED}, ending=Ending.CLEARED)


def told(*urls: str, now: Callable[[], float] = time.time) -> Alertmanagers:
    return Alertmanagers(addresses(SidecarConfig(alertmanager=urls)), PLACES, now)


def ends_in(body: dict[str, Any], now: float) -> float:
    return datetime.fromisoformat(body["endsAt"]).timestamp() - now


def test_what_fires_is_sent_with_an_end_ahead_each_time():
    moment = [1_700_000_000.0]
    book = told("http://127.0.0.1:9", now=lambda: moment[0])
    book.fires(firing(at=moment[0]))
    for _ in range(3):
        (body,) = book.bodies()
        assert ends_in(body, moment[0]) == VALID_SECONDS
        assert body["startsAt"] == "2023-11-14T22:11:20+00:00"
        moment[0] += 60
    assert body["labels"] == {
        "alertname": "SpeculationTargetDown",
        "severity": "page",
        "model_name": "llama",
        "instance": "gpu-3",
    }
    assert body["annotations"]["runbook_url"] == "https://docs.example/runbooks/SpeculationTargetDown.md"
    assert body["generatorURL"] == "http://specwatch.example/"


def test_what_is_over_is_sent_with_its_end_for_a_while_and_then_forgotten():
    moment = [1_700_000_000.0]
    book = told("http://127.0.0.1:9", now=lambda: moment[0])
    status = firing(at=moment[0])
    book.fires(status)
    book.over(over(status, moment[0]))
    assert not book.knows(status)
    moment[0] += OVER_SECONDS - 1
    (body,) = book.bodies()
    assert ends_in(body, moment[0]) == 1 - OVER_SECONDS
    moment[0] += 1
    assert book.bodies() == []


def test_what_was_never_sent_is_not_sent_as_over():
    book = told("http://127.0.0.1:9")
    book.over(over(firing(), time.time()))
    assert book.bodies() == []


def test_without_an_alertmanager_nothing_is_gathered():
    book = told()
    book.fires(firing())
    assert (book.bodies(), book.statuses()) == ([], [])


@pytest.mark.parametrize(
    "url",
    ["alertmanager:9093", "ftp://a", "http://", "http://ann:Secret@a:9093", "http://a?b=Secret", "http://a#Secret"],
)
def test_an_address_that_cannot_be_one_is_refused_without_showing_it(url: str):
    with pytest.raises(InputError, match="--alertmanager") as refused:
        told(url)
    assert "Secret" not in str(refused.value)


def test_the_same_address_twice_is_refused():
    with pytest.raises(InputError, match="twice"):
        told("http://a:9093", "http://a:9093/")


def test_a_token_goes_into_the_header_and_shows_nowhere(tmp_path: Path):
    (tmp_path / "token").write_text("VerySecretToken\n")
    config = SidecarConfig(alertmanager=("http://127.0.0.1:9",), alertmanager_token_file=tmp_path / "token")
    (address,) = addresses(config)
    assert address.headers["Authorization"].reveal() == "Bearer VerySecretToken"
    assert "VerySecret" not in repr(address)


async def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    for _ in range(round(seconds / 0.02)):
        answer = condition()
        if await answer if asyncio.iscoroutine(answer) else answer:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not so after {seconds:g} s")


async def shown(url: str) -> dict[str, dict[str, Any]]:
    """The alerts that an Alertmanager takes as firing, by server."""
    async with aiohttp.ClientSession() as http, http.get(f"{url}/api/v2/alerts") as response:
        return {one["labels"]["instance"]: one for one in await response.json()}


def quiet_configuration(folder: Path) -> Path:
    path = folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump({"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}))
    return path


@pytest.mark.services
async def test_all_alertmanagers_hear_of_it_whatever_one_of_them_does(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    config = quiet_configuration(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with alertmanager(tmp_path / "one", config) as one, alertmanager(tmp_path / "two", config) as two:
            book = told(one, nobody, two)
            running = asyncio.create_task(book.run())
            status = firing()
            book.fires(status)

            async def is_known() -> bool:
                return all([status.target in await shown(url) for url in (one, two)])

            async def is_over() -> bool:
                return not any([await shown(url) for url in (one, two)])

            await until(is_known)
            entry = (await shown(one))["gpu-3"]
            assert entry["annotations"]["summary"] == "gpu-3 cannot be scraped"
            assert entry["labels"]["alertname"] == "SpeculationTargetDown"
            book.over(over(status, time.time()))
            await until(is_over)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
    healths = [entry.health for entry in book.statuses()]
    assert healths == [Health.WORKING, Health.RETRYING, Health.WORKING]
    assert "Connection refused" in (book.statuses()[1].last_problem or "")


async def test_one_that_comes_back_hears_how_things_stand():
    answers = iter([200, 503])
    bodies: list[list[str]] = []

    async def take(request: web.Request) -> web.Response:
        bodies.append([one["labels"]["instance"] for one in await request.json()])
        return web.Response(status=next(answers, 200))

    async with serving({}, {"/under/api/v2/alerts": take}) as url:
        book = told(f"{url}/under/")
        book.fires(firing("before"))
        running = asyncio.create_task(book.run())
        await until(lambda: book.statuses()[0].sent == 1)
        book.fires(firing("while it was away"))
        await until(lambda: book.statuses()[0].health is Health.RETRYING)
        assert book.statuses()[0].waiting == 1
        await until(lambda: book.statuses()[0].health is Health.WORKING)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert bodies == [["before"], *([["before", "while it was away"]] * 2)]
    assert (book.statuses()[0].sent, book.statuses()[0].failed) == (2, 1)


@with_any_name
@pytest.mark.services
async def test_no_name_is_refused(tmp_path: Path, name: str):
    async with alertmanager(tmp_path, quiet_configuration(tmp_path)) as url:
        book = told(url)
        book.fires(firing(name))
        await book.finish()
        (status,) = book.statuses()
    assert (status.sent, status.last_problem) == (1, None)
