"""What is said of the methods of a release, for somebody who has to choose."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from specwatch.vllm import features
from specwatch.vllm.methods import GUIDES, methods, missing
from specwatch.vllm.releases import Release, names

RELEASES = ["0.4.1", "0.6.3", "0.8.5", "0.9.2", "0.10.2", "0.12.0", "0.15.1", "0.22.0", "0.32.0", "0.33.0"]


def at(release: str) -> Release:
    return Release.parse(release)


def test_every_method_has_a_guide_and_every_guide_a_method():
    assert set(GUIDES) == {fact.name for fact in features.METHODS}


def test_a_guide_leaves_nothing_out():
    assert all(all(astuple(guide)) for guide in GUIDES.values())


@pytest.mark.parametrize("release", RELEASES)
def test_the_methods_are_those_that_the_release_runs(release):
    assert {method.name for method in methods(at(release))} == set(names(features.METHODS, at(release)))


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_missing_says_why_or_when_it_comes(release):
    found = {method.name for method in methods(at(release))}
    assert set(missing(at(release))) == set(GUIDES) - found


def test_since_counts_from_the_last_break():
    since = {(r, m.name): m.since for r in ("0.9.2", "0.15.0") for m in methods(at(r))}
    assert since["0.9.2", "draft_model"] == "0.4.1"
    assert since["0.15.0", "draft_model"] == "0.15.0"


@pytest.mark.parametrize(
    ("release", "method", "reason"),
    [
        ("0.12.0", "draft_model", "; again from 0.15.0 on"),
        ("0.12.0", "dflash", "from 0.20.0 on"),
        ("0.33.0", "medusa", "0.33.0 removed it"),
        ("0.32.0", "mlp_speculator", "it only ever ran on the V0 engine"),
    ],
)
def test_the_reason_is_that_of_the_release(release, method, reason):
    assert reason in missing(at(release))[method]


def test_a_release_with_two_engines_says_which_runs_what():
    engines = {method.name: method.engine for method in methods(at("0.9.2"))}
    assert engines == {
        "draft_model": "V0",
        "mlp_speculator": "V0",
        "ngram": "V1",
        "eagle": "V1",
        "eagle3": "V1",
        "medusa": "V1",
        "deepseek_mtp": "V1",
    }
