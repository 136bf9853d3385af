from __future__ import annotations

import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specwatch.errors import InputError
from specwatch.lab.scenario import Domain, Phase


@example(acceptance=5e-324, concentration=0.5, positions=1, seed=0)
@example(acceptance=1 - 2**-53, concentration=0.01, positions=3, seed=0)
@given(
    acceptance=st.floats(0, 1) | st.lists(st.floats(0, 1), min_size=1, max_size=9).map(tuple),
    concentration=st.floats(0.01, 1000),
    positions=st.integers(0, 9),
    seed=st.integers(0, 100),
)
def test_a_request_never_accepts_a_position_more_often_than_the_one_before(
    acceptance: float | tuple[float, ...], concentration: float, positions: int, seed: int
):
    survival = Domain("d", acceptance, concentration).survival(positions, random.Random(seed))
    assert len(survival) == positions
    assert survival == sorted(survival, reverse=True)
    assert all(0 <= probability <= 1 for probability in survival)


def test_the_last_acceptance_holds_for_the_positions_beyond():
    domain = Domain("d", (0.9, 0.5), concentration=math.inf)
    assert domain.survival(4, random.Random(0)) == pytest.approx([0.9, 0.45, 0.225, 0.1125])


def test_requests_draw_their_acceptance_from_a_beta_law():
    domain, source = Domain("d", 0.8, concentration=10), random.Random(0)
    drawn = [domain.survival(1, source)[0] for _ in range(20_000)]
    mean = sum(drawn) / len(drawn)
    variance = sum((one - mean) ** 2 for one in drawn) / len(drawn)
    # the law's own mean and variance, m (1 - m) / (a + b + 1), within about four standard errors
    assert mean == pytest.approx(0.8, abs=0.004)
    assert variance == pytest.approx(0.8 * 0.2 / 11, rel=0.06)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"acceptance": 1.1}, "acceptance must hold probabilities, not 1.1"),
        ({"acceptance": ()}, "acceptance must hold probabilities"),
        ({"acceptance": math.nan}, "acceptance must hold probabilities"),
        ({"acceptance": 0.5, "concentration": 0}, "concentration must be above 0"),
        ({"acceptance": 0.5, "max_tokens": 0}, "at least one token"),
    ],
)
def test_a_domain_that_cannot_be_is_refused(arguments: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        Domain("d", **arguments)


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
def test_a_phase_lasts(seconds: float):
    with pytest.raises(InputError, match="must last longer than 0"):
        Phase(seconds)
