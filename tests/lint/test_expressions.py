from __future__ import annotations

import pytest

from specwatch.lint.expressions import LONGEST, Expression


@pytest.mark.parametrize(
    "text",
    [
        'rate(vllm:${metric}_total{job=~"$job", model_name=~"${model:regex}"}[$__rate_interval])',
        "topk($n, vllm:num_requests_running)",
        "sum by ($label) (vllm:num_requests_running) > $limit",
        "$aggregation(rate(vllm:generation_tokens_total[$interval]))",
        "$aggregation by (instance) (vllm:num_requests_running)",
        "$function(vllm:generation_tokens_total[[[interval]]])",
        "rate(vllm:generation_tokens_total[${minutes}m:$__interval]) * ${scale}",
        "vllm:num_requests_running{$filters}",
        'vllm:num_requests_running{$label="x"} offset $shift',
        "histogram_quantile($q, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[1m])))",
        'label_replace(vllm:num_requests_running, "host", "$1", "instance", "(.+):.*$")',
        "[[metric]] / $query",
    ],
)
def test_an_expression_with_grafanas_variables_is_read(text: str):
    assert Expression(text, grafana=True).tree is not None


@pytest.mark.parametrize("text", ["sum(", "rate(x)", "", "x y", "SELECT 1", "rate(x[$__rate_interval])"])
def test_what_is_no_promql_says_why(text: str):
    expression = Expression(text)
    assert expression.tree is None
    assert expression.problem


HOSTILE = {
    "long": ("(" * 50_000 + "x" + ")" * 50_000, "longer than"),
    "parentheses": ("(" * 5_000 + "x" + ")" * 5_000, "nests more"),
    "sum": ("x" + " + x" * 10_000, "nests more"),
    "minus": ("-" * 20_000 + "x", "nests more"),
    "or": ("x" + " or x" * 500, "nests more"),
    "calls": ("abs(" * 8_000 + "x", "nests more"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_nesting_that_would_crash_the_parser_never_reaches_it(kind: str):
    text, problem = HOSTILE[kind]
    assert problem in Expression(text, grafana=True).problem


def test_names_are_found_with_their_places_and_not_in_texts_and_comments():
    text = (
        'vllm:a{x="vllm:a"} / {__name__="vllm:a"} # vllm:a\n'
        ' + {"vllm:a", y="z"} + label_replace(vllm:b, "vllm:a", "", "", "")'
    )
    expression = Expression(text)
    found = [name for name in expression.names if name.text == "vllm:a"]
    assert [text[name.start : name.end] for name in found] == ["vllm:a"] * 3
    assert [name.start for name in found] == [0, text.index('"vllm:a"} #') + 1, text.index('{"vllm:a"') + 2]
    assert expression.name("vllm:a", 2) == found[2]
    assert expression.name("vllm:a", 3) is None


def test_texts_that_make_lexers_slow_are_cut():
    for text in ("${" * LONGEST, "[[" * LONGEST, '"' + "\\" * 3 * LONGEST, "`" * 3 * LONGEST, "a" * 30 * LONGEST):
        assert len(Expression(text, grafana=True).names) <= LONGEST
