"""Versions of vLLM, their order, and facts with a beginning and an end."""

from __future__ import annotations

import pytest

from specwatch.errors import InputError
from specwatch.vllm.releases import Release, coming, ended, fact, holding, names

IN_ORDER = [
    "0.4.1",
    "0.8.5.dev3",
    "0.8.5a1",
    "0.8.5rc1.dev2",
    "0.8.5rc1",
    "0.8.5rc2",
    "0.8.5",
    "0.8.5.post1",
    "0.8.5.post2",
    "0.9.0",
    "0.9.0.1",
    "0.10.1",
    "0.10.1.1",
    "0.32.0",
    "0.33.0rc1",
    "0.33.0",
    "1.0.0",
]
DRAFTS = (fact("draft", "0.4.1", "0.10.0", "it left"), fact("draft", "0.15.0"), fact("ngram", "0.4.2"))


def test_releases_stand_in_the_order_of_pep_440():
    assert sorted(map(Release.parse, reversed(IN_ORDER))) == [Release.parse(text) for text in IN_ORDER]
    assert len({Release.parse(text) for text in IN_ORDER}) == len(IN_ORDER)


@pytest.mark.parametrize("text", ["0.32.0+cpu", "v0.32.0", " 0.32.0 ", "0.32"])
def test_a_build_is_the_release_it_was_built_from(text):
    assert Release.parse(text) == Release.parse("0.32.0")


@pytest.mark.parametrize("text", ["0.32.0+cpu", "v0.32.0", "0.32.0+cu129.g1"])
def test_a_release_is_shown_without_its_build(text):
    assert str(Release.parse(text)) == "0.32.0"


@pytest.mark.parametrize("text", ["0.33.0rc1", "0.11.1.dev5+gabc123", "0.10.2rc3.dev12"])
def test_builds_between_releases_are_told_apart(text):
    assert Release.parse(text).unfinished


@pytest.mark.parametrize("text", ["0.32.0", "0.8.5.post2", "0.10.1.1", "0.32.0+cpu"])
def test_finished_releases_are_finished(text):
    assert not Release.parse(text).unfinished


def test_the_number_of_a_build_is_that_of_the_release_it_becomes():
    assert Release.parse("0.33.0rc1.dev7+gabc").finished == "0.33.0"
    assert Release.parse("0.10.1.1").finished == "0.10.1.1"


@pytest.mark.parametrize("text", ["", "dev", "latest", "0", "0.32.0.1.2", "0.32.x", "0.32.0 or so"])
def test_what_is_no_version_is_refused_with_an_example(text):
    with pytest.raises(InputError, match=r"no vLLM version; write it like 0\.32\.0"):
        Release.parse(text)


@pytest.mark.parametrize(
    ("release", "there"),
    [
        ("0.4.0", False),
        ("0.4.1", True),
        ("0.9.2", True),
        ("0.9.2.post1", True),
        ("0.10.0rc1", False),
        ("0.10.0", False),
        ("0.14.1", False),
        ("0.15.0rc1", True),
        ("0.15.0", True),
        ("1.2.3", True),
    ],
)
def test_a_fact_holds_from_its_first_release_up_to_the_one_that_ended_it(release, there):
    assert (holding(DRAFTS, "draft", Release.parse(release)) is not None) is there


def test_in_a_gap_what_ended_and_what_comes_are_both_known():
    inside = Release.parse("0.12.0")
    assert ended(DRAFTS, "draft", inside) == DRAFTS[0]
    assert coming(DRAFTS, "draft", inside) == DRAFTS[1]


def test_before_the_first_and_after_the_last_there_is_nothing_to_find():
    assert ended(DRAFTS, "draft", Release.parse("0.4.0")) is None
    assert coming(DRAFTS, "draft", Release.parse("0.15.0")) is None


def test_names_come_once_and_in_the_order_of_the_table():
    assert names(DRAFTS, Release.parse("0.20.0")) == ["draft", "ngram"]
    assert names(DRAFTS, Release.parse("0.12.0")) == ["ngram"]
