"""Silences through the API, and what becomes of messages under them."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from specwatch.alerting.silences import COMMENT_LENGTH, LONGEST_SILENCE, MOST_SILENCES, PATTERN_LENGTH
from specwatch.lab.scenario import FOREIGN, Failure, Phase
from specwatch.lab.sink import Service
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service as Sidecar
from tests.sidecar.test_alerts import LOW, delivered, server, told, watched
from tools.rehearsal import Rehearsal

PATH = "/api/v1/silences"
DOWN = "SpeculationTargetDown"
NOBODY = {Service.SLACK: [], Service.PAGERDUTY: []}


def each(*firing: bool) -> dict[Service, list[bool]]:
    """What both services were told, in order: True for firing."""
    return {Service.SLACK: list(firing), Service.PAGERDUTY: list(firing)}


def client(book: AlertBook | None = None) -> TestClient:
    return TestClient(create_app(Sidecar([]), book or AlertBook()), base_url="http://127.0.0.1")


def make(http: TestClient, seconds: float = 60.0, **fields: Any) -> httpx.Response:
    return http.post(PATH, json={"ends_at": time.time() + seconds} | fields)


def silence(rehearsal: Rehearsal, book: AlertBook, seconds: float, **fields: Any) -> str:
    """Make a silence as the page does, in played time."""
    made = client(book).post(PATH, json={"ends_at": rehearsal.clock.now() + seconds, **fields})
    assert made.status_code == 201
    return str(made.json()["id"])


def test_a_silence_is_made_listed_and_ended():
    http = client()
    made = make(http, alert=LOW, target="gpu-*", by="ann", comment="new draft on Monday")
    assert made.status_code == 201
    entry = made.json()
    assert (entry["alert"], entry["target"], entry["model"]) == (LOW, "gpu-*", "*")
    assert (entry["by"], entry["comment"]) == ("ann", "new draft on Monday")
    assert http.get(PATH).json() == [entry]
    assert http.delete(f"{PATH}/{entry['id']}").status_code == 204
    assert http.get(PATH).json() == []
    assert http.delete(f"{PATH}/{entry['id']}").status_code == 404


@pytest.mark.parametrize(
    "fields",
    [
        {"ends_at": 0},
        {"ends_at": -1e308},
        {"ends_at": 1e308},
        {"ends_at": "NaN"},
        {"ends_at": "Infinity"},
        {"ends_at": None},
        {"ends_at": "tomorrow"},
        {"alert": ""},
        {"target": 7},
        {"model": "x" * (PATTERN_LENGTH + 1)},
        {"comment": "x" * (COMMENT_LENGTH + 1)},
        {"labels": {"job": "vllm"}},
    ],
)
def test_what_is_no_silence_is_refused(fields: dict[str, Any]):
    http = client()
    assert make(http, **fields).status_code == 422
    assert http.get(PATH).json() == []


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"null", b"{", b'{"ends_at": NaN}', b'{"ends_at": 1e999}'),
        *(rb'{"ends_at": 1, "comment": "\ud800"}', rb'{"ends_at": 1, "\ud800": 1}'),
    ],
)
def test_a_body_that_is_no_silence_is_refused(body: bytes):
    answer = client().post(PATH, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


def test_a_silence_cannot_last_for_ever():
    assert make(client(), LONGEST_SILENCE + 60).status_code == 422
    assert make(client(), LONGEST_SILENCE - 60).status_code == 201


def test_their_number_is_bounded():
    http = client()
    answers = {make(http).status_code for _ in range(MOST_SILENCES)}
    assert answers == {201}
    assert make(http).status_code == 409


def test_control_characters_do_not_get_into_what_is_shown():
    entry = make(client(), by="ann\x1b[31m", comment="one\ntwo\u202e").json()
    assert (entry["by"], entry["comment"]) == ("ann [31m", "one two ")


def test_another_site_cannot_silence():
    headers = {"Origin": "https://evil.example"}
    assert client().post(PATH, json={"ends_at": time.time() + 60}, headers=headers).status_code == 403


async def test_a_silenced_alert_is_judged_and_shown_and_sends_nothing(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        mine = silence(rehearsal, book, 3600, target="gpu-*")
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(300, step=15)
        (entry,) = client(book).get("/api/v1/alerts").json()["alerts"]
        await delivered(book)
    assert (entry["name"], entry["state"], entry["silenced_by"]) == (DOWN, "firing", mine)
    assert told(sink, DOWN) == NOBODY


async def test_when_a_silence_runs_out_what_still_fires_is_sent_and_then_its_end(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        silence(rehearsal, book, 600)
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(585, step=15)
        assert told(sink, DOWN) == NOBODY
        await rehearsal.play(300, step=15)
        await delivered(book)
        assert told(sink, DOWN) == each(True)
        assert book.view().alerts[0].silenced_by is None
        rehearsal.fleet.apply(Phase(failure=Failure.NONE))
        await rehearsal.play(600, step=15)
        await delivered(book)
    assert told(sink, DOWN) == each(True, False)


async def test_when_a_silence_is_ended_by_hand_what_still_fires_is_sent(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        mine = silence(rehearsal, book, 3600)
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(300, step=15)
        assert client(book).delete(f"{PATH}/{mine}").status_code == 204
        await rehearsal.play(60, step=15)
        await delivered(book)
    assert told(sink, DOWN) == each(True)


async def test_what_resolved_under_a_silence_was_never_told_of_and_is_not_told_as_over(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        silence(rehearsal, book, 600)
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(300, step=15)
        rehearsal.fleet.apply(Phase(failure=Failure.NONE))
        await rehearsal.play(900, step=15)
        await delivered(book)
    assert told(sink, DOWN) == NOBODY
    assert [(alert.name, alert.state) for alert in book.view().alerts] == [(DOWN, "resolved")]


async def test_whoever_heard_that_it_fires_hears_that_it_is_over_under_a_silence_too(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(300, step=15)
        silence(rehearsal, book, 3600)
        rehearsal.fleet.apply(Phase(failure=Failure.NONE))
        await rehearsal.play(600, step=15)
        await delivered(book)
    assert told(sink, DOWN) == each(True, False)


async def test_a_silence_of_one_alert_leaves_the_others_alone(tmp_path):
    async with watched(tmp_path, server()) as (rehearsal, book, sink):
        silence(rehearsal, book, 3600, alert=DOWN)
        rehearsal.fleet.apply(Phase(traffic=FOREIGN))
        await rehearsal.play(600, step=15)
        rehearsal.fleet.apply(Phase(failure=Failure.DOWN))
        await rehearsal.play(300, step=15)
        await delivered(book)
    assert told(sink, LOW) == each(True)
    assert told(sink, DOWN) == NOBODY
