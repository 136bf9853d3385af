"""Sums of memory: by hand for published models, and against real safetensors files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specwatch.vllm.preflight.findings import Severity
from specwatch.vllm.preflight.memory import GIB, MemorySum
from specwatch.vllm.preflight.models import Model, UnreadableModel, find
from specwatch.vllm.preflight.run import Report, examine
from specwatch.vllm.preflight.shape import dense_parameters, shape_of
from specwatch.vllm.preflight.weights import MissingFiles, weights
from specwatch.vllm.safetensors import DamagedFile
from tests.support.checkpoints import safetensors
from tests.support.models import LLAMA, LLAMA_1B, LLAMA_70B, cached, codes, found, model, planned, write

A100 = 80 * GIB
FOUR = "--tensor-parallel-size 4 --gpu-memory-utilization 0.92 --max-num-seqs 64 --max-model-len 8192"


def as_model(config: dict[str, object]) -> Model:
    return Model("m", Path("/no/such"), config, own_folder=True)


def llamas(tmp_path: Path, words: str = FOUR, memory: int | None = A100, **plan: object) -> Report:
    """Llama 3.1 70B with Llama 3.2 1B, of which there are the configurations alone."""
    target, draft = (model(tmp_path / name, config) for name, config in (("70B", LLAMA_70B), ("1B", LLAMA_1B)))
    return examine(planned(target, draft, words=words, gpu_memory=memory, **plan))


def summed(report: Report) -> MemorySum:
    assert report.memory is not None
    return report.memory.memory


@pytest.mark.parametrize(("config", "count"), [(LLAMA_70B, 70_553_706_496), (LLAMA_1B, 1_235_814_400)])
def test_a_configuration_gives_the_published_number_of_parameters(config, count):
    assert dense_parameters(as_model(config)) == count


def test_a_family_whose_size_the_formula_does_not_know_is_not_estimated():
    assert dense_parameters(as_model({**LLAMA_70B, "model_type": "mixtral"})) is None


@pytest.mark.parametrize(
    ("config", "tensor_parallel", "by_hand"),
    [
        (LLAMA_70B, 1, 2 * 80 * 8 * 128 * 2),
        (LLAMA_70B, 4, 2 * 80 * 2 * 128 * 2),
        (LLAMA_70B, 16, 2 * 80 * 1 * 128 * 2),
        (LLAMA_1B, 1, 2 * 16 * 8 * 64 * 2),
        ({"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64}, 8, 61 * 576 * 2),
        ({**LLAMA_1B, "layer_types": ["linear_attention"] * 12 + ["full_attention"] * 4}, 1, 2 * 4 * 8 * 64 * 2),
        ({"num_hidden_layers": 4}, 1, None),
        ({}, 1, None),
    ],
)
def test_a_token_takes_keys_and_values_of_every_layer_and_key_head(config, tensor_parallel, by_hand):
    assert shape_of(as_model(config)).cache_bytes_per_token(tensor_parallel, 2.0) == by_hand


def test_llama_70b_with_llama_1b_by_hand(tmp_path: Path):
    memory = summed(llamas(tmp_path))
    assert memory.budget == pytest.approx(0.92 * 80 * GIB)
    assert memory.target_weights == 70_553_706_496 * 2 / 4
    assert memory.draft_weights == 1_235_814_400 * 2 / 4
    # 64 sequences of 8192 tokens would take 42.9 GB of the target's cache and 4.3 of the draft's on each GPU: they
    # do not fit beside 35.9 GB of weights in 79.0, so the rest is shared as 327680 to 32768 bytes a token.
    tokens = int((0.92 * 80 * GIB - 70_553_706_496 / 2 - 1_235_814_400 / 2) / ((327_680 + 32_768) / 4))
    assert memory.cached_tokens == tokens == 478_655
    assert memory.planned_tokens == 64 * 8192
    assert memory.draft_cache == tokens * 32_768 / 4
    assert memory.share == pytest.approx(0.0574, abs=1e-4)


def test_its_sum_is_shown_as_a_table_and_needs_no_warning(tmp_path: Path):
    report = llamas(tmp_path)
    assert report.table.splitlines() == [
        "Memory on each of 4 GPUs",
        "  target's weights, estimated                                                 32.85 GiB   44.6%",
        "  draft's weights, estimated                                                   0.58 GiB    0.8%",
        "  draft's KV cache, 478655 tokens: what fits of 64 sequences of 8192 tokens    3.65 GiB    5.0%",
        "  draft together                                                               4.23 GiB    5.7%",
        "  vLLM may take                                                               73.60 GiB",
    ]
    assert "draft-memory" not in codes(report.findings)


def test_a_plan_that_fits_is_counted_whole(tmp_path: Path):
    memory = summed(llamas(tmp_path, FOUR.replace("64", "8")))
    assert memory.cached_tokens == memory.planned_tokens == 8 * 8192
    assert memory.draft_cache == 8 * 8192 * 32_768 / 4


def test_without_a_length_the_targets_own_counts(tmp_path: Path):
    assert summed(llamas(tmp_path, "--tensor-parallel-size 4 --max-num-seqs 2")).planned_tokens == 2 * 131072


def test_a_draft_on_one_gpu_of_four_is_counted_where_it_is(tmp_path: Path):
    memory = summed(llamas(tmp_path, options={"draft_tensor_parallel_size": 1}))
    assert memory.draft_weights == 1_235_814_400 * 2


def test_pipeline_stages_share_the_target_out_and_the_last_one_carries_the_draft(tmp_path: Path):
    memory = summed(llamas(tmp_path, "--pipeline-parallel-size 4 --max-num-seqs 8 --max-model-len 8192"))
    assert (memory.target_weights, memory.draft_weights) == (70_553_706_496 * 2 / 4, 1_235_814_400 * 2)


@pytest.mark.parametrize(("kind", "size"), [("fp8", 1), ("fp8_e4m3", 1), ("bfloat16", 2), ("auto", 2)])
def test_a_smaller_kind_of_kv_cache_takes_less(tmp_path: Path, kind, size):
    memory = summed(llamas(tmp_path, f"{FOUR.replace('64', '8')} --kv-cache-dtype {kind}"))
    assert memory.draft_cache == 8 * 8192 * 32_768 / 4 * size / 2


def test_a_draft_over_a_tenth_is_a_warning_that_names_the_ways_out(tmp_path: Path):
    target, draft = model(tmp_path / "t", LLAMA_1B), model(tmp_path / "d", LLAMA_1B)
    report = examine(planned(target, draft, gpu_memory=8 * GIB, words="--gpu-memory-utilization 0.9"))
    warned = found(report.findings, "draft-memory")
    assert warned.severity is Severity.WARNING
    assert all(way in warned.remedy for way in ("EAGLE", "MTP", "n-gram"))
    # Twice the same model: half of the memory.
    assert summed(report).share == pytest.approx(0.5, abs=0.001)


def test_weights_that_leave_nothing_are_a_warning(tmp_path: Path):
    warned = found(llamas(tmp_path, "", memory=A100).findings, "memory-full")
    assert "133.7 GiB of each GPU" in warned.text


def test_without_a_gpu_the_bytes_are_told_and_how_to_learn_the_share(tmp_path: Path):
    report = llamas(tmp_path, memory=None)
    assert summed(report).share is None
    noted = found(report.findings, "gpu-unknown")
    assert (noted.severity, "--gpu-memory 80GiB" in noted.remedy) == (Severity.NOTE, True)


@pytest.mark.parametrize(("release", "share"), [("0.9.2", 0.9), ("0.19.1", 0.9), ("0.20.0", 0.92), ("0.33.0", 0.92)])
def test_the_usual_part_of_a_gpu_is_the_releases(tmp_path: Path, release, share):
    assert summed(llamas(tmp_path, "", release=release)).budget == pytest.approx(share * A100)


@pytest.mark.parametrize("method", ["medusa", "mlp_speculator"])
def test_heads_without_attention_take_no_cache(tmp_path: Path, method):
    target, draft = (
        model(tmp_path / "t"),
        model(tmp_path / "d", {"model_type": method}, None, shapes={"head": [64, 64]}),
    )
    memory = summed(examine(planned(target, draft, method=method, gpu_memory=A100, release="0.9.2")))
    assert (memory.draft_cache, memory.draft_weights) == (0, 64 * 64 * 2)


def test_files_are_counted_tensor_by_tensor(tmp_path: Path):
    model(tmp_path, shapes={"embed": [8, 64], "norm": [64]})
    size = weights(find(str(tmp_path), {}))
    assert size is not None
    assert (size.size, size.exact) == ((8 * 64 + 64) * 2, True)


@pytest.mark.parametrize(
    ("dtype", "size"), [("F32", 2), ("F16", 2), ("BF16", 2), ("I32", 4), ("U8", 1), ("F8_E4M3", 1)]
)
def test_numbers_are_counted_as_they_are_loaded(tmp_path: Path, dtype, size):
    model(tmp_path)
    safetensors(tmp_path / "model.safetensors", {"w": [64, 64]}, dtype)
    found_size = weights(find(str(tmp_path), {}))
    assert found_size is not None
    assert found_size.size == 64 * 64 * size


def test_a_dtype_of_32_bits_keeps_them(tmp_path: Path):
    model(tmp_path)
    safetensors(tmp_path / "model.safetensors", {"w": [64, 64]}, "F32")
    wide = weights(find(str(tmp_path), {}), value_bytes=4)
    assert wide is not None
    assert wide.size == 64 * 64 * 4


@pytest.mark.parametrize(("flag", "size"), [("fp8", 1), ("bitsandbytes", 0.5), ("awq", 2)])
def test_quantising_while_loading_shrinks_matrices_but_not_embeddings(tmp_path: Path, flag, size):
    model(tmp_path, shapes={"q_proj": [64, 64], "embed_tokens": [8, 64], "norm": [64]})
    small = weights(find(str(tmp_path), {}), quantization=flag)
    assert small is not None
    assert small.size == 64 * 64 * size + (8 * 64 + 64) * 2


def test_a_quantised_checkpoint_is_counted_as_it_is(tmp_path: Path):
    model(tmp_path, LLAMA | {"quantization_config": {"quant_method": "awq"}})
    safetensors(tmp_path / "model.safetensors", {"qweight": [64, 8]}, "I32")
    stored = weights(find(str(tmp_path), {}), quantization="awq")
    assert stored is not None
    assert stored.size == 64 * 8 * 4


def sharded(folder: Path, *present: str) -> None:
    """An index of two files that hold 1000 bytes, of which those named are there."""
    names = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    write(folder / "model.safetensors.index.json", {"metadata": {"total_size": 1000}, "weight_map": names})
    for name in present:
        safetensors(folder / name, {"a": [8, 8]})


def test_an_index_names_the_files_that_count(tmp_path: Path):
    model(tmp_path)
    sharded(tmp_path, "model-1.safetensors", "model-2.safetensors", "consolidated.safetensors")
    size = weights(find(str(tmp_path), {}))
    assert size is not None
    assert size.size == 2 * 8 * 8 * 2


def test_a_consolidated_copy_is_not_counted_twice(tmp_path: Path):
    model(tmp_path, shapes={"a": [8, 8]})
    safetensors(tmp_path / "consolidated.safetensors", {"a": [8, 8]})
    size = weights(find(str(tmp_path), {}))
    assert size is not None
    assert size.size == 8 * 8 * 2


def test_a_cached_repository_without_its_weights_is_taken_at_its_indexs_word(tmp_path: Path):
    folder = cached(tmp_path, "org/m")
    model(folder)
    sharded(folder, "model-1.safetensors")
    size = weights(find("org/m", {"HF_HUB_CACHE": str(tmp_path)}))
    assert size is not None
    assert (size.size, size.exact) == (1000, False)


def test_a_folder_that_lacks_files_of_its_index_is_broken(tmp_path: Path):
    model(tmp_path)
    sharded(tmp_path, "model-2.safetensors")
    with pytest.raises(MissingFiles, match=r"lacks 1 of the 2 files .* model-1\.safetensors"):
        weights(find(str(tmp_path), {}))


@pytest.mark.parametrize("content", ["{", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 1}}'])
def test_an_index_that_cannot_be_read_is_named(tmp_path: Path, content):
    model(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(UnreadableModel, match=r"index\.json"):
        weights(find(str(tmp_path), {}))


def test_a_truncated_file_is_refused_with_its_place_and_starts_nothing(tmp_path: Path):
    target, draft = model(tmp_path / "t"), model(tmp_path / "d", shapes={"a": [64, 64]})
    file = tmp_path / "d" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    refused = found(examine(planned(target, draft)).findings, "damaged-weights")
    assert (refused.refuses, refused.forcible) == (True, False)
    assert f"{file} is cut off" in refused.text
    with pytest.raises(DamagedFile):
        weights(find(draft, {}))


def test_pickled_weights_count_by_their_files(tmp_path: Path):
    model(tmp_path)
    (tmp_path / "pytorch_model-00001-of-00001.bin").write_bytes(bytes(500))
    size = weights(find(str(tmp_path), {}))
    assert size is not None
    assert (size.size, size.exact) == (500, False)


@pytest.mark.vllm
def test_the_sum_is_what_the_safetensors_package_stored(tmp_path: Path):
    import torch
    from safetensors.torch import load_file, save_file

    model(tmp_path)
    tensors = {"embed": torch.zeros(8, 64, dtype=torch.bfloat16), "q": torch.zeros(64, 64, dtype=torch.float8_e4m3fn)}
    save_file(tensors, tmp_path / "model-1.safetensors")
    save_file({"packed": torch.zeros(64, 8, dtype=torch.int32)}, tmp_path / "model-2.safetensors")
    index = {"embed": "model-1.safetensors", "q": "model-1.safetensors", "packed": "model-2.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    stored = [t for n in (1, 2) for t in load_file(tmp_path / f"model-{n}.safetensors").values()]
    size = weights(find(str(tmp_path), {}))
    assert size is not None
    assert size.size == sum(tensor.numel() * tensor.element_size() for tensor in stored)
