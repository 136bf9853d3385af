"""The last hours of a server as a line of text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.alerting.sparkline import BARS, GAP, MOST_WINDOWS, Course, bars

ACCEPTANCE = "Acceptance rate"


def test_a_fall_is_seen_and_its_ends_are_named():
    course = Course(ACCEPTANCE, 300.0, (*[0.85] * 6, None, None, 0.4, 0.015, 0.02))
    assert course.line == "██████··▄▁▁ 1.5% to 85.0%"
    assert course.title == "Acceptance rate, 55 min by 5 min"


def test_what_hardly_moves_does_not_look_like_a_fall():
    assert set(bars([0.80, 0.82, 0.81])) <= set("▄▅")


def test_of_a_long_past_the_end_is_shown():
    course = Course(ACCEPTANCE, 300.0, (0.1,) * 1000 + (0.9,) * MOST_WINDOWS)
    assert course.title == "Acceptance rate, 3 h by 5 min"
    assert course.line == f"{bars([0.9]) * MOST_WINDOWS} 90.0% to 90.0%"


@pytest.mark.parametrize("values", [(), (None,) * 5])
def test_where_nothing_is_known_there_is_no_line(values: tuple[None, ...]):
    assert Course(ACCEPTANCE, 300.0, values).line == ""


@given(st.lists(st.none() | st.floats(0, 1), max_size=80))
def test_every_window_is_one_character_and_higher_bars_are_higher_values(values: list[float | None]):
    drawn = bars(values)
    assert [character == GAP for character in drawn] == [value is None for value in values]
    heights = [(BARS.index(bar), value) for bar, value in zip(drawn, values, strict=True) if value is not None]
    assert all(a <= b for (_, a), (_, b) in zip(sorted(heights), sorted(heights)[1:], strict=False))
    assert len(Course(ACCEPTANCE, 300.0, tuple(values)).line) <= MOST_WINDOWS + len(" 100.0% to 100.0%")
