"""Modified rejection sampling: whatever the draft proposes, the output follows the target.

Statistical tests draw from a fixed seed, so they always give the same figure. Their limits are those that a right
sampler would exceed for one seed in a thousand (chi-square) or in fifteen thousand (four standard errors).
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specwatch.errors import InputError

torch = pytest.importorskip("torch", reason="needs the extra torch")

from specwatch.measure import rejection_sampling as sampling  # noqa: E402 -- it needs torch

pytestmark = pytest.mark.vllm
torch.set_num_threads(1)  # tensors this small only lose by more, most of all on a busy machine

DRAWS = 50_000
CHI_SQUARE_999 = {0: 1e-9, 1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52, 6: 22.46, 7: 24.32}
"""Quantiles of 99.9 % by degrees of freedom, from the usual tables; nothing may differ where there is no freedom."""

PAIRS = {
    "alike": ([0.3, 0.25, 0.2, 0.1, 0.05, 0.05, 0.03, 0.02], [0.25, 0.3, 0.15, 0.15, 0.05, 0.05, 0.03, 0.02]),
    "apart": ([0.02, 0.03, 0.05, 0.05, 0.1, 0.2, 0.25, 0.3], [0.3, 0.25, 0.2, 0.1, 0.05, 0.05, 0.03, 0.02]),
    "a greedy draft": ([0.3, 0.25, 0.2, 0.1, 0.05, 0.05, 0.03, 0.02], [0.0, 1.0, 0, 0, 0, 0, 0, 0]),
    "a draft that lacks tokens": ([0.125] * 8, [0.5, 0.5, 0, 0, 0, 0, 0, 0]),
    "equal": ([0.125] * 8, [0.125] * 8),
    "a draft of tokens that cannot come": ([0.0, 0.0, 0.3, 0.2, 0.2, 0.1, 0.1, 0.1], [0.4, 0.4, 0.2, 0, 0, 0, 0, 0]),
}


def drawn(p: list[float], q: list[float], k: int = 1) -> tuple[torch.Tensor, sampling.Verified]:
    """Draft tokens from q at every position, verified by the same p at every position; DRAWS rows."""
    source = torch.Generator().manual_seed(20_230_211)
    theirs = torch.tensor(q, dtype=torch.float64).expand(DRAWS, k, len(q))
    ours = torch.tensor(p, dtype=torch.float64).expand(DRAWS, k + 1, len(p))
    drafted = torch.multinomial(theirs.reshape(-1, len(q)), 1, generator=source).view(DRAWS, k)
    return drafted, sampling.verify(ours, theirs, drafted, source)


def chi_square(tokens: torch.Tensor, p: list[float]) -> tuple[float, int]:
    """Pearson's statistic of the tokens against p, and its degrees of freedom; what cannot come must not have come."""
    counts = torch.bincount(tokens, minlength=len(p)).tolist()
    possible = [place for place, chance in enumerate(p) if chance > 0]
    assert sum(counts[place] for place in possible) == len(tokens)
    expected = [(counts[place], p[place] * len(tokens)) for place in possible]
    return sum((count - mean) ** 2 / mean for count, mean in expected), len(possible) - 1


def total_variation(p: list[float], q: list[float]) -> float:
    return sum(abs(ours - theirs) for ours, theirs in zip(p, q, strict=True)) / 2


@pytest.mark.parametrize(("p", "q"), PAIRS.values(), ids=PAIRS)
def test_the_first_token_follows_the_target_whatever_the_draft(p, q):
    _, verified = drawn(p, q)
    statistic, freedom = chi_square(verified.tokens[:, 0], p)
    assert statistic < CHI_SQUARE_999[freedom]


@pytest.mark.parametrize(("p", "q"), PAIRS.values(), ids=PAIRS)
def test_every_later_token_follows_the_target_too(p, q):
    _, verified = drawn(p, q, k=3)
    for place in range(1, 4):
        present = verified.tokens[:, place]
        present = present[present != sampling.PADDING]
        if len(present) < 1000:  # hardly anything gets so far, when the two are far apart
            continue
        statistic, freedom = chi_square(present, p)
        assert statistic < CHI_SQUARE_999[freedom]


@pytest.mark.parametrize(("p", "q"), PAIRS.values(), ids=PAIRS)
def test_the_accepted_share_is_one_minus_the_total_variation_distance(p, q):
    _, verified = drawn(p, q)
    share = verified.accepted.double().mean().item()
    expected = 1 - total_variation(p, q)
    assert share == pytest.approx(expected, abs=4 * math.sqrt(max(expected * (1 - expected), 1e-12) / DRAWS))
    assert sampling.expected_acceptance(torch.tensor(p), torch.tensor(q)).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("p", "q"), PAIRS.values(), ids=PAIRS)
def test_a_rejected_token_is_replaced_from_the_rest_of_the_target(p, q):
    _, verified = drawn(p, q)
    replaced = verified.tokens[verified.accepted == 0, 0]
    rest = [max(0.0, ours - theirs) for ours, theirs in zip(p, q, strict=True)]
    if sum(rest) == 0:
        assert len(replaced) == 0
        return
    share = [part / sum(rest) for part in rest]
    assert sampling.corrected(torch.tensor(p), torch.tensor(q)).tolist() == pytest.approx(share, abs=1e-6)
    statistic, freedom = chi_square(replaced, share)
    assert statistic < CHI_SQUARE_999[freedom]


@pytest.mark.parametrize(("p", "q"), PAIRS.values(), ids=PAIRS)
def test_the_text_alone_tells_which_tokens_were_drafted(p, q):
    drafted, verified = drawn(p, q)
    emitted = verified.tokens[:, 0]
    for token, chance in enumerate(p):
        came = emitted == token
        if chance == 0 or int(came.sum()) < 1000:
            continue
        kept = verified.accepted[came].double().mean().item()
        told = sampling.share_drafted(torch.tensor(p), torch.tensor(q), torch.tensor(token)).item()
        assert kept == pytest.approx(told, abs=4 * math.sqrt(max(told * (1 - told), 1e-12) / int(came.sum())))
    assert bool((drafted[:, 0] == emitted)[verified.accepted == 1].all())


distributions = st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(lambda weights: sum(weights) > 1e-3)


@given(distributions, distributions)
@settings(max_examples=200)
def test_acceptance_and_correction_hold_their_identities(ours, theirs):
    p = torch.tensor(ours, dtype=torch.float64) / sum(ours)
    q = torch.tensor(theirs, dtype=torch.float64) / sum(theirs)
    kept = sampling.expected_acceptance(p, q).item()
    assert kept == pytest.approx(1 - (p - q).abs().sum().item() / 2)
    every = torch.arange(4)
    joint = q * sampling.acceptance(p.expand(4, 4), q.expand(4, 4), every)
    assert joint.sum().item() == pytest.approx(kept)
    output = joint + (1 - kept) * sampling.corrected(p, q)
    assert output.tolist() == pytest.approx(p.tolist(), abs=1e-9)
    assert (p * sampling.share_drafted(p.expand(4, 4), q.expand(4, 4), every)).sum().item() == pytest.approx(kept)


def test_two_greedy_models_agree_or_do_not():
    p = sampling.distribution(torch.tensor([[0.0, 3.0, 1.0], [0.0, 3.0, 1.0]]), temperature=0)
    q = sampling.distribution(torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 2.0]]), temperature=0)
    assert sampling.expected_acceptance(p, q).tolist() == [1.0, 0.0]


def test_a_greedy_draft_is_accepted_as_often_as_the_target_would_say_its_word():
    p = torch.tensor([0.2, 0.7, 0.1])
    q = torch.tensor([0.4, 0.3, 0.3])
    assert sampling.expected_acceptance(p, sampling.greedy(q)).item() == pytest.approx(0.2)


def test_of_tied_logits_the_first_is_taken_by_both():
    tied = torch.tensor([1.0, 5.0, 5.0, 5.0])
    assert sampling.distribution(tied, temperature=0).tolist() == [0.0, 1.0, 0.0, 0.0]
    assert sampling.greedy(sampling.distribution(tied, temperature=1.0)).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_logits_of_minus_infinity_never_come():
    p = sampling.distribution(torch.tensor([0.0, -math.inf, 0.0]), temperature=1.0)
    assert p.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("temperature", [1e-30, 1e-3, 1e3])
def test_extreme_temperatures_stay_numbers(temperature):
    p = sampling.distribution(torch.tensor([1e4, -1e4, 0.0]), temperature)
    assert bool(torch.isfinite(p).all())
    assert p.sum().item() == pytest.approx(1.0)


@pytest.mark.parametrize("row", [[math.nan, 0.0], [-math.inf, -math.inf], [math.inf, 0.0]])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_damaged_logits_are_refused(row, temperature):
    with pytest.raises(InputError, match="damaged"):
        sampling.distribution(torch.tensor([[0.0, 1.0], row]), temperature)


def test_half_precision_is_widened_before_probabilities_are_made():
    assert sampling.distribution(torch.zeros(3, dtype=torch.bfloat16), 1.0).dtype == torch.float32


def test_one_seed_gives_one_outcome():
    p, q = PAIRS["alike"]
    first, again = drawn(p, q, k=3)[1], drawn(p, q, k=3)[1]
    assert torch.equal(first.tokens, again.tokens)


def test_rows_of_a_batch_end_where_their_own_draft_was_rejected():
    certain = torch.eye(3, dtype=torch.float64)
    p = torch.stack([certain[[0, 1, 2]], certain[[0, 2, 2]], certain[[1, 1, 1]]])
    drafted = torch.tensor([[0, 1], [0, 1], [0, 1]])
    verified = sampling.verify(p, certain[drafted], drafted)
    assert verified.accepted.tolist() == [2, 1, 0]
    none = sampling.PADDING
    assert verified.tokens.tolist() == [[0, 1, 2], [0, 2, none], [1, none, none]]


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="do not fit"):
        sampling.verify(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), torch.zeros(1, 2, dtype=torch.long))
