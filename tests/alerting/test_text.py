"""Cleaning and cutting of text."""

from __future__ import annotations

import pytest

from specwatch.alerting.text import clean, cut, duration
from tests.support.notifications import with_any_name


@with_any_name
def test_clean_text_is_one_line_of_utf_8_without_commands(name: str):
    text = clean(name)

    assert len(text) == len(name)
    assert text.encode().decode() == text
    assert len(text.splitlines()) <= 1
    assert not set(text) & {*map(chr, range(32)), "\x7f", "\u202e", "\u2066"}


def test_clean_leaves_writing_of_every_language_as_it_is():
    assert clean("日本語 🙂 العربية 👩‍👩‍👧‍👦 é") == "日本語 🙂 العربية 👩‍👩‍👧‍👦 é"


def test_cut_shows_that_something_is_missing():
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3600, "1 h"),
        (3900, "1 h 5 min"),
        (183_600, "2 d 3 h"),
    ],
)
def test_durations_are_told_in_their_largest_units(seconds: float, text: str):
    assert duration(seconds) == text
