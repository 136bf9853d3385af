"""Two random byte-level Llama models that agree on some tokens: made in a second, for tests of what reads models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

VOCABULARY = 259
"""BOS, EOS, PAD and the 256 bytes."""
CONTEXT = 256
NOISE = 0.03
"""Of the draft's weights, as a share of their spread: leaves it the target's choice for about half of the tokens."""


@dataclass(frozen=True)
class Pair:
    """Folders of two models with one tokenizer."""

    target: Path
    draft: Path


def make_pair(folder: Path) -> Pair:
    """Write both: the draft is the target with noise on every weight."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from specwatch.lab.training import byte_tokenizer

    torch.set_num_threads(1)  # more only hinder each other on models this small
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=CONTEXT,
        initializer_range=0.5,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        target, draft = LlamaForCausalLM(config), LlamaForCausalLM(config)
        draft.load_state_dict({name: _near(weight) for name, weight in target.state_dict().items()})
    pair = Pair(folder / "target", folder / "draft")
    for model, place in ((target, pair.target), (draft, pair.draft)):
        model.save_pretrained(place)
        byte_tokenizer().save_pretrained(place)
    return pair


def _near(weight: Any) -> Any:
    import torch

    return weight + NOISE * weight.std() * torch.randn(weight.shape) if weight.dim() > 1 else weight
