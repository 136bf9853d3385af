"""Lengths, parallelism and budgets of tokens that do not fit, by release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specwatch.vllm.preflight.findings import Finding, Severity
from specwatch.vllm.preflight.planned_start import PlannedStart, whole_number
from specwatch.vllm.preflight.run import examine
from tests.support.models import LLAMA, codes, found, model, planned

LIMITS = {"target-length", "draft-length", "attention-heads", "draft-parallel", "pipeline-parallel", "token-budget"}
SHORT = LLAMA | {"max_position_embeddings": 128}


def limits(tmp_path: Path, words: str = "", draft: dict[str, Any] | None = None, **plan: Any) -> list[Finding]:
    """What is found of the limits, with a draft of this configuration."""
    pair = model(tmp_path / "target"), model(tmp_path / "draft", draft or LLAMA)
    report = examine(planned(*pair, words=words, **plan))
    return [finding for finding in report.findings if finding.code in LIMITS]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8192", 8192),
        ("8k", 8000),
        ("8K", 8192),
        ("25.6k", 25600),
        ("1.5K", None),
        ("-1", None),
        ("9" * 400, None),
        ("auto", None),
        ("", None),
    ],
)
def test_numbers_are_read_as_vllm_reads_them(text, number):
    assert whole_number(text) == number


def test_flags_come_from_the_config_file_where_the_command_line_has_none(tmp_path: Path):
    (tmp_path / "serve.yaml").write_text("tensor-parallel-size: 4\nmax-num-seqs: 8\n")
    plan = planned("M", words=f"--config {tmp_path}/serve.yaml -tp 2")
    assert (plan.tensor_parallel, plan.number("--max-num-seqs")) == (2, 8)


def test_a_plan_that_fits_has_nothing_remarked(tmp_path: Path):
    assert limits(tmp_path, "--max-model-len 512 -tp 2 --max-num-seqs 8 --max-num-batched-tokens 2048") == []


def test_a_longer_context_than_the_targets_own_is_refused_as_vllm_does(tmp_path: Path):
    (refused,) = [f for f in limits(tmp_path, "--max-model-len 1k") if f.code == "target-length"]
    assert (refused.refuses, refused.forcible) == (True, False)
    assert "--max-model-len 1000" in refused.text
    assert "was made for 512 tokens" in refused.text


def test_the_variable_that_lets_vllm_take_longer_contexts_is_heeded(tmp_path: Path):
    told = limits(tmp_path, "--max-model-len 1024", environment={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"})
    assert not any(finding.refuses for finding in told)


def test_a_longer_draft_context_than_the_drafts_own_is_refused_as_vllm_does(tmp_path: Path):
    (refused,) = limits(tmp_path, draft=SHORT, options={"max_model_len": 256})
    assert refused.refuses
    assert "max_model_len 256 of the draft" in refused.text
    assert "was made for 128 tokens" in refused.text


@pytest.mark.parametrize(("release", "what"), [("0.32.0", "is drafted all the same"), ("0.9.2", "is not speculated")])
def test_a_draft_of_shorter_context_is_a_warning(tmp_path: Path, release, what):
    (warned,) = limits(tmp_path, draft=SHORT, release=release)
    assert warned.severity is Severity.WARNING
    assert what in warned.text
    assert "--max-model-len 128" in warned.remedy
    assert limits(tmp_path, "--max-model-len 128", draft=SHORT, release=release) == []


@pytest.mark.parametrize(
    ("rope", "longest"),
    [
        ({"rope_type": "linear", "factor": 4.0}, 512),
        ({"type": "dynamic", "factor": 2.0}, 256),
        ({"rope_type": "llama3", "factor": 8.0}, 128),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 100}, 400),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}, 128),
        ({"rope_type": "default"}, 128),
    ],
)
def test_scaled_positions_lengthen_the_context(tmp_path: Path, rope, longest):
    target = model(tmp_path, SHORT | {"rope_scaling": rope})
    fits, too_long = (examine(planned(target, words=f"--max-model-len {n}")).findings for n in (longest, longest + 1))
    assert "target-length" not in codes(fits)
    assert "target-length" in codes(too_long)


@pytest.mark.parametrize(("heads", "refused"), [(4, False), (6, True)])
def test_attention_heads_must_be_shared_out_evenly(tmp_path: Path, heads, refused):
    told = limits(tmp_path, "-tp 4", draft=LLAMA | {"num_attention_heads": heads})
    assert ("attention-heads" in codes(told)) is refused


@pytest.mark.parametrize(
    ("release", "severity"), [("0.9.2", None), ("0.15.0", "refusal"), ("0.30.0", "refusal"), ("0.32.0", "warning")]
)
def test_a_draft_on_fewer_gpus_than_the_target_depends_on_the_release(tmp_path: Path, release, severity):
    told = limits(tmp_path, "-tp 2", options={"draft_tensor_parallel_size": 1}, release=release)
    assert [finding.severity.value for finding in told] == ([severity] if severity else [])


def test_a_draft_on_as_many_gpus_is_not_remarked(tmp_path: Path):
    assert limits(tmp_path, "-tp 2", options={"draft_tensor_parallel_size": 2}) == []


def test_adaptive_verification_is_refused_over_pipeline_stages(tmp_path: Path):
    plan = {"method": "dspark", "options": {"enable_adaptive_verification": True}}
    assert codes(limits(tmp_path, "-pp 2", **plan)) == ["pipeline-parallel"]
    assert limits(tmp_path, "", **plan) == []


@pytest.mark.parametrize(("release", "told"), [("0.23.0", []), ("0.24.0", ["pipeline-parallel"]), ("0.32.0", [])])
def test_0_24_has_trouble_with_eagle3_over_pipeline_stages(tmp_path: Path, release, told):
    assert codes(limits(tmp_path, "-pp 2", method="eagle3", release=release)) == told


@pytest.mark.parametrize(
    ("release", "method", "tokens", "words", "refused"),
    [
        ("0.32.0", "draft_model", 5, "--max-num-batched-tokens 16 --max-num-seqs 32", True),
        ("0.32.0", "draft_model", 5, "--max-num-batched-tokens 1 --max-num-seqs 1", True),
        ("0.32.0", "draft_model", 5, "--max-num-batched-tokens 32 --max-num-seqs 32", False),
        ("0.32.0", "dflash", 16, "--max-num-batched-tokens 16 --max-num-seqs 16", True),
        ("0.32.0", "ngram", 5, "--max-num-batched-tokens 1 --max-num-seqs 1", False),
        ("0.30.0", "draft_model", 5, "--max-num-batched-tokens 32 --max-num-seqs 32", True),
        ("0.30.0", "draft_model", 5, "--max-num-batched-tokens 64 --max-num-seqs 32", False),
        ("0.15.0", "draft_model", 5, "--max-num-batched-tokens 32 --max-num-seqs 32", False),
    ],
)
def test_a_step_must_hold_the_drafts_as_well(tmp_path: Path, release, method, tokens, words, refused):
    told = limits(tmp_path, words, release=release, method=method, tokens=tokens)
    assert codes(told) == (["token-budget"] if refused else [])


def test_parallel_drafting_takes_a_place_for_every_token(tmp_path: Path):
    words = "--max-num-batched-tokens 5 --max-num-seqs 5"
    assert limits(tmp_path, words) == []
    assert codes(limits(tmp_path, words, options={"parallel_drafting": True})) == ["token-budget"]


def test_without_speculation_only_the_target_is_judged(tmp_path: Path):
    plan = PlannedStart(planned("M").release, model(tmp_path), ["--max-model-len", "1024"], environment={})
    assert found(examine(plan).findings, "target-length").refuses
    assert codes(examine(PlannedStart(plan.release, plan.target, environment={})).findings) == []
