"""What preflight refuses, the real vLLM 0.32 refuses as well, only later: ``pytest -rP`` shows how much later."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specwatch.vllm.installed import find
from specwatch.vllm.releases import Release
from tests.support.models import LLAMA, WORDS, model
from tests.support.programs import ROOT

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]

PROBE = """
import json, sys, time
began = time.perf_counter()
from vllm.engine.arg_utils import EngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
imported = time.perf_counter() - began
answers = {}
for name, words in json.load(sys.stdin).items():
    began = time.perf_counter()
    try:
        EngineArgs.from_cli_args(parser.parse_args(words)).create_engine_config()
        said = ""
    except Exception as problem:
        said = str(problem)
    answers[name] = [said, imported + time.perf_counter() - began]
print("RESULT" + json.dumps(answers))
"""
"""Parses each command line and builds the whole configuration as the server does, without starting an engine."""


@dataclass(frozen=True)
class Case:
    """One wrong plan: flags, what is wrong in the draft's keys, and how both say no."""

    code: str
    """Of our finding; ``command-line`` where the plan is refused before any model is looked at."""
    vllm: str
    """Part of vLLM's own words."""
    words: str = ""
    draft: str = "draft"
    keys: str = '"num_speculative_tokens": 5'
    method: str = "draft_model"


CASES = {
    "another vocabulary": Case("vocabulary-differs", "should have the same vocabulary size", draft="other"),
    "room for more tokens": Case("vocabulary-size", "should have the same vocabulary size", draft="padded"),
    "K missing": Case("command-line", "`num_speculative_tokens` was not provided", keys='"max_model_len": 64'),
    "draft on 2 of 4 GPUs": Case(
        "command-line",
        "cannot be other value than 1 or target model tensor_parallel_size",
        words="-tp 4",
        keys='"num_speculative_tokens": 5, "draft_tensor_parallel_size": 2',
    ),
    "target's context too long": Case("target-length", "is greater than the derived", words="--max-model-len 1024"),
    "draft's context too long": Case(
        "draft-length",
        "is greater than the derived",
        draft="short",
        keys='"num_speculative_tokens": 5, "max_model_len": 256',
    ),
    "draft's heads": Case("attention-heads", "must be divisible by tensor parallel size", words="-tp 2", draft="odd"),
    "fewer tokens than sequences": Case(
        "token-budget",
        "must be greater than or equal to max_num_seqs",
        words="--max-num-batched-tokens 16 --max-num-seqs 32",
    ),
    "no room for drafts": Case(
        "token-budget",
        "does not have enough slots",
        words="--max-model-len 1 --max-num-batched-tokens 1 --max-num-seqs 1",
    ),
    "no prediction head": Case("no-prediction-head", "Unsupported speculative method", draft="", method="mtp"),
    "K and a head of 2": Case(
        "predicted-tokens",
        "must be divisible by n_predict=2",
        draft="",
        keys='"num_speculative_tokens": 3',
        method="mtp",
        words="--model {mtp}",
    ),
    "suffix without its package": Case("arctic-inference", "Arctic Inference is required", draft="", method="suffix"),
    "translation of an EAGLE head": Case(
        "heterogeneous-method",
        "only works with method='draft_model'",
        method="eagle",
        keys='"num_speculative_tokens": 5, "use_heterogeneous_vocab": true',
    ),
    "translation of sampled drafts": Case(
        "heterogeneous-sampling",
        "only supports greedy draft sampling",
        keys='"num_speculative_tokens": 5, "use_heterogeneous_vocab": true, "draft_sample_method": "probabilistic"',
    ),
    "no such folder": Case("model-missing", "Invalid repository ID or local directory", draft="none"),
    "a folder that is no model": Case("no-model", "Invalid repository ID or local directory", draft="empty"),
}
PERMUTED = Case("vocabulary-differs", "", draft="permuted")
"""The one that vLLM takes."""


@pytest.fixture(scope="module")
def line(tmp_path_factory) -> Callable[[Case], list[str]]:
    """Writes the models, and a case's command line with them."""
    place: Path = tmp_path_factory.mktemp("models")
    model(place / "target")
    model(place / "draft")
    model(place / "other", words=[*WORDS[:3], *(f"▁{letter}" for letter in "abcdef")])
    model(place / "permuted", words=[*WORDS[:3], *reversed(WORDS[3:])])
    model(place / "padded", LLAMA | {"vocab_size": 16})
    model(place / "short", LLAMA | {"max_position_embeddings": 128})
    model(place / "odd", LLAMA | {"num_attention_heads": 3, "num_key_value_heads": 3, "hidden_size": 48})
    model(
        place / "mtp",
        LLAMA | {"model_type": "glm4_moe", "architectures": ["Glm4MoeForCausalLM"], "num_nextn_predict_layers": 2},
    )
    (place / "empty").mkdir()

    def written(case: Case) -> list[str]:
        own = case.words.replace("{mtp}", str(place / "mtp"))
        target = [] if "--model" in own else ["--model", str(place / "target")]
        draft = f'"model": "{place / case.draft}", ' if case.draft else ""
        config = f'{{"method": "{case.method}", {draft}{case.keys}}}'
        return [*target, *shlex.split(own), "--speculative-config", config]

    return written


@pytest.fixture(scope="module")
def vllm(line) -> dict[str, Any]:
    """What vLLM says to every case, and after how many seconds a server would have said it."""
    assert find().release == Release.parse("0.32.0"), "the cases were written for 0.32.0"
    lines = {name: line(case) for name, case in (CASES | {"permuted": PERMUTED}).items()}
    ended = subprocess.run(
        [sys.executable, "-c", PROBE], input=json.dumps(lines), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    answers: dict[str, Any] = json.loads(ended.stdout.rpartition("RESULT")[2])
    return answers


def planned(words: list[str]) -> tuple[dict[str, Any], int, float]:
    """Our report of a plan for the installed vLLM, its exit code, and the seconds that the command took."""
    began = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-m", "specwatch", "launch", "--dry-run", "--json", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(ended.stdout), ended.returncode, time.perf_counter() - began


@pytest.mark.parametrize("name", CASES)
def test_what_preflight_refuses_is_refused_by_vllm(line, vllm, name):
    case = CASES[name]
    report, code, ours = planned(line(case))
    said, theirs = vllm[name]
    print(f"{name}: vLLM says no after {theirs:.1f} s, specwatch after {ours:.2f} s: {theirs - ours:.1f} s saved")
    assert case.vllm in said
    told = next(finding for finding in report["findings"] if finding["code"] == case.code)
    if name == "no such folder":
        # A plan may be made for another machine, so only a start is refused.
        assert (told["severity"], code) == ("note", 0)
    else:
        assert (told["severity"], code, report["refused"]) == ("refusal", 2, True)


def test_what_only_preflight_sees_is_taken_by_vllm(line, vllm):
    report, code, _ = planned(line(PERMUTED))
    assert vllm["permuted"][0] == ""
    assert code == 2
    assert any(finding["code"] == PERMUTED.code and finding["forcible"] for finding in report["findings"])
