"""Changes of acceptance: noted when they are found, moved while they last, ended, and there after a restart."""

from __future__ import annotations

from dataclasses import replace

import httpx

from specwatch.collect.targets import Target
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.changes import Changes
from specwatch.sidecar.references import References, Scope
from specwatch.sidecar.service import Service
from specwatch.sidecar.store import changes as stored
from specwatch.sidecar.store.database import Database
from tools.rehearsal import PlayedClock

T0 = 1_800_000_000.0
BLOCK = 15.0


def service_at(at: float) -> Service:
    return Service([Target("a", "http://127.0.0.1:1/metrics")], clock=PlayedClock(at))


def play(service: Service, rate: float, blocks: int) -> None:
    """So many blocks of traffic with this acceptance."""
    watch = service.watches["a"]
    for number in range(blocks):
        service.clock.advance(BLOCK)
        accepted = 1500.0 * rate + (number * 37 % 61) - 30
        watch.drift.update(service.clock.now(), BLOCK, 300.0, 1500.0, accepted)


def changes_of(service: Service, database: Database) -> Changes:
    return Changes(References(service, database), service.clock, database)


async def test_a_fall_is_noted_when_it_is_found_and_ended_when_it_is_over(tmp_path):
    database = Database(tmp_path / "specwatch.db")
    service = service_at(T0)
    changes = changes_of(service, database)
    play(service, 0.6, 200)
    await changes.look()
    assert await changes.tell(0.0, 4e9) == []
    fell = service.clock.now()
    play(service, 0.4, 20)
    await changes.look()
    (found,) = await changes.tell(0.0, 4e9)
    assert (found.scope, found.name, found.direction, found.ended_at) == ("server", "a", "fell", None)
    assert found.found_at == service.clock.now()
    assert abs(found.began - fell) <= 2 * BLOCK
    assert found.change_low < found.change < found.change_high < 0
    play(service, 0.4, 20)
    await changes.look()
    (later,) = await changes.tell(0.0, 4e9)
    assert (later.found_at, later.ended_at) == (found.found_at, None)
    play(service, 0.6, 400)
    await changes.look()
    (over,) = await changes.tell(0.0, 4e9)
    assert over == replace(later, ended_at=service.clock.now())
    database.close()


async def test_a_change_goes_on_over_a_restart_and_ends_when_its_normal_is_learned_anew(tmp_path):
    database = Database(tmp_path / "specwatch.db")
    service = service_at(T0)
    play(service, 0.6, 200)
    play(service, 0.4, 20)
    await changes_of(service, database).look()
    database.close()
    database = Database(tmp_path / "specwatch.db")
    references = References(service, database)
    changes = Changes(references, service.clock, database)
    await changes.recall()
    play(service, 0.4, 20)
    await changes.look()
    (change,) = await changes.tell(0.0, 4e9)
    assert (change.found_at, change.ended_at) == (T0 + 220 * BLOCK, None)
    await references.relearn(Scope.SERVER, "a")
    await changes.look()
    (change,) = await changes.tell(0.0, 4e9)
    assert change.ended_at == service.clock.now()
    database.close()


async def test_what_a_full_disk_did_not_take_is_written_later(tmp_path):
    database = Database(tmp_path / "specwatch.db")
    service = service_at(T0)
    changes = changes_of(service, database)
    play(service, 0.6, 200)
    play(service, 0.4, 20)
    await database.read(lambda c: c.execute("PRAGMA query_only = on").fetchall())
    await changes.look()
    assert await changes.tell(0.0, 4e9) == []
    await database.read(lambda c: c.execute("PRAGMA query_only = off").fetchall())
    await changes.look()
    assert len(await changes.tell(0.0, 4e9)) == 1
    database.close()


async def test_a_new_database_in_place_of_a_lost_one_has_what_is_under_way(tmp_path):
    database = Database(tmp_path / "specwatch.db")
    service = service_at(T0)
    changes = changes_of(service, database)
    play(service, 0.6, 200)
    play(service, 0.4, 20)
    await changes.look()
    (before,) = await changes.tell(0.0, 4e9)
    (tmp_path / "specwatch.db").unlink()
    await database.write(lambda _: None)
    assert await changes.tell(0.0, 4e9) == []
    await changes.look()
    assert await changes.tell(0.0, 4e9) == [before]
    database.close()


async def test_only_the_latest_are_kept(monkeypatch):
    monkeypatch.setattr(stored, "MOST", 3)
    database = Database()
    service = service_at(T0)
    changes = changes_of(service, database)
    play(service, 0.6, 200)
    for _ in range(6):
        play(service, 0.4, 20)
        await changes.look()
        play(service, 0.6, 400)
        await changes.look()
    began = [change.began for change in await changes.tell(0.0, 4e9)]
    assert 3 <= len(began) <= 4
    assert began == sorted(began)


async def test_the_api_tells_a_servers_changes_with_its_history_and_everyones_on_their_own():
    service = service_at(T0)
    database = Database()
    changes = changes_of(service, database)
    play(service, 0.6, 200)
    fell = service.clock.now()
    play(service, 0.4, 20)
    await changes.look()
    app = create_app(service, AlertBook(), database=database)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:9108/api/v1") as client:
        history = (await client.get("/history", params={"target": "a"})).json()
        everyone = (await client.get("/changes")).json()
        before = (await client.get("/changes", params={"start": fell - 3600, "end": fell - 1800})).json()
        wrong = await client.get("/changes", params={"start": 2, "end": 1})
    assert [change["direction"] for change in history["changes"]] == ["fell"]
    assert everyone == history["changes"]
    assert (before, wrong.status_code) == ([], 422)
