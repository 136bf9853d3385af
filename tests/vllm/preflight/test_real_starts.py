"""What becomes of starts that preflight would have spared: a real vLLM 0.32 on models that no check has seen."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from specwatch.lab.child import free_port
from specwatch.lab.stage import CPU_ENVIRONMENT
from tests.support.processes import Running, running

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

START_SECONDS = 600.0
SMALL = ("--max-model-len", "256", "--max-num-seqs", "4", "--enforce-eager", "--no-sidecar", "--host", "127.0.0.1")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """A folder of models with random weights: a target, one with mixed numbers, a cut one, a head of another size."""
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    from specwatch.lab.training import byte_tokenizer

    place: Path = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    tokenizer = byte_tokenizer()
    size = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2}
    common = {"vocab_size": len(tokenizer), "intermediate_size": 128, "max_position_embeddings": 512, "eos_token_id": 1}
    target = LlamaForCausalLM(LlamaConfig(**common, **size))
    target.save_pretrained(place / "target")
    tokenizer.save_pretrained(place / "target")

    shutil.copytree(place / "target", place / "cut")
    weights = place / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])

    # The same model under other numbers: whoever speaks its numbers hears the same words.
    mixed = torch.cat([torch.arange(3), 3 + torch.randperm(len(tokenizer) - 3)])
    shutil.copytree(place / "target", place / "permuted")
    tensors = load_file(place / "target" / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = torch.empty_like(tensors[name]).index_copy(0, mixed, tensors[name])
    save_file(tensors, place / "permuted" / "model.safetensors", metadata={"format": "pt"})
    file = place / "permuted" / "tokenizer.json"
    content = json.loads(file.read_text())
    content["model"]["vocab"] = {word: int(mixed[n]) for word, n in content["model"]["vocab"].items()}
    file.write_text(json.dumps(content))

    narrow = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 1, "num_key_value_heads": 1}
    head = LlamaForCausalLM(LlamaConfig(**common, **narrow))
    layer = {name.removeprefix("model."): tensor for name, tensor in head.state_dict().items()}
    # What heads are published without: their first norm, their last, and their own output.
    kept = {name: t for name, t in layer.items() if name.startswith(("layers", "embed")) and "input_layer" not in name}
    head.config.architectures = ["LlamaForCausalLM"]
    head.config.save_pretrained(place / "head")
    save_file(kept | {"fc.weight": torch.zeros(32, 64)}, place / "head" / "model.safetensors")
    return place


@contextmanager
def launched(
    models: Path, log: Path, draft: str, *words: str, method: str = "draft_model"
) -> Iterator[tuple[Running, str]]:
    """``specwatch launch`` with one of these drafts, and the address where vLLM will serve."""
    port = str(free_port())
    config = json.dumps({"method": method, "model": str(models / draft), "num_speculative_tokens": 3})
    target = ("--model", str(models / "target"), "--served-model-name", "m", "--speculative-config", config)
    command = [sys.executable, "-m", "specwatch", "launch", *target, *SMALL, "--port", port, *words]
    with running(command, log, CPU_ENVIRONMENT) as program:
        yield program, f"http://127.0.0.1:{port}"


def complete(url: str) -> requests.Response:
    """Thirty tokens at temperature 0."""
    asked = {"model": "m", "prompt": "def f(x):", "max_tokens": 30, "temperature": 0, "ignore_eos": True}
    return requests.post(f"{url}/v1/completions", json=asked, timeout=120)


def serving(url: str) -> bool:
    try:
        return requests.get(f"{url}/health", timeout=2).ok
    except requests.RequestException:
        return False


@pytest.mark.parametrize(("draft", "method"), [("cut", "draft_model"), ("head", "eagle"), ("permuted", "draft_model")])
def test_none_of_them_gets_as_far_as_vllm(models, tmp_path, draft, method):
    with launched(models, tmp_path / "log", draft, method=method) as (program, _):
        assert program.exit_code(60) == 2
        assert "specwatch │ vLLM 0.32" not in program.output()
        assert "Traceback" not in program.output()


def test_a_head_for_another_model_brings_vllm_down_at_its_first_request(models, tmp_path):
    with launched(models, tmp_path / "log", "head", "--no-preflight", method="eagle") as (program, url):
        program.until("vLLM serves", lambda: serving(url), START_SECONDS)
        assert complete(url).status_code == 500
        assert "The expanded size of the tensor (32) must match the existing size (64)" in program.output()


def test_a_draft_with_mixed_numbers_is_served_by_force_and_hardly_ever_accepted(models, tmp_path):
    with launched(models, tmp_path / "log", "permuted", "--force") as (program, url):
        program.until("vLLM serves", lambda: serving(url), START_SECONDS)
        assert "--force: goes on although vocabulary-differs is refused" in program.output()
        assert complete(url).ok
        page = requests.get(f"{url}/metrics", timeout=120).text
    drafted, accepted = (
        float(re.search(rf"^vllm:spec_decode_num_{name}_tokens_total{{.*}} (.+)$", page, re.MULTILINE)[1])
        for name in ("draft", "accepted")
    )
    assert drafted >= 50
    assert accepted / drafted < 0.1
