"""The database: opened, damaged, full, shared, newer, killed; with real files."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from specwatch.errors import InputError
from specwatch.sidecar.store import schema
from specwatch.sidecar.store.database import Database, StoreError

NOTES = ("CREATE TABLE note (text TEXT NOT NULL)",)
MORE = ("ALTER TABLE note ADD COLUMN at REAL", "UPDATE note SET at = 0")


@pytest.fixture(autouse=True)
def _one_table(monkeypatch):
    monkeypatch.setattr(schema, "STEPS", (NOTES,))


@asynccontextmanager
async def opened(path: Path | None):
    database = Database(path)
    try:
        yield database
    finally:
        database.close()


def add(*texts: str):
    def work(connection: sqlite3.Connection) -> None:
        connection.executemany("INSERT INTO note (text) VALUES (?)", [(text,) for text in texts])

    return work


def notes(connection: sqlite3.Connection) -> list[str]:
    return [text for (text,) in connection.execute("SELECT text FROM note ORDER BY rowid")]


async def test_what_was_written_is_there_at_the_next_start(tmp_path):
    path = tmp_path / "specwatch.db"
    async with opened(path) as database:
        await database.write(add("first"))
        assert database.status.up
        assert database.status.bytes > 0
    async with opened(path) as database:
        assert await database.read(notes) == ["first"]


async def test_without_a_path_it_is_in_memory_and_says_that_nothing_is_kept():
    async with opened(None) as database:
        await database.write(add("first"))
        assert await database.read(notes) == ["first"]
        assert (database.status.path, database.status.up, database.status.problem) == (None, False, None)


async def test_work_that_fails_leaves_nothing_behind(tmp_path):
    def half(connection: sqlite3.Connection) -> None:
        add("half")(connection)
        raise ZeroDivisionError

    async with opened(tmp_path / "specwatch.db") as database:
        with pytest.raises(ZeroDivisionError):
            await database.write(half)
        assert await database.read(notes) == []
        assert (database.status.up, database.status.errors) == (True, 0)


async def test_an_older_layout_is_brought_forward_with_what_it_holds(tmp_path, monkeypatch):
    path = tmp_path / "specwatch.db"
    async with opened(path) as database:
        await database.write(add("old"))
    monkeypatch.setattr(schema, "STEPS", (NOTES, MORE))
    async with opened(path) as database:
        assert await database.read(lambda c: c.execute("SELECT text, at FROM note").fetchall()) == [("old", 0.0)]


def test_a_step_that_fails_leaves_the_old_layout(monkeypatch):
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.bring_up_to_date(connection)
    monkeypatch.setattr(schema, "STEPS", (NOTES, (*MORE, "INSERT INTO absent VALUES (1)")))
    with pytest.raises(sqlite3.OperationalError, match="absent"):
        schema.bring_up_to_date(connection)
    monkeypatch.setattr(schema, "STEPS", (NOTES, MORE))
    schema.bring_up_to_date(connection)
    assert connection.execute("SELECT text, at FROM note").fetchall() == []


def made_by_a_newer_one(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION}")
        connection.execute("PRAGMA user_version = 99")


def made_by_another_program(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Path.mkdir, "is no file"),
        (os.mkfifo, "is no file"),
        (lambda path: path.write_text("target: [http://a:8000]\n"), "no SQLite database"),
        (made_by_another_program, "another program"),
        (made_by_a_newer_one, "newer specwatch"),
        (lambda path: path.with_name(path.name + "-lock").mkdir(), "is a directory"),
    ],
)
def test_a_path_that_cannot_be_meant_is_refused_and_left_alone(tmp_path, make, words):
    path = tmp_path / "specwatch.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(InputError, match=words) as refusal:
        Database(path)
    assert str(path) in str(refusal.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="there is no directory"):
        Database(tmp_path / "absent" / "specwatch.db")


async def test_a_second_sidecar_on_the_same_file_is_refused_and_the_first_goes_on(tmp_path):
    path = tmp_path / "specwatch.db"
    async with opened(path) as database:
        with pytest.raises(InputError, match="another sidecar"):
            Database(path)
        await database.write(add("first"))
    async with opened(path) as database:
        assert await database.read(notes) == ["first"]


async def test_a_backup_is_taken_while_it_is_in_use(tmp_path):
    async with opened(tmp_path / "specwatch.db") as database:
        await database.write(add("first"))
        with sqlite3.connect(tmp_path / "specwatch.db") as reader, sqlite3.connect(tmp_path / "copy.db") as copy:
            reader.backup(copy)
            await database.write(add("second"))
        assert notes(copy) == ["first"]


@pytest.mark.parametrize("damage", [b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 8176])
async def test_a_damaged_file_is_kept_aside_and_an_empty_one_takes_its_place(tmp_path, caplog, damage):
    path = tmp_path / "specwatch.db"
    for _ in range(2):  # twice within the same second, too
        path.write_bytes(damage)
        async with opened(path) as database:
            await database.write(add("new"))
            assert await database.read(notes) == ["new"]
            assert database.status.up
            assert Path(str(database.status.set_aside)).read_bytes() == damage
    assert len([entry for entry in tmp_path.iterdir() if "damaged" in entry.name]) == 2
    assert "damaged; it is kept as" in caplog.text


async def test_damage_that_shows_only_later_is_met_in_the_same_way(tmp_path):
    path = tmp_path / "specwatch.db"
    async with opened(path) as database:
        await database.write(add(*["x" * 1000] * 200))
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)  # every page but those of the layout
    path.write_bytes(content)
    async with opened(path) as database:
        with pytest.raises(StoreError, match="malformed"):
            await database.read(notes)
        assert database.epoch == 1
        await database.write(add("new"))
        assert await database.read(notes) == ["new"]
        assert (database.status.up, database.status.errors) == (True, 1)
        assert Path(str(database.status.set_aside)).read_bytes() == bytes(content)


@pytest.mark.parametrize("take_away", [Path.unlink, lambda path: path.rename(path.with_name("elsewhere"))])
async def test_a_file_that_is_taken_away_is_made_anew(tmp_path, caplog, take_away):
    path = tmp_path / "specwatch.db"
    async with opened(path) as database:
        await database.write(add("first"))
        take_away(path)
        await database.write(add("second"))
        assert (database.epoch, database.status.up, database.status.errors) == (1, True, 1)
        await database.write(add("third"))
    assert "the file is gone" in caplog.text
    async with opened(path) as database:
        assert await database.read(notes) == ["second", "third"]


async def test_where_the_whole_directory_is_taken_away_it_goes_on_in_memory(tmp_path):
    path = tmp_path / "state" / "specwatch.db"
    path.parent.mkdir()
    async with opened(path) as database:
        await database.write(add("first"))
        path.parent.rename(tmp_path / "elsewhere")
        await database.write(add("second"))
        assert await database.read(notes) == ["second"]
        assert (database.outlives, database.status.up) == (False, False)


async def test_a_full_disk_is_said_once_and_writing_goes_on_when_there_is_room(tmp_path, caplog):
    async with opened(tmp_path / "specwatch.db") as database:
        await database.write(add("kept"))
        await database.read(lambda c: c.execute("PRAGMA max_page_count = 1"))  # SQLite's own limit says the same
        for _ in range(3):
            with pytest.raises(StoreError, match="full"):
                await database.write(add("x" * 100_000))
        assert (database.status.up, database.status.errors) == (False, 3)
        assert await database.read(notes) == ["kept"]
        assert caplog.text.count("state cannot be kept") == 1
        await database.read(lambda c: c.execute("PRAGMA max_page_count = 4294967294"))
        await database.write(add("again"))
        assert (database.status.up, database.status.problem) == (True, None)
        assert await database.read(notes) == ["kept", "again"]


FILLED = """
import asyncio, sys
from pathlib import Path
from specwatch.sidecar.store import schema
from specwatch.sidecar.store.database import Database, StoreError

schema.STEPS = (("CREATE TABLE note (text TEXT NOT NULL)",),)

async def main():
    database = Database(Path(sys.argv[1]))
    kept = 0
    try:
        while True:
            await database.write(lambda c: c.execute("INSERT INTO note VALUES (?)", ("x" * 10_000,)))
            kept += 1
    except StoreError:
        print(kept, await database.read(lambda c: c.execute("SELECT COUNT(*) FROM note").fetchone()[0]))

asyncio.run(main())
"""


def run_limited(script: str, path: Path, most_bytes: int) -> str:
    """What a process prints that may make no file larger than that."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    done = subprocess.run(
        [sys.executable, "-c", script, path], preexec_fn=limited, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_where_the_system_takes_no_more_bytes_what_was_acknowledged_is_read(tmp_path):
    path = tmp_path / "specwatch.db"
    kept, read = map(int, run_limited(FILLED, path, 500_000).split())
    assert kept == read > 0
    with sqlite3.connect(path) as connection:
        assert len(notes(connection)) == kept


STARTED = """
import asyncio, sys
from pathlib import Path
from specwatch.sidecar.store.database import Database

async def main():
    database = Database(Path(sys.argv[1]))
    await database.write(lambda c: c.execute("CREATE TABLE note (text)").fetchall())
    status = database.status
    print(status.up, status.problem, status.errors, database.outlives, sep=",")
    database.close()

asyncio.run(main())
"""


def test_where_not_even_an_empty_database_can_be_made_it_goes_on_in_memory(tmp_path):
    assert run_limited(STARTED, tmp_path / "specwatch.db", 1000) == "False,disk I/O error,1,False\n"


async def test_the_event_loop_runs_on_while_the_disk_is_slow(tmp_path):
    release = threading.Event()
    async with opened(tmp_path / "specwatch.db") as database:
        slow = asyncio.create_task(database.write(lambda _: release.wait(60)))
        await asyncio.sleep(0.01)
        assert not slow.done()
        release.set()
        assert await slow
