from __future__ import annotations

import pytest

from specwatch.sidecar.pools import Pools
from specwatch.signals.drift import DriftSettings
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter

SETTINGS = DriftSettings()


def step(seconds: float, drafts: float = 100.0, rate: float = 0.6) -> Increments:
    counts = {Counter.DRAFTS: drafts, Counter.DRAFT_TOKENS: 5 * drafts, Counter.ACCEPTED_TOKENS: 5 * drafts * rate}
    return Increments(seconds, counts)


def scraped(pools: Pools, targets: dict[str, str], scrapes: int, regime: str = "5") -> None:
    """Every target once each five seconds, one after the other."""
    for i in range(scrapes):
        for offset, (target, model) in enumerate(targets.items()):
            pools.take(target, model, 5.0 * i + offset / len(targets), step(5.0), regime)


def test_servers_of_a_model_learn_one_normal_together_and_time_counts_once():
    pools = Pools(SETTINGS)
    scraped(pools, {"a": "llama", "b": "llama", "c": "qwen"}, scrapes=60)
    readings = pools.readings()
    assert set(readings) == {"llama", "qwen"}
    assert readings["qwen"].learned > 0
    for together in (readings["llama"], pools.fleet.detector.reading()):
        assert together.learned == pytest.approx(readings["qwen"].learned, abs=0.1)


def test_more_servers_of_the_same_kind_start_no_new_regime_and_another_release_does():
    pools = Pools(SETTINGS)
    scraped(pools, {"a": "llama"}, scrapes=60)
    before = pools.readings()["llama"]
    pools.take("b", "llama", 301.0, step(5.0), "5")
    assert pools.readings()["llama"].regime_since == before.regime_since
    pools.take("b", "llama", 306.0, step(5.0), "3")
    assert pools.readings()["llama"].regime_since != before.regime_since
    assert pools.readings()["llama"].learned < before.learned


def test_a_model_that_nobody_serves_any_more_is_forgotten():
    pools = Pools(SETTINGS)
    for i in range(1000):
        pools.take("hostile", f"model-{i}", float(i), step(1.0), "5")
    assert list(pools.models) == ["model-999"]


def test_a_server_that_leaves_takes_its_regime_along_and_its_model_where_it_was_the_last():
    pools = Pools(SETTINGS)
    scraped(pools, {"a": "llama", "b": "llama", "c": "qwen"}, scrapes=60)
    pools.take("b", "llama", 301.0, step(1.0), "3")
    pools.leave("b")
    pools.leave("c")
    pools.leave("never-seen")
    pools.take("a", "llama", 306.0, step(5.0), "5")
    assert list(pools.models) == ["llama"]
    assert pools.readings()["llama"].regime_since == 301.0  # when the step began in which only "5" was left


def test_a_page_without_draft_counters_adds_nothing():
    pools = Pools(SETTINGS)
    pools.take("a", "llama", 0.0, Increments(5.0, {Counter.GENERATION_TOKENS: 10.0}), "0")
    assert pools.models == {}
