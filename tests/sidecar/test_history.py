"""A target's past: collected, pooled, thinned out, bounded, told by range and step, and there after a crash."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from specwatch.collect.targets import Target
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.history import (
    FORMULAS,
    MOST_BYTES,
    MOST_BYTES_IN_MEMORY,
    History,
    HistoryPoint,
    tell_points,
)
from specwatch.sidecar.service import Service
from specwatch.sidecar.store import history as stored
from specwatch.sidecar.store import schema
from specwatch.sidecar.store.database import Database
from specwatch.sidecar.views import Stretch
from specwatch.signals.catalogue import evaluate, signals
from specwatch.signals.speedup import SpeedupKind
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter
from tools.rehearsal import PlayedClock

T0 = 1_800_000_000.0
"""A whole number of ten minutes."""

NO_LIMIT = 2**40


def did(rng: random.Random, seconds: float = 5.0) -> Increments:
    drafts = float(rng.randrange(1, 400))
    counts = {counter: float(rng.randrange(100)) for counter in Counter}
    more = {
        Counter.DRAFTS: drafts,
        Counter.DRAFT_TOKENS: 5 * drafts,
        Counter.ACCEPTED_TOKENS: rng.random() * 5 * drafts,
    }
    return Increments(seconds, {**counts, **more})


def steps(seconds: float, start: float = T0, seed: int = 1) -> list[Stretch]:
    """A scrape every five seconds."""
    rng = random.Random(seed)
    return [
        Stretch(start + 5.0 * i, did(rng), 2.0 + i, SpeedupKind.MEASURED, i / 1000)
        for i in range(1, int(seconds / 5) + 1)
    ]


@pytest.fixture
def connection() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.bring_up_to_date(connection)
    return connection


def save(connection: sqlite3.Connection, past: Iterable[Stretch], name: str = "a", most_bytes: int = NO_LIMIT) -> None:
    """Write in portions of ten seconds, as it comes."""
    waiting: list[tuple[str, Stretch]] = []
    for stretch in past:
        waiting.append((name, stretch))
        if len(waiting) == 2:
            stored.save(connection, waiting, stretch.at, most_bytes)
            waiting = []


def pooled(past: Iterable[Stretch]) -> dict[Counter, float]:
    members = list(past)
    return {counter: sum(stretch.did.counts[counter] for stretch in members) for counter in Counter}


@pytest.mark.parametrize("step", [1.0, 15.0, 60.0, 100.0, 600.0, 3600.0])
@pytest.mark.parametrize("seconds", [60, 613, 4000])
def test_whenever_it_began_nothing_is_lost_and_nothing_told_twice(connection, step, seconds):
    past = steps(seconds, start=T0 + 137)
    for portion in range(0, len(past), 20):
        save(connection, past[portion : portion + 20])
        told = stored.load(connection, "a", T0 - 7200, past[-1].at, step)
        assert told is not None
        assert pooled(told) == pytest.approx(pooled(past[: portion + 20]))
    assert told is not None
    assert told[0].did.seconds <= max(step, 5.0)


@pytest.mark.parametrize("step", [1.0, 15.0, 60.0, 100.0, 600.0, 3600.0])
def test_whatever_the_step_nothing_is_lost_and_nothing_told_twice(connection, step):
    past = steps(2 * 3600)
    save(connection, past)
    told = stored.load(connection, "a", T0, past[-1].at, step)
    assert told is not None
    assert sum(stretch.did.seconds for stretch in told) == pytest.approx(7200)
    assert pooled(told) == pytest.approx(pooled(past))
    assert [stretch.at for stretch in told] == sorted({stretch.at for stretch in told})
    # Steps; or 119 minutes, the last of which is not closed yet, and its 13 steps; or 11 times ten minutes, 9 and 13.
    assert len(told) == {1.0: 1440, 15.0: 1440, 60.0: 132, 100.0: 132, 600.0: 33, 3600.0: 33}[step]
    assert told[-1] == past[-1]
    assert {stretch.speedup: stretch.at for stretch in told}.items() <= {s.speedup: s.at for s in past}.items()


def test_what_is_asked_for_by_range_is_that_range(connection):
    past = steps(3600)
    save(connection, past)
    told = stored.load(connection, "a", T0 + 600, T0 + 1200, 60.0)
    assert told is not None
    assert [stretch.at for stretch in told] == [T0 + 655 + 60 * i for i in range(10)]
    assert pooled(told) == pytest.approx(pooled(s for s in past if 600 <= s.at - T0 < 1200))


def test_whoever_asks_for_a_century_gets_what_there_is(connection):
    past = steps(600)
    save(connection, past)
    told = stored.load(connection, "a", 0.0, 4e9, 1.0)
    assert told is not None
    assert pooled(told) == pytest.approx(pooled(past))


def test_where_steps_are_gone_minutes_tell_and_where_these_are_gone_ten_minutes(connection, monkeypatch):
    short = [
        stored.Level(level.table, level.bucket, keep)
        for level, keep in zip(stored.LEVELS, (600, 3600, 7200), strict=True)
    ]
    monkeypatch.setattr(stored, "LEVELS", tuple(short))
    past = steps(3 * 3600)
    save(connection, past)
    assert [len(connection.execute(stored._sql("SELECT at FROM <table>", level)).fetchall()) for level in short] == [
        *(121, 59, 11)  # each as long as it is kept, in whole blocks
    ]
    told = stored.load(connection, "a", T0, past[-1].at, 1.0)
    assert told is not None
    lengths = [stretch.did.seconds for stretch in told]
    assert lengths == sorted(lengths, reverse=True)
    assert set(lengths) == {600.0, 60.0, 5.0}
    assert pooled(told) == pytest.approx(pooled(s for s in past if s.at - T0 >= 3600))


def test_a_counter_that_a_part_lacks_is_left_out_of_the_whole(connection):
    past = steps(120)
    less = {counter: count for counter, count in past[3].did.counts.items() if counter is not Counter.DRAFTS}
    past[3] = Stretch(past[3].at, Increments(5.0, less), None, None, None)
    save(connection, past)
    minutes = stored.load(connection, "a", T0, T0 + 70, 60.0)
    assert minutes is not None
    assert Counter.DRAFTS not in minutes[0].did.counts
    assert minutes[0].did.counts[Counter.ACCEPTED_TOKENS] == pytest.approx(
        sum(stretch.did.counts[Counter.ACCEPTED_TOKENS] for stretch in past[:11])
    )
    assert Counter.DRAFTS in minutes[1].did.counts


def test_targets_are_told_apart_whatever_they_are_called(connection):
    names = ["a", "a'; DROP TABLE history_step; --", "<script>", "x" * 300, "", "half \ud800", "nul \0"]
    for seed, name in enumerate(names):
        save(connection, steps(600, seed=seed), name)
    for seed, name in enumerate(names):
        told = stored.load(connection, name, T0, T0 + 600, 1.0)
        assert told is not None
        assert pooled(told) == pooled(steps(600, seed=seed))
    assert stored.load(connection, "b", T0, T0 + 600, 1.0) is None


def test_a_database_that_grows_too_large_gives_up_its_oldest_parts(connection):
    empty = stored.bytes_used(connection)
    save(connection, steps(1800), most_bytes=empty + 20_000)
    assert stored.bytes_used(connection) < empty + 30_000
    told = stored.load(connection, "a", T0, T0 + 1800, 1.0)
    assert told is not None
    assert told[-1].at == T0 + 1800
    assert len(told) < 300


def test_a_target_that_is_gone_is_forgotten_when_its_past_has_aged_out(connection):
    save(connection, steps(60), "gone")
    later = T0 + stored.LEVELS[-1].keep - stored.DAY
    save(connection, steps(60, start=later), "a")
    assert stored.load(connection, "gone", T0, later, 600.0)
    for days in range(1, 5):
        save(connection, steps(60, start=later + days * stored.DAY), "a")
    assert stored.load(connection, "gone", T0, later, 600.0) is None
    assert connection.execute("SELECT name FROM history_target").fetchall() == [("a",)]


def test_every_counter_has_its_column(connection):
    columns = [row[1] for row in connection.execute("PRAGMA table_info (history_step)")]
    assert columns[4:-3] == [counter.value for counter in Counter]


def test_a_point_is_the_catalogues_value_of_what_was_counted_in_its_window():
    past = steps(1800)
    points = tell_points(past, start=T0, step=60.0, window=300.0)
    assert [point.at for point in points] == [T0 + 60 * i - 5 for i in range(1, 31)] + [T0 + 1800]
    for point in points:
        inside = [stretch for stretch in past if point.at - 300 < stretch.at <= point.at]
        values = evaluate(signals(), [Increments(point.seconds, pooled(inside))])
        assert point.seconds == sum(stretch.did.seconds for stretch in inside)
        for name in FORMULAS:
            assert getattr(point, name) == pytest.approx(values[name]), name


def test_a_gap_is_a_point_without_values_and_a_stretch_that_is_far_too_long_has_none():
    first, *_ = steps(5)
    after_a_gap = Stretch(T0 + 1000, did(random.Random(2)), None, None, None)
    long = Stretch(T0 + 3000, did(random.Random(3), seconds=2000.0), None, None, None)
    points = tell_points([first, after_a_gap, long], start=T0, step=15.0, window=300.0)
    assert [(point.at - T0, point.acceptance_rate is None) for point in points] == [
        (5, False),
        (995, True),
        (1000, False),
        (3000, True),
    ]


def service_at(at: float, *names: str) -> Service:
    return Service([Target(name, "http://127.0.0.1:1/metrics") for name in names], clock=PlayedClock(at))


@asynccontextmanager
async def asked(service: Service, database: Database | None = None) -> AsyncIterator[Any]:
    """Asks the API for a history: the status and the answer."""
    app = create_app(service, AlertBook(), database=database)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:9108") as client:

        async def get(**query: Any) -> tuple[int, Any]:
            answer = await client.get("/api/v1/history", params=query)
            return answer.status_code, answer.json()

        yield get


async def test_without_a_database_the_last_hours_are_told_from_memory():
    service = service_at(T0 + 7200, "a")
    service.watches["a"].stretches.extend(steps(3600, start=T0 + 3600))
    async with asked(service) as get:
        status, told = await get(target="a")
        assert status == 200
        assert (told["start"], told["end"], told["step"], told["window"]) == (T0 + 3600, T0 + 7200, 15.0, 300.0)
        assert len(told["points"]) == 241
        assert told["points"][-1]["at"] == T0 + 7200
        assert told["points"][-1].keys() == HistoryPoint.__dataclass_fields__.keys()
        assert (await get(target="a"))[1] == told


@pytest.mark.parametrize(
    "query",
    [
        {"start": 5, "end": 5},
        {"start": T0 + 1},
        {"step": 0.5},
        {"step": "nan"},
        {"end": "inf"},
        {"start": -1},
        {"start": T0 - 3600, "step": 0.8},
        {"start": 0, "step": 60},
    ],
)
async def test_a_range_that_cannot_be_told_is_refused(query):
    async with asked(service_at(T0, "a")) as get:
        status, told = await get(target="a", **query)
    assert status == 422
    assert told["detail"]


async def test_a_target_that_was_removed_answers_for_its_past_and_an_unknown_one_is_refused(tmp_path):
    service = service_at(T0 + 600, "a", "b")
    database = Database(tmp_path / "specwatch.db")
    history = History(service, database)
    for watch in service.watches.values():
        watch.stretches.extend(steps(600))
    await history.save()
    service.follow([Target("a", "http://127.0.0.1:1/metrics")])
    async with asked(service, database) as get:
        assert (await get(target="b"))[1]["points"][-1]["at"] == T0 + 600
        assert (await get(target="c"))[0] == 404
    database.close()


async def test_while_the_disk_takes_nothing_the_past_is_told_from_memory_and_written_later(tmp_path):
    service = service_at(T0 + 600, "a")
    database = Database(tmp_path / "specwatch.db")
    history = History(service, database)
    past = steps(600)
    service.watches["a"].stretches.extend(past[:60])
    await history.save()
    await database.read(lambda c: c.execute("PRAGMA query_only = on").fetchall())
    service.watches["a"].stretches.extend(past[60:])
    await history.save()
    assert not database.status.up
    told = await history.tell("a", T0, T0 + 600, 1.0)
    assert told is not None
    assert [point.at for point in told.points] == [stretch.at for stretch in past]
    await database.read(lambda c: c.execute("PRAGMA query_only = off").fetchall())
    await history.save()
    assert database.status.up
    assert len(await database.read(lambda c: stored.load(c, "a", T0, T0 + 600, 1.0)) or ()) == 120
    database.close()


async def test_a_write_that_a_stop_cuts_short_is_made_up_for(tmp_path):
    service = service_at(T0 + 600, "a")
    database = Database(tmp_path / "specwatch.db")
    history = History(service, database)
    release = threading.Event()
    hanging = asyncio.create_task(database.write(lambda _: release.wait(60)))
    past = steps(600)
    service.watches["a"].stretches.extend(past[:60])
    cut = asyncio.create_task(history.save())
    await asyncio.sleep(0.05)
    service.watches["a"].stretches.extend(past[60:])
    cut.cancel()
    await asyncio.gather(cut, return_exceptions=True)
    release.set()
    await hanging
    await history.save()
    assert cut.cancelled()
    assert len(await database.read(lambda c: stored.load(c, "a", T0, T0 + 600, 1.0)) or ()) == 120
    database.close()


async def test_with_a_clock_that_was_set_back_points_are_in_order(tmp_path):
    service = service_at(T0 + 600, "a")
    database = Database(tmp_path / "specwatch.db")
    history = History(service, database)
    service.watches["a"].stretches.extend(steps(600))
    await history.save()
    service.watches["a"].stretches.extend(steps(300, start=T0 + 202.5))
    told = await history.tell("a", T0, T0 + 600, 1.0)
    assert told is not None
    assert len(told.points) == 180
    assert [point.at for point in told.points] == sorted(point.at for point in told.points)
    database.close()


async def test_trends_go_on_after_a_restart(tmp_path):
    database = Database(tmp_path / "specwatch.db")
    before, after = service_at(T0 + 7200, "a"), service_at(T0 + 7230, "a", "new")
    before.watches["a"].stretches.extend(steps(3600, start=T0 + 3600))
    await History(before, database).save()
    after.watches["a"].trend.note(T0 + 7200, 0.5)
    await History(after, database).recall()
    *earlier, last = after.watches["a"].trend.until(T0 + 7230)
    assert (len(earlier), last) == (59, 0.5)
    assert all(0 < (rate or 0.0) < 1 for rate in earlier)
    assert after.watches["new"].trend.until(T0 + 7230) == (None,)
    hours = after.watches["a"].last_hours(T0 + 7230).values
    assert len([rate for rate in hours if rate is not None]) >= 12
    database.close()


async def test_a_past_that_is_read_while_it_is_written_is_told_once(tmp_path):
    service = service_at(T0 + 600, "a")
    database = Database(tmp_path / "specwatch.db")
    history = History(service, database)
    past = steps(600)
    for first in range(0, 120, 10):
        service.watches["a"].stretches.extend(past[first : first + 10])
        told, _ = await asyncio.gather(history.tell("a", T0, T0 + 600, 1.0), history.save())
        assert told is not None
        assert [point.at for point in told.points] == [stretch.at for stretch in past[: first + 10]]
    database.close()


def test_the_page_about_state_says_how_long_rows_are_kept():
    page = (Path(__file__).parents[2] / "docs" / "state.md").read_text()
    step, minute, ten_minutes = stored.LEVELS
    assert f"| 3 hours | {step.keep // 5:,} at a scrape every 5 s |" in page
    assert f"| one minute | 3 days | {minute.keep // 60:,} |" in page
    assert f"| ten minutes | 35 days | {ten_minutes.keep // 600:,} |" in page
    assert f"in memory at {MOST_BYTES_IN_MEMORY // 2**20} MiB" in page
    assert f"at {MOST_BYTES // 2**30} GiB" in page
    assert f"{len(Counter)} counts in all" in page
