"""Every plan of the release table on the real vLLM 0.32: its parser takes the command, its own configuration too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specwatch.vllm.features import METHODS
from specwatch.vllm.installed import find
from specwatch.vllm.releases import Release, names
from tests.support.models import LLAMA, model
from tests.support.release_table import FURTHER, PLANS, compiled, outcome

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

PROBE = """
import json, sys
from vllm.engine.arg_utils import EngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
answers = {}
for name, words in json.load(sys.stdin).items():
    try:
        arguments = parser.parse_args(words)
    except SystemExit as ended:
        answers[name] = {"parser": ended.code}
        continue
    try:
        config = EngineArgs.from_cli_args(arguments).create_engine_config().speculative_config
        keys = ("method", "num_speculative_tokens", "draft_sample_method", "num_speculative_tokens_per_batch_size")
        answers[name] = {key: getattr(config, key) for key in keys}
    except Exception as problem:
        answers[name] = {"problem": str(problem)}
print("RESULT" + json.dumps(answers))
"""
"""Parses each command line and builds the whole configuration as the server does, without starting an engine."""

ALL = {name: {"method": name} | plan for name, plan in PLANS.items()} | FURTHER
STARTED = {name: plan for name, plan in ALL.items() if not outcome("0.32.0", plan).startswith("REFUSED ")}
"""Plans that get a command for 0.32."""
ELSEWHERE = {
    "suffix": "Arctic Inference is required",
    "dspark": "Model Runner V1 does not support: dspark speculative decoding",
}
"""Plans that need what is not here, and how vLLM says so: a package, and a GPU."""
MODEL = LLAMA | {"max_position_embeddings": 8192}
LAYER = MODEL | {"num_hidden_layers": 1}
BLOCKS = {"model_type": "qwen3", "dflash_config": {"target_layer_ids": [0, 1], "mask_token_id": 2}}
HEADS: dict[str, dict[str, Any]] = {
    "draft_model": MODEL,
    "eagle": LAYER,
    "eagle3": LAYER | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 8},
    "medusa": {"model_type": "medusa", "architectures": ["MedusaModel"], "hidden_size": 64, "num_heads": 4},
    "dflash": LAYER | BLOCKS | {"architectures": ["DFlashDraftModel"], "block_size": 16},
    "dspark": LAYER | BLOCKS | {"architectures": ["Qwen3DSparkModel"], "block_size": 7},
}
"""Configurations of what drafts, by method."""
WITH_HEAD = MODEL | {"model_type": "glm4_moe", "architectures": ["Glm4MoeForCausalLM"], "num_nextn_predict_layers": 1}


@pytest.fixture(scope="module")
def commands(tmp_path_factory) -> dict[str, list[str]]:
    """The arguments for 0.32 of each plan, on models that are there."""
    assert find().release == Release.parse("0.32.0"), "the table was compared with 0.32.0"
    place: Path = tmp_path_factory.mktemp("models")
    target, own_head = model(place / "target", MODEL), model(place / "with-head", WITH_HEAD)
    drafts = {method: model(place / method, config) for method, config in HEADS.items()}
    written = {}
    for name, plan in STARTED.items():
        method = plan["method"]
        draft = {"draft": drafts[method]} if method in drafts else {}
        written[name] = list(compiled(plan | draft, "0.32.0", own_head if method.endswith("mtp") else target))
    return written


@pytest.fixture(scope="module")
def vllm(commands) -> dict[str, Any]:
    """What vLLM makes of each."""
    ended = subprocess.run(
        [sys.executable, "-c", PROBE], input=json.dumps(commands), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    answers: dict[str, Any] = json.loads(ended.stdout.rpartition("RESULT")[2])
    return answers


def test_every_method_of_0_32_is_tried():
    assert set(names(METHODS, Release.parse("0.32.0"))) <= {plan["method"] for plan in STARTED.values()}


@pytest.mark.parametrize("name", STARTED)
def test_vllms_own_parser_takes_the_command(vllm, name):
    assert "parser" not in vllm[name]


@pytest.mark.parametrize("name", [name for name in STARTED if name not in ELSEWHERE])
def test_vllms_own_configuration_takes_the_plan(vllm, commands, name):
    asked = json.loads(commands[name][commands[name].index("--speculative-config") + 1])
    assert "problem" not in vllm[name], vllm[name]
    for key, value in asked.items():
        assert vllm[name].get(key, value) == value


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_needs_more_than_this_machine_fails_for_that_alone(vllm, name):
    assert ELSEWHERE[name] in vllm[name]["problem"]
