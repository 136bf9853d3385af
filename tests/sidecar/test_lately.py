"""A target's last hours, as its messages show them."""

from __future__ import annotations

from specwatch.alerting.sparkline import MOST_WINDOWS
from specwatch.sidecar.lately import Lately

T0 = 1_700_000_100.0
"""A multiple of five minutes."""


def test_of_each_window_the_last_value_is_told_and_what_is_missing_is_a_gap():
    lately = Lately(300.0)
    for at, value in ((0, 0.8), (290, 0.7), (300, 0.6), (1200, 0.5)):
        lately.note(T0 + at, value)
    assert lately.course(T0 + 1500).values == (0.7, 0.6, None, None, 0.5, None)


def test_three_hours_are_kept():
    lately = Lately(300.0)
    for number in range(1000):
        lately.note(T0 + 300 * number, number / 1000)
    values = lately.course(T0 + 300 * 999).values
    assert values == tuple(number / 1000 for number in range(1000 - MOST_WINDOWS, 1000))
    assert len(lately._values) == MOST_WINDOWS


def test_what_an_earlier_run_knew_goes_before_what_this_one_knows():
    lately = Lately(300.0)
    lately.note(T0 + 600, 0.5)
    lately.recall({T0: 0.8, T0 + 300: None, T0 + 610: 0.9})
    assert lately.course(T0 + 610).values == (0.8, None, 0.5)


def test_before_anything_is_known_there_is_a_gap():
    assert Lately(300.0).course(T0).values == (None,)
