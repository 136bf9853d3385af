"""The benchmark of the roofline on a GPU does what it says, on a CPU with layers that are tiny."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch")

from benchmarks import roofline_gpu  # noqa: E402 -- it needs torch
from specwatch.signals import gpus  # noqa: E402

pytestmark = pytest.mark.vllm
torch.set_num_threads(1)  # more only hinder each other on layers this small

TINY = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}


def test_it_times_the_model_that_the_roofline_describes():
    model, cost = roofline_gpu.build(TINY, layers=2, device="cpu", dtype="float32")
    assert cost.parameters == sum(weight.numel() for weight in model.parameters())
    rows = list(roofline_gpu.measure(model, cost, gpus.find("L4"), [1, 4], k=3, context=16, steps=3))
    assert [row.batch for row in rows] == [1, 4]
    for row in rows:
        assert row.plain > row.bound > 0  # no CPU comes near a GPU's bandwidth with steps that take a millisecond
        assert row.share_of_bound == row.bound / row.plain


def test_a_step_leaves_the_context_as_long_as_it_was(monkeypatch):
    model, _ = roofline_gpu.build(TINY, layers=1, device="cpu", dtype="float32")
    seen: list[int] = []
    whole = model.forward

    def forward(*arguments, **options):
        cache = options.get("past_key_values")
        seen.append(cache.get_seq_length() if cache is not None else 0)
        return whole(*arguments, **options)

    monkeypatch.setattr(model, "forward", forward)
    roofline_gpu._step_seconds(model, batch=2, context=16, tokens=4, steps=3)
    assert seen == [0, *[16] * (roofline_gpu.WARM_UP + 3)]
