"""The confusion table's machinery, on a few incidents: the whole table is ``python -m benchmarks.diagnosis``."""

from __future__ import annotations

import pytest

from benchmarks.diagnosis import TRAINING, Outcome, diagnosed, table
from specwatch.lab.incidents import HEALTHY, ILL, Story


@pytest.mark.parametrize("story", ILL, ids=lambda story: story.__name__)
def test_an_incident_of_every_kind_is_called_by_its_name(story: Story):
    """One in twenty may be wrong, so the best of three is asked for."""
    found = []
    for seed in range(3):
        found.append(diagnosed(story, TRAINING, seed))
        if found[-1].right:
            return
    pytest.fail(str([(outcome.said, outcome.text) for outcome in found]))


@pytest.mark.parametrize("story", HEALTHY, ids=lambda story: story.__name__)
def test_a_healthy_server_of_every_look_is_called_healthy(story: Story):
    assert diagnosed(story, TRAINING, 1).right


def test_the_same_seed_gives_the_same_outcome():
    assert diagnosed(ILL[0], TRAINING, 5) == diagnosed(ILL[0], TRAINING, 5)


def test_the_table_counts_what_was_right_and_names_what_was_said_instead():
    outcomes = [
        Outcome("a", frozenset({"x"}), "x", "", 0),
        Outcome("a", frozenset({"x"}), "y", "", 0),
        Outcome("a", frozenset({"x"}), "x", "", 1),
        Outcome("healthy: b", frozenset({"healthy"}), "healthy", "", 0),
    ]
    lines = table(outcomes).splitlines()
    assert lines[1].split() == ["a", "3", "33.3%", "y", "1,", "a", "bystander", "ill", "1"]
    assert lines[-1].split() == ["all", "healthy", "1", "100.0%"]
