"""How a release of vLLM shows an engine: which family holds which quantity, and V0's wrong books."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from specwatch.lab.metrics_page import Values, families
from specwatch.lab.simulated_engine import Engine

SUCCESS = "vllm:request_success_total"

V0_COLLECT_SECONDS = 5.0
"""V0 collects its speculation statistics at most this often, and only while it generates."""

V0_MATCH_BEHIND_REJECTION = 0.48
"""Share of the positions behind a rejected one that V0 counts as accepted as well: what made the captured server show
39.1 % where 1.5 % were used (of five positions, 3.9 lay behind a rejection)."""


class V1Engine(Engine):
    """The V1 engine as 0.32 shows it: every series there from the start."""

    page = "vllm-0.32.0-v1"

    def values(self, now: float) -> Values:
        """Numbers of this engine's families."""
        tally = self.tally
        scalars: dict[str, float] = {
            "vllm:spec_decode_num_drafts_total": tally.drafts,
            "vllm:spec_decode_num_draft_tokens_total": tally.draft_tokens,
            "vllm:spec_decode_num_accepted_tokens_total": tally.accepted_tokens,
            "vllm:num_requests_running": self.batch_size,
            "vllm:num_requests_waiting": len(self.queue),
            "vllm:num_requests_waiting_by_reason|capacity": len(self.queue),
            "vllm:kv_cache_usage_perc": self.tokens_in_cache / _cache_tokens(self.page),
            "vllm:prefix_cache_queries_total": tally.prompt_tokens,
            "vllm:prompt_tokens_total": tally.prompt_tokens,
            "vllm:prompt_tokens_by_source_total|local_compute": tally.prompt_tokens,
            "vllm:generation_tokens_total": tally.generated_tokens,
        }
        for position, accepted in enumerate(tally.accepted_per_position):
            scalars[f"vllm:spec_decode_num_accepted_tokens_per_pos_total|{position}"] = accepted
        for reason, count in tally.finished.items():
            scalars[f"{SUCCESS}|{reason}"] = count
        return Values(scalars, self.shown_histograms())


@dataclass
class V0Engine(Engine):
    """The V0 engine as 0.8.5 shows it with a multiprocess directory, wrong books included.

    It counts one generated token a step, and at times collects its speculation statistics, which it adds up wrongly.
    """

    page = "vllm-0.8.5.post2-v0"
    multiprocess = True

    shown_accepted: int = 0
    shown_drafted: int = 0
    shown_emitted: int = 0
    acceptance_rate: float = math.nan
    efficiency: float = math.nan
    collections: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._collected_at = self.time

    def _tokens_shown(self, generated: int, batch_size: int) -> int:
        return batch_size

    def _after_step(self) -> None:
        if self.k and self.time - self._collected_at >= V0_COLLECT_SECONDS:
            self._collected_at = self.time
            self._collect()

    def _collect(self) -> None:
        """Set the gauges to the average since start, and add totals since start to the counters once more."""
        tally = self.tally
        behind = sum((self.k - 1 - j) * drafts for j, drafts in enumerate(tally.accepted_in_draft[: self.k]))
        accepted = tally.accepted_tokens + round(V0_MATCH_BEHIND_REJECTION * behind)
        emitted = tally.accepted_tokens + tally.drafts
        self.collections += 1
        self.shown_accepted += accepted
        self.shown_drafted += tally.draft_tokens
        self.shown_emitted += emitted
        if tally.drafts:
            self.acceptance_rate = accepted / tally.draft_tokens
            self.efficiency = emitted / (tally.drafts * (self.k + 1))

    def values(self, now: float) -> Values:
        """Numbers of this engine's families at the unix time ``now``."""
        tally = self.tally
        scalars: dict[str, float] = {
            "vllm:prompt_tokens_total": tally.prompt_tokens,
            "vllm:generation_tokens_total": tally.requests_started + tally.decode_steps,
            "vllm:num_requests_running": self.batch_size,
            "vllm:num_requests_waiting": len(self.queue),
            "vllm:gpu_cache_usage_perc": self.tokens_in_cache / _cache_tokens(self.page),
            "vllm:lora_requests_info|0||": now,
            "vllm:spec_decode_num_accepted_tokens_total": self.shown_accepted,
            "vllm:spec_decode_num_draft_tokens_total": self.shown_drafted,
            "vllm:spec_decode_num_emitted_tokens_total": self.shown_emitted,
            "vllm:spec_decode_draft_acceptance_rate": self.acceptance_rate,
            "vllm:spec_decode_efficiency": self.efficiency,
        }
        for reason, count in tally.finished.items():
            scalars[f"{SUCCESS}|{reason}"] = count
        return Values(scalars, self.shown_histograms())

    def absent(self) -> frozenset[str]:
        """What nothing was written to yet: with a multiprocess directory such families do not exist."""
        names = {family.name for family in families(self.page)}
        if not self.tally.engine_steps:
            return frozenset(names - {"vllm:cache_config_info"})
        unwritten = {name for name, histogram in self.shown_histograms().items() if not any(histogram.counts)}
        unwritten |= {f"{SUCCESS}|{reason}" for reason in ("stop", "length") if not self.tally.finished[reason]}
        if not self.collections:
            unwritten |= {name for name in names if "spec_decode" in name}
        return frozenset(unwritten)


ENGINES: Mapping[str, type[Engine]] = {"0.32.0": V1Engine, "0.8.5.post2": V0Engine}
"""Releases of vLLM that can be simulated, as /version spells them."""


def _cache_tokens(page: str) -> int:
    """Tokens that fit into the key-value cache, by the page's cache_config_info."""
    info = next(family for family in families(page) if family.name == "vllm:cache_config_info").series[0]
    return int(info.get("kv_cache_size_tokens") or int(info["num_gpu_blocks"]) * int(info["block_size"]))
