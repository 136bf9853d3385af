"""The machinery that measures the page: the figures are of ``python -m benchmarks.page``."""

from __future__ import annotations

import pytest

from benchmarks import page
from tests.support.services import chromium
from tools.browser import browsing


@pytest.mark.browser
async def test_what_a_small_fleet_costs_is_measured(monkeypatch):
    monkeypatch.setattr(page, "UPDATES", 1)
    monkeypatch.setattr(page, "UPDATE_SECONDS", 1.0)
    monkeypatch.setattr(page, "SETTLE", 1.0)
    monkeypatch.setattr(page, "PAST_STEPS", 10)
    async with browsing(chromium()) as browser:
        cost = await page.measure(browser, servers=3)
    assert cost.servers == 3
    assert 0 < cost.first_paint <= cost.first_figures
    assert min(cost.all_rows, cost.filter, cost.heap, cost.process, cost.list_seconds) > 0
    assert 0 < 2 * cost.list_bytes < cost.signals_bytes
    assert len(page.table([cost, cost]).splitlines()) == 12
