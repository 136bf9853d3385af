"""The tables against vLLM's own sources: what SpeculativeConfig holds in nine releases, read from their wheels."""

from __future__ import annotations

import pytest

from specwatch.vllm import features
from specwatch.vllm.releases import Fact, Release, names

SUFFIX = {f"suffix_decoding_{end}" for end in ("max_tree_depth", "max_cached_requests", "max_spec_factor")}
KEYS_0_8_5 = {
    "method",
    "model",
    "num_speculative_tokens",
    "acceptance_method",
    "code_revision",
    "disable_by_batch_size",
    "disable_logprobs",
    "disable_mqa_scorer",
    "draft_tensor_parallel_size",
    "max_model_len",
    "posterior_alpha",
    "posterior_threshold",
    "prompt_lookup_max",
    "prompt_lookup_min",
    "quantization",
    "revision",
}
KEYS_0_9_2 = KEYS_0_8_5 | {"speculative_token_tree"}
KEYS_0_10_2 = KEYS_0_9_2 - {"acceptance_method", "disable_mqa_scorer", "posterior_alpha", "posterior_threshold"}
KEYS_0_11_2 = (
    KEYS_0_10_2 | SUFFIX | {"disable_padded_drafter_batch", "enforce_eager", "suffix_decoding_min_token_prob"}
) - {"disable_logprobs"}
KEYS_0_17_1 = (KEYS_0_11_2 | {"draft_load_config", "parallel_drafting", "use_local_argmax_reduction"}) - {
    "disable_by_batch_size"
}
KEYS_0_21_0 = (
    KEYS_0_17_1
    | {"attention_backend", "draft_sample_method", "moe_backend", "rejection_sample_method"}
    | {"synthetic_acceptance_length", "synthetic_acceptance_rates"}
) - {"speculative_token_tree"}
KEYS_0_24_0 = KEYS_0_21_0 | {"num_speculative_tokens_per_batch_size"}
KEYS = {
    "0.8.5": KEYS_0_8_5,
    "0.9.2": KEYS_0_9_2,
    "0.10.2": KEYS_0_10_2,
    "0.11.2": KEYS_0_11_2,
    "0.15.1": KEYS_0_11_2,
    "0.17.1": KEYS_0_17_1,
    "0.21.0": KEYS_0_21_0,
    "0.24.0": KEYS_0_24_0,
}
METHODS_0_8_5 = {"ngram", "eagle", "medusa", "mlp_speculator", "draft_model"}
METHODS_0_11_2 = METHODS_0_8_5 | {"eagle3", "mtp", "suffix"}
METHODS = {
    "0.8.5": METHODS_0_8_5,
    "0.9.2": METHODS_0_8_5 | {"eagle3", "deepseek_mtp"},
    "0.10.2": METHODS_0_8_5 | {"eagle3", "deepseek_mtp", "ernie_mtp", "qwen3_next_mtp"},
    "0.11.2": METHODS_0_11_2,
    "0.15.1": METHODS_0_11_2,
    "0.17.1": METHODS_0_11_2 | {"extract_hidden_states"},
    "0.21.0": METHODS_0_11_2 | {"extract_hidden_states", "ngram_gpu", "dflash"},
    "0.24.0": METHODS_0_11_2 | {"extract_hidden_states", "ngram_gpu", "dflash", "custom_class"},
}
LISTED_BUT_BROKEN = {"draft_model", "mlp_speculator"}
"""Methods that the type still lists in releases whose engine has nothing to run them."""
ABSENT_FROM_THE_LIST = {"0.8.5": {"deepseek_mtp"}}
"""0.8.5 runs DeepSeek's head (since 0.7.3), recognises it by its model and does not list it."""


@pytest.mark.parametrize("release", KEYS)
def test_keys_are_those_of_the_source(release):
    assert set(names(features.KEYS, Release.parse(release))) == KEYS[release]


@pytest.mark.parametrize("release", METHODS)
def test_methods_are_those_of_the_source(release):
    known = set(names(features.METHODS, Release.parse(release)))
    listed = METHODS[release] | ABSENT_FROM_THE_LIST.get(release, set())
    assert known | LISTED_BUT_BROKEN == listed | LISTED_BUT_BROKEN


@pytest.mark.parametrize(
    ("release", "methods"),
    [
        ("0.9.2", {"draft_model", "mlp_speculator"}),
        ("0.10.0", set()),
        ("0.14.1", set()),
        ("0.15.0", {"draft_model"}),
        ("0.33.0", {"draft_model"}),
    ],
)
def test_draft_models_pause_with_the_v0_engine_and_mlp_speculators_end_with_it(release, methods):
    assert LISTED_BUT_BROKEN & set(names(features.METHODS, Release.parse(release))) == methods


@pytest.mark.parametrize(
    ("release", "rejection", "draft"),
    [
        ("0.17.0", set(), set()),
        ("0.18.0", {"strict", "probabilistic"}, set()),
        ("0.19.0", {"strict", "probabilistic", "synthetic"}, set()),
        ("0.21.0", {"standard", "synthetic"}, {"greedy", "gumbel"}),
        ("0.24.0", {"standard", "synthetic"}, {"greedy", "probabilistic"}),
        ("0.32.0", {"standard", "synthetic", "block"}, {"greedy", "probabilistic"}),
        ("0.33.0", {"standard", "synthetic", "block", "fly"}, {"greedy", "probabilistic"}),
    ],
)
def test_sampling_words_are_those_of_the_release(release, rejection, draft):
    at = Release.parse(release)
    assert set(names(features.VALUES["rejection_sample_method"], at)) == rejection
    assert set(names(features.VALUES["draft_sample_method"], at)) == draft


def all_facts() -> list[Fact]:
    values = [fact for facts in features.VALUES.values() for fact in facts]
    flags = [flag.exists for flag in features.FLAGS]
    return [*features.KEYS, *features.METHODS, *values, *flags, *features.V0_METHODS]


def test_every_fact_ends_after_it_began_and_says_why_it_ended():
    for fact in all_facts():
        assert fact.until is None or fact.since < fact.until
    for fact in (*features.KEYS, *features.METHODS):
        assert fact.until is None or fact.reason, fact.name


def test_every_flag_sets_a_key_that_exists_as_long_as_the_flag():
    keys = {fact.name: fact for fact in features.KEYS if fact.name != "method"}
    for flag in features.FLAGS:
        if flag.key in keys:
            assert keys[flag.key].since <= flag.exists.since, flag.name
            assert keys[flag.key].until is None or flag.exists.until <= keys[flag.key].until, flag.name


def test_alternatives_are_methods():
    known = {fact.name for fact in features.METHODS}
    assert set(features.ALTERNATIVES) <= known
    assert {name for offered in features.ALTERNATIVES.values() for name in offered} <= known
