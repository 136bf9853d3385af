"""The cost of the dashboards, on a small fleet: the large one is ``python -m benchmarks.dashboards``."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.dashboards import Cost, Series, measure, table


def test_a_pattern_is_repeated_for_ever_and_counters_never_fall():
    counter = Series("tokens_total", "", (3.0, 5.0), is_gauge=False)
    assert [counter.value(scrape) for scrape in range(5)] == [0.0, 3.0, 5.0, 8.0, 10.0]
    gauge = Series("running", "", (4.0, 2.0), is_gauge=True)
    assert [gauge.value(scrape) for scrape in range(3)] == [4.0, 2.0, 4.0]


def test_the_table_begins_with_the_dearest_panel():
    costs = [Cost("fleet", "cheap", 1, 0.01, 0.02, 5), Cost("drift", "dear", 2, 0.5, 0.6, 1234567)]
    assert table(costs).splitlines()[2:] == [
        "| drift | dear | 2 | 500 ms | 600 ms | 1 234 567 |",
        "| fleet | cheap | 1 | 10 ms | 20 ms | 5 |",
    ]


@pytest.mark.services
async def test_every_panel_of_a_small_fleet_is_measured(tmp_path: Path):
    costs = await measure(tmp_path, servers=4, scrape=30, hours=0.5)
    assert {cost.board for cost in costs} == {"fleet", "server", "drift", "speedup"}
    assert len(costs) > 70
    (table_of_servers,) = (cost for cost in costs if cost.panel == "Which servers gain least?")
    assert table_of_servers.queries == 9
    assert table_of_servers.samples > 0
