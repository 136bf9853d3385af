"""What alerting knows after a restart, with real database files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from specwatch.alerting.catalogue import RATE_WINDOW
from specwatch.alerting.delivery import DEAD_LETTERS, Delivery
from specwatch.alerting.evaluation import NO_DATA_SECONDS
from specwatch.alerting.receivers import Receiver, receivers, slack_bot_receiver
from specwatch.alerting.silences import Silence, new_id
from specwatch.alerting.sparkline import Course
from specwatch.config import SidecarConfig
from specwatch.lab.sink import Sink
from specwatch.lab.sink_slack_api import CHANNEL
from specwatch.sidecar.alert_keeping import Keeper
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.service import Clock
from specwatch.sidecar.store.alerts import Changes, Kept
from specwatch.sidecar.store.database import Database
from specwatch.sidecar.watch import TargetWatch
from tests.sidecar.test_alerts import until

DOWN = "SpeculationTargetDown"
START = 1_700_000_000.0
STEP = 15.0


class MadeUpClock(Clock):
    """Time that is set."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> float:
        """Unix seconds."""
        return self.at


class Lives:
    """One sidecar after the other over the same database, time and receivers."""

    def __init__(self, folder: Path, sink: Sink) -> None:
        self.file = folder / "specwatch.db"
        self.sink = sink
        self.clock = MadeUpClock()
        self.receivers: tuple[Receiver, ...] = tuple(receivers_of(folder, sink))

    @asynccontextmanager
    async def life(self, drain_seconds: float = 10.0) -> AsyncIterator[AlertBook]:
        """A start and an orderly end."""
        database = Database(self.file)
        book = AlertBook(self.receivers, clock=self.clock, database=database)
        book._delivery._drain_seconds = drain_seconds
        async with book.delivering():
            yield book
        database.close()

    async def see(self, book: AlertBook, seconds: float, *, up: bool, target: str = "gpu-3") -> None:
        """Judge the server again and again for so long."""
        for _ in range(round(seconds / STEP)):
            self.clock.at += STEP
            await book.judge(watch(target, up), self.clock.at, lambda: ())
        await until(lambda: not book._keeper.is_busy)

    def told(self, target: str = "gpu-3") -> list[str]:
        """What PagerDuty was told of a server."""
        events = [message.payload for message in self.sink.pagerduty]
        return [event["event_action"] for event in events if event["dedup_key"].endswith(f"/{target}")]


def receivers_of(folder: Path, sink: Sink) -> tuple[Receiver, ...]:
    path = folder / "pagerduty"
    path.write_text("0" * 32)
    path.chmod(0o600)
    return receivers(SidecarConfig(pagerduty_routing_key_file=path, pagerduty_url=sink.pagerduty_url))


def watch(target: str, up: bool) -> TargetWatch:
    """A server; of a model of its own if its name ends with @ and that."""
    seen: Any = SimpleNamespace(
        target=SimpleNamespace(name=target),
        model_name=target.partition("@")[2] or "llama",
        judged_values=lambda at: {"target_up": float(up)},
        last_hours=lambda now: Course("Acceptance rate", RATE_WINDOW, (None,)),
    )
    return cast(TargetWatch, seen)


@pytest.fixture
async def lives(tmp_path):
    async with Sink() as sink:
        yield Lives(tmp_path, sink)


async def delivered(book: AlertBook) -> None:
    await until(lambda: not book._keeper.is_busy and all(entry.waiting == 0 for entry in book.view().deliveries))


async def test_what_pends_goes_on_to_pend_over_a_restart(lives):
    async with lives.life() as book:
        await lives.see(book, 60, up=False)
    async with lives.life() as book:
        await lives.see(book, 75, up=False)
        (alert,) = book.view().alerts
    assert (alert.state, alert.since) == ("firing", START + STEP)


async def test_what_pends_starts_over_after_a_pause_in_which_it_may_have_ended(lives):
    async with lives.life() as book:
        await lives.see(book, 60, up=False)
    lives.clock.at += 3600
    async with lives.life() as book:
        await lives.see(book, 75, up=False)
        (alert,) = book.view().alerts
        assert (alert.state, alert.since) == ("pending", START + 60 + 3600 + STEP)
    # And what was forgotten is forgotten for good.
    async with lives.life() as book:
        (alert,) = book.view().alerts
        assert alert.since == START + 60 + 3600 + STEP


async def test_what_was_told_is_not_told_again_and_its_end_has_the_same_key(lives):
    async with lives.life() as book:
        await lives.see(book, 180, up=False)
        await delivered(book)
    for _ in range(3):
        async with lives.life() as book:
            await lives.see(book, 600, up=False)
    assert lives.told() == ["trigger"]
    async with lives.life() as book:
        await lives.see(book, 120, up=True)
        await delivered(book)
    assert lives.told() == ["trigger", "resolve"]
    async with lives.life() as book:
        await lives.see(book, 600, up=True)
        assert book.view().alerts == []
    assert lives.told() == ["trigger", "resolve"]


async def test_a_restart_is_no_time_without_data(lives):
    async with lives.life() as book:
        await lives.see(book, 180, up=False)
        await delivered(book)
    lives.clock.at += 10 * NO_DATA_SECONDS
    async with lives.life() as book:
        await lives.see(book, 60, up=False)
        assert [alert.state for alert in book.view().alerts] == ["firing"]
    assert lives.told() == ["trigger"]


async def test_what_fires_on_a_target_that_did_not_return_is_over_in_the_end(lives):
    async with lives.life() as book:
        await lives.see(book, 180, up=False)
        await delivered(book)
    async with lives.life() as book:
        await lives.see(book, NO_DATA_SECONDS - STEP, up=True, target="another")
        assert lives.told() == ["trigger"]
        await lives.see(book, 2 * STEP, up=True, target="another")
        await delivered(book)
    assert lives.told() == ["trigger", "resolve"]


async def test_a_message_that_could_not_be_sent_is_sent_after_the_restart(lives, caplog):
    lives.sink.fail_next(1000, 503)
    async with lives.life(drain_seconds=0.05) as book:
        await lives.see(book, 180, up=False)
        await until(lambda: book.view().deliveries[0].health == "retrying")
    assert "1 messages wait for the next start" in caplog.text
    lives.sink._failures.clear()
    async with lives.life() as book:
        await delivered(book)
        assert book.view().deliveries[0].dropped == 0
    assert lives.told() == ["trigger"]


async def test_part_of_an_incident_that_was_over_and_not_yet_told_is_told_after_the_restart(lives):
    async with lives.life() as book:
        for _ in range(12):
            lives.clock.at += STEP
            for name in ("one", "two"):
                await book.judge(watch(name, up=False), lives.clock.at, lambda: ())
        await delivered(book)
        for _ in range(6):
            lives.clock.at += STEP
            await book.judge(watch("one", up=True), lives.clock.at, lambda: ())
            await book.judge(watch("two", up=False), lives.clock.at, lambda: ())
        await delivered(book)
    assert len(lives.sink.pagerduty) == 1
    async with lives.life() as book:
        await lives.see(book, 330, up=False, target="two")
        await delivered(book)
    assert lives.told("one") == ["trigger", "trigger"]
    assert "one: over since" in lives.sink.pagerduty[1].payload["payload"]["custom_details"]["also"]


async def test_an_incident_stays_one_thread_over_restarts(lives, tmp_path):
    token = tmp_path / "token"
    token.write_text("xoxb-1-Secret")
    lives.receivers = (slack_bot_receiver(token, CHANNEL, lives.sink.slack_api_url),)
    async with lives.life() as book:
        await lives.see(book, 180, up=False)
        await delivered(book)
    async with lives.life() as book:
        await lives.see(book, 120, up=True)
        await delivered(book)
    head, reply = lives.sink.channel.messages.values()
    assert reply["thread_ts"] == head["ts"]
    assert head["text"] == reply["text"] == "🟢 Resolved: gpu-3 cannot be scraped"
    async with lives.life() as book:
        assert book._delivery.threads() == {}


async def test_a_silence_outlives_a_restart_and_ends_on_time(lives):
    async with lives.life() as book:
        mine = Silence(new_id(), "*", "gpu-*", "*", START + 600, "ann", "known")
        await book.silence(mine)
        await book.silence(Silence(new_id(), "*", "*", "*", START + 60, "", ""))
    async with lives.life() as book:
        await lives.see(book, 570, up=False)
        assert book.silences() == [mine]
        assert [alert.silenced_by for alert in book.view().alerts] == [mine.id]
        assert lives.told() == []
        await lives.see(book, 90, up=False)
        await delivered(book)
    assert lives.told() == ["trigger"]
    async with lives.life() as book:
        assert book.silences() == []


async def test_a_silence_that_was_ended_by_hand_stays_ended(lives):
    async with lives.life() as book:
        mine = Silence(new_id(), "*", "*", "*", START + 600, "", "")
        await book.silence(mine)
        assert await book.end_silence(mine.id)
    async with lives.life() as book:
        assert book.silences() == []


async def test_dead_letters_are_shown_after_a_restart_and_bounded(lives):
    lives.sink.fail_next(1000, 403)
    async with lives.life() as book:
        for number in range(DEAD_LETTERS + 3):
            await lives.see(book, 165, up=False, target=f"gpu-{number}")
            await book.forget(f"gpu-{number}")
        await delivered(book)
    async with lives.life() as book:
        dead = book.view().deliveries[0].dead_letters
    assert len(dead) == DEAD_LETTERS
    assert dead[0].title == f"Resolved: gpu-{DEAD_LETTERS + 2} cannot be scraped"
    assert dead[0].reason == "HTTP 403 told to fail"


async def test_a_message_to_a_receiver_that_is_no_more_is_given_up(lives, caplog):
    lives.sink.fail_next(1000, 503)
    async with lives.life(drain_seconds=0.05) as book:
        await lives.see(book, 180, up=False)
    kept, lives.receivers = lives.receivers, ()
    async with lives.life():
        pass
    assert "pagerduty: no such receiver any more, a message is lost" in caplog.text
    lives.receivers = kept
    lives.sink._failures.clear()
    async with lives.life() as book:
        await delivered(book)
        assert book.view().deliveries[0].dead_letters[0].reason == "no such receiver any more"
    assert lives.told() == []


async def test_where_the_disk_is_full_messages_go_out_and_all_is_kept_once_there_is_room(lives):
    names = [f"gpu@{number}" for number in range(20)]
    async with lives.life() as book:
        database = book._keeper._database
        await database.write(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchall())
        for name in names:
            await lives.see(book, 180, up=False, target=name)
        await delivered(book)
        assert database.status.errors > 0
        assert all(lives.told(name) == ["trigger"] for name in names)
        await database.read(lambda connection: connection.execute("PRAGMA max_page_count = 1000000").fetchall())
        await lives.see(book, 180, up=False, target="another")
        await delivered(book)
        assert database.status.up
    async with lives.life() as book:
        await lives.see(book, 600, up=False, target=names[0])
        assert {alert.target for alert in book.view().alerts} == {*names, "another"}
    assert len(lives.sink.pagerduty) == len(names) + 1


async def test_who_is_cancelled_at_the_moment_at_which_there_is_news_ends():
    keeper = Keeper(None, lambda: START, lambda: Kept({}, (), ()))
    keeping = asyncio.create_task(keeper.run(Delivery([])))
    await asyncio.sleep(0.01)
    keeper.note(Changes())
    # The news is there; whoever waits for it has not run again yet.
    await asyncio.sleep(0)
    keeping.cancel()
    done, _ = await asyncio.wait({keeping}, timeout=20)
    keeper.end()
    assert done
    assert keeping.cancelled()


async def test_names_that_no_database_takes_are_kept_all_the_same(lives):
    name = "lone surrogate \ud800 and nul \x00"
    async with lives.life() as book:
        await lives.see(book, 180, up=False, target=name)
        await delivered(book)
    async with lives.life() as book:
        assert [alert.target for alert in book.view().alerts] == [name]
        await asyncio.sleep(0)
    assert len(lives.sink.pagerduty) == 1
