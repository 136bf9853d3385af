"""Weights, experts and KV cache from configurations, against published figures and sums worked by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specwatch.errors import InputError
from specwatch.signals.model_cost import ModelCost, from_configuration, from_numbers
from specwatch.vllm.preflight.models import Model

LLAMA_8B: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
LLAMA_70B = LLAMA_8B | {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
}
MIXTRAL = LLAMA_8B | {
    "model_type": "mixtral",
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
}
QWEN3_30B: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "tie_word_embeddings": False,
}
DEEPSEEK_V3: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "quantization_config": {"quant_method": "fp8"},
}
GPT_OSS_120B: dict[str, Any] = {
    "model_type": "gpt_oss",
    "vocab_size": 201088,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "quantization_config": {"quant_method": "mxfp4"},
}
PUBLISHED = {
    "Llama 3.1 8B": (LLAMA_8B, 8.03e9),
    "Llama 3.1 70B": (LLAMA_70B, 70.55e9),
    "Mixtral 8x7B": (MIXTRAL, 46.70e9),
    "Qwen3 30B A3B": (QWEN3_30B, 30.53e9),
    "DeepSeek V3": (DEEPSEEK_V3, 671.0e9),
    "gpt-oss 120B": (GPT_OSS_120B, 116.8e9),
}
"""Configuration, and the count on the model's card."""


def cost(config: dict[str, Any], **options: Any) -> ModelCost:
    return from_configuration(Model("a model", Path(), config, own_folder=True), **options)


@pytest.mark.parametrize(("config", "parameters"), PUBLISHED.values(), ids=PUBLISHED)
def test_counts_are_those_of_the_models_cards(config, parameters):
    assert cost(config).parameters == pytest.approx(parameters, rel=1e-3)


def test_llama_8b_by_hand():
    found = cost(LLAMA_8B)
    # Queries and output 4096², keys and values 4096·1024, MLP 3·4096·14336, two norms of 4096; 32 layers.
    layer = 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
    assert found.parameters == 32 * layer + 4096 + 2 * 128256 * 4096 == 8_030_261_248
    # A step reads all but the input embedding, of which it needs a row a token: 8.030 - 0.525 = 7.505 billion weights.
    assert found.always_read == 2 * (8_030_261_248 - 128256 * 4096) == 15_009_849_344
    assert found.operations == 2 * 7_504_924_672
    # Keys and values: 2 · 32 layers · 8 heads · 128 numbers · 2 bytes = 128 KiB for each token.
    assert found.cache
    assert found.cache.read(1000, tensor_parallel=1) == 1000 * 131072


def test_llama_70b_by_hand():
    found = cost(LLAMA_70B)
    layer = 2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192
    assert found.parameters == 80 * layer + 8192 + 2 * 128256 * 8192 == 70_553_706_496
    assert found.cache
    assert found.cache.read(1, tensor_parallel=1) == 2 * 80 * 8 * 128 * 2 == 327_680


def test_grouped_heads_are_shared_out_and_never_split():
    cache = cost(LLAMA_70B).cache
    assert cache
    whole = cache.read(100, tensor_parallel=1)
    assert [cache.read(100, gpus) / whole for gpus in (2, 4, 8, 16)] == [1 / 2, 1 / 4, 1 / 8, 1 / 8]


def test_as_many_key_heads_as_query_heads_read_four_times_as_much_as_a_quarter():
    grouped, plain = cost(LLAMA_8B).cache, cost(LLAMA_8B | {"num_key_value_heads": 32}).cache
    assert grouped
    assert plain
    assert plain.read(10, 1) == 4 * grouped.read(10, 1)


def test_mixtral_by_hand():
    found = cost(MIXTRAL)
    expert = 3 * 4096 * 14336  # 176 million weights
    assert found.experts
    assert found.experts.size == 2 * 32 * 8 * expert == 90_194_313_216
    # One token meets two of eight: 1/4 of the bytes; two tokens 1 - (3/4)² = 7/16; very many meet all.
    assert [found.experts.read(tokens) / found.experts.size for tokens in (1, 2, 1000)] == [1 / 4, 7 / 16, 1.0]
    attention = 32 * (2 * 4096**2 + 2 * 4096 * 1024)
    router, norms, table = 32 * 4096 * 8, 4096 * 65, 32000 * 4096
    assert found.always_read == 2 * (attention + router + norms + table)
    assert found.active_parameters == attention + router + norms + table + 32 * 2 * expert


def test_a_latent_is_kept_once_on_every_gpu():
    cache = cost(DEEPSEEK_V3).cache
    assert cache
    assert cache.read(1, tensor_parallel=1) == cache.read(1, tensor_parallel=8) == 61 * (512 + 64) * 2


def test_layers_with_a_window_look_back_no_further():
    cache = cost(GPT_OSS_120B).cache
    assert cache
    assert cache.positions(100) == 36 * 100
    assert cache.positions(10_000) == 18 * 10_000 + 18 * 128


def test_a_window_that_the_configuration_does_not_use_is_none():
    cache = cost(LLAMA_8B | {"sliding_window": 4096, "use_sliding_window": False}).cache
    assert cache
    assert cache.positions(10_000) == 32 * 10_000


def test_tied_embeddings_are_kept_once_and_read_whole():
    tied = cost(LLAMA_8B | {"tie_word_embeddings": True})
    assert tied.parameters == 8_030_261_248 - 128256 * 4096
    assert tied.always_read == tied.size == 2 * tied.parameters


QUANTISED = {
    "fp8": ({"quant_method": "fp8"}, 8.0),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 + 20 / 128),
    "gptq": ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8.0),
    "bitsandbytes": ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5),
    "modelopt": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5),
    "compressed-tensors": (
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8}}}},
        8.0,
    ),
}


@pytest.mark.parametrize(("said", "bits"), QUANTISED.values(), ids=QUANTISED)
def test_quantised_matrices_are_read_with_their_own_bits(said, bits):
    found = cost(LLAMA_8B | {"quantization_config": said})
    matrices = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert found.always_read == matrices * bits / 8 + 2 * (7_504_924_672 - matrices)


def test_only_weights_that_are_multiplied_with_eight_bits_use_that_arithmetic():
    assert cost(LLAMA_8B | {"quantization_config": {"quant_method": "fp8"}}).compute_bits == 8
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    assert cost(LLAMA_8B | {"quantization_config": awq}).compute_bits == 16


def test_an_unknown_quantisation_asks_for_the_bits():
    strange = LLAMA_8B | {"quantization_config": {"quant_method": "origami"}}
    with pytest.raises(InputError, match=r"origami.*--weight-bits"):
        cost(strange)
    assert cost(strange, weight_bits=3).always_read < cost(LLAMA_8B).always_read


@pytest.mark.parametrize("key", ["vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size"])
def test_what_a_configuration_lacks_is_named(key):
    config = {name: value for name, value in LLAMA_8B.items() if name != key}
    with pytest.raises(InputError, match=rf"no {key}.*--parameters"):
        cost(config)


@pytest.mark.parametrize("damaged", [-1, 0, 2**50, "many", True, None])
def test_damaged_measures_are_refused(damaged):
    with pytest.raises(InputError, match="hidden_size"):
        cost(LLAMA_8B | {"hidden_size": damaged})


def test_more_active_than_all_parameters_are_refused():
    with pytest.raises(InputError, match="part of all"):
        from_numbers(7e9, active=8e9)
