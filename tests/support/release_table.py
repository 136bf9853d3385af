"""What becomes of each method on each release: the table in tests/vllm/release_table.txt, written by this module.

python -m tests.support.release_table
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from specwatch.errors import InputError
from specwatch.vllm.arguments import read
from specwatch.vllm.plan import LaunchPlan, merged
from specwatch.vllm.releases import Release
from specwatch.vllm.speculation import Speculation
from specwatch.vllm.translation import translate

FILE = Path(__file__).parent.parent / "vllm" / "release_table.txt"
_RELEASES = """
0.4.1 0.4.2 0.4.3 0.5.0.post1 0.5.1 0.5.2 0.5.3.post1 0.5.4 0.5.5
0.6.0 0.6.1.post2 0.6.2 0.6.3.post1 0.6.4.post1 0.6.5 0.6.6.post1 0.7.0 0.7.1 0.7.2 0.7.3
0.8.0 0.8.1 0.8.2 0.8.3 0.8.4 0.8.5.post1 0.9.0.1 0.9.1 0.9.2
0.10.0 0.10.1.1 0.10.2 0.11.0 0.11.1 0.11.2 0.12.0 0.13.0 0.14.1 0.15.0 0.15.1
0.16.0 0.17.1 0.18.0 0.19.0 0.20.2 0.21.0 0.22.0 0.23.0 0.24.0 0.25.0 0.26.0 0.27.0 0.28.0 0.29.0
0.30.0 0.31.0 0.32.0 0.33.0
"""
RELEASES = tuple(_RELEASES.split())
"""From the first that can speculate to the newest that is known."""
PLANS: dict[str, dict[str, Any]] = {
    "draft_model": {"draft": "D", "num_speculative_tokens": 5},
    "ngram": {"num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
    "ngram_gpu": {"num_speculative_tokens": 4},
    "suffix": {"suffix_decoding_max_tree_depth": 16},
    "eagle": {"draft": "H", "num_speculative_tokens": 3},
    "eagle3": {"draft": "H", "num_speculative_tokens": 3},
    "mtp": {"num_speculative_tokens": 1},
    "deepseek_mtp": {"num_speculative_tokens": 1},
    "ernie_mtp": {"num_speculative_tokens": 1},
    "qwen3_next_mtp": {"num_speculative_tokens": 2},
    "medusa": {"draft": "H", "num_speculative_tokens": 4},
    "mlp_speculator": {"draft": "H", "num_speculative_tokens": 3},
    "dflash": {"draft": "H", "num_speculative_tokens": 15},
    "dspark": {"draft": "H", "num_speculative_tokens": 7},
    "custom_class": {"draft": "my.Proposer", "num_speculative_tokens": 3},
    "extract_hidden_states": {"num_speculative_tokens": 1},
}
"""One plan a method."""
FURTHER: dict[str, dict[str, Any]] = {
    "draft_model on one of four GPUs, quantised, up to 8192 tokens": PLANS["draft_model"]
    | {"method": "draft_model", "draft_tensor_parallel_size": 1, "draft_quantization": "fp8"}
    | {"draft_max_model_len": 8192, "vllm": {"tensor-parallel-size": 4}},
    "draft_model for at most 32 requests": PLANS["draft_model"] | {"method": "draft_model", "max_spec_concurrency": 32},
    "ngram for at most 32 requests": PLANS["ngram"] | {"method": "ngram", "max_spec_concurrency": 32},
    "draft_model of another vocabulary": PLANS["draft_model"]
    | {"method": "draft_model", "use_heterogeneous_vocab": True},
    "eagle3 that drafts in parallel": PLANS["eagle3"] | {"method": "eagle3", "parallel_drafting": True},
    "eagle3 that samples its drafts": PLANS["eagle3"] | {"method": "eagle3", "draft_sample_method": "probabilistic"},
    "draft_model with typical acceptance": PLANS["draft_model"]
    | {"method": "draft_model", "acceptance_method": "typical_acceptance_sampler"},
    "ngram on two replicas": PLANS["ngram"] | {"method": "ngram", "vllm": {"data-parallel-size": 2}},
    "draft_model with metrics of every request": PLANS["draft_model"]
    | {"method": "draft_model", "vllm": {"per-request-spec-decode-metrics": "summary"}},
}
"""Plans on what else matters."""
HEADING = """\
What becomes of a launch plan on every release of vLLM: the arguments that vLLM is started with, or why it is not.
{release} stands for the release. Written by tests/support/release_table.py, compared by
tests/vllm/test_release_table.py.
"""


def compiled(plan: dict[str, Any], release: str, target: str = "T") -> tuple[str, ...]:
    """The arguments for a release; InputError where there are none."""
    content = {"target": target} | plan
    limit = content.pop("max_spec_concurrency", None)
    line = merged(read([]), LaunchPlan(**content), {})
    assert isinstance(line.speculation, Speculation)
    line = replace(line, speculation=replace(line.speculation, max_concurrency=limit))
    return translate(line, Release.parse(release)).arguments


def outcome(release: str, plan: dict[str, Any]) -> str:
    """The arguments as a shell reads them, or the refusal, with the release's number left open."""
    try:
        return shlex.join(compiled(plan, release))
    except InputError as problem:
        text = str(problem)
        for before in ("vLLM ", "On ", "in "):
            text = text.replace(f"{before}{release}", f"{before}{{release}}")
        return f"REFUSED {text}"


def table() -> str:
    """The whole table."""
    plans = {method: {"method": method} | plan for method, plan in PLANS.items()} | FURTHER
    return HEADING + "".join(line for title, plan in plans.items() for line in _section(title, plan))


def _section(title: str, plan: dict[str, Any]) -> Iterator[str]:
    shown = ", ".join(f"{key}: {value}" for key, value in plan.items())
    yield f"\n== {title}\n   {shown}\n\n"
    for result, group in groupby(RELEASES, lambda release: outcome(release, plan)):
        releases = list(group)
        span = releases[0] if len(releases) == 1 else f"{releases[0]} … {releases[-1]}"
        yield f"{span}\n    {result}\n"


if __name__ == "__main__":
    FILE.write_text(table(), encoding="utf-8")
