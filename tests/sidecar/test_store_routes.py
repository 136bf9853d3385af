"""Whether state is kept: over the API and as metrics."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service
from specwatch.sidecar.store.database import Database, StoreError


async def told(database: Database | None) -> tuple[Any, list[str]]:
    app = create_app(Service(), AlertBook(), database=database)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:9108") as client:
        status = (await client.get("/api/v1/store")).json()
        page = (await client.get("/metrics")).text
    return status, [line for line in page.splitlines() if line.startswith("specwatch_store")]


async def test_without_a_database_it_says_so_and_there_is_no_metric():
    status, metrics = await told(None)
    assert (status["path"], status["up"], status["problem"]) == (None, False, None)
    assert metrics == []


async def test_a_database_that_takes_nothing_is_told_with_the_reason(tmp_path):
    database = Database(tmp_path / "specwatch.db")
    status, metrics = await told(database)
    assert (status["path"], status["up"], status["errors"]) == (str(tmp_path / "specwatch.db"), True, 0)
    assert metrics[:2] == ["specwatch_store_up 1.0", "specwatch_store_errors_total 0.0"]
    assert metrics[2] == f"specwatch_store_size_bytes {float(status['bytes'])}"
    await database.read(lambda c: c.execute("PRAGMA query_only = on").fetchall())
    with pytest.raises(StoreError):
        await database.write(lambda c: c.execute("DELETE FROM history_target").fetchall())
    status, metrics = await told(database)
    assert (status["up"], status["errors"]) == (False, 1)
    assert "readonly" in status["problem"]
    assert metrics[:2] == ["specwatch_store_up 0.0", "specwatch_store_errors_total 1.0"]
    database.close()
