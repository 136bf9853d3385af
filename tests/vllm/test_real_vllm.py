"""The tables and the translations against the vLLM that is installed: its own parser and its own configuration."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

import pytest

from specwatch.errors import InputError
from specwatch.vllm import features
from specwatch.vllm.arguments import read
from specwatch.vllm.installed import find
from specwatch.vllm.releases import Release, names
from specwatch.vllm.translation import translate

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]

PROBE = """
import dataclasses, json, sys
from typing import get_args
import vllm.config.speculative as source
from vllm.engine.arg_utils import EngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

def words(literal):
    return [word for part in get_args(literal) for word in ([part] if isinstance(part, str) else words(part))]

parser = make_arg_parser(FlexibleArgumentParser())
parsed = []
for line in json.load(sys.stdin):
    try:
        found = parser.parse_args(line)
        parsed.append([found.model, found.speculative_config, found.spec_method, found.spec_model, found.spec_tokens])
    except SystemExit as ended:
        parsed.append(ended.code)
print("RESULT" + json.dumps({
    "keys": [field.name for field in dataclasses.fields(source.SpeculativeConfig)],
    "methods": words(source.SpeculativeMethod),
    "rejection_sample_method": words(source.RejectionSampleMethod),
    "draft_sample_method": words(source.DraftSampleMethod),
    "flags": [flag for action in parser._actions for flag in action.option_strings],
    "parsed": parsed,
}))
"""
INTERNAL_KEYS = {
    "tensor_parallel_size",  # there to be refused
    "target_model_config",
    "target_parallel_config",
    "draft_model_config",
    "draft_parallel_config",
}
NEVER_RAN = {"mlp_speculator"}
"""Methods that 0.32 lists and has no code for."""
DRAFT = "--speculative-model D --num-speculative-tokens 5"
LINES = [
    f"--model M --tensor-parallel-size 4 {DRAFT} --speculative-max-model-len 8192 --gpu-memory-utilization 0.92 "
    "--max-num-seqs 64 --port 8000 --host 0.0.0.0",
    f"M {DRAFT} -spec-draft-tp 1 --use-v2-block-manager --disable-logprobs-during-spec-decoding",
    "M --speculative-model '[ngram]' --num-speculative-tokens 3 --ngram-prompt-lookup-max 4",
    "M --spec-method ngram --spec-tokens 3",
    "M -sc.method suffix -sc.suffix_decoding_max_tree_depth 12",
    f"M {DRAFT} --speculative-config.num_speculative_tokens_per_batch_size '[[1,4,5],[5,5,0]]'",
    "M --spec-method deepseek_mtp --spec-tokens 1 --per-request-spec-decode-metrics summary",
]
OLD_LINE = f"--model M {DRAFT}"


def translated(line: str) -> list[str]:
    return list(translate(read(shlex.split(line)), find().release).arguments)


@pytest.fixture(scope="module")
def vllm() -> dict[str, Any]:
    """What the installed vLLM says about itself, and what its parser makes of the translated lines."""
    assert find().release == Release.parse("0.32.0"), "the tables below were compared with 0.32.0"
    lines = [translated(line) for line in LINES] + [shlex.split(OLD_LINE)]
    ended = subprocess.run(
        [sys.executable, "-c", PROBE], input=json.dumps(lines), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout.rpartition("RESULT")[2])
    return answer


def test_every_translated_line_is_taken_by_vllms_own_parser(vllm):
    for line, found in zip(LINES, vllm["parsed"], strict=False):
        plan = translate(read(shlex.split(line)), find().release).speculation
        assert isinstance(found, list), line
        model, config, method, draft, tokens = found
        short = {"method": method, "model": draft, "num_speculative_tokens": tokens}
        assert model == "M"
        assert (config or {}) | {key: value for key, value in short.items() if value is not None} == plan.config()


def test_the_line_before_its_translation_is_what_vllm_refuses(vllm):
    assert vllm["parsed"][-1] == 2


def test_the_keys_are_vllms(vllm):
    assert set(names(features.KEYS, find().release)) == set(vllm["keys"]) - INTERNAL_KEYS


def test_the_methods_are_vllms(vllm):
    listed = {method for method in vllm["methods"] if not method.endswith("_mtp")}
    assert set(names(features.METHODS, find().release)) == listed - NEVER_RAN


@pytest.mark.parametrize("key", ["rejection_sample_method", "draft_sample_method"])
def test_the_values_are_vllms(vllm, key):
    assert set(names(features.VALUES[key], find().release)) == set(vllm[key])


def test_no_flag_of_vllm_is_taken_for_a_slip(vllm):
    taken = []
    for flag in vllm["flags"]:
        try:
            read(["--model", "M", flag, "1"])
        except InputError as problem:  # a value that does not fit is another matter
            taken += [flag] if "no flag of vLLM" in str(problem) else []
    assert taken == []
    assert len(vllm["flags"]) > 100


def test_the_flags_that_should_exist_exist_and_the_others_are_gone(vllm):
    for flag in features.FLAGS:
        assert (flag.name in vllm["flags"]) is flag.exists.holds(find().release), flag.name
