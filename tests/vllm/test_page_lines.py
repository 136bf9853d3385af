from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from specwatch.vllm.page_lines import LONGEST_REMEMBERED, PageError, Sample, _series, read_lines
from tests.support.pages import FIXTURES


def read(text: str) -> list[Sample]:
    return list(read_lines(text.split("\n")))


@pytest.mark.parametrize("page", sorted(FIXTURES.glob("vllm-*-*.txt")), ids=lambda path: path.stem)
def test_every_captured_page_reads_as_prometheus_own_parser_reads_it(page):
    text = page.read_text()
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    ours = {(s.name, frozenset(s.labels.items())): s.value for s in read_lines(lines)}
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert len(ours) == len(samples)
    for sample in samples:
        value = ours[sample.name, frozenset(sample.labels.items())]
        assert value == sample.value or (math.isnan(value) and math.isnan(sample.value))


def test_labels_may_hold_braces_quotes_and_commas():
    (sample,) = read(r'a{model_name="x\"},engine=\"7\",\\ \n",engine="1"} 3')
    assert dict(sample.labels) == {"model_name": 'x"},engine="7",\\ \n', "engine": "1"}
    assert sample.value == 3


def test_a_time_may_follow_the_value_and_a_series_may_have_no_labels():
    assert [s.value for s in read('a{b="c"} 1 1700000000000\nd 2\ne{} 3')] == [1, 2, 3]


@pytest.mark.parametrize(
    "line", ['a{b="c" 1', "a{b=c} 1", 'a{b="c"}', 'a{b="c"} 1 2 3', 'a{b="c"} 1_0', 'a{b="c",b="d"} 1', 'a{b="c"} 1 x']
)
def test_what_is_not_the_format_is_refused(line: str):
    with pytest.raises(PageError, match="text format"):
        read(line)


def test_the_order_of_labels_makes_no_second_series():
    with pytest.raises(PageError, match="two values"):
        read('a{b="1",c="2"} 1\na{c="2",b="1"} 1')


def test_a_huge_label_is_read_and_not_remembered():
    before = _series.cache_info().currsize
    (sample,) = read(f'a{{b="{"x" * LONGEST_REMEMBERED}"}} 1')
    assert len(sample.labels["b"]) == LONGEST_REMEMBERED
    assert _series.cache_info().currsize == before


@pytest.mark.parametrize("number", ["٣", "\uff19", "1\u00a0", "1\x1c2", "1_0"])
def test_digits_and_spaces_of_other_scripts_are_no_numbers(number: str):
    with pytest.raises(PageError, match="text format"):
        read(f'a{{b="c"}} {number}')


def test_a_series_without_labels_that_an_exemplar_follows_is_no_series_of_another_name():
    with pytest.raises(PageError, match="text format"):
        read('a 1 # {trace_id="b"} 1')
