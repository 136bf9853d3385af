"""One SQLite file, opened with care and used by one thread of its own, so that nothing waits for the disk."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TypeVar

from specwatch.errors import InputError
from specwatch.sidecar.store import schema

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]
"""What is done with the database in one transaction. It returns values, no cursor: that would keep the file open."""

IN_MEMORY = ":memory:"

MAGIC = b"SQLite format 3\0"
"""What every SQLite file begins with."""

PRAGMAS = (
    # Readers and the writer do not wait for each other, so a backup can be taken from a running sidecar.
    "PRAGMA journal_mode = WAL",
    # What was acknowledged is on the disk: one fsync a commit, and commits are some a minute.
    "PRAGMA synchronous = FULL",
    # Bytes that the write-ahead log keeps after a burst. A checkpoint comes at 4 MB; more only stays after a long read.
    "PRAGMA journal_size_limit = 16777216",
)

BUSY_SECONDS = 5.0
"""Longest that a write waits for another program's lock, such as a person's with the sqlite3 shell."""

BY_HAND = ("readonly database", "unable to open", "locked")
"""What SQLite says, in part, where only a person can help: refused at the start, before anything is served."""


class StoreError(Exception):
    """The database could not do it. Logged and counted already; whoever asked goes on in memory."""


@dataclass(frozen=True)
class StoreStatus:
    """How the database does."""

    path: str | None
    """None: nothing was asked to be kept."""
    up: bool
    """Whether the last write reached the disk."""
    problem: str | None
    """Why not."""
    errors: int
    """Failures since the start."""
    set_aside: str | None
    """Where a damaged file was moved to, since the start."""
    bytes: int
    """Size of what is kept, on disk or in memory."""


class Database:
    """Runs work in transactions, one after the other, on its own thread.

    Without a path, and where the file cannot be used through no fault of the user's, it is in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Open the file, made if absent. InputError, naming the remedy, for a path that cannot be what was meant."""
        self._path = path
        self._lock: IO[bytes] | None = None
        self._is_in_memory = path is None
        self._status = StoreStatus(str(path) if path else None, path is not None, None, 0, None, 0)
        self.epoch = 0
        """Grows when another database takes this one's place, damaged or gone: everything is to be written again."""
        if path is not None:
            _refuse_unfit(path)
            self._lock = _locked(path)
        self._connection = self._opened()
        self._identity = self._file()
        self._measure()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="database")

    @property
    def outlives(self) -> bool:
        """Whether what it holds outlives the process."""
        return not self._is_in_memory

    @property
    def status(self) -> StoreStatus:
        """How it does now."""
        return self._status

    async def write(self, work: Work[Result]) -> Result:
        """Run it in a transaction; on the disk when this returns. StoreError where that cannot be."""
        return await self._run("BEGIN IMMEDIATE", work)

    async def read(self, work: Work[Result]) -> Result:
        """Run it on one snapshot. StoreError where that cannot be."""
        return await self._run("BEGIN", work)

    def close(self) -> None:
        """Finish what is under way and let go of the file. Waits for the disk: not for where others wait."""
        self._worker.submit(self._close).result()
        self._worker.shutdown()

    async def _run(self, begin: str, work: Work[Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._transact, begin, work)

    def _transact(self, begin: str, work: Work[Result]) -> Result:
        if begin != "BEGIN" and not self._is_in_memory and self._file() != self._identity:
            self._replace("the file is gone, or another one")
        try:
            self._connection.execute(begin)
            result = work(self._connection)
            self._connection.execute("COMMIT")
        except sqlite3.Error as problem:
            self._roll_back()
            if not _is_of_the_store(problem):
                raise
            self._failed(problem)
            raise StoreError(str(problem)) from None
        except BaseException:
            self._roll_back()
            raise
        if begin != "BEGIN":
            self._measure()
            self._succeeded()
        return result

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _failed(self, problem: sqlite3.Error) -> None:
        self._report(str(problem))
        if self._path is not None and _is_damage(problem):
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = self._renewed(self._path)
            self._identity = self._file()
            self.epoch += 1

    def _replace(self, reason: str) -> None:
        """Go on with what is at the path now: SQLite would write on to a file that has no name any more."""
        self._report(reason)
        with suppress(sqlite3.Error):
            self._connection.close()
        try:
            self._connection = self._opened()
        except InputError:
            self._connection = self._in_memory()
        self._identity = self._file()
        self.epoch += 1

    def _file(self) -> tuple[int, int] | None:
        """Which file is at the path; None where there is none."""
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            return None
        return (found.st_dev, found.st_ino) if found else None

    def _succeeded(self) -> None:
        if self._is_in_memory or self._status.up:
            return
        log.info("%s: state is kept again", self._path)
        self._status = replace(self._status, up=True, problem=None)

    def _report(self, problem: str) -> None:
        """Say it once, not at every write."""
        if problem != self._status.problem:
            log.error("%s: state cannot be kept, the service goes on in memory: %s", self._path, problem)
        self._status = replace(self._status, up=False, problem=problem, errors=self._status.errors + 1)

    def _opened(self) -> sqlite3.Connection:
        if self._path is None:
            return _connect(IN_MEMORY)
        try:
            return _connect(self._path)
        except InputError as problem:
            raise InputError(f"--database {self._path}: {problem}; name another file, or move it away") from None
        except sqlite3.Error as problem:
            if any(words in str(problem) for words in BY_HAND):
                raise InputError(f"--database {self._path}: {problem}") from None
            self._report(str(problem))
            return self._renewed(self._path) if _is_damage(problem) else self._in_memory()

    def _renewed(self, path: Path) -> sqlite3.Connection:
        """An empty database in place of a damaged one, which is kept under another name; in memory if need be."""
        try:
            aside = _set_aside(path)
            log.error("%s: damaged; it is kept as %s, and an empty one takes its place", path, aside)
            self._status = replace(self._status, set_aside=str(aside))
            return _connect(path)
        except (OSError, sqlite3.Error, InputError) as problem:
            self._report(str(problem))
            return self._in_memory()

    def _in_memory(self) -> sqlite3.Connection:
        """In place of a file that cannot be used, until the next start."""
        self._is_in_memory = True
        return _connect(IN_MEMORY)

    def _measure(self) -> None:
        pages, size = (self._connection.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
        self._status = replace(self._status, bytes=pages * size)

    def _close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()
        if self._lock is not None:
            self._lock.close()


def _refuse_unfit(path: Path) -> None:
    """InputError for a path that no database can be at, or that holds something else."""
    try:
        if not path.parent.is_dir():
            raise InputError(f"--database {path}: there is no directory {path.parent}; make it first")
        if path.exists() and not path.is_file():
            raise InputError(f"--database {path}: it is no file; name another one")
        with path.open("rb") as file:
            begin = file.read(len(MAGIC))
    except FileNotFoundError:
        return
    except OSError as problem:
        raise InputError(f"--database {path}: {(problem.strerror or str(problem)).lower()}") from None
    # A file of zeros is what a power cut may leave of a database.
    if begin.strip(b"\0") and begin != MAGIC:
        raise InputError(f"--database {path}: it is no SQLite database; name another file, or move it away")


def _locked(path: Path) -> IO[bytes]:
    """The file beside the database that its sidecar holds locked while it runs, however it ends."""
    beside = path.with_name(path.name + "-lock")
    try:
        lock = beside.open("ab")
    except OSError as problem:
        raise InputError(f"--database {path}: {beside}: {(problem.strerror or str(problem)).lower()}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise InputError(f"--database {path}: another sidecar uses it; give each a file of its own") from None
    return lock


def _connect(where: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(where, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS)
    try:
        schema.refuse_foreign(connection)
        for pragma in PRAGMAS:
            connection.execute(pragma)
        schema.bring_up_to_date(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_aside(path: Path) -> Path:
    """Rename a damaged database and its write-ahead log; nothing that is there is overwritten."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    names = (
        path.with_name(f"{path.name}.damaged-{stamp}{suffix}") for suffix in ("", *(f"-{i}" for i in range(1, 1000)))
    )
    aside = next(name for name in names if not name.exists())
    for end in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(aside.with_name(aside.name + end))
    return path.rename(aside)


def _is_damage(problem: sqlite3.Error) -> bool:
    """Python raises DatabaseError itself where the file is malformed or none; what passes has classes below it."""
    return type(problem) is sqlite3.DatabaseError


def _is_of_the_store(problem: sqlite3.Error) -> bool:
    """Whether the disk or the file is at fault, not a statement of ours."""
    return isinstance(problem, sqlite3.OperationalError) or _is_damage(problem)
