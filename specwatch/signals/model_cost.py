"""What a decode step of a model reads and computes, by its configuration: no weight is looked at.

The formulas are those of decoders as they are built since Llama: attention with grouped keys and values, or with a
latent (multi-head latent attention), gated MLPs, experts in some layers or all. They give the published parameter
counts of Llama 3.1, Mixtral, Qwen 3 and DeepSeek V3; biases and the few norms inside attention are left out, some
0.01 % of the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specwatch.errors import InputError
from specwatch.signals.weight_bits import UNQUANTISED_BITS, quantisation
from specwatch.vllm.preflight.models import Model
from specwatch.vllm.preflight.shape import shape_of

CACHE_BITS = 16.0
"""Of a number in the KV cache, unless ``--kv-cache-dtype`` says less."""
_UNGATED = ("bloom", "falcon", "gpt2", "gpt_neox", "gptj", "mpt", "nemotron", "opt", "phi", "starcoder2")
"""Families whose MLP has two matrices instead of three."""
_STATELESS = ("linear_attention", "mamba", "conv")
_WINDOWED = ("sliding_attention", "chunked_attention")
_LARGEST = 2**40
"""No measure of a model comes near; larger numbers are damage, and would overflow in sums."""


@dataclass(frozen=True)
class Experts:
    """The routed experts of a model, all layers together."""

    count: int
    """In each layer."""
    per_token: int
    """Of them, chosen for each token."""
    size: float
    """Bytes of all of them."""

    def read(self, tokens: int) -> float:
        """Bytes that a step of so many tokens is expected to read, each choosing evenly and on its own.

        A token misses an expert with probability 1 - per_token / count, so count·(1 - (1 - per_token / count)^tokens)
        are hit. Real routers favour some, and tokens of one request choose alike: they read less.
        """
        return self.size * (1.0 - (1.0 - self.per_token / self.count) ** tokens)


@dataclass(frozen=True)
class Cache:
    """What attention reads back of earlier tokens."""

    layers: int
    """That attend to everything before."""
    windowed_layers: int
    """That attend to the last ``window`` tokens only."""
    window: int
    heads: int
    """Key and value heads; 1 where a latent is kept, which every GPU needs whole."""
    values: int
    """Numbers that a head keeps of a token in one layer, keys and values together."""
    query_width: int
    """Numbers that one token's queries are multiplied with, for each token before it and layer."""
    bits: float = CACHE_BITS

    def positions(self, context: int) -> int:
        """Tokens looked back at, added up over the layers."""
        return self.layers * context + self.windowed_layers * min(context, self.window)

    def read(self, context: int, tensor_parallel: int) -> float:
        """Bytes read on each GPU for one sequence. A head is never split: more GPUs than heads keep copies."""
        return self.positions(context) * math.ceil(self.heads / tensor_parallel) * self.values * self.bits / 8

    def operations(self, context: int) -> float:
        """Operations for one token: a multiplication and an addition for each number it is held against."""
        return 2.0 * self.positions(context) * self.query_width


@dataclass(frozen=True)
class ModelCost:
    """What a decode step reads and computes."""

    name: str
    size: float
    """Bytes of all weights."""
    always_read: float
    """Bytes that every step reads whatever its batch: all but experts and an input embedding of its own, of which a
    token needs one row."""
    operations: float
    """For each token: two for every weight that it meets."""
    experts: Experts | None = None
    cache: Cache | None = None
    """None where nothing is known of attention: its part is then left out."""
    compute_bits: float = 16.0
    """Of the numbers that are multiplied."""
    parameters: float = 0.0
    active_parameters: float = 0.0
    """That one token meets, an input embedding of its own left out."""


def from_numbers(parameters: float, active: float | None = None, bits: float = 16.0) -> ModelCost:
    """A model of which only its size is known: every step reads all (or the active) weights, and no KV cache.

    With ``active`` below ``parameters`` the figures hold for one token a step; more tokens meet more experts, and
    how many more depends on a configuration.
    """
    met = parameters if active is None else active
    if not 0 < met <= parameters:
        raise InputError(f"{met:g} active of {parameters:g} parameters: the active ones are a part of all")
    return ModelCost(
        name=f"{parameters / 1e9:g} B parameters",
        size=parameters * bits / 8,
        always_read=met * bits / 8,
        operations=2.0 * met,
        parameters=parameters,
        active_parameters=met,
    )


def from_configuration(
    model: Model, weight_bits: float | None = None, cache_bits: float = CACHE_BITS, compute_bits: float | None = None
) -> ModelCost:
    """A model by its ``config.json``; InputError naming what is missing there.

    ``weight_bits`` replaces what the configuration says of quantised matrices; ``compute_bits`` what they are
    multiplied in.
    """
    kind = quantisation(model.config, model.name, weight_bits)
    layers = _Layers(model)
    dense, routed, met_routed = layers.attention() + layers.dense_mlp(), layers.routed(), layers.routed_per_token()
    table, inside = layers.embedding(), layers.norms_and_routers()
    words = table if layers.tied() else 2 * table
    always = _bytes(layers.attention(), kind.attention_bits) + _bytes(layers.dense_mlp(), kind.bits)
    always += _bytes(table + inside, UNQUANTISED_BITS)
    size = always + _bytes(words - table, UNQUANTISED_BITS) + _bytes(routed, kind.bits)
    active = dense + met_routed + table + inside
    count, per_token = layers.experts()
    return ModelCost(
        name=model.name,
        size=size,
        always_read=always,
        operations=2.0 * active,
        experts=Experts(count, per_token, _bytes(routed, kind.bits)) if count else None,
        cache=layers.cache(cache_bits),
        compute_bits=compute_bits or kind.compute_bits,
        parameters=dense + routed + words + inside,
        active_parameters=active,
    )


def _bytes(parameters: float, bits: float) -> float:
    return parameters * bits / 8


class _Layers:
    """Counts weights from a configuration."""

    def __init__(self, model: Model) -> None:
        self._name, self._config, self._shape = model.name, model.text_config, shape_of(model)
        self._hidden = self._need(self._shape.hidden_size, "hidden_size")
        self._layers = self._need(self._shape.layers, "num_hidden_layers")
        self._heads = self._need(self._shape.heads, "num_attention_heads")
        self._moe_layers = self._count_moe_layers()

    def embedding(self) -> int:
        """Weights of the table of words, which is the output's as well where they are tied."""
        return self._need(self._shape.vocabulary_size, "vocab_size") * self._hidden

    def tied(self) -> bool:
        """Whether input and output share the table, as most Gemma and small models do."""
        usual = str(self._config.get("model_type", "")).startswith("gemma")
        return bool(self._config.get("tie_word_embeddings", usual))

    def norms_and_routers(self) -> int:
        """What quantisation leaves alone inside the layers, and the norm after them."""
        return self._hidden * (2 * self._layers + 1) + self._moe_layers * self._hidden * self.experts()[0]

    def attention(self) -> int:
        """Weights of queries, keys, values and output, all layers."""
        hidden, heads = self._hidden, self._heads
        latent = self._number("kv_lora_rank")
        if not latent:
            size = self._need(self._shape.head_size, "head_dim")
            return (
                self._layers * hidden * size * (2 * heads + 2 * self._need(self._shape.kv_heads, "num_key_value_heads"))
            )
        nope, rope, value = (self._must(key) for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        narrow = self._number("q_lora_rank")
        queries = (hidden + heads * (nope + rope)) * narrow if narrow else hidden * heads * (nope + rope)
        keys = hidden * (latent + rope) + latent * heads * (nope + value)
        return self._layers * (queries + keys + heads * value * hidden)

    def dense_mlp(self) -> int:
        """Weights of MLPs that every token meets: those of layers without experts, and shared experts."""
        plain = self._layers - self._moe_layers
        inner = self._must("intermediate_size", "n_inner", "ffn_dim") if plain else 0
        return self._matrices() * self._hidden * (plain * inner + self._moe_layers * self._shared_inner())

    def routed(self) -> int:
        """Weights of all routed experts."""
        return self._moe_layers * self.experts()[0] * self._expert()

    def routed_per_token(self) -> int:
        """Weights of the routed experts that one token meets."""
        return self._moe_layers * self.experts()[1] * self._expert()

    def experts(self) -> tuple[int, int]:
        """Routed experts in a layer, and how many of them a token meets; 0 and 0 without."""
        count = self._number("n_routed_experts", "num_local_experts", "num_experts")
        if count < 2:
            return 0, 0
        chosen = self._must("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk")
        return count, min(chosen, count)

    def cache(self, bits: float) -> Cache:
        """What attention keeps."""
        full, windowed, window = self._attending()
        latent, rope = self._number("kv_lora_rank"), self._number("qk_rope_head_dim")
        if latent:  # queries are held against latent and rope, and the latent is summed up
            width = self._heads * (2 * latent + rope)
            return Cache(full, windowed, window, 1, latent + rope, width, bits)
        size = self._need(self._shape.head_size, "head_dim")
        kv_heads = self._need(self._shape.kv_heads, "num_key_value_heads")
        return Cache(full, windowed, window, kv_heads, 2 * size, 2 * self._heads * size, bits)

    def _attending(self) -> tuple[int, int, int]:
        """Layers that see everything, layers that see a window, and its length."""
        kinds, window = self._config.get("layer_types"), self._number("sliding_window", "attention_chunk_size")
        if isinstance(kinds, list) and len(kinds) == self._layers:
            windowed = sum(kind in _WINDOWED for kind in kinds) if window else 0
            return sum(kind not in _STATELESS for kind in kinds) - windowed, windowed, window
        if window and self._config.get("use_sliding_window", True) and not self._number("sliding_window_pattern"):
            return 0, self._layers, window
        return self._layers, 0, 0

    def _count_moe_layers(self) -> int:
        if not self.experts()[0]:
            return 0
        listed, first = self._config.get("mlp_only_layers"), self._number("first_k_dense_replace")
        every = self._number("decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step") or 1
        dense = set(listed) if isinstance(listed, list) else set()
        return sum(layer >= first and layer not in dense and (layer + 1) % every == 0 for layer in range(self._layers))

    def _expert(self) -> int:
        inner = self._number("moe_intermediate_size") or self._must("intermediate_size", "ffn_dim")
        return self._matrices() * self._hidden * inner

    def _shared_inner(self) -> int:
        given = self._number("shared_expert_intermediate_size")
        return given or self._number("n_shared_experts") * self._number("moe_intermediate_size")

    def _matrices(self) -> int:
        return 2 if self._config.get("model_type") in _UNGATED else 3

    def _number(self, *keys: str) -> int:
        """The first of these keys that holds a positive whole number; 0 without."""
        for key in keys:
            value = self._config.get(key)
            if type(value) is int and 0 < value < _LARGEST:
                return value
        return 0

    def _must(self, *keys: str) -> int:
        return self._need(self._number(*keys) or None, keys[0])

    def _need(self, value: int | None, key: str) -> int:
        if value is None:
            raise InputError(
                f"{self._name}: its config.json says no {key}, so its weights cannot be counted; give --parameters"
            )
        return value
