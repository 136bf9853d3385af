"""What a server did so far, in few blocks, and its deployments."""

from __future__ import annotations

from itertools import pairwise

import pytest

from specwatch.signals.course import MOST_BLOCKS, MOST_DEPLOYMENTS, Course, Setup, pooled
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter

SETUP = Setup(5, "eagle3", "0.32.0")


class Watched:
    """A course, fed every five seconds."""

    def __init__(self) -> None:
        self.course, self.now, self.setup, self.restarts = Course(), 0.0, SETUP, 0

    def live(self, minutes: float, drafts: float = 10.0) -> None:
        """Scrape every five seconds."""
        for _ in range(round(minutes * 12)):
            self.now += 5
            self.course.observe(self.now, Increments(5.0, {Counter.DRAFTS: drafts}, (1.0,)), self.setup, self.restarts)


def test_blocks_hold_what_happened_in_them():
    watched = Watched()
    watched.live(10)
    view = watched.course.view()
    assert [(block.began, block.ended) for block in view.blocks] == [(60.0 * i, 60.0 * i + 60) for i in range(10)]
    assert {block.work.counts[Counter.DRAFTS] for block in view.blocks} == {120.0}
    assert pooled(view.until(300)).seconds == 300
    assert len(view.since(300)) == 5


@pytest.mark.parametrize("hours", [2, 24, 24 * 7])
def test_blocks_grow_instead_of_their_number_and_lose_nothing(hours: int):
    course = Course()
    for minute in range(1, hours * 60 + 1):
        course.observe(60.0 * minute, Increments(60.0, {Counter.DRAFTS: 1.0}), SETUP, 0)
    blocks = course.view().blocks
    assert len(blocks) < MOST_BLOCKS
    total = sum(block.work.counts[Counter.DRAFTS] for block in blocks)
    assert total == (blocks[-1].ended - blocks[0].began) / 60
    assert all(before.ended == after.began for before, after in pairwise(blocks))


def test_a_restart_is_a_deployment_without_changes_and_blocks_stay_apart():
    watched = Watched()
    watched.live(10.5)
    watched.restarts = 1
    watched.live(5)
    deployed = watched.course.view().deployed
    assert deployed is not None
    assert (deployed.at, deployed.changes) == (635.0, ())
    assert len(deployed.before) == 10
    assert all(block.ended <= 635 or block.began >= 630 for block in watched.course.view().blocks)


def test_another_k_is_a_deployment_and_starts_the_course_anew():
    watched = Watched()
    watched.live(10)
    watched.setup = Setup(3, "eagle3", "0.32.0")
    watched.live(3)
    view = watched.course.view()
    assert view.deployed is not None
    assert view.deployed.changes == ("K 5 → 3",)
    assert all(block.began >= 600 for block in view.blocks)


def test_a_release_that_is_told_a_scrape_later_belongs_to_the_same_deployment():
    watched = Watched()
    watched.live(10)
    watched.restarts, watched.setup = 1, Setup(5, "eagle3", None)
    watched.live(1 / 12)
    watched.setup = Setup(5, "eagle3", "0.33.0")
    watched.live(5)
    (deployment,) = watched.course.view().deployments
    assert deployment.changes == ("vLLM 0.32.0 → 0.33.0",)
    assert len(deployment.before) == 10


def test_what_becomes_known_is_no_change():
    watched = Watched()
    watched.setup = Setup()
    watched.live(2)
    watched.setup = SETUP
    watched.live(2)
    assert watched.course.view().deployments == ()


def test_a_server_that_restarts_all_the_time_costs_no_more():
    watched = Watched()
    for _ in range(100):
        watched.restarts += 1
        watched.live(3)
    view = watched.course.view()
    assert len(view.deployments) == MOST_DEPLOYMENTS
    assert len(view.blocks) <= MOST_BLOCKS
