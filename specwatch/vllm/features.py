"""Which speculation flags, configuration keys, methods and values vLLM has, from and to which release.

Read from vLLM's sources, release by release, and checked against the installed package by tests. A name may
appear twice: draft models were gone from 0.10.0 and came back with 0.15.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from specwatch.vllm.releases import Fact, Release, fact

OLDEST = Release.parse("0.4.1")
"""The first release whose server can speculate."""
NEWEST = Release.parse("0.33.0")
"""The newest release these tables were read from; what comes later is passed on with a note."""
USUAL_TOKENS = 5
"""K to start with: 4 to 5 is where most published gains lie."""
MANY_TOKENS = 8
"""From this K on, a draft token is rarely worth its cost: a chain of K acceptances decays exponentially."""


class Kind(Enum):
    """How a flag's value is written."""

    TEXT = "text"
    INTEGER = "a whole number"
    NUMBER = "a number"
    SWITCH = "no value"
    BOOLEAN = "true or false"
    JSON = "a JSON object"


class Style(Enum):
    """The ways to ask for speculation on vLLM's command line."""

    LEGACY = "a flag for every key, up to 0.8.2"
    JSON = "one JSON object"
    DOTTED = "the object key by key"
    SHORT = "flags for the main keys, and the object"
    PLAN = "specwatch's own names, which no release takes"


@dataclass(frozen=True)
class Flag:
    """One flag of vLLM that concerns speculation, and the configuration key it sets."""

    exists: Fact
    key: str
    """Key of ``--speculative-config`` that means the same; "" where the flag holds the whole object or none."""
    kind: Kind
    style: Style
    aliases: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """The flag with its dashes."""
        return self.exists.name


_GONE = "it left vLLM with 0.8.3, which takes --speculative-config"


def _legacy(name: str, key: str, kind: Kind, since: str, *aliases: str) -> Flag:
    return Flag(fact(name, since, "0.8.3", _GONE), key, kind, Style.LEGACY, aliases)


def _short(name: str, key: str, kind: Kind) -> Flag:
    return Flag(fact(name, "0.22.0"), key, kind, Style.SHORT)


V2_BLOCK_MANAGER = Flag(
    fact("--use-v2-block-manager", "0.4.0", "0.10.0", "it did nothing since 0.6.4 and left with 0.10.0"),
    "",
    Kind.SWITCH,
    Style.LEGACY,
)
V2_BLOCK_MANAGER_NEEDED = fact("--use-v2-block-manager", "0.4.1", "0.6.4", "speculation needs it up to 0.6.3")
SPECULATIVE_CONFIG = Flag(
    # 0.8.2 knows the flag, reads Python literals instead of JSON, and then sends a draft model to an engine
    # that refuses it: there the older flags are the ones that work.
    fact("--speculative-config", "0.8.3"),
    "",
    Kind.JSON,
    Style.JSON,
    ("-sc",),
)
FLAGS = (
    _legacy("--speculative-model", "model", Kind.TEXT, "0.4.1"),
    _legacy("--num-speculative-tokens", "num_speculative_tokens", Kind.INTEGER, "0.4.1"),
    # 0.4.1 has it too but reads it as text and fails on the first comparison.
    _legacy("--speculative-max-model-len", "max_model_len", Kind.INTEGER, "0.4.2"),
    _legacy("--ngram-prompt-lookup-max", "prompt_lookup_max", Kind.INTEGER, "0.4.2"),
    _legacy("--ngram-prompt-lookup-min", "prompt_lookup_min", Kind.INTEGER, "0.4.2"),
    _legacy("--speculative-disable-by-batch-size", "disable_by_batch_size", Kind.INTEGER, "0.4.3"),
    _legacy(
        "--speculative-draft-tensor-parallel-size",
        "draft_tensor_parallel_size",
        Kind.INTEGER,
        "0.5.1",
        "-spec-draft-tp",
    ),
    _legacy("--spec-decoding-acceptance-method", "acceptance_method", Kind.TEXT, "0.5.1"),
    _legacy("--typical-acceptance-sampler-posterior-threshold", "posterior_threshold", Kind.NUMBER, "0.5.1"),
    _legacy("--typical-acceptance-sampler-posterior-alpha", "posterior_alpha", Kind.NUMBER, "0.5.1"),
    _legacy("--disable-logprobs-during-spec-decoding", "disable_logprobs", Kind.BOOLEAN, "0.5.3"),
    _legacy("--speculative-model-quantization", "quantization", Kind.TEXT, "0.5.5"),
    _legacy("--speculative-disable-mqa-scorer", "disable_mqa_scorer", Kind.SWITCH, "0.6.3"),
    V2_BLOCK_MANAGER,
    SPECULATIVE_CONFIG,
    _short("--spec-method", "method", Kind.TEXT),
    _short("--spec-model", "model", Kind.TEXT),
    _short("--spec-tokens", "num_speculative_tokens", Kind.INTEGER),
)

PER_REQUEST_METRICS = fact("--per-request-spec-decode-metrics", "0.29.0")
"""Passed on as it is: it reports on speculation and does not configure it."""

_V0_LEFT = "0.10.0 took the V0 engine away and its successor ran no draft models before 0.15.0"
_ONE_MTP = "0.11.0 calls every built-in prediction head mtp"
METHODS = (
    fact("draft_model", "0.4.1", "0.10.0", _V0_LEFT),
    fact("draft_model", "0.15.0"),
    fact("ngram", "0.4.2"),
    fact("mlp_speculator", "0.5.1", "0.10.0", "it only ever ran on the V0 engine, which 0.10.0 took away"),
    fact("medusa", "0.5.2", "0.33.0", "0.33.0 removed it"),
    fact("eagle", "0.5.5"),
    fact("deepseek_mtp", "0.7.3", "0.11.0", _ONE_MTP),
    fact("eagle3", "0.9.1"),
    fact("ernie_mtp", "0.10.2", "0.11.0", _ONE_MTP),
    fact("qwen3_next_mtp", "0.10.2", "0.11.0", _ONE_MTP),
    fact("mtp", "0.11.0"),
    fact("suffix", "0.11.1"),
    fact("extract_hidden_states", "0.17.0"),
    fact("ngram_gpu", "0.18.0"),
    fact("dflash", "0.20.0"),
    fact("custom_class", "0.22.0"),
    fact("dspark", "0.25.0"),
)

V0_METHODS = (
    fact("draft_model", "0.4.1", "0.10.0"),
    fact("mlp_speculator", "0.5.1", "0.10.0"),
    fact("ngram", "0.4.2", "0.9.0"),
    fact("medusa", "0.5.2", "0.9.0"),
    fact("eagle", "0.5.5", "0.9.0"),
    fact("deepseek_mtp", "0.7.3", "0.9.0"),
)
"""Methods that run on the V0 engine, which reads keys that V1 ignores (0.9: as long as the method is named)."""

NAMED_METHOD_NEEDED = fact("method", "0.9.0", "0.10.0", "0.9 runs it on the slower V0 engine unless it is named")

ALTERNATIVES: Mapping[str, tuple[str, ...]] = {
    "draft_model": ("eagle3", "eagle", "ngram"),
    "mlp_speculator": ("eagle3", "eagle", "draft_model", "ngram"),
    "medusa": ("eagle3", "eagle", "draft_model", "ngram"),
    "eagle3": ("eagle", "draft_model", "ngram"),
    "eagle": ("draft_model", "ngram"),
    "suffix": ("ngram",),
    "ngram_gpu": ("ngram",),
    "dflash": ("eagle3", "ngram"),
    "dspark": ("mtp", "eagle3", "ngram"),
}
"""Nearest methods, best first, where one is missing; others get ngram."""

MODEL_NEEDED = ("draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "dflash", "custom_class")
WITHOUT_DRAFT = ("ngram", "ngram_gpu", "suffix", "extract_hidden_states")
"""Methods that have no draft of their own."""
TOKENS_FROM_MODEL = ("suffix", "mtp", "deepseek_mtp", "ernie_mtp", "qwen3_next_mtp", "mlp_speculator", "dspark")
"""Methods that bring their own K: it may be left out."""

SEQUENTIAL = ("draft_model", "eagle", "eagle3", "mtp", "deepseek_mtp", "ernie_mtp", "qwen3_next_mtp")
"""Methods whose draft costs one more pass for every further token."""

METHOD_BY_NAME = (
    ("eagle-", "eagle"),
    ("eagle3", "eagle3"),
    ("dflash", "dflash"),
    ("dspark", "dspark"),
    ("medusa", "medusa"),
)
"""Part of a draft's name (lower case) that tells its method; vLLM goes by the first four itself."""

KEYS = (
    fact("method", "0.8.2"),
    fact("model", "0.4.1"),
    fact("num_speculative_tokens", "0.4.1"),
    fact("max_model_len", "0.4.2"),
    fact("prompt_lookup_max", "0.4.2"),
    fact("prompt_lookup_min", "0.4.2"),
    fact("disable_by_batch_size", "0.4.3", "0.17.0", "the V1 engine never read it and 0.17.0 removed it"),
    fact("draft_tensor_parallel_size", "0.5.1"),
    fact("acceptance_method", "0.5.1", "0.10.0", "typical acceptance was part of the V0 engine"),
    fact("posterior_threshold", "0.5.1", "0.10.0", "it belongs to typical acceptance, part of the V0 engine"),
    fact("posterior_alpha", "0.5.1", "0.10.0", "it belongs to typical acceptance, part of the V0 engine"),
    fact("disable_logprobs", "0.5.3", "0.11.1", "the V1 engine never switched log probabilities off"),
    fact("quantization", "0.5.5"),
    fact("disable_mqa_scorer", "0.6.3", "0.10.0", "it chose between two scorers of the V0 engine"),
    # 0.8.2 has these two only in the JSON that it misreads.
    fact("revision", "0.8.3"),
    fact("code_revision", "0.8.3"),
    fact("speculative_token_tree", "0.9.0", "0.21.0", "0.21.0 dropped draft trees"),
    fact("enforce_eager", "0.11.0"),
    fact("disable_padded_drafter_batch", "0.11.0"),
    fact("suffix_decoding_max_tree_depth", "0.11.1"),
    fact("suffix_decoding_max_cached_requests", "0.11.1"),
    fact("suffix_decoding_max_spec_factor", "0.11.1"),
    fact("suffix_decoding_min_token_prob", "0.11.1"),
    fact("parallel_drafting", "0.16.0"),
    fact("draft_load_config", "0.17.0"),
    fact("use_local_argmax_reduction", "0.17.0"),
    fact("rejection_sample_method", "0.18.0"),
    fact("moe_backend", "0.19.0"),
    fact("synthetic_acceptance_rate", "0.19.0", "0.20.0", "0.20.0 has synthetic_acceptance_rates in its place"),
    fact("synthetic_acceptance_rates", "0.20.0"),
    fact("synthetic_acceptance_length", "0.20.0"),
    fact("draft_sample_method", "0.21.0"),
    fact("attention_backend", "0.21.0"),
    fact("num_speculative_tokens_per_batch_size", "0.24.0"),
    fact("use_heterogeneous_vocab", "0.25.0"),
    fact("kv_cache_dtype", "0.26.0"),
    fact("enable_adaptive_verification", "0.28.0"),
    fact("dspark_draft_topk", "0.28.0"),
    fact("index_share_for_mtp_iteration", "0.29.0"),
    fact("disable_eagle_block_drop", "0.30.0"),
    fact("fly_window_size", "0.33.0"),
    fact("fly_entropy_threshold", "0.33.0"),
    fact("fly_entropy_top_k", "0.33.0"),
    fact("xpress_topc", "0.33.0"),
    fact("draft_lm_head_quantization", "0.33.0"),
    fact("disable_lookahead_block_hashes", "0.33.0"),
)

HARMLESS_WHEN_GONE = ("disable_logprobs", "disable_mqa_scorer")
"""Keys that can be left out where they are gone: the engine has nothing left that they would change."""

_NEW_VALUES = "0.21.0 renamed the values: standard, with draft_sample_method for how the draft samples"
VALUES: Mapping[str, tuple[Fact, ...]] = {
    "acceptance_method": (
        fact("rejection_sampler", "0.5.1", "0.10.0"),
        fact("typical_acceptance_sampler", "0.5.1", "0.10.0"),
    ),
    "rejection_sample_method": (
        fact("strict", "0.18.0", "0.21.0", _NEW_VALUES),
        fact("probabilistic", "0.18.0", "0.21.0", _NEW_VALUES),
        fact("synthetic", "0.19.0"),
        fact("standard", "0.21.0"),
        fact("block", "0.25.0"),
        fact("fly", "0.33.0"),
    ),
    "draft_sample_method": (
        fact("greedy", "0.21.0"),
        fact("gumbel", "0.21.0", "0.22.0", "0.22.0 calls it probabilistic"),
        fact("probabilistic", "0.22.0"),
    ),
}
"""Values of the keys that take one of a few words."""

RENAMED_VALUES = (("draft_sample_method", "gumbel", "probabilistic"),)
"""Key and two names of one value: whichever the release knows is written."""


_NO_SCHEDULE = "vLLM switches the schedule off there and goes on drafting; leave it out, or choose another method"
SCHEDULE_UNHEEDED = {name: fact(name, "0.33.0", "", _NO_SCHEDULE) for name in ("suffix", "custom_class", "ngram_gpu")}
"""Methods with which a release does not follow num_speculative_tokens_per_batch_size."""


@dataclass(frozen=True)
class Conflict:
    """A flag that a release cannot have together with speculation when its number is above 1."""

    exists: Fact
    aliases: tuple[str, ...]
    remedy: str
    v0_only: bool = False


CONFLICTS = (
    Conflict(
        fact(
            "--data-parallel-size",
            "0.10.0",
            "0.11.0",
            "it crashes at startup, counting speculation for several engines (vLLM issue 23776)",
        ),
        ("-dp",),
        "start one server per replica behind a load balancer, or take vLLM 0.11.0 or newer",
    ),
    Conflict(
        fact(
            "--pipeline-parallel-size",
            "0.6.6",
            "0.10.0",
            "the V0 engine raises NotImplementedError for speculation with pipeline parallelism",
        ),
        ("-pp",),
        "use --tensor-parallel-size instead",
        v0_only=True,
    ),
)
