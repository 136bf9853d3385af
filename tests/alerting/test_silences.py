from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.alerting.silences import MOST_SILENCES, Silence, Silences, TooManySilences, matches, new_id

AT = 1_700_000_000.0


def silence(ends_in: float = 60.0, **changes: str) -> Silence:
    fields = {"alert": "*", "target": "*", "model": "*", "by": "me", "comment": "known"} | changes
    return Silence(id=new_id(), ends_at=AT + ends_in, **fields)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("*", "", True),
        ("*", "gpu-3", True),
        ("gpu-3", "gpu-3", True),
        ("gpu-3", "gpu-33", False),
        ("gpu-*", "gpu-33", True),
        ("gpu-*", "xgpu-33", False),
        ("*-3", "gpu-3", True),
        ("g*-*3", "gpu-3", True),
        ("ab*ba", "aba", False),
        ("a*b*c", "a-c-b-c", True),
        ("a*b*c", "acb", False),
        ("[::1]:*", "[::1]:8000", True),
        ("gpu-?", "gpu-3", False),
        ("", "", True),
    ],
)
def test_a_star_stands_for_anything_and_all_else_for_itself(pattern: str, name: str, fits: bool):
    assert matches(pattern, name) is fits


@given(st.lists(st.text("ab*", max_size=4), min_size=1, max_size=4), st.text("ab", max_size=4))
def test_a_name_with_parts_cut_out_fits_the_pattern_of_what_is_left(parts: list[str], filling: str):
    pattern = "*".join(parts)
    assert matches(pattern, pattern.replace("*", filling))


def test_a_pattern_of_stars_takes_no_time_that_grows_with_their_number():
    assert not matches("*a" * 150 + "b", "a" * 100_000)


def test_all_three_patterns_must_fit():
    one = silence(alert="Low", target="gpu-*", model="llama")
    assert one.matches("Low", "gpu-3", "llama")
    assert not one.matches("Down", "gpu-3", "llama")
    assert not one.matches("Low", "cpu-3", "llama")
    assert not one.matches("Low", "gpu-3", "qwen")


def test_a_silence_ends_by_time():
    silences = Silences([silence(60)])
    assert silences.of("Low", "gpu-3", "llama", AT + 59.9) is not None
    assert silences.of("Low", "gpu-3", "llama", AT + 60) is None
    assert silences.in_force(AT + 60) == []


def test_a_silence_ends_by_hand_once():
    one = silence()
    silences = Silences([one])
    assert silences.end(one.id, AT)
    assert not silences.end(one.id, AT)
    assert silences.in_force(AT) == []


def test_of_several_the_longest_is_named():
    short, long = silence(60), silence(3600)
    found = Silences([long, short]).of("Low", "gpu-3", "llama", AT)
    assert found == long


def test_their_number_is_bounded_and_one_that_ended_makes_room():
    silences = Silences()
    silences.add(silence(60), AT)
    for _ in range(MOST_SILENCES - 1):
        silences.add(silence(3600), AT)
    with pytest.raises(TooManySilences):
        silences.add(silence(3600), AT + 59)
    silences.add(silence(3600), AT + 60)
