from __future__ import annotations

import asyncio
import json
import logging
import re
from datetime import datetime, timezone

import pytest

from specwatch.sidecar import logs
from specwatch.sidecar.logs import JsonLines, TextLines
from tests.support.sidecars import AWAY, sidecar

HOSTILE = "gpu\n2026-01-01 00:00:00,000 INFO all is well\r\x1b[2J\x9b\u2028\u202etxt\x00\ud800"
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"


def record(message: str, *words: object, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("specwatch.test", logging.WARNING, __file__, 1, message, words, None)
    made.__dict__.update(more)
    return made


def failing() -> logging.LogRecord:
    made = record("%r: a defect", "gpu")
    try:
        raise ValueError(HOSTILE)
    except ValueError as problem:
        made.exc_info = (ValueError, problem, problem.__traceback__)
    return made


def test_a_line_of_text_is_time_level_and_message():
    assert re.fullmatch(TIME + " WARNING 'gpu': answers again", TextLines().format(record("%r: answers again", "gpu")))


@pytest.mark.parametrize("form", [TextLines(), JsonLines()])
def test_a_hostile_name_makes_no_line_of_its_own_and_moves_no_terminal(form):
    line = form.format(record("%s: away", HOSTILE))
    assert line.isprintable()
    assert r"\n2026-01-01" in line
    line.encode()


def test_a_traceback_is_indented_and_nothing_in_it_looks_like_a_line_of_ours():
    first, *rest = TextLines().format(failing()).split("\n")
    assert re.fullmatch(TIME + " WARNING 'gpu': a defect", first)
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    assert "ValueError" in "".join(rest)


def test_a_line_of_json_holds_what_was_given_beside_the_message():
    line = JsonLines().format(record("%s: away", HOSTILE, target=HOSTILE))
    told = json.loads(line)
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "warning",
        "logger": "specwatch.test",
        "message": f"{HOSTILE}: away",
        "target": HOSTILE,
    }


def test_a_failure_is_one_line_of_json_as_well():
    told = json.loads(JsonLines().format(failing()))
    assert told["message"] == "'gpu': a defect"
    assert told["exception"].startswith("Traceback")


def test_the_time_is_the_records_in_utc():
    made = record("x")
    told = datetime.fromisoformat(json.loads(JsonLines().format(made))["time"].removesuffix("Z"))
    assert abs(told.replace(tzinfo=timezone.utc).timestamp() - made.created) < 0.002


def test_every_line_comes_once_however_often_logging_is_set_up(capsys):
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        logs.begin("json")
        logs.begin("text")
        logging.getLogger("asyncio").warning("once")
        logging.getLogger("aiohttp.access").info("twice")
        said = capsys.readouterr().err
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(level)
    assert [line.split(" ")[-1] for line in said.splitlines()] == ["once", "twice"]


async def test_a_sidecar_that_is_told_so_says_everything_in_json():
    async with sidecar("--log-format", "json", *AWAY) as it:
        while 'failures_total{target="127.0.0.1:1"} 0.0' in (await it.get("/metrics"))[1]:
            await asyncio.sleep(0.02)
        assert await it.end() == 0
    told = [json.loads(line) for line in it.lines]
    assert [line["level"] for line in told] == ["info", "warning"]
    assert told[0]["message"].startswith("serving http")
    assert told[1]["target"] == "127.0.0.1:1"
