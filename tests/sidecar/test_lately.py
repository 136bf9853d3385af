"""A value's last course, as rows and messages show it."""

from __future__ import annotations

from specwatch.sidecar.lately import Lately

T0 = 1_700_000_100.0
"""A multiple of five minutes."""


def lately() -> Lately:
    """Three hours of five minutes."""
    return Lately(300.0, 36)


def test_of_each_step_the_last_value_is_told_and_what_is_missing_is_a_gap():
    told = lately()
    for at, value in ((0, 0.8), (290, 0.7), (300, 0.6), (1200, 0.5)):
        told.note(T0 + at, value)
    assert told.until(T0 + 1500) == (0.7, 0.6, None, None, 0.5, None)


def test_so_many_steps_are_kept():
    told = lately()
    for number in range(1000):
        told.note(T0 + 300 * number, number / 1000)
    assert told.until(T0 + 300 * 999) == tuple(number / 1000 for number in range(1000 - 36, 1000))
    assert len(told._values) == 36
    assert told.seconds == 10_800


def test_what_an_earlier_run_knew_goes_before_what_this_one_knows():
    told = lately()
    told.note(T0 + 600, 0.5)
    told.recall({T0: 0.8, T0 + 300: None, T0 + 610: 0.9})
    assert told.until(T0 + 610) == (0.8, None, 0.5)


def test_before_anything_is_known_there_is_a_gap():
    assert lately().until(T0) == (None,)
