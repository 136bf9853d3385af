"""When acceptance left its normal, how far, and when it was back: of every server, every model and the fleet."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, replace

from specwatch.sidecar.store.names import storable
from specwatch.sidecar.views import AcceptanceChange

TABLES = (
    """CREATE TABLE acceptance_change (
        scope TEXT NOT NULL, name TEXT NOT NULL, found_at REAL NOT NULL, direction TEXT NOT NULL, began REAL NOT NULL,
        reference REAL, change REAL, change_low REAL, change_high REAL, ended_at REAL,
        PRIMARY KEY (scope, name, found_at)
    )""",
    "CREATE INDEX acceptance_change_began ON acceptance_change (began)",
)

MOST = 10_000
"""Changes kept, the latest: ten of each of a thousand servers, about 1 MB."""

MOST_TOLD = 200
"""In one answer, the latest: more than can be told apart on a chart."""


def save(connection: sqlite3.Connection, changes: Iterable[AcceptanceChange]) -> None:
    """Write these as they are now."""
    connection.executemany(
        "INSERT OR REPLACE INTO acceptance_change VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (astuple(replace(change, name=storable(change.name))) for change in changes),
    )
    connection.execute(
        "DELETE FROM acceptance_change WHERE began < "
        "(SELECT began FROM acceptance_change ORDER BY began DESC LIMIT 1 OFFSET ?)",
        (MOST,),
    )


def under_way(connection: sqlite3.Connection) -> list[AcceptanceChange]:
    """Those that have not ended."""
    return [
        AcceptanceChange(*row) for row in connection.execute("SELECT * FROM acceptance_change WHERE ended_at IS NULL")
    ]


def load(
    connection: sqlite3.Connection, start: float, end: float, scope: str | None = None, name: str | None = None
) -> list[AcceptanceChange]:
    """Those that were under way from ``start`` to ``end``, oldest first; the latest where they are many."""
    rows = connection.execute(
        "SELECT * FROM acceptance_change WHERE began <= :end AND (ended_at IS NULL OR ended_at >= :start) "
        "AND (:scope IS NULL OR scope = :scope) AND (:name IS NULL OR name = :name) ORDER BY began DESC LIMIT :most",
        {"start": start, "end": end, "scope": scope, "name": name and storable(name), "most": MOST_TOLD},
    )
    return [AcceptanceChange(*row) for row in rows][::-1]
