"""Pauses between starts, and when there are no more."""

from __future__ import annotations

import pytest

from specwatch.vllm.restarts import End, Restarts


def test_every_pause_is_twice_the_one_before_up_to_the_longest():
    policy = Restarts(limit=100)
    assert [policy.pause(failures) for failures in range(1, 9)] == [10, 20, 40, 80, 160, 300, 300, 300]


def test_after_the_limit_there_is_no_more():
    policy = Restarts(limit=2, delay=1.0)
    assert [policy.pause(failures) for failures in (1, 2, 3)] == [1.0, 2.0, None]
    assert Restarts(limit=0).pause(1) is None


def test_many_failures_overflow_nothing():
    assert Restarts(limit=10**9).pause(10**8) == 300.0


@pytest.mark.parametrize(("served", "recovered"), [(None, False), (0.0, False), (599.0, False), (600.0, True)])
def test_only_long_service_makes_up_for_failures(served, recovered):
    assert Restarts().recovered(End(1, 700.0, served)) is recovered


@pytest.mark.parametrize(("code", "served", "hopeless"), [(2, None, True), (2, 5.0, False), (1, None, False)])
def test_a_usage_error_before_it_served_is_hopeless(code, served, hopeless):
    assert End(code, 10.0, served).hopeless is hopeless
