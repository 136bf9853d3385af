"""The cost's machinery: the figures are of ``python -m benchmarks.signals_cost``."""

from __future__ import annotations

from benchmarks.signals_cost import SCRAPE_SECONDS, Replay, measure, pages


def test_a_watch_that_is_shown_pages_again_sees_a_server_that_goes_on():
    replay = Replay(pages(24, engines=1))
    for _ in range(3):
        replay.play()
    view = replay.watch.view(replay.now)
    assert replay.now == 3 * 24 * SCRAPE_SECONDS
    assert view.restarts == 2
    assert view.headline.values["acceptance_rate"] is not None


def test_what_a_server_costs_is_measured():
    cost = measure(scrapes=12, hours=0.2, engines=2)
    assert min(cost.update, cost.view, cost.page) > 0
    assert 10_000 < cost.memory < 1_000_000
