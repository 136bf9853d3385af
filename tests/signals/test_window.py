from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specwatch.signals.window import (
    COARSENESS,
    LONGEST_STRETCH,
    MOST_GONE,
    SWEEP,
    Increments,
    Ledger,
    Ledgers,
    add_up,
)
from specwatch.vllm.metrics import Counter, EngineSnapshot


def engine(drafts: float, positions: tuple[float, ...] = (), **more: float) -> EngineSnapshot:
    counters = {Counter.DRAFTS: drafts} | {Counter(name): value for name, value in more.items()}
    return EngineSnapshot(counters=counters, gauges={Counter.RUNNING_SECONDS: 2.0}, accepted_per_position=positions)


def ledger_of(*values: float, every: float = 5.0) -> Ledger:
    ledger = Ledger(keep_seconds=3600)
    for i, value in enumerate(values):
        ledger.observe(i * every, engine(value))
    return ledger


def drafts(ledger: Ledger, seconds: float, now: float) -> float | None:
    increments = ledger.over(seconds, now)
    return None if increments is None else increments.counts[Counter.DRAFTS]


def test_one_scrape_says_nothing():
    assert ledger_of(100).over(60, now=0) is None


def test_what_was_before_a_moment_ends_there():
    ledger = ledger_of(100, 110, 130, 160)
    increments = ledger.before(12)
    assert increments is not None
    assert (increments.counts[Counter.DRAFTS], increments.seconds) == (30, 10)
    assert ledger.before(4) is None
    assert ledger.before(-1) is None


def test_a_window_is_the_difference_of_its_ends():
    assert drafts(ledger_of(100, 110, 130, 160), seconds=10, now=15) == 50


def test_a_young_ledger_answers_over_what_it_has_seen():
    increments = ledger_of(100, 110).over(60, now=5)
    assert increments is not None
    assert (increments.seconds, increments.counts[Counter.DRAFTS]) == (5, 10)


def test_a_restart_counts_from_zero():
    ledger = ledger_of(100, 150, 20)
    assert drafts(ledger, 60, now=10) == 50 + 20
    assert ledger.restarts == 1


def test_a_restart_is_known_by_the_process_start_even_when_counts_have_overtaken():
    ledger = Ledger(3600)
    ledger.observe(0, engine(10), process_start=1.0)
    ledger.observe(60, engine(50), process_start=2.0)
    assert drafts(ledger, 600, now=60) == 50


def test_a_counter_that_is_corrected_downwards_adds_nothing():
    ledger = ledger_of(1000, 999, 1009)
    assert drafts(ledger, 60, now=10) == 10
    assert ledger.restarts == 0


def test_a_page_of_zeros_from_a_dying_engine_is_no_restart():
    ledger = ledger_of(1000, 0, 1010)
    assert drafts(ledger, 60, now=10) == 10


def test_after_a_page_of_zeros_a_real_restart_still_counts_from_zero():
    assert drafts(ledger_of(1000, 0, 30), seconds=60, now=10) == 30


def test_another_k_starts_the_window_anew():
    ledger = Ledger(3600)
    ledger.observe(0, engine(100, positions=(90, 80)))
    ledger.observe(5, engine(200, positions=(180, 160)))
    ledger.observe(10, engine(10, positions=(9, 8, 7)))
    assert ledger.over(60, now=10) is None
    ledger.observe(15, engine(20, positions=(19, 17, 15)))
    increments = ledger.over(60, now=15)
    assert increments is not None
    assert increments.accepted_per_position == (10, 9, 8)


def test_a_missing_family_starts_the_window_anew_instead_of_mixing_times():
    ledger = Ledger(3600)
    ledger.observe(0, engine(100, accepted_tokens=50))
    ledger.observe(5, engine(200))
    assert ledger.over(60, now=5) is None
    ledger.observe(10, engine(300, accepted_tokens=150))
    ledger.observe(15, engine(400, accepted_tokens=180))
    increments = ledger.over(60, now=15)
    assert increments is not None
    assert increments.counts[Counter.ACCEPTED_TOKENS] / increments.counts[Counter.DRAFTS] == 0.3


def test_a_short_hole_is_spanned_and_told():
    ledger = Ledger(3600)
    for at in (0, 5, 10, 60):
        ledger.observe(at, engine(at * 10))
    increments = ledger.over(30, now=60)
    assert increments is not None
    assert increments.seconds == 50


def test_a_window_stretched_by_a_long_hole_begins_after_the_hole():
    ledger = Ledger(3600)
    for at in (0, 5, 1000):
        ledger.observe(at, engine(at * 10))
    assert ledger.over(60, now=1000) is None
    ledger.observe(1015, engine(10_300))
    assert ledger.over(60, now=1015) == Increments(15, {Counter.DRAFTS: 300, Counter.RUNNING_SECONDS: 30})


def test_old_news_ages_out():
    assert ledger_of(0, 10, 20).over(60, now=500) is None


def test_a_clock_that_steps_back_is_ignored():
    ledger = ledger_of(0, 10)
    ledger.observe(2, engine(500))
    assert drafts(ledger, 60, now=5) == 10


def test_gauges_are_integrated_over_time():
    increments = ledger_of(0, 10, 20).over(60, now=10)
    assert increments is not None
    assert increments.counts[Counter.RUNNING_SECONDS] / increments.seconds == 2.0


def test_memory_is_bounded_by_the_time_kept():
    ledger = Ledger(keep_seconds=60)
    for at in range(10_000):
        ledger.observe(at, engine(at))
    assert len(ledger._times) <= 61 + SWEEP
    assert drafts(ledger, 60, now=9_999) == pytest.approx(60, rel=COARSENESS)


@pytest.mark.parametrize(("every", "most"), [(5.0, 200), (1.0, 260)])
def test_six_hours_are_kept_in_few_points_however_often_they_are_scraped(every: float, most: int):
    ledger = Ledger(keep_seconds=21_600)
    for i in range(int(25_000 / every)):
        ledger.observe(i * every, engine(1 + i))
        if i % 1000 == 0:
            assert len(ledger._times) <= most


@settings(deadline=None)
@given(
    gaps=st.lists(st.floats(0.5, 120), min_size=50, max_size=400),
    rate=st.floats(0.1, 100),
    window=st.sampled_from([60.0, 300.0, 1800.0, 21600.0]),
)
def test_every_window_begins_where_it_should_to_a_few_per_cent(gaps: list[float], rate: float, window: float):
    ledger, at, times = Ledger(keep_seconds=21_600), 0.0, []
    for gap in gaps:
        at += gap
        times.append(at)
        ledger.observe(at, engine(1 + rate * at))
    increments = ledger.over(window, now=at)
    edge = max((time for time in times if time <= at - window), default=times[0])
    if at - edge > LONGEST_STRETCH * window * 0.95:
        return
    assert increments is not None
    assert at - edge - 1e-6 <= increments.seconds <= (at - edge) * (1 + COARSENESS) + 1e-6
    # Whatever the edge, what is told of the time is what happened in it.
    assert increments.counts[Counter.DRAFTS] == pytest.approx(rate * increments.seconds, rel=1e-6)


def two_engines(first: float, second: float | None) -> dict[str, EngineSnapshot]:
    return {"0": engine(first)} | ({} if second is None else {"1": engine(second)})


def pooled_drafts(ledgers: Ledgers, seconds: float, now: float) -> float:
    return sum(part.counts[Counter.DRAFTS] for part in ledgers.over(seconds, now))


def test_an_engine_that_leaves_keeps_its_part_in_the_window_and_then_ages_out():
    ledgers = Ledgers(keep_seconds=300)
    ledgers.observe(0, two_engines(100, 1000))
    ledgers.observe(10, two_engines(200, 2000))
    for at in (20, 30, 40):
        ledgers.observe(at, two_engines(200, None))
    assert ledgers.engines == 1
    assert pooled_drafts(ledgers, 60, now=40) == 100 + 1000
    assert [part.seconds for part in ledgers.over(60, now=40)] == [40, 40]
    assert pooled_drafts(ledgers, 25, now=40) == 0
    ledgers.observe(400, two_engines(200, None))
    assert list(ledgers._ledgers) == ["0"]


def test_an_engine_that_appears_counts_from_its_first_page_on():
    ledgers = Ledgers(keep_seconds=300)
    ledgers.observe(0, two_engines(100, None))
    ledgers.observe(10, two_engines(200, 5000))
    ledgers.observe(20, two_engines(300, 5010))
    assert pooled_drafts(ledgers, 60, now=20) == 200 + 10


def test_an_engine_that_comes_back_is_one_that_restarted():
    ledgers = Ledgers(keep_seconds=300)
    ledgers.observe(0, two_engines(100, 1000))
    ledgers.observe(10, two_engines(200, None))
    ledgers.observe(20, two_engines(300, 30))
    assert pooled_drafts(ledgers, 60, now=20) == 200 + 30
    assert ledgers.restarts == 1


def test_a_server_s_engines_restart_together():
    ledgers = Ledgers(keep_seconds=300)
    for at, count in enumerate((100, 200, 30, 60, 5)):
        ledgers.observe(float(at), two_engines(count, count))
    assert ledgers.restarts == 2


def test_a_page_that_names_other_engines_every_time_fills_no_memory():
    ledgers = Ledgers(keep_seconds=21_600)
    for at in range(100):
        ledgers.observe(float(at), {f"{at}-{i}": engine(1.0) for i in range(20)})
    assert len(ledgers._ledgers) <= 20 + MOST_GONE + 20


@given(
    steps=st.lists(st.tuples(st.integers(0, 500), st.one_of(st.none(), st.integers(0, 500))), min_size=2, max_size=30)
)
def test_split_by_engine_and_pooled_equals_whole(steps: list[tuple[int, int | None]]):
    """However engines come and go, what pooled windows tell is what each engine did between its pages."""
    ledgers = Ledgers(keep_seconds=1e6)
    totals, whole, seen = [1, 1], 0, False
    for at, (first, second) in enumerate(steps):
        totals[0] += first
        whole += first if at else 0
        if second is not None:
            totals[1] += second
            whole += second if seen else 0
            seen = True
        ledgers.observe(float(at), two_engines(totals[0], None if second is None else totals[1]))
    assert pooled_drafts(ledgers, 1e5, now=len(steps) - 1) == whole


def test_pooling_keeps_only_what_every_engine_counts():
    full = Increments(5, {Counter.DRAFTS: 10, Counter.ACCEPTED_TOKENS: 20}, (10, 10))
    partial = Increments(5, {Counter.ACCEPTED_TOKENS: 7})
    assert add_up([full, partial]).counts == {Counter.ACCEPTED_TOKENS: 27}


@given(steps=st.lists(st.integers(0, 1000), min_size=2, max_size=40), cuts=st.data())
def test_windows_next_to_each_other_add_up(steps: list[int], cuts: st.DataObject):
    ledger = Ledger(keep_seconds=1e6)
    total = 0
    for at, step in enumerate(steps):
        total += step
        ledger.observe(float(at), engine(1 + total))
    last = len(steps) - 1
    middle = cuts.draw(st.integers(0, last))
    whole = drafts(ledger, last + 0.5, now=last) or 0.0
    late = drafts(ledger, last - middle, now=last) if middle < last else 0.0
    early = sum(steps[1 : middle + 1])
    assert whole == early + (late or 0.0)


@given(lives=st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=8), min_size=1, max_size=5))
def test_restarts_lose_nothing_that_a_scrape_saw(lives: list[list[int]]):
    ledger, at = Ledger(keep_seconds=1e6), 0.0
    for number, life in enumerate(lives):
        for scrape in range(1, len(life) + 1):
            at += 1.0
            ledger.observe(at, engine(sum(life[:scrape])), process_start=float(number))
    everything_after_the_first_page = sum(map(sum, lives)) - lives[0][0]
    assert (drafts(ledger, at + 1, now=at) or 0.0) == everything_after_the_first_page


@given(
    pages=st.lists(
        st.fixed_dictionaries(
            {
                "drafts": st.one_of(st.none(), st.floats(0, 1e9)),
                "accepted": st.one_of(st.none(), st.floats(0, 1e9)),
                "positions": st.lists(st.floats(0, 1e9), max_size=6),
                "gap": st.floats(-10, 500),
            }
        ),
        max_size=30,
    ),
    window=st.floats(0.1, 1000),
)
def test_no_sequence_of_pages_gives_a_negative_or_infinite_increment(pages: list[dict], window: float):
    ledger, at = Ledger(keep_seconds=1000), 0.0
    for page in pages:
        counters = {Counter.DRAFTS: page["drafts"], Counter.ACCEPTED_TOKENS: page["accepted"]}
        at += page["gap"]
        step = ledger.observe(
            at,
            EngineSnapshot(
                counters={key: value for key, value in counters.items() if value is not None},
                accepted_per_position=tuple(page["positions"]),
            ),
        )
        for increments in (step, ledger.over(window, now=at)):
            if increments is not None:
                assert increments.seconds > 0
                numbers = [*increments.counts.values(), *increments.accepted_per_position]
                assert all(math.isfinite(n) and n >= -1e-3 for n in numbers)
