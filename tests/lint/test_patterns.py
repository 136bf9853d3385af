from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.lint.patterns import matching

NAMES = {"vllm:a_total", "vllm:a_created", "vllm:b", "ab", "aab", ""}


@pytest.mark.parametrize(
    ("pattern", "taken"),
    [
        ("vllm:.*", {"vllm:a_total", "vllm:a_created", "vllm:b"}),
        ("^vllm:.+_created$", {"vllm:a_created"}),
        ("vllm:(a_(total|created)|b)", {"vllm:a_total", "vllm:a_created", "vllm:b"}),
        ("(?:vllm:)?b|a+b", {"vllm:b", "ab", "aab"}),
        ("[^v].*", {"ab", "aab"}),
        ("vllm", set()),
        ("", {""}),
    ],
)
def test_a_pattern_takes_whole_names_as_prometheus_does(pattern: str, taken: set[str]):
    assert matching(pattern, NAMES) == taken


@pytest.mark.parametrize(
    "pattern", ["a{2}", "(?i)a", "(a", "a)", "[", "*a", "a**", "(a*)*", r"\d+", "a" * 501, "(" * 21 + ")" * 21]
)
def test_what_is_not_tried_is_not_guessed_at(pattern: str):
    assert matching(pattern, NAMES) is None


@given(
    st.lists(st.sampled_from(["a", "b", ".", "[ab]", "(a|b)", "(?:ab)?", "a*", "b+", "a?", "|"]), max_size=8).map(
        "".join
    ),
    st.text("ab", max_size=6),
)
def test_it_agrees_with_pythons_own_matcher(pattern: str, name: str):
    assert matching(pattern, [name]) == ({name} if re.fullmatch(pattern, name) else set())


def test_a_pattern_that_pythons_matcher_never_finishes_is_done_at_once():
    name = "a" * 200
    assert matching("(a|a)" * 80 + "Z", [name]) == set()
    assert matching("a*" * 200 + "Z", [name]) == set()
