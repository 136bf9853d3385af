"""Relabelling, by the examples and the rules of Prometheus' own documentation."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from specwatch.collect.relabel import relabel
from specwatch.scrape_config import RelabelConfig

LABELS = {"__address__": "gpu-1:8000", "__meta_pod": "llama-0", "env": "prod", "zone": "a"}


def relabelled(*rules: dict[str, Any], labels: dict[str, str] = LABELS) -> dict[str, str] | None:
    return relabel(labels, [RelabelConfig.model_validate(rule) for rule in rules])


def test_without_a_rule_nothing_changes():
    assert relabelled() == LABELS


def test_replace_joins_the_sources_and_takes_the_groups():
    rule = {"source_labels": ["env", "zone"], "regex": "(.+);(?P<z>.+)", "target_label": "at"}
    assert relabelled({**rule, "replacement": "${1}-${z}-$2-$$"})["at"] == "prod-a-a-$"


def test_replace_leaves_alone_what_does_not_match_as_a_whole():
    assert relabelled({"source_labels": ["env"], "regex": "pro", "target_label": "at"}) == LABELS


def test_a_longer_name_than_meant_is_another_group_as_in_prometheus():
    rule = {"source_labels": ["env"], "target_label": "at", "replacement": "$1x"}
    assert "at" not in relabelled(rule)


def test_a_group_that_took_no_part_is_empty():
    rule = {"source_labels": ["env"], "regex": "(prod)|(test)", "target_label": "at", "replacement": "<$2>"}
    assert relabelled(rule)["at"] == "<>"


def test_an_empty_value_takes_the_label_away():
    assert "env" not in relabelled({"source_labels": ["nothing"], "target_label": "env"})


def test_a_label_without_a_source_is_set():
    assert relabelled({"target_label": "team", "replacement": "serving"})["team"] == "serving"


def test_a_target_label_may_hold_groups_and_an_impossible_one_changes_nothing():
    rule = {"source_labels": ["env"], "target_label": "is_${1}", "replacement": "yes"}
    assert relabelled(rule)["is_prod"] == "yes"
    assert relabelled({**rule, "target_label": "is-${1}"}) == LABELS


@pytest.mark.parametrize(("action", "regex", "stays"), [("keep", "prod|test", True), ("keep", "test", False)])
def test_keep_and_drop_are_each_others_opposite(action: str, regex: str, stays: bool):
    rule = {"source_labels": ["env"], "regex": regex}
    assert (relabelled({**rule, "action": "keep"}) is not None) is stays
    assert (relabelled({**rule, "action": "drop"}) is None) is stays


def test_no_rule_sees_a_target_that_was_dropped():
    assert relabelled({"action": "drop", "regex": ""}, {"target_label": "a", "replacement": "b"}) is None


def test_a_dot_matches_a_newline_as_in_prometheus():
    labels = {"a": "x\ny"}
    assert relabelled({"source_labels": ["a"], "target_label": "b"}, labels=labels)["b"] == "x\ny"


def test_hashmod_gives_the_shards_that_prometheus_gives():
    # From Prometheus' own test of relabelling: these three labels give 976 of 1000.
    labels = {"a": "foo", "b": "bar", "c": "baz"}
    rule = {"source_labels": ["c"], "target_label": "d", "action": "hashmod", "modulus": 1000}
    assert relabelled(rule, labels=labels)["d"] == "976"


def test_labelmap_copies_labels_under_the_names_it_makes():
    changed = relabelled({"action": "labelmap", "regex": "__meta_(.+)"})
    assert changed == {**LABELS, "pod": "llama-0"}


def test_labeldrop_and_labelkeep_go_by_names():
    assert set(relabelled({"action": "labeldrop", "regex": "__.*"})) == {"env", "zone"}
    assert set(relabelled({"action": "labelkeep", "regex": "__.*"})) == {"__address__", "__meta_pod"}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"regex": "("}, "not a regular expression"),
        ({}, "replace needs a target_label"),
        ({"action": "hashmod", "target_label": "a"}, "hashmod needs a modulus"),
        ({"action": "explode", "target_label": "a"}, "'replace', 'keep', 'drop'"),
        ({"source_labels": ["not-a-name"], "target_label": "a"}, "a label's name has letters"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_in_words(rule: dict[str, Any], said: str):
    with pytest.raises(ValidationError, match=said):
        RelabelConfig.model_validate(rule)
