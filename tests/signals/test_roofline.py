"""The bound of a decode step: figures worked by hand, and what must rise with what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.errors import InputError
from specwatch.signals import gpus, roofline
from specwatch.signals.model_cost import from_numbers
from specwatch.signals.roofline import Hardware
from tests.signals.test_model_cost import DEEPSEEK_V3, LLAMA_8B, LLAMA_70B, MIXTRAL, cost

A100 = gpus.find("A100 SXM 80GB")
H100 = gpus.find("H100 SXM")
SMALL = from_numbers(1e9)
MODELS = [cost(LLAMA_8B), cost(LLAMA_70B), cost(MIXTRAL), cost(DEEPSEEK_V3), from_numbers(70e9)]

models = st.sampled_from(MODELS)
sizes = st.integers(1, 2000)
contexts = st.integers(0, 200_000)
parallel = st.sampled_from([1, 2, 4, 8, 16])


def test_70b_at_16_bits_on_an_a100_takes_68_7_ms_a_token():
    bound = roofline.step(from_numbers(70e9), Hardware(A100))
    assert bound.seconds == pytest.approx(0.0687, abs=5e-5)
    assert 1 / bound.seconds == pytest.approx(14.6, abs=0.05)
    assert not bound.compute_bound


def test_llama_8b_on_an_h100_by_hand():
    bound = roofline.step(cost(LLAMA_8B), Hardware(H100), batch=16, context=2000)
    # 15.01 GB of weights and 16 · 2000 · 131072 B of cache over 3350 GB/s.
    assert bound.memory_seconds == pytest.approx((15_009_849_344 + 16 * 2000 * 131072) / 3.35e12)
    # For each token 2 · 7.505e9 operations, and 4 · 32 layers · 32 heads · 128 for each of 2000 tokens before it.
    assert bound.compute_seconds == pytest.approx(16 * (2 * 7_504_924_672 + 2000 * 4 * 32 * 32 * 128) / 989e12)


def test_llama_70b_on_four_gpus_by_hand():
    bound = roofline.step(cost(LLAMA_70B), Hardware(H100, tensor_parallel=4), batch=8, context=1000)
    # Weights, and with 8 key heads the cache as well, are divided by four.
    assert bound.memory_seconds == pytest.approx((2 * 69_503_033_344 / 4 + 8 * 1000 * 327_680 / 4) / 3.35e12)


def test_mixtral_reads_more_experts_when_it_verifies_more_tokens():
    mixtral, hardware = cost(MIXTRAL), Hardware(H100)
    plain = roofline.step(mixtral, hardware).memory_seconds
    verifying = roofline.step(mixtral, hardware, tokens=6).memory_seconds
    experts = 90_194_313_216
    assert verifying - plain == pytest.approx(experts * ((1 - 0.75**6) - (1 - 0.75)) / 3.35e12)
    assert roofline.verifying_cost(mixtral, hardware, k=5) == pytest.approx(verifying / plain)


def test_a_dense_model_turns_compute_bound_where_reading_takes_as_long_as_computing():
    # b · 2P / F = 2P / B at 16 bits, so b = F / B = 312e12 / 2039e9 = 153.02: from 154 on.
    assert roofline.compute_bound_from(from_numbers(70e9), Hardware(A100)) == 154
    # Six tokens for each sequence: 153.02 / 6 = 25.5.
    assert roofline.compute_bound_from(from_numbers(70e9), Hardware(A100), tokens=6) == 26


def test_verifying_is_free_below_that_batch_and_not_above():
    model, hardware = from_numbers(70e9), Hardware(A100)
    assert roofline.verifying_cost(model, hardware, k=5, batch=25) == 1.0
    assert roofline.verifying_cost(model, hardware, k=5, batch=30) == pytest.approx(30 * 6 / 153.02, rel=1e-4)
    assert roofline.verifying_cost(model, hardware, k=5, batch=500) == pytest.approx(6.0)


def test_with_long_contexts_no_batch_is_large_enough():
    assert roofline.compute_bound_from(cost(LLAMA_8B), Hardware(H100), context=4000) is None
    assert roofline.verifying_cost(cost(LLAMA_8B), Hardware(H100), k=3, batch=64, context=32_000) == 1.0


def test_a_drafts_cost_is_the_ratio_of_weights_while_both_are_read():
    assert roofline.draft_cost(from_numbers(70e9), SMALL, Hardware(A100)) == pytest.approx(1 / 70)


def test_break_even_is_the_drafts_cost_while_verifying_is_free():
    assert roofline.break_even_acceptance(k=5, v=1.0, c=0.04) == pytest.approx(0.04)
    assert roofline.break_even_acceptance(k=4, v=3.0, c=0.1) == pytest.approx((2 + 0.4) / 4)


def test_sequences_share_what_the_weights_leave():
    found = roofline.most_sequences(cost(LLAMA_8B), Hardware(A100), context=8000)
    assert found == int((80e9 - 16_060_522_496) / (8000 * 131072)) == 60
    assert roofline.most_sequences(cost(LLAMA_70B), Hardware(A100), context=8000) == 0
    assert roofline.most_sequences(from_numbers(7e9), Hardware(A100), context=8000) is None


def test_a_measured_time_is_a_share_of_the_bound():
    bound = roofline.step(from_numbers(70e9), Hardware(A100))
    assert roofline.share_of_bound(0.100, bound) == pytest.approx(0.6866, abs=1e-4)
    with pytest.raises(InputError, match="above 0"):
        roofline.share_of_bound(0.0, bound)


def test_steps_of_nothing_are_refused():
    with pytest.raises(InputError, match="0 sequences"):
        roofline.step(SMALL, Hardware(A100), batch=0)


@given(models, sizes, sizes, contexts, parallel)
def test_larger_batches_take_no_less_time_and_give_no_fewer_tokens(model, batch, more, context, gpus_used):
    hardware = Hardware(H100, gpus_used)
    small = roofline.step(model, hardware, batch, context).seconds
    large = roofline.step(model, hardware, batch + more, context).seconds
    assert large >= small
    assert (batch + more) / large >= batch / small * (1 - 1e-9)


@given(models, sizes, contexts, contexts, parallel)
def test_longer_contexts_take_no_less_time(model, batch, context, more, gpus_used):
    hardware = Hardware(H100, gpus_used)
    longer = roofline.step(model, hardware, batch, context + more).seconds
    assert longer >= roofline.step(model, hardware, batch, context).seconds


@given(models, sizes, contexts, st.integers(1, 16), parallel)
def test_verifying_more_tokens_costs_no_less_and_never_more_than_as_many_steps(model, batch, context, k, gpus_used):
    hardware = Hardware(H100, gpus_used)
    v, more = (roofline.verifying_cost(model, hardware, tokens, batch, context) for tokens in (k, k + 1))
    assert 1.0 <= v <= more * (1 + 1e-9)
    assert v <= (k + 1) * (1 + 1e-9)


@given(models, sizes, contexts)
def test_more_gpus_are_never_slower(model, batch, context):
    times = [roofline.step(model, Hardware(H100, gpus_used), batch, context).seconds for gpus_used in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)


@given(models, sizes, contexts, st.floats(1, 10))
def test_better_hardware_is_never_slower(model, batch, context, factor):
    before = roofline.step(model, Hardware(H100), batch, context).seconds
    for better in (
        replace(H100, bandwidth=H100.bandwidth * factor),
        replace(H100, flops_16=H100.flops_16 * factor, flops_8=(H100.flops_8 or 0) * factor),
    ):
        assert roofline.step(model, Hardware(better), batch, context).seconds <= before


@given(st.floats(1, 16), st.floats(1, 16), sizes)
def test_fewer_bits_a_weight_are_never_slower(bits, other, batch):
    few, many = sorted((bits, other))
    quick, slow = (roofline.step(cost(LLAMA_8B, weight_bits=b), Hardware(H100), batch).seconds for b in (few, many))
    assert quick <= slow


@given(models, contexts, st.integers(1, 8))
def test_the_batch_where_arithmetic_takes_over_is_the_first_such(model, context, tokens):
    hardware = Hardware(H100)
    found = roofline.compute_bound_from(model, hardware, context, tokens)
    if found is None:
        assert not roofline.step(model, hardware, roofline.LARGEST_BATCH, context, tokens).compute_bound
        return
    assert roofline.step(model, hardware, found, context, tokens).compute_bound
    assert found == 1 or not roofline.step(model, hardware, found - 1, context, tokens).compute_bound


def test_every_gpu_of_the_table_has_a_source_and_sane_figures():
    for gpu in gpus.GPUS:
        assert gpu.source
        assert 16e9 <= gpu.memory <= 300e9
        assert 2e11 <= gpu.bandwidth <= 1e13
        # Operations for each byte: between the most frugal and the most generous card that exists.
        assert 50 <= gpu.flops_16 / gpu.bandwidth <= 500
        assert gpu.flops_8 is None or 1.9 <= gpu.flops_8 / gpu.flops_16 <= 2.1


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("h100-sxm", "H100 SXM"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("a100 80gb pcie", "A100 PCIe 80GB"),
        ("NVIDIA L4", "L4"),
        ("l40s", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA H200", "H200 SXM"),
        ("pro 6000", "RTX PRO 6000 Blackwell"),
    ],
)
def test_a_gpu_is_found_however_it_is_spelled(name, found):
    assert gpus.find(name).name == found


def test_a_name_of_several_gpus_lists_them():
    with pytest.raises(InputError, match="H100 SXM, H100 PCIe, H100 NVL"):
        gpus.find("h100")


def test_an_unknown_gpu_says_what_to_give_instead():
    with pytest.raises(InputError, match="--bandwidth"):
        gpus.find("Voodoo 2")
