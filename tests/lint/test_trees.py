"""Which labels a result has: what decides whether a text names one that is gone."""

from __future__ import annotations

import promql_parser
import pytest

from specwatch.lint.trees import ANY_LABEL, NO_LABEL, Labels, core, labels, selected_name, uses

ONLY = {"m": Labels(frozenset({"instance", "model_name"}))}


def of(expression: str) -> Labels:
    return labels(promql_parser.parse(expression), lambda name: ONLY.get(name, ANY_LABEL))


@pytest.mark.parametrize(
    ("expression", "has", "lacks"),
    [
        ("x", "instance anything", ""),
        ("sum(x)", "", "instance"),
        ("sum by (instance) (x)", "instance", "model_name"),
        ("sum by (instance, job) (m)", "instance", "job model_name"),
        ("sum without (instance) (x)", "job", "instance"),
        ("topk by (job) (3, x)", "instance job", ""),
        ('count_values by (job) ("version", x)', "job version", "instance"),
        ("m or sum by (job) (x)", "instance model_name job", "pod"),
        ("m and on (instance) x", "instance model_name", "job"),
        ("m unless x", "instance", "job"),
        ("m / on (instance) x", "instance", "model_name"),
        ("x / ignoring (position) y", "instance", "position"),
        ("x * on (instance) group_left (version) y", "instance version job", ""),
        ("sum by (instance) (x) * on (instance) group_right () y", "instance job", ""),
        ("sum by (instance) (x) / y", "instance", "job"),
        ("sum by (instance) (x) > 3", "instance", "job"),
        ("3 < sum by (instance) (x)", "instance", "job"),
        ("sum by (instance) (x) > scalar(y)", "instance", "job"),
        ("histogram_quantile(0.9, sum by (le, job) (x))", "job", "le instance"),
        ('label_replace(sum by (job) (x), "host", "$1", "job", "(.*)")', "job host", "instance"),
        ('label_join(sum by (job) (x), "host", "-", "job")', "job host", "instance"),
        ('absent(up{job="vllm", instance=~"a.*"})', "job", "instance"),
        ("absent(sum(up))", "", "job"),
        ("vector(1)", "", "job"),
        ("rate(x[5m])", "job", ""),
        ("max_over_time(sum by (job) (x)[1h:1m])", "job", "instance"),
        ("-sum by (job) (x)", "job", "instance"),
    ],
)
def test_labels_of_a_result(expression: str, has: str, lacks: str):
    result = of(expression)
    assert {label: result.may_hold(label) for label in f"{has} {lacks}".split()} == {
        **dict.fromkeys(has.split(), True),
        **dict.fromkeys(lacks.split(), False),
    }


def test_sets_of_labels_combine():
    few, without = Labels(frozenset({"a", "b"})), Labels(frozenset({"a"}), all_but=True)
    assert few & without == Labels(frozenset({"b"}))
    assert without & few == Labels(frozenset({"b"}))
    assert (few | without).may_hold("a")
    assert (without | few).may_hold("c")
    assert without & ANY_LABEL == without
    assert few & NO_LABEL == NO_LABEL
    assert without | Labels(frozenset({"c"}), all_but=True) == ANY_LABEL


@pytest.mark.parametrize(
    "expression",
    ["m", "(m)", "-m", "m > 3", "m and x", "m unless x", "100 * m", "m * 100", "1 + m", "m - 1", "(m > 0) * 2 and x"],
)
def test_the_core_of_a_condition_is_what_gives_it_its_value(expression: str):
    assert selected_name(core(promql_parser.parse(expression))) == "m"


def test_a_use_knows_its_surroundings():
    tree = promql_parser.parse("sum(rate(a[5m])) or count(b) or c")
    a, b, c = uses(tree)
    assert (a.name, a.inside, a.over_time) == ("a", ("sum", "rate"), True)
    assert (b.asks_presence(), c.asks_presence()) == (True, False)
    assert (a.in_a_window(), c.in_a_window()) == (True, False)
    assert [[use.name for other in use.beside for use in uses(other)] for use in (a, c)] == [["c", "b"], ["a", "b"]]
