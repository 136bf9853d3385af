from __future__ import annotations

import re

import pytest

from specwatch.collect.targets import Target
from specwatch.sidecar.watch import TargetWatch, WatchSettings
from specwatch.signals.drift import DriftSettings
from specwatch.vllm.metrics import Counter, Dialect, read_page
from tests.support.pages import page, page_text

TARGET = Target("gpu-1", "http://gpu-1:8000/metrics")


def watch_of(*pages: str, k: int | None = None, every: float = 10.0) -> TargetWatch:
    watch = TargetWatch(TARGET, WatchSettings(k=k))
    for i, name in enumerate(pages):
        watch.observe(i * every, page(name))
    return watch


def test_before_the_first_scrape_nothing_is_claimed():
    view = TargetWatch(TARGET).view(now=0)
    assert (view.up, view.dialect, view.k) == (None, None, None)
    assert view.windows["1m"].values["acceptance_rate"] is None
    assert [f.code for f in view.findings] == ["waiting"]


def test_after_the_first_scrape_nothing_is_called_healthy():
    view = watch_of("vllm-0.32.0-v1-draft_model-json").view(now=0)
    assert [f.code for f in view.findings] == ["one-scrape"]


def test_a_vllm_without_statistics_is_told_from_another_server_by_its_version():
    watch = TargetWatch(TARGET)
    watch.observe(0, read_page("# TYPE python_info gauge\npython_info 1\n"))
    assert [f.code for f in watch.view(0).findings] == ["not-vllm"]
    watch.release = "0.32.0"
    view = watch.view(0)
    assert (view.dialect, view.states()["speculation_configured"]) == (Dialect.NO_STATS, None)
    assert "--disable-log-stats" in view.findings[0].text


def test_the_window_speaks_of_now_and_not_of_the_servers_life():
    view = watch_of("vllm-0.32.0-v1-draft_model-json", "vllm-0.32.0-v1-draft_model-es").view(now=10)
    assert view.windows["1m"].seconds == 10
    assert view.windows["1m"].values["acceptance_rate"] == pytest.approx(0.015, abs=1e-3)
    assert (view.k, view.model_name) == (5, "./lab_target")


def test_a_failed_scrape_is_told_and_the_last_figures_stand_until_they_age():
    watch = watch_of("vllm-0.32.0-v1-draft_model-before", "vllm-0.32.0-v1-draft_model-json")
    watch.failed("no connection: refused")
    assert watch.up is False
    soon, later = watch.view(now=20), watch.view(now=2000)
    assert soon.windows["1m"].values["acceptance_rate"] is not None
    assert later.windows["1m"].values["acceptance_rate"] is None
    assert "refused" in soon.findings[0].text


def test_what_a_page_is_quoted_with_is_short_and_on_one_line():
    watch = watch_of()
    watch.failed("the page holds \x1b[2J\n" + "x" * 10_000_000)
    error = watch.view(now=0).error
    assert error is not None
    assert error.startswith("the page holds  [2J x")
    assert len(error) == 300
    assert error.isprintable()


def test_v0_tells_averages_since_its_start_when_k_is_known():
    name = "vllm-0.8.5.post2-v0-draft_model-json3"
    assert watch_of(name).view(now=0).since_start == {}
    since_start = watch_of(name, k=5).view(now=0).since_start
    assert since_start["acceptance_rate"] == pytest.approx(0.92, abs=0.01)
    assert watch_of(name, name, k=5).view(now=10).windows["1m"].values["acceptance_rate"] is None


def test_engines_are_pooled():
    def two_engines(text: str) -> str:
        doubled = [ln.replace('engine="0"', 'engine="1"') for ln in text.splitlines() if 'engine="0"' in ln]
        return text + "\n".join(doubled) + "\n"

    one = watch_of("vllm-0.32.0-v1-draft_model-before", "vllm-0.32.0-v1-draft_model-json")
    both = TargetWatch(TARGET)
    for at, name in ((0, "before"), (10, "json")):
        both.observe(at, read_page(two_engines(page_text(f"vllm-0.32.0-v1-draft_model-{name}"))))
    single, pooled = one.view(10).windows["1m"].values, both.view(10).windows["1m"].values
    assert both.view(10).engines == 2
    assert pooled["acceptance_rate"] == single["acceptance_rate"]
    assert pooled["generation_throughput"] == 2 * single["generation_throughput"]


def test_what_the_history_has_not_fetched_is_bounded_and_ends_with_the_present():
    watch = TargetWatch(TARGET)
    for i in range(4000):
        watch.observe(2.0 * i, page("vllm-0.32.0-v1-draft_model-json"))
    assert len(watch.stretches) == 720
    assert watch.stretches[-1].at == 7998
    assert len(watch.trend._values) == len(watch.trend.until(7998)) == 60


def test_scrapes_that_follow_each_other_fast_are_one_stretch():
    watch = TargetWatch(TARGET)
    for i in range(9):
        watch.observe(0.25 * i, page("vllm-0.32.0-v1-draft_model-json"))
    assert [(stretch.at, stretch.did.seconds) for stretch in watch.stretches] == [(1.0, 1.0), (2.0, 1.0)]


def test_a_count_that_is_no_number_stays_out_of_the_history():
    text = page_text("vllm-0.32.0-v1-draft_model-json")
    odd, changed = re.subn(r"(?m)^(vllm:num_requests_running{.*}) .*$", r"\1 1e308", text)
    assert changed == 1
    watch = TargetWatch(TARGET)
    for at, shown in enumerate((text, odd, odd)):
        watch.observe(5.0 * at, read_page(shown))
    assert [Counter.RUNNING_SECONDS in stretch.did.counts for stretch in watch.stretches] == [False, False]
    assert all(Counter.DRAFTS in stretch.did.counts for stretch in watch.stretches)


def test_drift_is_fed_once_a_page():
    watch = TargetWatch(TARGET, WatchSettings(drift=DriftSettings(block_seconds=1, block_drafts=1, learn_blocks=4)))
    watch.observe(0, page("vllm-0.32.0-v1-draft_model-json"))
    watch.observe(5, page("vllm-0.32.0-v1-draft_model-es"))
    watch.observe(5, page("vllm-0.32.0-v1-draft_model-es"))
    assert watch.view(5).drift.learned == 0.25


def test_what_the_last_position_is_worth_is_told_of_the_window_that_alerts_look_at():
    view = watch_of("vllm-0.32.0-v1-draft_model-before", "vllm-0.32.0-v1-draft_model-json").view(now=10)
    rates = view.headline.values["position_acceptance"]
    assert isinstance(rates, tuple)
    assert view.states()["last_position_worth"] == pytest.approx(min(rate or 0.0 for rate in rates) / view.cost.c)
    assert watch_of("vllm-0.32.0-v1-off", "vllm-0.32.0-v1-off").view(now=10).states()["last_position_worth"] is None


def test_another_schedule_is_another_regime():
    pages = ("vllm-0.32.0-v1-draft_model-before", "vllm-0.32.0-v1-draft_model-json")
    plain, scheduled = (
        TargetWatch(TARGET, WatchSettings(schedule=schedule)) for schedule in ((), ((1, 4, 5), (5, 5, 0)))
    )
    for watch in (plain, scheduled):
        for at, name in enumerate(pages):
            watch.observe(float(at), page(name))
    assert plain.regime == "5 positions"
    assert scheduled.regime == "5 positions, 1-4: 5, 5-5: 0"
