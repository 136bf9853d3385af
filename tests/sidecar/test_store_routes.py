"""Whether state is kept: over the API and as metrics."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import aiohttp
import httpx
import pytest

from specwatch.collect.targets import Target
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service, ServiceSettings
from specwatch.sidecar.store.database import Database, StoreError
from tests.support.http import serving as serving_pages
from tests.support.http import text_page
from tests.support.pages import page_text
from tools.rehearsal import serving


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


async def test_while_the_disk_hangs_scrapes_go_on_and_the_present_is_told(tmp_path):
    database = Database(tmp_path / "specwatch.db")
    release = threading.Event()
    page = text_page(page_text("vllm-0.32.0-v1-draft_model-json"))
    async with serving_pages({"/metrics": page}) as url:
        alerts = AlertBook(database=database)
        service = Service(
            [Target("a", f"{url}/metrics")], settings=ServiceSettings(interval=0.05), listener=alerts.judge
        )
        app = create_app(service, alerts, database=database)
        async with serving(app) as sidecar, aiohttp.ClientSession() as http:
            hanging = asyncio.create_task(database.write(lambda _: release.wait(60)))
            began = service.tallies["a"].scrapes
            while service.tallies["a"].scrapes < began + 20:
                await asyncio.sleep(0.02)
            for path in ("/api/v1/signals", "/api/v1/store", "/api/v1/alerts", "/metrics", "/readyz"):
                async with http.get(f"{sidecar}{path}") as answer:
                    assert answer.status == 200, path
            assert not hanging.done()
            release.set()
            assert await hanging
            async with http.get(f"{sidecar}/api/v1/history?target=a") as answer:
                assert answer.status == 200
    database.close()
