"""The steps that speculative decoding would have made on a text, followed with their probabilities."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.measure.acceptance_walk import ScoredText, walk


def text(*kept: float, counted: int | None = None) -> ScoredText:
    return ScoredText(kept, kept, len(kept) if counted is None else counted)


def played(scored: ScoredText, k: int, first: int, source: random.Random) -> tuple[list[int], list[int]]:
    """One run, drawn: drafts and accepted by position, of the steps that the text is long enough for."""
    drafts, accepted = [0] * k, [0] * k
    start = first
    while start < scored.counted:
        taken = 0
        while taken < k and start + taken < len(scored.kept):
            drafts[taken] += 1
            if source.random() >= scored.kept[start + taken]:
                break
            accepted[taken] += 1
            taken += 1
        # Positions behind a rejected one were drafted as well, as far as the text tells.
        for position in range(taken + 1, min(k, len(scored.kept) - start)):
            drafts[position] += 1
        start += taken + 1
    return drafts, accepted


def test_a_draft_that_is_always_right_steps_k_plus_one_tokens_at_a_time():
    counts = walk(text(*[1.0] * 25), k=3)
    # Tokens 1-3 and the target's 4, 5-7 and 8, and so on: steps begin at 1, 5, 9, 13, 17, 21.
    assert counts.drafts == (6, 6, 6)
    assert counts.accepted == (6, 6, 6)


def test_a_draft_that_is_always_wrong_steps_one_token_at_a_time():
    counts = walk(text(*[0.0] * 10), k=3)
    assert counts.drafts == (9, 8, 7)
    assert counts.accepted == (0, 0, 0)


def test_what_the_text_does_not_reach_is_not_counted():
    assert walk(text(1.0, 1.0, 1.0), k=5).drafts == (1, 1, 0, 0, 0)


def test_tokens_past_the_end_are_looked_at_and_begin_no_step():
    counts = walk(text(*[1.0] * 8, counted=4), k=4)
    assert counts.drafts == (1, 1, 1, 1)
    assert counts.accepted == (1, 1, 1, 1)


def test_hugging_face_drafts_from_the_first_token_on():
    assert walk(text(1.0, 1.0, 1.0), k=2, first=0).drafts == (1, 1)


def test_positions_weigh_by_how_often_a_step_begins_there():
    # Right at 1 and 2, wrong at 3, right at 4 and 5, wrong at 6 ...: every step begins on a right stretch.
    stretch = text(0.0, *[1.0, 1.0, 0.0] * 20)
    counts = walk(stretch, k=2)
    # The target's own token is always the one that the draft would have got wrong.
    assert counts.accepted == counts.drafts
    # Seen evenly over positions, two of three are right.
    assert sum(stretch.kept[1:]) / 60 == pytest.approx(2 / 3)


def test_an_empty_text_has_no_steps():
    assert walk(text(), k=2).drafts == (0, 0)
    assert walk(text(0.5), k=2).drafts == (0, 0)


def test_expected_counts_are_the_means_of_drawn_ones():
    source = random.Random(3)
    scored = text(*[source.random() for _ in range(40)], counted=36)
    counts = walk(scored, k=4)
    runs = [played(scored, 4, 1, source) for _ in range(4000)]
    for position in range(4):
        # Counts below 40 with standard deviations below 4: means of 4000 are good to 0.06, four times that is allowed.
        assert sum(drafts[position] for drafts, _ in runs) / 4000 == pytest.approx(counts.drafts[position], abs=0.25)
        mean = sum(accepted[position] for _, accepted in runs) / 4000
        assert mean == pytest.approx(counts.accepted[position], abs=0.25)


@given(st.lists(st.floats(0, 1), max_size=40), st.integers(1, 8), st.integers(0, 2))
def test_later_positions_are_never_accepted_more_often(kept, k, first):
    counts = walk(text(*kept), k, first)
    assert all(ours <= theirs + 1e-9 for ours, theirs in zip(counts.accepted, counts.drafts, strict=True))
    assert list(counts.accepted) == sorted(counts.accepted, reverse=True)


@given(st.lists(st.floats(0, 1), min_size=20, max_size=60), st.integers(1, 8))
def test_every_token_is_drafted_and_kept_or_added_by_the_target(kept, k):
    whole = ScoredText((*kept, *[0.0] * k), (*kept, *[0.0] * k), len(kept))
    counts = walk(whole, k)
    # Each step puts out one token and those that it accepted; the last one may run past the end by k.
    tokens = counts.drafts[0] + sum(counts.accepted)
    assert len(kept) - 1 - 1e-6 <= tokens <= len(kept) - 1 + k + 1e-6
