"""Which metrics vLLM has, from and to which release, on which engine, and what came in their place.

Read from the sources of 48 releases (0.4.2 to 0.33.0) and checked against captured pages by tests. Where two
releases that were compared lie apart, a metric is dated by the later one. A metric that vLLM hides unless it is
started with ``--show-hidden-metrics-for-version`` counts as gone, for no page shows it by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache

from specwatch.vllm.releases import Fact, Release, fact

PREFIX = "vllm:"


class Type(Enum):
    """What Prometheus takes a family for."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Engine(Enum):
    """vLLM's two engines; 0.11.0 dropped the first."""

    V0 = "V0"
    V1 = "V1"


EITHER_ENGINE = fact("either engine", "0.8.0", "0.11.0", "V1 is the default, V0 serves what V1 cannot yet")
"""Releases whose servers run one engine or the other, by model, method and VLLM_USE_V1."""


@dataclass(frozen=True)
class Family:
    """One metric of one engine. Counters are named without ``_total``, as vLLM's sources mostly have them."""

    exists: Fact
    type: Type
    engine: Engine
    renamed: str = ""
    """The family that holds the same under another name, "" where there is none."""
    instead: str = ""
    """PromQL or words for what to ask instead, where that is no plain new name; or what to know of the new one."""

    @property
    def name(self) -> str:
        """The family's name, with ``vllm:``."""
        return self.exists.name

    @property
    def exposed(self) -> tuple[str, ...]:
        """Names of the samples on a page that hold values."""
        return tuple(self.name + suffix for suffix in SUFFIXES[self.type])

    @property
    def created(self) -> str:
        """The sample that holds the time of the series' start; "" for a gauge, which has none."""
        return "" if self.type is Type.GAUGE else f"{self.name}_created"


SUFFIXES: Mapping[Type, tuple[str, ...]] = {
    Type.COUNTER: ("_total",),
    Type.GAUGE: ("",),
    Type.HISTOGRAM: ("_bucket", "_sum", "_count"),
}
"""What Prometheus' text format puts behind a family's name."""

_RATE = "sum by (job, instance, model_name) (rate({}[5m]))"
_ACCEPTED = _RATE.format('vllm:spec_decode_num_accepted_tokens_total{engine!=""}')
_DRAFTED = _RATE.format('vllm:spec_decode_num_draft_tokens_total{engine!=""}')
_DRAFTS = _RATE.format('vllm:spec_decode_num_drafts_total{engine!=""}')
_HIT = "sum by (job, instance, model_name) (rate(vllm:prefix_cache_{}_total[5m]))"
_NO_STEP_TIME = "V1 never measured it; vllm:inter_token_latency_seconds is a step's time, as its requests see it"

# Name, type, then since which release on V0 and on V1. The names of the prefix cache's counters and of the cache's
# usage changed in 0.9.2; 0.11.0 hid the old ones and 0.12.0 removed them.
_BOTH: tuple[tuple[str, Type, str, str], ...] = (
    ("num_requests_running", Type.GAUGE, "0.4.1", "0.7.1"),
    ("num_requests_waiting", Type.GAUGE, "0.4.1", "0.7.1"),
    ("cache_config_info", Type.GAUGE, "0.4.1", "0.8.0"),
    ("lora_requests_info", Type.GAUGE, "0.6.4", "0.8.0"),
    ("prompt_tokens", Type.COUNTER, "0.4.1", "0.7.1"),
    ("generation_tokens", Type.COUNTER, "0.4.1", "0.7.1"),
    ("num_preemptions", Type.COUNTER, "0.5.3", "0.8.0"),
    ("request_success", Type.COUNTER, "0.4.2", "0.7.2"),
    ("time_to_first_token_seconds", Type.HISTOGRAM, "0.4.1", "0.7.1"),
    ("inter_token_latency_seconds", Type.HISTOGRAM, "0.10.2", "0.10.2"),
    ("e2e_request_latency_seconds", Type.HISTOGRAM, "0.4.1", "0.7.3"),
    ("iteration_tokens_total", Type.HISTOGRAM, "0.6.4", "0.7.3"),
    ("request_prompt_tokens", Type.HISTOGRAM, "0.4.2", "0.7.1"),
    ("request_generation_tokens", Type.HISTOGRAM, "0.4.2", "0.7.1"),
    ("request_max_num_generation_tokens", Type.HISTOGRAM, "0.6.4", "0.8.0"),
    ("request_params_n", Type.HISTOGRAM, "0.4.2", "0.8.0"),
    ("request_params_max_tokens", Type.HISTOGRAM, "0.6.4", "0.8.0"),
    ("request_queue_time_seconds", Type.HISTOGRAM, "0.6.4", "0.7.3"),
    ("request_prefill_time_seconds", Type.HISTOGRAM, "0.6.4", "0.7.3"),
    ("request_decode_time_seconds", Type.HISTOGRAM, "0.6.4", "0.7.3"),
    ("request_inference_time_seconds", Type.HISTOGRAM, "0.6.4", "0.7.3"),
)
_V0_ENDS = "0.11.0"

# Since, type, names: what only the V1 engine has, and no release has dropped. Some need a feature to be in use (LoRA,
# a KV connector, speculation) or a flag.
_V1: tuple[tuple[str, Type, str], ...] = (
    ("0.8.3", Type.COUNTER, "spec_decode_num_draft_tokens spec_decode_num_accepted_tokens"),
    ("0.8.5", Type.COUNTER, "spec_decode_num_drafts spec_decode_num_accepted_tokens_per_pos"),
    ("0.9.2", Type.GAUGE, "kv_cache_usage_perc"),
    ("0.9.2", Type.COUNTER, "prefix_cache_queries prefix_cache_hits"),
    ("0.11.0", Type.HISTOGRAM, "request_time_per_output_token_seconds"),
    ("0.11.1", Type.GAUGE, "engine_sleep_state"),
    ("0.11.1", Type.COUNTER, "external_prefix_cache_queries external_prefix_cache_hits mm_cache_queries mm_cache_hits"),
    ("0.11.1", Type.COUNTER, "corrupted_requests nixl_num_failed_notifications nixl_num_failed_transfers"),
    ("0.11.1", Type.HISTOGRAM, "nixl_xfer_time_seconds nixl_post_time_seconds nixl_bytes_transferred"),
    ("0.11.1", Type.HISTOGRAM, "nixl_num_descriptors"),
    ("0.12.0", Type.HISTOGRAM, "kv_block_lifetime_seconds kv_block_idle_before_evict_seconds"),
    ("0.12.0", Type.HISTOGRAM, "kv_block_reuse_gap_seconds"),
    ("0.13.0", Type.HISTOGRAM, "request_prefill_kv_computed_tokens"),
    ("0.15.0", Type.COUNTER, "nixl_num_kv_expired_reqs"),
    ("0.16.0", Type.COUNTER, "prompt_tokens_by_source prompt_tokens_cached"),
    ("0.16.0", Type.COUNTER, "kv_offload_total_bytes kv_offload_total_time"),
    ("0.16.0", Type.HISTOGRAM, "kv_offload_size"),
    ("0.17.0", Type.COUNTER, "estimated_flops_per_gpu estimated_read_bytes_per_gpu estimated_write_bytes_per_gpu"),
    ("0.18.0", Type.GAUGE, "websocket_connections_active"),
    ("0.18.0", Type.COUNTER, "websocket_connections"),
    ("0.18.0", Type.HISTOGRAM, "websocket_connection_duration_seconds"),
    ("0.20.0", Type.GAUGE, "num_requests_waiting_by_reason"),
    ("0.20.0", Type.COUNTER, "hf3fs_num_failed_load hf3fs_num_failed_save"),
    ("0.20.0", Type.HISTOGRAM, "hf3fs_load_duration_seconds hf3fs_save_duration_seconds"),
    ("0.22.0", Type.COUNTER, "mooncake_store_operation mooncake_store_operation_keys"),
    ("0.22.0", Type.COUNTER, "mooncake_store_operation_failed_keys mooncake_store_operation_bytes"),
    ("0.22.0", Type.HISTOGRAM, "mooncake_store_operation_time_seconds"),
    ("0.24.0", Type.GAUGE, "kv_offload_cpu_cache_usage_perc"),
    ("0.24.0", Type.COUNTER, "diffusion_num_denoising_steps diffusion_num_canvas_positions"),
    ("0.24.0", Type.COUNTER, "diffusion_num_committed_tokens tool_call_parser_invocations"),
    ("0.24.0", Type.COUNTER, "kv_offload_load_bytes kv_offload_load_time kv_offload_store_bytes"),
    ("0.24.0", Type.COUNTER, "kv_offload_store_time kv_offload_stores_skipped"),
    ("0.24.0", Type.HISTOGRAM, "kv_offload_load_size kv_offload_store_size"),
    ("0.26.0", Type.GAUGE, "kv_offload_cpu_cache_read_usage_perc kv_offload_cpu_cache_write_usage_perc"),
    ("0.26.0", Type.COUNTER, "kv_offload_allocation_failure"),
    ("0.26.0", Type.HISTOGRAM, "kv_offload_lookup_sync_delay_seconds kv_offload_lookup_async_delay_seconds"),
    ("0.26.0", Type.HISTOGRAM, "kv_offload_tiering_lookup_sync_delay_seconds kv_offload_cpu_allocation_size"),
    ("0.26.0", Type.HISTOGRAM, "kv_offload_tiering_lookup_async_delay_seconds"),
    ("0.28.0", Type.GAUGE, "kv_offload_tiering_primary_read_usage_perc kv_offload_tiering_primary_write_usage_perc"),
    ("0.28.0", Type.GAUGE, "kv_offload_tiering_active_promotion_jobs kv_offload_tiering_active_cascade_jobs"),
    ("0.28.0", Type.COUNTER, "kv_offload_tiering_read_bytes kv_offload_tiering_read_time"),
    ("0.28.0", Type.COUNTER, "kv_offload_tiering_write_bytes kv_offload_tiering_write_time"),
    ("0.28.0", Type.COUNTER, "kv_offload_tiering_promotion_job_failures kv_offload_tiering_cascade_job_failures"),
    ("0.28.0", Type.COUNTER, "kv_offload_tiering_promotion_allocation_failures"),
    ("0.28.0", Type.COUNTER, "kv_offload_tiering_chunk_queries kv_offload_tiering_chunk_hits"),
    ("0.30.0", Type.HISTOGRAM, "request_num_preemptions"),
    ("0.31.0", Type.GAUGE, "simple_kv_offload_info simple_kv_offload_used_blocks"),
    ("0.31.0", Type.GAUGE, "simple_kv_offload_pending_store_blocks"),
    ("0.31.0", Type.GAUGE, "kv_offload_tiering_backpressure_store_latency_ema"),
    ("0.31.0", Type.COUNTER, "simple_kv_offload_load_blocks simple_kv_offload_save_outcomes"),
    ("0.31.0", Type.COUNTER, "kv_offload_tiering_backpressure_stores_dropped"),
    ("0.31.0", Type.COUNTER, "kv_offload_tiering_backpressure_blocks_dropped"),
    ("0.32.0", Type.GAUGE, "num_requests_kv_fetch_by_stage rl_weight_update_operations_in_flight"),
    ("0.32.0", Type.GAUGE, "sleep_mode_operations_in_flight hisparse_host_cache_usage_perc"),
    ("0.32.0", Type.GAUGE, "hisparse_pending_page_transfers"),
    ("0.32.0", Type.COUNTER, "admission_rejections prompt_tokens_cached_by_source watermark_requests"),
    ("0.32.0", Type.COUNTER, "nixl_num_notifications_after_expiry hisparse_cache_hits hisparse_cache_misses"),
    ("0.32.0", Type.COUNTER, "hisparse_host_to_device_bytes"),
    ("0.32.0", Type.HISTOGRAM, "rl_weight_update_operation_duration_seconds sleep_mode_operation_duration_seconds"),
    ("0.32.0", Type.HISTOGRAM, "hisparse_host_block_lifetime_seconds hisparse_host_block_reuse_gap_seconds"),
    ("0.32.0", Type.HISTOGRAM, "hisparse_host_block_idle_before_evict_seconds"),
    ("0.33.0", Type.GAUGE, "kv_offload_config_info"),
    ("0.33.0", Type.COUNTER, "mooncake_num_failed_transfers mooncake_num_failed_recvs mooncake_num_kv_expired_reqs"),
    ("0.33.0", Type.COUNTER, "umbp_transfer_submitted umbp_transfer_completed umbp_transfer_failed"),
    ("0.33.0", Type.COUNTER, "umbp_transfer_bytes"),
    ("0.33.0", Type.HISTOGRAM, "mooncake_xfer_time_seconds mooncake_bytes_transferred mooncake_num_descriptors"),
    ("0.33.0", Type.HISTOGRAM, "kv_offload_tiering_promotion_latency_seconds"),
)


def _family(
    name: str,
    kind: Type,
    engine: Engine,
    since: str,
    until: str = "",
    reason: str = "",
    renamed: str = "",
    instead: str = "",
) -> Family:
    return Family(fact(PREFIX + name, since, until, reason), kind, engine, renamed and PREFIX + renamed, instead)


_LEFT_WITH_V0 = "it was the V0 engine's"
_HIDDEN_V0 = "hidden since 0.8.3 and removed with 0.9.1, for the V1 engine has nothing like it"
_ENDED = (
    _family(
        "spec_decode_draft_acceptance_rate",
        Type.GAUGE,
        Engine.V0,
        "0.5.3",
        "0.10.0",
        _LEFT_WITH_V0,
        instead=f"{_ACCEPTED} / {_DRAFTED}",
    ),
    _family(
        "spec_decode_efficiency",
        Type.GAUGE,
        Engine.V0,
        "0.5.3",
        "0.10.0",
        _LEFT_WITH_V0,
        # Emitted ÷ the most possible: every draft emits what was accepted and a bonus token, of K and that token.
        instead=f"({_ACCEPTED} + {_DRAFTS}) / ({_DRAFTED} + {_DRAFTS})",
    ),
    _family(
        "spec_decode_num_emitted_tokens",
        Type.COUNTER,
        Engine.V0,
        "0.5.3",
        "0.10.0",
        _LEFT_WITH_V0,
        instead=f"{_ACCEPTED} + {_DRAFTS}",
    ),
    _family("spec_decode_num_draft_tokens", Type.COUNTER, Engine.V0, "0.5.3", "0.10.0", _LEFT_WITH_V0),
    _family("spec_decode_num_accepted_tokens", Type.COUNTER, Engine.V0, "0.5.3", "0.10.0", _LEFT_WITH_V0),
    *(
        _family(
            "time_per_output_token_seconds",
            Type.HISTOGRAM,
            engine,
            since,
            until,
            "0.10.2 renamed it, 0.12.0 hid it and 0.15.0 removed it",
            renamed="inter_token_latency_seconds",
            instead="the time per token proper is vllm:request_time_per_output_token_seconds, from 0.11.0 on",
        )
        for engine, since, until in ((Engine.V0, "0.4.1", _V0_ENDS), (Engine.V1, "0.7.1", "0.12.0"))
    ),
    *(
        _family(
            "gpu_cache_usage_perc",
            Type.GAUGE,
            engine,
            since,
            "0.11.0",
            "0.9.2 renamed it, 0.11.0 hid it and 0.12.0 removed it",
            renamed="kv_cache_usage_perc",
        )
        for engine, since in ((Engine.V0, "0.4.1"), (Engine.V1, "0.7.1"))
    ),
    *(
        _family(
            f"gpu_prefix_cache_{what}",
            Type.COUNTER,
            Engine.V1,
            "0.7.3",
            "0.11.0",
            "0.9.2 renamed it, 0.11.0 hid it and 0.12.0 removed it",
            renamed=f"prefix_cache_{what}",
        )
        for what in ("queries", "hits")
    ),
    _family(
        "time_in_queue_requests",
        Type.HISTOGRAM,
        Engine.V0,
        "0.6.4",
        "0.8.3",
        "hidden since 0.8.3 and removed with 0.9.1, for it measured what another one does",
        renamed="request_queue_time_seconds",
    ),
    _family(
        "gpu_prefix_cache_hit_rate",
        Type.GAUGE,
        Engine.V0,
        "0.5.5",
        "0.8.3",
        "hidden since 0.8.3 and removed with 0.9.1: a ratio since start cannot be pooled",
        instead=f"{_HIT.format('hits')} / {_HIT.format('queries')}",
    ),
    _family("cpu_prefix_cache_hit_rate", Type.GAUGE, Engine.V0, "0.5.5", "0.8.3", _HIDDEN_V0),
    _family("num_requests_swapped", Type.GAUGE, Engine.V0, "0.4.1", "0.8.3", _HIDDEN_V0),
    _family("cpu_cache_usage_perc", Type.GAUGE, Engine.V0, "0.4.1", "0.8.3", _HIDDEN_V0),
    *(
        _family(f"model_{what}_time_milliseconds", Type.HISTOGRAM, Engine.V0, "0.6.4", "0.8.3", _HIDDEN_V0, "", instead)
        for what, instead in (("forward", _NO_STEP_TIME), ("execute", _NO_STEP_TIME))
    ),
    *(
        _family(
            f"avg_{what}_throughput_toks_per_s",
            Type.GAUGE,
            Engine.V0,
            "0.4.1",
            "0.7.0",
            "an average of the server's own over an unknown time",
            instead=_RATE.format(f"vllm:{what}_tokens_total"),
        )
        for what in ("prompt", "generation")
    ),
    _family(
        "tokens",
        Type.COUNTER,
        Engine.V0,
        "0.6.4",
        "0.8.0",
        "it added up two others",
        instead="vllm:prompt_tokens_total + vllm:generation_tokens_total",
    ),
    _family(
        "request_params_best_of", Type.HISTOGRAM, Engine.V0, "0.4.2", "0.6.3", "the parameter is gone from the engine"
    ),
    _family("prompt_tokens_recomputed", Type.COUNTER, Engine.V1, "0.16.0", "0.20.0", "0.20.0 dropped it"),
)

FAMILIES: tuple[Family, ...] = (
    *(_family(name, kind, Engine.V0, v0, _V0_ENDS, _LEFT_WITH_V0) for name, kind, v0, _ in _BOTH),
    *(_family(name, kind, Engine.V1, v1) for name, kind, _, v1 in _BOTH),
    *(_family(name, kind, Engine.V1, since) for since, kind, names in _V1 for name in names.split()),
    *_ENDED,
)
"""Every metric of vLLM's server, one entry an engine."""

CORRUPT = (
    "vllm:spec_decode_num_accepted_tokens",
    "vllm:spec_decode_num_draft_tokens",
    "vllm:spec_decode_num_emitted_tokens",
)
"""Counters that the V0 engine adds its own totals to again and again; only V1's of the same names count."""

RATIOS = (
    "vllm:spec_decode_draft_acceptance_rate",
    "vllm:spec_decode_efficiency",
    "vllm:gpu_prefix_cache_hit_rate",
    "vllm:cpu_prefix_cache_hit_rate",
)
"""Gauges that are quotients already, so that their mean is no mean of anything."""

ROUTER_SAMPLES = frozenset(
    {
        "vllm:current_qps",
        "vllm:avg_decoding_length",
        "vllm:avg_latency",
        "vllm:avg_itl",
        "vllm:num_prefill_requests",
        "vllm:num_decoding_requests",
        "vllm:num_incoming_requests_total",
        "vllm:healthy_pods_total",
        "vllm:input_tokens_total",
        "vllm:output_tokens_total",
        "vllm:request_errors_total",
    }
)
"""Samples that only the router of vLLM's production-stack exports, under the server's prefix."""


@cache
def by_name() -> Mapping[str, tuple[Family, ...]]:
    """Families by name, the engines of one together."""
    found: dict[str, tuple[Family, ...]] = {}
    for family in FAMILIES:
        found[family.name] = (*found.get(family.name, ()), family)
    return found


@cache
def by_sample() -> Mapping[str, tuple[Family, ...]]:
    """Families by the names of their samples, ``_created`` included."""
    found: dict[str, tuple[Family, ...]] = {}
    for family in FAMILIES:
        for sample in filter(None, (*family.exposed, family.created)):
            found[sample] = (*found.get(sample, ()), family)
    return found


def existing(release: Release) -> Iterator[Family]:
    """The families that a server of this release may show."""
    return (family for family in FAMILIES if family.exists.holds(release))


def renaming(sample: str, release: Release) -> str | None:
    """The sample that holds the same on this release under the name it has there, or None.

    Works both ways: a dashboard of today on an older release gets the older name.
    """
    for family in by_sample().get(sample, ()):
        others = [family.renamed] if family.renamed else [f.name for f in FAMILIES if f.renamed == family.name]
        for other in others:
            if any(known.exists.holds(release) for known in by_name()[other]):
                return other + sample.removeprefix(family.name)
    return None
