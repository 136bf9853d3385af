from __future__ import annotations

import pytest

from specwatch.lab.simulator import SimulatedServer
from specwatch.vllm.metrics import read_page


@pytest.mark.parametrize(("k", "engines"), [(5, 1), (3, 2), (None, 1)])
def test_a_snapshot_is_what_reading_the_page_gives(k: int | None, engines: int):
    server = SimulatedServer("a", k=k, engines=engines, running=5, waiting=3, seed=3)
    server.advance(30)
    assert server.snapshot() == read_page(server.page())
    server.restart()
    server.advance(5)
    assert server.snapshot() == read_page(server.page())
