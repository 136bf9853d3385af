"""Model folders small enough to write in a test: a configuration, a tokenizer, weights of zeros."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specwatch.vllm.preflight.findings import Finding
from specwatch.vllm.preflight.planned_start import PlannedStart
from specwatch.vllm.releases import Release
from specwatch.vllm.speculation import Speculation
from tests.support.checkpoints import safetensors

WORDS = ("<s>", "</s>", "<pad>", "Ġthe", "Ġcat", "Ġsat", "Ġon", "Ġmat")
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
LLAMA: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}
LLAMA_70B: Mapping[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rope_scaling": {"factor": 8.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
}
"""The published configuration of Llama 3.1 70B, as far as memory and lengths go."""
LLAMA_1B: Mapping[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}
"""The same of Llama 3.2 1B."""


def model(
    folder: Path,
    config: Mapping[str, Any] = LLAMA,
    words: Sequence[str] | None = WORDS,
    special: Mapping[str, str] = SPECIAL,
    shapes: Mapping[str, list[int]] | None = None,
) -> str:
    """Write a model: its words in the order of their numbers, those of ``special`` as added tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "config.json", {"vocab_size": len(words or WORDS)} | dict(config))
    if words is not None:
        added = [{"id": words.index(word), "content": word, "special": True} for word in special.values()]
        vocabulary = {word: number for number, word in enumerate(words)}
        write(folder / "tokenizer.json", {"added_tokens": added, "model": {"type": "BPE", "vocab": vocabulary}})
        write(folder / "tokenizer_config.json", special)
    if shapes is not None:
        safetensors(folder / "model.safetensors", dict(shapes))
    return str(folder)


def write(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


def cached(hub: Path, name: str, commit: str = "0" * 40, revision: str = "main") -> Path:
    """The folder of a repository's snapshot in a Hugging Face cache, its branch pointing to it."""
    repository = hub / f"models--{name.replace('/', '--')}"
    (repository / "refs" / revision).parent.mkdir(parents=True, exist_ok=True)
    (repository / "refs" / revision).write_text(commit)
    return repository / "snapshots" / commit


def planned(
    target: str, draft: str | None = None, *, release: str = "0.32.0", method: str = "draft_model", **more: Any
) -> PlannedStart:
    """A plan with a draft and five draft tokens; ``options`` are other keys of the speculation, ``words`` flags."""
    options, tokens = more.pop("options", {}), more.pop("tokens", 5)
    asked = Speculation(method, draft, tokens, options) if method else None
    words = str(more.pop("words", "")).split()
    # No GPU of the machine that runs the test, and nothing of its Hugging Face cache.
    environment = {"HF_HUB_CACHE": "/no/such/cache"} | more.pop("environment", {})
    settings = {"installed": False} | more
    return PlannedStart(Release.parse(release), target, words, asked, environment=environment, **settings)


def found(findings: Sequence[Finding], code: str) -> Finding:
    """The one finding of that code."""
    (finding,) = [finding for finding in findings if finding.code == code]
    return finding


def codes(findings: Sequence[Finding]) -> list[str]:
    return [finding.code for finding in findings]
