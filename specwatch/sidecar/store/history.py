"""What every target did, on disk: each step for hours, minutes for days, ten minutes for weeks.

A row holds what was counted in a stretch of time, not the figures that follow from it. So stretches are pooled by
adding up, and a ratio over any length of time is a quotient of sums. A row's ``bucket`` is when the span of time began
that it falls in. It leads the key: what is new is written in one place, what is old is deleted in one place, and one
target's rows are found by a look at each bucket.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from specwatch.sidecar.store.names import storable
from specwatch.sidecar.views import Stretch
from specwatch.signals.speedup import SpeedupKind
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter

_COLUMNS = """(
    bucket INTEGER NOT NULL, target INTEGER NOT NULL, at REAL NOT NULL, seconds REAL NOT NULL,
    drafts REAL, draft_tokens REAL, accepted_tokens REAL, generation_tokens REAL, first_tokens REAL,
    decode_steps REAL, decode_step_seconds REAL, finished_requests REAL, finished_tokens REAL,
    finished_decode_seconds REAL, running_seconds REAL, waiting_seconds REAL,
    drift_score REAL, speedup REAL, speedup_kind INTEGER,
    PRIMARY KEY (bucket, target, at)
) WITHOUT ROWID"""

TABLES = (
    "CREATE TABLE history_target (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, last_at REAL NOT NULL)",
    f"CREATE TABLE history_step {_COLUMNS}",
    f"CREATE TABLE history_minute {_COLUMNS}",
    f"CREATE TABLE history_ten_minutes {_COLUMNS}",
)

HOUR, DAY = 3600, 86_400


@dataclass(frozen=True)
class Level:
    """One fineness of the history."""

    table: str
    bucket: int
    """Seconds; each a multiple of the one before."""
    keep: int
    """Seconds."""


LEVELS = (
    # An incident that is being looked into, on a screen that has a pixel every ten seconds of it.
    Level("history_step", 10, 3 * HOUR),
    # A weekend.
    Level("history_minute", 60, 3 * DAY),
    # A month, and the week before it to compare with.
    Level("history_ten_minutes", 600, 35 * DAY),
)
"""Finest first. Scraped every five seconds a target has 2,160 rows, 4,320 and 5,040 at most; scraped faster it has
10,800 of the finest, because shorter stretches than a second are joined."""

LATEST = 30.0
"""Seconds after which a bucket is closed: a scrape's row is written some seconds after the scrape."""

BLOCK = LEVELS[-1].bucket
"""Seconds that are deleted of a level in one go, sixty times faster than they come: no write waits long for it. Blocks
are whole buckets of every level, so that what is left of a finer one is all of what a coarser one added up."""

SHARE = 0.05
"""Of a level's span that goes at once where the whole is too large: the oldest twentieth of each."""

KINDS = {1: SpeedupKind.MEASURED, 2: SpeedupKind.CALIBRATED, 3: SpeedupKind.ESTIMATED}
"""How the database writes them."""

_CODES = {kind: code for code, kind in KINDS.items()}
_COUNTERS = tuple(counter.value for counter in Counter)
_FIGURES = ("at", "seconds", *_COUNTERS, "drift_score", "speedup", "speedup_kind")

_WORDS = {
    "<figures>": ", ".join(_FIGURES),
    "<marks>": ", ".join("?" * len(_FIGURES)),
    "<sums>": ", ".join(f"CASE WHEN COUNT({name}) = COUNT(*) THEN SUM({name}) END" for name in _COUNTERS),
}


def _sql(text: str, table: Level, source: Level | None = None) -> str:
    """A statement about one level, and the one that its rows come from."""
    words = {**_WORDS, "<table>": table.table, "<source>": source.table if source else ""}
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return text


_NAME = """
INSERT INTO history_target (name, last_at) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET last_at = MAX(last_at, excluded.last_at)
"""

_INSERT = """
INSERT OR REPLACE INTO <table> (target, bucket, <figures>)
VALUES ((SELECT id FROM history_target WHERE name = ?), ?, <marks>)
"""

_SPAN = "SELECT (SELECT MIN(bucket) FROM <table>), (SELECT MAX(bucket) FROM <table> WHERE bucket <= ?)"

# Beside MAX(at), SQLite takes what is not aggregated from the row that has it.
_ADD_UP = """
INSERT OR REPLACE INTO <table> (bucket, target, <figures>)
SELECT bucket / :size * :size AS beginning, target, MAX(at), SUM(seconds), <sums>, drift_score, speedup, speedup_kind
FROM <source> WHERE bucket >= :begin AND bucket < :until GROUP BY beginning, target
"""

_ONE_TARGET = """
WITH RECURSIVE wanted (bucket) AS (
    SELECT :first WHERE :first <= :last UNION ALL SELECT bucket + :size FROM wanted WHERE bucket + :size <= :last
)
SELECT <figures> FROM wanted CROSS JOIN <table> AS kept ON kept.bucket = wanted.bucket AND kept.target = :target
WHERE at > :start AND at <= :end
"""

_DELETE = "DELETE FROM <table> WHERE bucket < ?"


def save(connection: sqlite3.Connection, stretches: Iterable[tuple[str, Stretch]], now: float, most_bytes: int) -> None:
    """Write targets' new stretches; make coarser rows of closed buckets, and drop what is too old or too much."""
    new = [(storable(name), stretch) for name, stretch in stretches]
    finest = LEVELS[0]
    connection.executemany(_NAME, ((name, stretch.at) for name, stretch in new))
    connection.executemany(
        _sql(_INSERT, finest), ((name, _bucket(stretch.at, finest), *_row(stretch)) for name, stretch in new)
    )
    for fine, coarse in pairwise(LEVELS):
        _add_up(connection, fine, coarse, now)
    _prune(connection, now, most_bytes)


def load(connection: sqlite3.Connection, target: str, start: float, end: float, step: float) -> list[Stretch] | None:
    """One target's stretches that end in (start, end], oldest first; None for a target of which nothing is kept.

    They are as long as a step at most, but where only longer ones are left.
    """
    found = connection.execute("SELECT id FROM history_target WHERE name = ?", (storable(target),)).fetchone()
    if found is None:
        return None
    return [
        _stretch(row)
        for level, first, last in _parts(connection, start, end, step)
        for row in connection.execute(
            _sql(_ONE_TARGET, level),
            {
                "first": first,
                "last": last,
                "size": level.bucket,
                "target": found[0],
                "start": start,
                "end": end,
            },
        )
    ]


def _parts(connection: sqlite3.Connection, start: float, end: float, step: float) -> Iterator[tuple[Level, int, int]]:
    """Which level tells which buckets, first and last, oldest part first and without an overlap.

    The coarsest level whose rows are no longer than a step; before its time the coarser ones, and finer ones for what
    is not added up yet.
    """
    chosen = max((i for i, level in enumerate(LEVELS) if level.bucket <= step), default=0)
    spans = [_span(connection, level, end) for level in LEVELS]
    known = [(span[0], span[1] + level.bucket) for level, span in zip(LEVELS, spans, strict=True) if span]
    if not known:
        return
    # A look at each bucket takes time, and somebody may ask for a century.
    begin = max(start, min(first for first, _ in known))
    end = min(end, max(last for _, last in known))
    for i, level in reversed(list(enumerate(LEVELS))):
        until = end + level.bucket
        if i > chosen:
            until = min((_bucket(span[0], level) for span in spans[:i] if span), default=until)
        elif i > 0:
            newest = spans[i]
            until = newest[1] + level.bucket if newest else begin
        if until > begin:
            yield level, _bucket(begin, level), min(_bucket(end, level), _bucket(until, level) - level.bucket)
            begin = until


def _span(connection: sqlite3.Connection, level: Level, until: float) -> tuple[int, int] | None:
    """The first and the last bucket that hold anything, of those that began until then."""
    first, last = connection.execute(_sql(_SPAN, level), (until,)).fetchone()
    return None if first is None or last is None else (first, last)


def _add_up(connection: sqlite3.Connection, fine: Level, coarse: Level, now: float) -> None:
    """Make rows of the buckets that closed since the last time: counts added, states as they were at the end.

    A counter that one of the rows lacks is left out, so that no quotient mixes stretches of time.
    """
    done, known = _span(connection, coarse, now), _span(connection, fine, now)
    if known is None:
        return
    begin = done[1] + coarse.bucket if done else _bucket(known[0], coarse)
    connection.execute(
        _sql(_ADD_UP, coarse, source=fine),
        {"size": coarse.bucket, "begin": begin, "until": _bucket(now - LATEST, coarse)},
    )


def _prune(connection: sqlite3.Connection, now: float, most_bytes: int) -> None:
    is_too_large = bytes_used(connection) > most_bytes
    for level in LEVELS:
        span = _span(connection, level, now)
        if span is None:
            continue
        until = min(now - level.keep, span[0] + BLOCK)
        if is_too_large:
            until = max(until, span[0] + BLOCK, span[0] + SHARE * (now - span[0]))
        connection.execute(_sql(_DELETE, level), (_bucket(until, LEVELS[-1]),))
    connection.execute("DELETE FROM history_target WHERE last_at < ?", (now - LEVELS[-1].keep - LEVELS[-1].bucket,))


def bytes_used(connection: sqlite3.Connection) -> int:
    """Bytes of the pages that hold something; those of deleted rows are used again."""
    pages, free, size = (
        connection.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _bucket(at: float, level: Level) -> int:
    return int(at // level.bucket) * level.bucket


def _row(stretch: Stretch) -> tuple[float | None, ...]:
    counts, kind = stretch.did.counts, stretch.speedup_kind
    return (
        stretch.at,
        stretch.did.seconds,
        *(counts.get(counter) for counter in Counter),
        stretch.drift_score,
        stretch.speedup,
        None if kind is None else _CODES[kind],
    )


def _stretch(row: Sequence[Any]) -> Stretch:
    at, seconds, *counts = row[: 2 + len(_COUNTERS)]
    drift_score, speedup, kind = row[2 + len(_COUNTERS) :]
    known = {counter: count for counter, count in zip(Counter, counts, strict=True) if count is not None}
    return Stretch(at, Increments(seconds, known), speedup, KINDS.get(kind), drift_score)
