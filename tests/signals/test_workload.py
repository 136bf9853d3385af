"""Population stability of requests, learned and compared."""

from __future__ import annotations

import math
import random

import pytest

from specwatch.signals.workload import (
    LEAST_REQUESTS,
    SHIFTED,
    WorkloadReading,
    WorkloadSettings,
    WorkloadTracker,
    psi,
    psi_noise,
)
from specwatch.vllm.metrics import EngineSnapshot
from specwatch.vllm.requests_seen import HIT, MISS, Feature

BOUNDS = (10, 20, 50, 100, 200, 500, 1000)
SETTINGS = WorkloadSettings()


class Server:
    """Counts requests of exponential lengths, as vLLM's histograms do."""

    def __init__(self, seed: int = 0) -> None:
        self._source = random.Random(seed)
        self.restart()

    def restart(self) -> None:
        """Count from zero."""
        self._lengths = dict.fromkeys([*map(str, BOUNDS), "inf"], 0.0)
        self._reasons = {"stop": 0.0, "length": 0.0}
        self._cache = {HIT: 0.0, MISS: 0.0}

    def serve(self, requests: int, prompt: float = 80, cut: float = 0.1, hits: float = 0.2) -> None:
        """Answer requests of mean prompt length ``prompt``, ``cut`` of them at their limit."""
        for _ in range(requests):
            length = max(1, round(self._source.expovariate(1 / prompt)))
            bound = next((str(bound) for bound in BOUNDS if length <= bound), "inf")
            self._lengths[bound] += 1
            self._reasons["length" if self._source.random() < cut else "stop"] += 1
            self._cache[HIT] += length * hits
            self._cache[MISS] += length * (1 - hits)

    def page(self) -> dict[str, EngineSnapshot]:
        """The counters now."""
        requests = {
            Feature.PROMPT_LENGTH: dict(self._lengths),
            Feature.FINISH_REASON: dict(self._reasons),
            Feature.PREFIX_CACHE: dict(self._cache),
        }
        return {"0": EngineSnapshot(requests=requests)}


class Watched:
    """A server and its tracker, a page a minute."""

    def __init__(self, seed: int = 0) -> None:
        self.server, self.tracker, self.now = Server(seed), WorkloadTracker(), 0.0
        self.tracker.observe(0.0, self.server.page())

    def live(self, minutes: int, a_minute: int = 60, **traffic: float) -> WorkloadReading:
        """Let minutes pass."""
        for _ in range(minutes):
            self.server.serve(a_minute, **traffic)
            self.now += 60
            self.tracker.observe(self.now, self.server.page())
        return self.tracker.reading()


def test_psi_is_the_textbook_sum():
    expected = (0.7 - 0.5) * math.log(0.7 / 0.5) + (0.3 - 0.5) * math.log(0.3 / 0.5)
    assert psi({"a": 5e6, "b": 5e6}, {"a": 7e6, "b": 3e6}) == pytest.approx(expected, rel=1e-5)


def test_psi_of_nothing_and_of_the_same_is_none():
    assert psi({}, {"a": 1}) == 0
    assert psi({"a": 5, "b": 2}, {"a": 50, "b": 20}) == pytest.approx(0, abs=0.01)


def test_a_category_that_was_never_seen_is_finite():
    assert SHIFTED < psi({"a": 100}, {"b": 100}) < 20


def test_samples_of_one_population_stay_within_the_noise():
    """One window in a hundred may exceed it, were requests independent; the allowance for clusters takes more."""
    source, beyond = random.Random(1), 0
    for _ in range(400):
        samples = [source.choices("abcdef", [30, 30, 20, 10, 6, 4], k=k) for k in (500, 100)]
        counts = [{letter: float(sample.count(letter)) for letter in "abcdef"} for sample in samples]
        beyond += psi(*counts) > psi_noise(6, 500, 100)
    assert beyond <= 4


def test_nothing_is_said_while_the_reference_is_learned():
    watched = Watched()
    reading = watched.live(5)
    assert reading.learned == pytest.approx(0.5)
    assert reading.shifts == ()


def test_the_same_traffic_is_no_shift_however_long():
    watched = Watched()
    for _ in range(12):
        assert not any(shift.shifted for shift in watched.live(10).shifts)


def test_longer_prompts_are_a_shift_of_prompts_alone():
    watched = Watched()
    watched.live(20)
    reading = watched.live(10, prompt=300)
    shifted = {shift.feature for shift in reading.shifts if shift.shifted}
    assert shifted == {Feature.PROMPT_LENGTH}
    shift = reading.shift(Feature.PROMPT_LENGTH)
    assert shift is not None
    assert shift.before == pytest.approx(80 * math.log(2), rel=0.2)
    assert shift.now == pytest.approx(300 * math.log(2), rel=0.2)


def test_answers_that_run_into_their_limit_and_an_emptied_cache_are_shifts():
    watched = Watched()
    watched.live(20, hits=0.8)
    reading = watched.live(10, cut=0.9, hits=0.0)
    reasons, cache = reading.shift(Feature.FINISH_REASON), reading.shift(Feature.PREFIX_CACHE)
    assert reasons is not None
    assert reasons.shifted
    assert reasons.now == pytest.approx(0.9, abs=0.1)
    assert cache is not None
    assert cache.shifted
    assert (cache.before, cache.now) == (pytest.approx(0.8), pytest.approx(0.0))


def test_a_cache_that_begins_to_be_hit_is_a_shift():
    watched = Watched()
    watched.live(20, hits=0.0)
    shift = watched.live(10, hits=0.8).shift(Feature.PREFIX_CACHE)
    assert shift is not None
    assert shift.shifted


def test_a_restart_counts_from_zero_and_shifts_nothing():
    watched = Watched()
    watched.live(20)
    watched.server.restart()
    reading = watched.live(10)
    assert not any(shift.shifted for shift in reading.shifts)
    assert reading.requests == pytest.approx(300, rel=0.3)


def test_too_few_requests_say_nothing():
    watched = Watched()
    watched.live(20)
    watched.server.serve(5)
    reading = watched.live(60, a_minute=0)
    assert reading.requests < LEAST_REQUESTS
    assert reading.shifts == ()


def test_a_shift_that_lasts_does_not_become_the_reference_by_itself():
    watched = Watched()
    watched.live(20)
    for _ in range(6):
        reading = watched.live(30, prompt=300)
    assert any(shift.shifted for shift in reading.shifts)
    watched.tracker.relearn()
    watched.live(15, prompt=300)
    assert not any(shift.shifted for shift in watched.live(10, prompt=300).shifts)


def test_a_page_that_is_not_newer_is_ignored_and_engines_come_and_go():
    watched = Watched()
    watched.live(20)
    watched.tracker.observe(0.0, {})
    before = watched.tracker.reading()
    watched.tracker.observe(watched.now + 1, {"0": EngineSnapshot(), "1": EngineSnapshot()})
    watched.tracker.observe(watched.now + 2, {})
    assert watched.tracker.reading() == before


def test_memory_is_bounded():
    watched = Watched()
    watched.live(600, a_minute=5)
    assert len(watched.tracker._recent) <= SETTINGS.recent_seconds * 6 / 60 + 2
