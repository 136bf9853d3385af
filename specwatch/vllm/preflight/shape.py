"""The numbers of a model's configuration that decide its memory and what it fits beside."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specwatch.vllm.preflight.models import Model

_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
    "max_target_positions",
)
"""Where configurations of different families keep the longest context, as vLLM looks for it: the least counts."""
_UNSCALED_ROPE = ("default", "su", "longrope", "llama3", "mrope", "deepseek_yarn", "deepseek_llama_scaling")
"""Kinds of scaled position encoding that leave the length in the configuration as it is."""
_STATELESS_LAYERS = ("linear_attention", "mamba", "conv")
"""Kinds of layer that keep a state of fixed size instead of something for every token."""
_LARGEST = 2**40
"""No measure of a model comes near; larger numbers are damage, and would overflow in sums."""
_DENSE = ("llama", "mistral", "qwen2", "qwen3")
"""Families whose size follows from the configuration, by the formula in ``dense_parameters``."""


@dataclass(frozen=True)
class Shape:
    """A model's outer measures; None where the configuration does not tell."""

    layers: int | None
    heads: int | None
    kv_heads: int | None
    head_size: int | None
    hidden_size: int | None
    vocabulary_size: int | None
    longest_context: int | None
    """Tokens that it was made for, as vLLM derives them."""
    latent_size: int | None = None
    """Numbers a token and layer keep with multi-head latent attention, which every GPU keeps whole."""
    cached_layers: int | None = None
    """Layers that keep something for every token."""

    def cache_bytes_per_token(self, tensor_parallel: int, value_bytes: float) -> float | None:
        """Bytes of KV cache a token takes on each GPU: keys and values of every layer; None where unknown.

        A key head is never split: with more GPUs than heads, several keep the same one.
        """
        if not self.cached_layers:
            return None if self.cached_layers is None else 0.0
        if self.latent_size:
            return self.cached_layers * self.latent_size * value_bytes
        if not self.kv_heads or not self.head_size:
            return None
        return 2 * self.cached_layers * math.ceil(self.kv_heads / tensor_parallel) * self.head_size * value_bytes


def shape_of(model: Model) -> Shape:
    """Measures from a model's ``config.json``."""
    config = model.text_config
    hidden, heads = _whole(config, "hidden_size", "n_embd", "d_model"), _whole(config, "num_attention_heads", "n_head")
    layers = _whole(config, "num_hidden_layers", "n_layer", "num_layers")
    latent, rope = _whole(config, "kv_lora_rank"), _whole(config, "qk_rope_head_dim")
    return Shape(
        layers=layers,
        heads=heads,
        kv_heads=_whole(config, "num_key_value_heads", "multi_query_group_num") or heads,
        head_size=_whole(config, "head_dim") or (hidden // heads if hidden and heads else None),
        hidden_size=hidden,
        vocabulary_size=_whole(config, "vocab_size"),
        longest_context=_longest_context(config),
        latent_size=latent + (rope or 0) if latent else None,
        cached_layers=_cached_layers(config, layers),
    )


def dense_parameters(model: Model) -> int | None:
    """Number of weights of a plain dense decoder by its configuration alone; None for any other model.

    Embedding, output, and a layer of four attention matrices, three of the MLP and two norms. Exact for Llama.
    """
    config, shape = model.text_config, shape_of(model)
    inner = _whole(config, "intermediate_size")
    known = (shape.layers, shape.heads, shape.kv_heads, shape.head_size, shape.hidden_size, shape.vocabulary_size)
    if config.get("model_type") not in _DENSE or inner is None or None in known:
        return None
    layers, heads, kv_heads, head_size, hidden, words = (number or 0 for number in known)
    attention = 2 * hidden * heads * head_size + 2 * hidden * kv_heads * head_size
    outside = hidden + words * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return outside + layers * (attention + 3 * hidden * inner + 2 * hidden)


def _whole(config: Mapping[str, Any], *keys: str) -> int | None:
    """The first of these keys that holds a positive whole number."""
    for key in keys:
        value = config.get(key)
        if type(value) is int and 0 < value < _LARGEST:
            return value
    return None


def _longest_context(config: Mapping[str, Any]) -> int | None:
    lengths = [value for key in _LENGTHS if (value := _whole(config, key))]
    least = _whole(config, "model_max_length") or min(lengths, default=None)
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    if least is None or not isinstance(rope, dict):
        return least
    kind, factor = rope.get("rope_type", rope.get("type", "default")), rope.get("factor")
    if kind in _UNSCALED_ROPE or not isinstance(factor, int | float) or not 1 < factor < _LARGEST:
        return least
    if kind == "yarn":  # releases differ in whether the length is scaled already: take the longer reading
        return max(least, int((_whole(rope, "original_max_position_embeddings") or least) * factor))
    return int(least * factor)


def _cached_layers(config: Mapping[str, Any], layers: int | None) -> int | None:
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and layers and len(kinds) == layers:
        return sum(kind not in _STATELESS_LAYERS for kind in kinds)
    return layers
