"""The database's layout, and how an older one becomes today's."""

from __future__ import annotations

import sqlite3

from specwatch.errors import InputError
from specwatch.sidecar.store import alerts, changes, history, references

APPLICATION = int.from_bytes(b"spcw", "big")
"""Stands in the file's header (SQLite's application_id), so that nobody else's database is written to."""

Statements = tuple[str, ...]

STEPS: tuple[Statements, ...] = (history.TABLES, references.TABLES, alerts.TABLES, changes.TABLES)
"""One entry a version of the layout. Only appended to: a database knows how many of them it has seen."""


def refuse_foreign(connection: sqlite3.Connection) -> None:
    """InputError for a database that is not ours, or newer than this program. Nothing is written."""
    application, version, tables = (
        connection.execute(question).fetchone()[0]
        for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT COUNT(*) FROM sqlite_master")
    )
    if application != APPLICATION and (application or version or tables):
        raise InputError("it is a database of another program")
    if version > len(STEPS):
        raise InputError(f"a newer specwatch has written it (layout {version}; this one knows {len(STEPS)})")


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Make or extend the tables, all of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for statement in (statement for step in STEPS[version:] for statement in step):
            connection.execute(statement)
        if version < len(STEPS):
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {len(STEPS)}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
