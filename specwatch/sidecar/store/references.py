"""What drift has learned of every server, every model and the fleet, as JSON texts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from specwatch.sidecar.store.names import storable

TABLES = (
    """CREATE TABLE reference (
        scope TEXT NOT NULL, name TEXT NOT NULL, saved_at REAL NOT NULL, state TEXT NOT NULL,
        PRIMARY KEY (scope, name)
    )""",
    "CREATE INDEX reference_saved_at ON reference (saved_at)",
)

Key = tuple[str, str]
"""Scope and name."""

MOST = 10_000
"""References kept, those saved last: of pods that come under a new name every time, most are never asked for again. A
state takes about 1.4 kB."""


def save(connection: sqlite3.Connection, states: Mapping[Key, str], now: float) -> None:
    """Write these; the others stay as they were."""
    connection.executemany(
        "INSERT OR REPLACE INTO reference (scope, name, saved_at, state) VALUES (?, ?, ?, ?)",
        ((scope, storable(name), now, state) for (scope, name), state in states.items()),
    )
    connection.execute(
        "DELETE FROM reference WHERE saved_at < "
        "(SELECT saved_at FROM reference ORDER BY saved_at DESC LIMIT 1 OFFSET ?)",
        (MOST,),
    )


def load(connection: sqlite3.Connection, keys: Iterable[Key]) -> dict[Key, str]:
    """The states of those that are known."""
    found: dict[Key, str] = {}
    for scope, name in keys:
        row = connection.execute(
            "SELECT state FROM reference WHERE scope = ? AND name = ?", (scope, storable(name))
        ).fetchone()
        if row is not None:
            found[scope, name] = row[0]
    return found
