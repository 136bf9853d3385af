"""The machinery of the past's cost: the figures are of ``python -m benchmarks.history``."""

from __future__ import annotations

from benchmarks.history import DAY, START, an_hour, answering, fill, kept, opened
from specwatch.sidecar.store.history import LEVELS


def test_what_a_past_costs_is_measured(tmp_path):
    connection = opened(tmp_path / "specwatch.db")
    hour = an_hour(24)
    assert len(hour) == 24
    written = fill(connection, hour, targets=3, seconds=1800)
    assert min(written.seconds, written.bytes) > 0
    levels = kept(connection, targets=3)
    assert [level.table for level in levels] == [level.table for level in LEVELS]
    assert [level.rows for level in levels] == [360, 29, 2]
    assert all(50 < level.bytes / level.rows < 5000 for level in levels)
    points, read, worked_out = answering(connection, 1800, 60.0, START + DAY / 48)
    assert points == 31
    assert min(read, worked_out) > 0
    connection.close()
