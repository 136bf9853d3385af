"""The fuzzer over pages: a short run of it, and that it sees what is wrong."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from specwatch.collect.targets import Target
from specwatch.sidecar.watch import TargetWatch
from specwatch.vllm.metrics import Counter, PageReader, Snapshot, read_page
from specwatch.vllm.requests_seen import REQUEST_SERIES
from tests.support.pages import FIXTURES, page_text
from tools import fuzz_pages
from tools.page_mutations import MUTATIONS
from tools.page_oracle import WANTED, NotTheFormat, contradictions, has_reason_to_be_refused, number, wanted_lines

PAGE = page_text("vllm-0.32.0-v1-draft_model-es")


def test_no_page_makes_it_crash_or_hang_or_say_what_the_page_does_not():
    report = fuzz_pages.fuzz(2000, seed=0)
    assert (report.crashes, report.wrong) == ({}, [])
    assert report.taken >= 800
    assert report.refused >= 400


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_kind_of_change_changes_pages(name: str):
    source = random.Random(1)
    pages = [page for page in fuzz_pages.pages() for _ in range(5)]
    assert any(MUTATIONS[name](page, source) != page for page in pages)


@pytest.mark.parametrize("page", sorted(FIXTURES.glob("vllm-*-*.txt")), ids=lambda path: path.stem)
def test_the_second_reading_is_that_of_prometheus_own_parser(page):
    text = page.read_text()
    ours = {(line.name, frozenset(line.labels.items())): line.value for line in wanted_lines(text)}
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    theirs = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for sample in samples
        if sample.name in WANTED or sample.name in REQUEST_SERIES
    }
    assert ours == theirs
    assert not has_reason_to_be_refused(text)
    assert contradictions(text, read_page(text)) == []


def test_a_wrong_number_is_seen():
    told = read_page(PAGE)
    engine = told.engines["0"]
    drafts = {**engine.counters, Counter.DRAFTS: engine.counters[Counter.DRAFTS] + 1}
    wrong = replace(told, engines={"0": replace(engine, counters=drafts)})
    (found,) = contradictions(PAGE, wrong)
    assert "drafts" in found
    fewer = replace(told, engines={"0": replace(engine, accepted_per_position=engine.accepted_per_position[:-1])})
    assert len(contradictions(PAGE, fewer)) == 1


def test_a_crash_and_a_page_that_is_refused_without_a_reason_are_seen(monkeypatch):
    def crash(self: PageReader, text: str) -> Snapshot:
        raise ZeroDivisionError

    monkeypatch.setattr(PageReader, "read", crash)
    report = fuzz_pages.fuzz(5, seed=0)
    assert sum(report.crashes.values()) + report.refused == 5
    assert fuzz_pages.main(["--cases", "5"]) == 1


def test_a_signal_that_is_no_share_is_seen(monkeypatch):
    watch = TargetWatch(Target("a", "http://127.0.0.1:1/metrics"))
    monkeypatch.setattr(watch, "judged_values", lambda at: {"acceptance_rate": 1.5, "tpot": float("inf")})
    assert len(list(fuzz_pages._out_of_range(watch, 0.0))) == 2


@pytest.mark.parametrize("text", ["1_0", "0x1", "", "-", "1e", "٣", "1,5", "e5", "--1"])
def test_what_is_no_number_of_the_format_is_none(text: str):
    with pytest.raises(NotTheFormat):
        number(text)
