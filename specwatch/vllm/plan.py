"""A launch plan: what to serve and how to speculate, in names that hold for every release of vLLM.

A plan comes from a YAML file, environment variables and flags, and is compiled like any command line. Its names are
those of ``--speculative-config``; where such a name could be the target's as well, it says that it is the draft's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from specwatch.errors import InputError
from specwatch.vllm.arguments import present
from specwatch.vllm.features import FLAGS, KEYS, WITHOUT_DRAFT, Style
from specwatch.vllm.restarts import Restarts
from specwatch.vllm.secrets import SECRET_FLAGS
from specwatch.vllm.speculation import CommandLine, Note, Speculation

DRAFT_KEYS = (
    "max_model_len",
    "quantization",
    "revision",
    "code_revision",
    "enforce_eager",
    "moe_backend",
    "attention_backend",
    "kv_cache_dtype",
)
"""Keys of ``--speculative-config`` that vLLM also has for the target: here they begin with ``draft_``."""
READY_TIMEOUT = 1800.0
"""Seconds: 140 GB of weights over a 1 Gbit/s network take 1120, compiling comes on top."""


def _no_switch(value: Any) -> Any:
    """``K: yes`` in YAML is true, which Python would take for 1."""
    if isinstance(value, bool):
        raise ValueError(f"a whole number is needed, not {str(value).lower()}")
    return value


Count = Annotated[int, BeforeValidator(_no_switch), Field(ge=1)]
Size = Annotated[int, BeforeValidator(_no_switch), Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(min_length=1)]


class LaunchPlan(BaseModel):
    """What ``specwatch launch`` is asked for. None: not said, vLLM's own default holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    elsewhere: ClassVar[str] = "vLLM's own options stand under vllm"
    """Told beside an unknown key."""

    target: Text | None = None
    draft: Text | None = None
    method: Text | None = None
    num_speculative_tokens: Count | None = None
    max_spec_concurrency: Count | None = None
    """Running requests up to which it may draft."""
    calibration: Path | None = None
    """A measurement to take K by batch size from."""

    # The other keys of --speculative-config. Their meaning, and the releases that have them, are vLLM's.
    acceptance_method: Text | None = None
    disable_by_batch_size: Annotated[int, BeforeValidator(_no_switch), Field(ge=2)] | None = None
    disable_eagle_block_drop: bool | None = None
    disable_logprobs: bool | None = None
    disable_lookahead_block_hashes: bool | None = None
    disable_mqa_scorer: bool | None = None
    disable_padded_drafter_batch: bool | None = None
    draft_attention_backend: Text | None = None
    draft_code_revision: Text | None = None
    draft_enforce_eager: bool | None = None
    draft_kv_cache_dtype: Text | None = None
    draft_lm_head_quantization: Text | None = None
    draft_load_config: dict[str, Any] | None = None
    draft_max_model_len: Count | None = None
    draft_moe_backend: Text | None = None
    draft_quantization: Text | None = None
    draft_revision: Text | None = None
    draft_sample_method: Text | None = None
    draft_tensor_parallel_size: Count | None = None
    dspark_draft_topk: Count | None = None
    enable_adaptive_verification: bool | None = None
    fly_entropy_threshold: float | None = None
    fly_entropy_top_k: Count | None = None
    fly_window_size: Count | None = None
    index_share_for_mtp_iteration: bool | None = None
    num_speculative_tokens_per_batch_size: list[list[int]] | None = None
    parallel_drafting: bool | None = None
    posterior_alpha: float | None = None
    posterior_threshold: float | None = None
    prompt_lookup_max: Count | None = None
    prompt_lookup_min: Count | None = None
    rejection_sample_method: Text | None = None
    speculative_token_tree: Text | None = None
    suffix_decoding_max_cached_requests: Size | None = None
    suffix_decoding_max_spec_factor: Annotated[float, Field(ge=0)] | None = None
    suffix_decoding_max_tree_depth: Count | None = None
    suffix_decoding_min_token_prob: Share | None = None
    synthetic_acceptance_length: Annotated[float, Field(ge=1)] | None = None
    synthetic_acceptance_rate: Share | None = None
    synthetic_acceptance_rates: list[Share] | None = None
    use_heterogeneous_vocab: bool | None = None
    use_local_argmax_reduction: bool | None = None
    xpress_topc: Count | None = None
    speculative_config: dict[str, Any] = {}
    """Keys that have no name above, under vLLM's own."""

    vllm: dict[str, Any] = {}
    """Every other option of vLLM, without its dashes."""

    vllm_version: Text | None = None
    ready_timeout: Annotated[float, Field(gt=0)] = READY_TIMEOUT
    sidecar: bool = True
    sidecar_listen: Text = "127.0.0.1:9108"
    sidecar_config: Path | None = None
    restart: Literal["never", "on-failure"] = "never"
    max_restarts: Size = Restarts.limit
    restart_delay: Annotated[float, Field(gt=0, le=Restarts.longest)] = Restarts.delay
    api_key_file: Path | None = None
    hf_token_file: Path | None = None

    @property
    def describes_server(self) -> bool:
        """Whether it says what to serve or how to draft, and not only how to launch that."""
        return not self.model_fields_set <= _ABOUT_LAUNCH

    @property
    def restarts(self) -> Restarts | None:
        """When to start vLLM again; None: never."""
        return None if self.restart == "never" else Restarts(self.max_restarts, self.restart_delay)

    @field_validator("vllm")
    @classmethod
    def _only_others(cls, options: dict[str, Any]) -> dict[str, Any]:
        wrong = [problem for name, value in options.items() if (problem := _misplaced(flag_of(name), value))]
        if wrong:
            raise ValueError("; ".join(wrong))
        return options


_ABOUT_LAUNCH = {
    *("max_spec_concurrency", "calibration"),
    *("vllm_version", "ready_timeout", "sidecar", "sidecar_listen", "sidecar_config"),
    *("restart", "max_restarts", "restart_delay", "api_key_file", "hf_token_file"),
}
"""Entries that leave a command line beside them in its own words."""


def flag_of(name: str) -> str:
    """``tensor_parallel_size`` and ``--tensor-parallel-size`` as vLLM's flag; dotted keys stay as they are."""
    head, dot, keys = name.removeprefix("--").partition(".")
    return "--" + head.replace("_", "-") + dot + keys


_OF_SPECULATION = {name: flag for flag in FLAGS for name in (flag.name, *flag.aliases)}


def _misplaced(flag: str, value: Any) -> str:
    """Why an option cannot stand under ``vllm``; "" where it can."""
    known = _OF_SPECULATION.get(flag.partition(".")[0])
    if flag in ("--model", "--model-tag"):
        return "model is called target, one level up"
    if flag in SECRET_FLAGS:
        own = f"{flag[2:].replace('-', '_')}_file"
        return f"{flag[2:]} is a secret, which ps would show: put it into a file, and name that as {own} one level up"
    if known is not None:
        own = own_name(known.key) if known.key else "speculative_config"
        return f"{flag[2:]} is about speculation: write {own} one level up"
    return f"{flag[2:]} has no value: leave it out for vLLM's default" if value is None else ""


def own_name(key: str) -> str:
    """The plan's name for a key of ``--speculative-config``."""
    if key == "model":
        return "draft"
    return f"draft_{key}" if key in DRAFT_KEYS else key


def entries(speculation: Speculation) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a command line asks of speculation as entries of a plan, and the keys that a plan has no name for."""
    named = {own_name(key): value for key, value in speculation.config().items()}
    known = {name: value for name, value in named.items() if name in LaunchPlan.model_fields}
    return known, {key: value for key, value in speculation.options.items() if own_name(key) not in known}


def merged(line: CommandLine, plan: LaunchPlan, unnamed: Mapping[str, Any]) -> CommandLine:
    """A plan and the command line beside it as one command line; the latter's own options win.

    The plan already holds what the command line says by names that a plan has; ``unnamed`` are the other keys.
    """
    speculation, notes = _speculation(plan, unnamed)
    if line.file is not None and speculation is not None:
        raise InputError(f"speculation is asked for in {line.file} and in the plan: keep one of them")
    own = [word for option in plan.vllm.items() for word in _words(*option) if not _given(option[0], line.rest)]
    target = ["--model", plan.target] if plan.target and not present(line.rest, "--model") else []
    return replace(
        line,
        words=(*target, *own, *line.rest),
        rest=(*target, *own, *line.rest),
        place=len(target) + len(own),
        speculation=speculation,
        styles=line.styles | {Style.PLAN},
        notes=(*line.notes, *notes),
    )


def _speculation(plan: LaunchPlan, unnamed: Mapping[str, Any]) -> tuple[Speculation | None, list[Note]]:
    options = {fact.name: getattr(plan, own_name(fact.name), None) for fact in KEYS}
    for key in ("model", "method", "num_speculative_tokens"):
        options.pop(key)
    options = {key: value for key, value in options.items() if value is not None}
    twice = sorted(plan.speculative_config.keys() & options.keys())
    if twice:
        raise InputError(f"{twice[0]} is given twice: as {own_name(twice[0])} and under speculative_config")
    options |= dict(plan.speculative_config) | dict(unnamed)
    asked = Speculation(plan.method, plan.draft, plan.num_speculative_tokens, options)
    if not asked.config():
        return None, []
    if plan.draft is None or plan.method not in WITHOUT_DRAFT:
        return asked, []
    note = Note("draft", f"draft {plan.draft} is left out: method {plan.method} needs none")
    return replace(asked, model=None), [note]


def _given(name: str, words: tuple[str, ...]) -> bool:
    """Whether the command line has an option of the plan too, perhaps switched the other way."""
    flag = flag_of(name)
    return present(words, flag, "--no-" + flag[2:])


def _words(name: str, value: Any) -> list[str]:
    """One option as vLLM's parser reads it; true and false are the two forms of a switch."""
    flag = flag_of(name)
    if isinstance(value, bool):
        return [flag if value else "--no-" + flag[2:]]
    if isinstance(value, list):
        return [flag, *map(str, value)]
    return [flag, json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)]
