from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from specwatch.collect.discovery import Drop, LeftOut
from specwatch.collect.prometheus_answer import Matrix
from specwatch.collect.prometheus_fleet import FAILOVER, LOOKBACK, SLACK, Fleet, News
from specwatch.collect.targets import Target
from specwatch.scrape_config import PrometheusConfig
from specwatch.vllm.metrics import Dialect, read_page
from tests.support.engines import (
    LABELS,
    V0,
    V1,
    V1_BEFORE,
    Series,
    prometheus_says,
    scraped,
    ups,
    victoria_says,
)
from tests.support.pages import FIXTURES, page_text

NOW = 1_700_000_000.0
URL = "http://prometheus:9090"
CAPTURED = sorted(path.stem for path in FIXTURES.glob("vllm-*.txt"))


def fleet(**options: Any) -> Fleet:
    return Fleet(PrometheusConfig.model_validate(options), URL)


def told(
    to: Fleet, series: Iterable[Series], now: float = NOW, *, whole: bool = True, say: Any = prometheus_says
) -> News:
    """What an answer at that moment brings."""
    to.begin(now)
    for labels, samples in Matrix(say(series).encode(), URL):
        to.add(labels, samples)
    return to.end(whole)


def names(news: News) -> list[str]:
    return [target.name for target in news.told if isinstance(target, Target)]


def left_out(news: News) -> list[LeftOut]:
    return [target for target in news.told if isinstance(target, LeftOut)]


def times(news: News) -> list[float]:
    return [moment.at - NOW for moment in news.moments]


def pages(news: News) -> list[tuple[str, float, str | None]]:
    return [(moment.server, moment.at, moment.page) for moment in news.moments]


def labels(instance: str = "gpu-1:8000", **more: str) -> dict[str, str]:
    return {"instance": instance, "job": "vllm", **more}


@pytest.mark.parametrize("name", CAPTURED)
def test_a_page_says_the_same_as_the_one_that_was_scraped(name: str):
    page = page_text(name)
    (moment,) = told(fleet(), scraped({NOW - 5: page})).moments
    assert (moment.server, moment.at) == ("gpu-1:8000", NOW - 5)
    assert moment.page is not None
    again, direct = read_page(moment.page), read_page(page)
    # Without statistics nothing but the process is there, and a page without vLLM's names could be anyone's.
    assert again.dialect is (Dialect.NOT_VLLM if direct.dialect is Dialect.NO_STATS else direct.dialect)
    assert (again.engines, again.model_name, again.process_start) == (
        direct.engines,
        direct.model_name,
        direct.process_start,
    )
    assert again.since_start == direct.since_start


def test_victoria_metrics_gives_the_same_pages():
    series = scraped({NOW - 20: V1_BEFORE, NOW - 5: V1})
    assert pages(told(fleet(), series, say=victoria_says)) == pages(told(fleet(), series))


def test_every_scrape_is_taken_once_and_in_the_order_of_time():
    it = fleet()
    first = scraped({NOW - 40: V1, NOW - 25: V1}) + scraped({NOW - 30: V1}, labels("gpu-2:8000"))
    assert times(told(it, first)) == [-40, -30, -25]
    assert times(told(it, scraped({NOW - 25: V1, NOW - 10: V1}), NOW + 5)) == [-10]
    assert times(told(it, scraped({NOW - 25: V1, NOW - 10: V1}), NOW + 6)) == []


def test_a_scrape_that_failed_is_one_of_a_server_that_is_down():
    news = told(fleet(), [*scraped({NOW - 20: V1}, up=False), ups({NOW - 20: 1, NOW - 5: 0})])
    assert [moment.page is None for moment in news.moments] == [False, True]


def test_a_server_that_was_never_up_is_a_target_all_the_same():
    news = told(fleet(), [ups({NOW - 5: 0})])
    assert (names(news), pages(news)) == (["gpu-1:8000"], [("gpu-1:8000", NOW - 5, None)])


def test_without_up_pages_are_pages():
    news = told(fleet(), scraped({NOW - 5: V1}, up=False))
    assert [read_page(moment.page or "").dialect for moment in news.moments] == [Dialect.V1]


def test_a_target_that_is_up_and_no_vllm_is_shown_as_such():
    (moment,) = told(fleet(), [ups({NOW - 5: 1})]).moments
    assert read_page(moment.page or "").dialect is Dialect.NOT_VLLM


def test_a_pipeline_that_renames_vllms_series_is_told():
    series = [ups({NOW - 5: 1}), ({"__name__": "vllm_num_requests_running", **LABELS}, [(NOW - 5, "1")])]
    (moment,) = told(fleet(), series).moments
    assert read_page(moment.page or "").dialect is Dialect.MANGLED


def test_the_marks_of_a_target_that_left_are_no_scrape():
    gone = [(name, [(NOW - 5, "NaN")]) for name, _ in scraped({NOW: V1})]
    assert told(fleet(), gone, say=victoria_says).moments == []


def test_a_scrape_of_which_some_samples_are_on_their_way_waits_for_them():
    it = fleet()
    told(it, scraped({NOW - 20: V1}))
    whole = scraped({NOW - 20: V1, NOW - 5: V1})
    part = [(name, samples[:1] if name["__name__"].endswith("drafts_total") else samples) for name, samples in whole]
    assert times(told(it, part)) == []
    assert times(told(it, whole, NOW + 15)) == [-5]


def test_a_scrape_whose_samples_never_came_is_left_out():
    it = fleet()
    told(it, scraped({NOW - 20: V1}))
    whole = scraped({NOW - 20: V1, NOW - 5: V1, NOW + 10: V1})
    part = [(name, samples[::2] if name["__name__"].endswith("drafts_total") else samples) for name, samples in whole]
    assert times(told(it, part, NOW + 15)) == [10]


def test_series_that_are_gone_for_good_are_waited_for_only_once():
    it = fleet()
    told(it, scraped({NOW - 20: V1}))
    fewer = "\n".join(line for line in V1.split("\n") if 'position="4"' not in line)
    assert times(told(it, scraped({NOW - 5: fewer}))) == []
    assert times(told(it, scraped({NOW - 5: fewer, NOW + 10: fewer}), NOW + 15)) == [-5, 10]


def test_after_a_failure_a_page_with_fewer_series_is_a_page():
    it = fleet()
    told(it, [*scraped({NOW - 20: V1}, up=False), ups({NOW - 20: 1, NOW - 5: 0})])
    assert times(told(it, scraped({NOW + 10: V0}), NOW + 15)) == [10]


def test_a_server_is_called_by_the_labels_that_are_named():
    news = told(fleet(server_labels=["cluster", "pod"]), scraped({NOW: V1}, labels(cluster="eu", pod="vllm-0")))
    (target,) = news.told
    assert isinstance(target, Target)
    assert (target.name, target.url, target.job) == ("eu/vllm-0", URL, "vllm")
    assert target.labels == {"cluster": "eu", "instance": "gpu-1:8000", "job": "vllm", "pod": "vllm-0"}


def test_a_server_without_such_a_label_is_left_out_with_the_reason():
    (problem,) = left_out(told(fleet(server_labels=["pod"]), scraped({NOW: V1})))
    assert problem.drop is Drop.INVALID
    assert "have no label pod: see prometheus.server_labels" in problem.why


def test_labels_are_changed_by_rules_before_a_server_gets_its_name():
    rules = [
        {"source_labels": ["stage"], "regex": "test", "action": "drop"},
        {"source_labels": ["rack", "instance"], "separator": "/", "target_label": "instance"},
    ]
    series = scraped({NOW: V1}, labels(rack="r1")) + scraped({NOW: V1}, labels("gpu-2:8000", stage="test"))
    news = told(fleet(relabel_configs=rules), series)
    assert names(news) == ["r1/gpu-1:8000"]
    assert [one.drop for one in left_out(news)] == [Drop.RELABEL]
    assert {moment.server for moment in news.moments} == {"r1/gpu-1:8000"}


def test_a_targets_own_label_model_name_hides_none_of_vllms():
    with_name = labels(model_name="chat")
    series = [
        (
            {**name, "exported_model_name": name["model_name"], "model_name": "chat"}
            if name["__name__"].startswith("vllm:")
            else {**name, "model_name": "chat"},
            samples,
        )
        for name, samples in scraped({NOW: V1})
    ]
    news = told(fleet(), series)
    (target,), (moment,) = news.told, news.moments
    assert isinstance(target, Target)
    assert target.labels == with_name
    assert read_page(moment.page or "") == read_page(V1)


def test_of_a_pair_that_scrapes_the_same_servers_one_is_followed_until_it_falls_silent():
    it = fleet(replica_labels=["replica"])
    a, b = labels(replica="a"), labels(replica="b")
    both = told(it, scraped({NOW - 40: V1, NOW - 25: V1}, a) + scraped({NOW - 33: V1, NOW - 18: V1}, b))
    assert (names(both), left_out(both)) == (["gpu-1:8000"], [])
    assert times(both) == [-33, -18]
    # The other one goes on, and is not mixed in before this one is silent for long enough.
    after = NOW - 18 + FAILOVER
    assert times(told(it, scraped({NOW - 10: V1, after: V1}, a), after + 1)) == []
    switched = told(it, scraped({after: V1, after + 5: V1}, a), after + 6)
    assert times(switched)[-1] == after + 5 - NOW
    assert names(switched) == ["gpu-1:8000"]


def test_two_servers_of_one_name_are_told_with_what_tells_them_apart():
    series = scraped({NOW - 20: V1, NOW - 5: V1}, labels(cluster="eu"))
    series += scraped({NOW - 18: V1, NOW - 3: V1}, labels(cluster="us"))
    news = told(fleet(), series)
    (problem,) = left_out(news)
    assert (names(news), problem.drop, len(news.moments)) == (["gpu-1:8000"], Drop.DUPLICATE, 2)
    assert "two targets are called 'gpu-1:8000', and differ in cluster" in problem.why
    assert "prometheus.replica_labels" in problem.why
    apart = told(fleet(server_labels=["cluster", "instance"]), series)
    assert (names(apart), left_out(apart)) == (["eu/gpu-1:8000", "us/gpu-1:8000"], [])


def test_a_server_that_moves_is_one_server():
    it = fleet()
    told(it, scraped({NOW - 50: V1, NOW - 40: V1}, labels(node="n1")))
    series = scraped({NOW - 40: V1}, labels(node="n1")) + scraped({NOW: V1}, labels(node="n2"))
    news = told(it, series, NOW + 1)
    assert (names(news), left_out(news), times(news)) == (["gpu-1:8000"], [], [0])


def test_a_server_without_news_is_late_after_three_scrapes_and_gone_when_others_show_it():
    it = fleet()
    other = labels("gpu-2:8000")
    told(it, scraped({NOW - 20: V1, NOW - 5: V1}) + scraped({NOW - 20: V1, NOW - 5: V1}, other))
    usual = told(it, scraped({NOW + 40: V1}, other), NOW + 41)
    assert (usual.late, sorted(names(usual))) == ({}, ["gpu-1:8000", "gpu-2:8000"])
    late = told(it, scraped({NOW + 55: V1}, other), NOW + 56)
    assert late.late == {"gpu-1:8000": NOW - 5}
    gone = told(it, scraped({NOW + LOOKBACK: V1}, other), NOW + LOOKBACK + 1)
    assert names(gone) == ["gpu-2:8000"]


def test_nobody_is_gone_because_of_an_answer_that_may_lack_servers():
    it = fleet()
    other = labels("gpu-2:8000")
    told(it, scraped({NOW - 5: V1}) + scraped({NOW - 5: V1}, other))
    partial = told(it, scraped({NOW + 2 * LOOKBACK: V1}, other), NOW + 2 * LOOKBACK + 1, whole=False)
    assert sorted(names(partial)) == ["gpu-1:8000", "gpu-2:8000"]


def test_an_engine_that_falls_behind_takes_nobody_away():
    it = fleet()
    told(it, scraped({NOW - 5: V1}))
    behind = told(it, [], NOW + 10 * LOOKBACK)
    assert (names(behind), behind.late) == (["gpu-1:8000"], {"gpu-1:8000": NOW - 5})
    assert times(told(it, scraped({NOW + 10 * LOOKBACK: V1}), NOW + 10 * LOOKBACK + 1)) == [10 * LOOKBACK]


def test_a_question_reaches_back_to_what_is_known_of_whoever_is_furthest_behind():
    it = fleet()
    assert it.reach(NOW) == LOOKBACK
    told(it, scraped({NOW - 20: V1, NOW - 5: V1}) + scraped({NOW - 27: V1, NOW - 12: V1}, labels("gpu-2:8000")))
    assert it.reach(NOW + 10) == 22 + SLACK
    assert it.reach(NOW + 1000) == LOOKBACK


def test_a_sample_from_far_in_the_future_ends_no_servers_time():
    it = fleet()
    told(it, scraped({NOW - 5: V1, NOW + 1e6: V1}))
    assert times(told(it, scraped({NOW + 10: V1}), NOW + 11)) == [10]


def test_hostile_labels_stay_inside_their_quotes():
    odd = 'a"} 1\nvllm:generation_tokens_total{x="'
    series = [({"__name__": "vllm:generation_tokens_total", "model_name": odd, **LABELS}, [(NOW, "7")])]
    (moment,) = told(fleet(), series).moments
    assert read_page(moment.page or "").model_name == odd
    bad = json.loads(json.dumps({**LABELS, "instance": "a\nb"}))
    (problem,) = left_out(told(fleet(), scraped({NOW: V1}, bad)))
    assert problem.drop is Drop.INVALID
