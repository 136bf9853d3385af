from __future__ import annotations

import math
import random

import pytest

from specwatch.signals.dispersion import BATCH_LIVES, CAP, LEAST, MEMORY, Dispersion, Quantity, share_seen
from specwatch.vllm.metrics import Counter

SECONDS = 5.0
LIFE = 10.0
COUNTERS = (
    Counter.DRAFTS,
    Counter.DRAFT_TOKENS,
    Counter.ACCEPTED_TOKENS,
    Counter.FINISHED_REQUESTS,
    Counter.FINISHED_DECODE_SECONDS,
)


def feed(dispersion: Dispersion, rate: float, drafts: float = 500.0, requests: float = 2.0) -> None:
    """One scrape at K = 1 with that acceptance rate."""
    values = (drafts, drafts, drafts * rate, requests, requests * LIFE)
    dispersion.observe(SECONDS, dict(zip(COUNTERS, values, strict=True)), (drafts * rate,))


def fed(rates: list[float], drafts: float = 500.0) -> Dispersion:
    dispersion = Dispersion(COUNTERS, positions=1)
    for rate in rates:
        feed(dispersion, rate, drafts)
    return dispersion


def variance(dispersion: Dispersion) -> float:
    spread = dispersion.reading()
    assert spread is not None
    return spread.variances[Quantity.ACCEPTANCE_RATE]


SCRAPES_A_BATCH = int(BATCH_LIVES * LIFE / SECONDS)


def test_nothing_is_known_before_enough_batches():
    dispersion = Dispersion(COUNTERS, positions=1)
    for _ in range((LEAST + 2) * SCRAPES_A_BATCH):
        assert dispersion.reading() is None
        feed(dispersion, 0.5)
    assert dispersion.reading() is not None


@pytest.mark.parametrize("drafts", [500.0, 5000.0])
def test_the_spread_of_requests_is_found_whatever_the_load(drafts: float):
    """One slot, in which requests of exponential length follow each other, each with a rate of its own."""
    source, rates = random.Random(1), [0.5]
    for _ in range(8000):
        ends = source.random() < 1 - math.exp(-SECONDS / LIFE)
        rates.append(source.gauss(0.5, 0.1) if ends else rates[-1])
    # Variance of the rates, twice the life, and drafts a second: the integral of the autocovariance per draft.
    assert variance(fed(rates, drafts)) == pytest.approx(0.01 * 2 * LIFE * drafts / SECONDS, rel=0.35)


def test_a_steady_server_has_no_spread():
    assert variance(fed([0.5] * 200)) == pytest.approx(0.0, abs=1e-12)


def test_a_slow_change_of_the_ratio_is_no_spread():
    source = random.Random(2)
    noise = [source.gauss(0.0, 0.05) for _ in range(2000)]
    steady = variance(fed([0.5 + each for each in noise]))
    sliding = variance(fed([0.3 + 0.4 * i / 2000 + each for i, each in enumerate(noise)]))
    assert sliding == pytest.approx(steady, rel=0.05)


def test_one_change_of_domain_does_not_swell_every_interval_after_it():
    source = random.Random(3)
    noise = [source.gauss(0.0, 0.02) for _ in range(1000)]
    before = fed([0.8 + each for each in noise])
    moved = fed([0.8 + each for each in noise] + [0.4 + each for each in noise[: 3 * SCRAPES_A_BATCH]])
    assert variance(moved) < variance(before) * (1 + CAP / MEMORY) ** 2 * 1.1


def test_a_lasting_change_of_the_spread_is_learned():
    source = random.Random(4)
    calm = [0.5 + source.gauss(0.0, 0.01) for _ in range(600)]
    wild = [0.5 + source.gauss(0.0, 0.1) for _ in range(6 * MEMORY * SCRAPES_A_BATCH)]
    assert variance(fed(calm + wild)) == pytest.approx(variance(fed(wild)), rel=0.4)


def test_degrees_of_freedom_end_at_the_memory():
    spread = fed([0.5] * 20_000).reading()
    assert spread is not None
    assert spread.degrees == pytest.approx(MEMORY * 2 / 3)
    assert spread.life == pytest.approx(LIFE)


def test_quiet_hours_make_longer_batches_instead_of_accidental_ones():
    dispersion = Dispersion(COUNTERS, positions=1)
    for _ in range(20 * SCRAPES_A_BATCH):
        feed(dispersion, 0.5, drafts=1.0)
    assert dispersion.reading() is None


def test_while_no_request_has_ended_nothing_says_how_long_they_live():
    dispersion = Dispersion(COUNTERS, positions=1)
    for _ in range(1000):
        feed(dispersion, 0.5, requests=0.0)
    assert dispersion.reading() is None


def test_a_server_that_does_not_count_ends_has_no_spread():
    dispersion = Dispersion(COUNTERS[:3], positions=1)
    for _ in range(1000):
        counts = {Counter.DRAFTS: 500.0, Counter.DRAFT_TOKENS: 500.0, Counter.ACCEPTED_TOKENS: 250.0}
        dispersion.observe(SECONDS, counts, (250.0,))
    assert dispersion.reading() is None


def test_a_ratio_has_a_spread_only_where_its_counters_are_exported():
    spread = fed([0.5] * 200).reading()
    assert spread is not None
    assert set(spread.variances) == {Quantity.ACCEPTANCE_RATE, Quantity.ACCEPTED_PER_DRAFT}
    assert len(spread.positions) == 1


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1e9])
def test_counts_of_a_broken_page_spoil_nothing(value: float):
    dispersion = fed([0.5] * 200)
    before = variance(dispersion)
    dispersion.observe(SECONDS, dict.fromkeys(COUNTERS, value), (value,))
    for _ in range(10 * SCRAPES_A_BATCH):
        feed(dispersion, 0.5)
    assert variance(dispersion) == pytest.approx(before, abs=1e-9)


def test_the_share_that_is_seen_grows_from_nothing_to_all_with_the_window():
    shares = [share_seen(lives * LIFE, LIFE) for lives in (0.01, 1.0, 10.0, 1000.0)]
    assert shares == pytest.approx([0.005, 0.368, 0.9, 0.999], abs=2e-3)
    assert share_seen(60.0, 0.0) == 1.0


def test_chance_is_no_request_s_doing_and_is_not_scaled_with_the_window():
    spread = fed([0.5] * 200).reading()
    assert spread is not None
    assert spread.batch_share == pytest.approx(share_seen(BATCH_LIVES * LIFE, LIFE), abs=0.03)
    # What a batch shows is 2: of that 0.5 is chance, and 1.5 its share of the requests' part.
    long_run = 2.0 / spread.batch_share
    assert spread.variance(long_run, 0.5, 1e9) == pytest.approx(0.5 + 1.5 / spread.batch_share)
    assert spread.variance(long_run, 0.5, 1e-6) == pytest.approx(0.5, rel=1e-3)
    assert spread.variance(long_run, 3.0, 60.0) == 3.0
