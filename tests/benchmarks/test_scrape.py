"""The load benchmark, small: real processes, a few servers, a few seconds; and what it writes."""

from __future__ import annotations

import re

import pytest

from benchmarks.scrape import main
from benchmarks.scrape_report import Cost, Lags, Result, draw, table, write
from tests.support.services import prometheus_binary

RESULT = Result(
    1000, 600.0, 120_000, 0, 0, Lags.of([0.001 * late for late in range(1000)]), [Cost("specwatch", 200, 0.1, 99)]
)


@pytest.mark.services
def test_a_few_servers_are_scraped_and_what_that_costs_beside_prometheus_is_told(capsys):
    run = ["--only", "long", "--servers", "3", "--minutes", "0.1", "--read-every", "2"]
    main([*run, "--prometheus", str(prometheus_binary())])
    said = capsys.readouterr().out
    assert "3 servers for" in said
    assert " 0 failed, " in said
    for reader in ("specwatch", "Prometheus"):
        told = re.search(rf"{reader} +(\S+) ms of processor a scrape, .* (\S+) scrapes a second", said)
        assert told is not None
        # Of the processor's time so few scrapes may take less than one tick.
        assert float(told[2]) > 0


def test_a_table_takes_the_place_of_the_one_before(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- python -m benchmarks.scrape --only long --write -->\nold\n<!-- end -->\nafter\n")
    write("long", table([RESULT]), page)
    write("long", table([RESULT]), page)
    lines = page.read_text().splitlines()
    assert lines.count("| 1,000 | 600 | 120,000 | 0 | 0 | 990 ms | 999 ms | 0.50 ms |  | 99 MB |  |") == 1
    assert (lines[0], lines[-1], "old" in lines) == ("before", "after", False)


def test_growth_is_drawn(tmp_path):
    draw([RESULT], tmp_path / "images" / "growth.png")
    assert (tmp_path / "images" / "growth.png").read_bytes().startswith(b"\x89PNG")
