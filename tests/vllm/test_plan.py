"""Launch plans: names that hold for every release, compiled like any command line."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from pydantic import ValidationError

from specwatch.errors import InputError
from specwatch.vllm.arguments import read
from specwatch.vllm.features import KEYS
from specwatch.vllm.plan import LaunchPlan, entries, merged, own_name
from specwatch.vllm.releases import Release
from specwatch.vllm.restarts import Restarts
from specwatch.vllm.speculation import CommandLine, Speculation
from specwatch.vllm.translation import translate

MAIN = {"target": "T", "draft": "D", "method": "draft_model", "num_speculative_tokens": 5}


def compiled(text: str = "", **content: Any) -> CommandLine:
    """A plan beside a command line, the latter's entries winning as ``specwatch launch`` has it."""
    line = read(shlex.split(text))
    asked, unnamed = entries(line.speculation) if line.speculation else ({}, {})
    return merged(line, LaunchPlan(**{**content, **asked}), unnamed)


def command(release: str, text: str = "", **content: Any) -> str:
    return shlex.join(translate(compiled(text, **content), Release.parse(release)).arguments)


def refusals(**content: Any) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        LaunchPlan(**content)
    return [str(error["msg"]) for error in caught.value.errors()]


def test_every_key_of_speculation_has_a_name_in_a_plan():
    assert {own_name(fact.name) for fact in KEYS} <= set(LaunchPlan.model_fields)


@pytest.mark.parametrize("key", ["quantization", "max_model_len", "revision", "kv_cache_dtype", "enforce_eager"])
def test_a_name_that_the_target_has_too_says_that_it_is_the_drafts(key):
    assert own_name(key) == f"draft_{key}"


def test_one_plan_is_written_in_the_words_of_every_release():
    assert command("0.6.3", **MAIN) == (
        "--model T --speculative-model D --num-speculative-tokens 5 --use-v2-block-manager"
    )
    assert command("0.7.3", **MAIN) == "--model T --speculative-model D --num-speculative-tokens 5"
    as_json = '\'{"method": "draft_model", "model": "D", "num_speculative_tokens": 5}\''
    assert command("0.8.3", **MAIN) == f"--model T --speculative-config {as_json}"
    assert command("0.20.0", **MAIN) == f"--model T --speculative-config {as_json}"


def test_a_plan_is_refused_where_its_method_is_missing():
    with pytest.raises(InputError, match="cannot speculate with method draft_model"):
        command("0.12.0", **MAIN)


def test_options_of_vllm_are_written_as_its_parser_reads_them():
    options = {
        "tensor_parallel_size": 4,
        "gpu-memory-utilization": 0.92,
        "--port": "8000",
        "enable_prefix_caching": False,
        "enforce-eager": True,
        "served-model-name": ["a", "b"],
        "compilation_config": {"level": 3},
        "compilation-config.cudagraph_mode": "NONE",
        "seed": -1,
    }
    assert compiled(target="T", vllm=options).words == (
        *("--model", "T", "--tensor-parallel-size", "4", "--gpu-memory-utilization", "0.92", "--port", "8000"),
        *("--no-enable-prefix-caching", "--enforce-eager", "--served-model-name", "a", "b"),
        *("--compilation-config", '{"level": 3}', "--compilation-config.cudagraph_mode", "NONE", "--seed", "-1"),
    )


def test_options_of_the_command_line_win_one_by_one():
    options = {"port": 8000, "max_num_seqs": 64, "enable-prefix-caching": False}
    line = compiled("--port 9000 --enable_prefix_caching --num-speculative-tokens 3", **MAIN, vllm=options)
    assert line.rest == ("--model", "T", "--max-num-seqs", "64", "--port", "9000", "--enable_prefix_caching")
    assert line.speculation == Speculation("draft_model", "D", 3)


def test_a_model_on_the_command_line_takes_the_targets_place():
    assert compiled("--model Other --port 1", **MAIN).rest == ("--model", "Other", "--port", "1")


def test_speculation_stands_between_the_plans_options_and_the_command_lines():
    written = command("0.20.0", "--port 9000", **MAIN, vllm={"max-num-seqs": 64})
    assert written.startswith("--model T --max-num-seqs 64 --speculative-config")
    assert written.endswith("--port 9000")


def test_every_key_reaches_the_configuration_under_vllms_name():
    keys = {
        "draft_quantization": "fp8",
        "draft_tensor_parallel_size": 2,
        "num_speculative_tokens_per_batch_size": [[1, 16, 5], [17, 17, 0]],
        "use_heterogeneous_vocab": True,
        "speculative_config": {"key_of_the_future": 1},
    }
    assert compiled(**MAIN, **keys).speculation == Speculation(
        "draft_model",
        "D",
        5,
        {
            "quantization": "fp8",
            "draft_tensor_parallel_size": 2,
            "num_speculative_tokens_per_batch_size": [[1, 16, 5], [17, 17, 0]],
            "use_heterogeneous_vocab": True,
            "key_of_the_future": 1,
        },
    )


def test_a_key_of_the_command_line_that_plans_have_no_name_for_is_kept():
    line = compiled("-sc.key_of_the_future 2 -sc.quantization fp8", **MAIN, speculative_config={"another": 1})
    assert line.speculation is not None
    assert line.speculation.options == {"quantization": "fp8", "another": 1, "key_of_the_future": 2}


def test_a_method_without_a_draft_leaves_the_plans_draft_out_and_says_so():
    line = compiled("--spec-method ngram", **MAIN)
    assert line.speculation == Speculation("ngram", None, 5)
    assert [note.text for note in line.notes] == ["draft D is left out: method ngram needs none"]


def test_a_plan_means_by_its_window_what_the_json_means_by_it():
    written = command("0.7.3", target="T", method="ngram", num_speculative_tokens=3, prompt_lookup_max=4)
    assert "--ngram-prompt-lookup-max 4 --ngram-prompt-lookup-min 4" in written


def test_a_plan_without_speculation_serves_without_it():
    assert compiled(target="T", vllm={"port": 1}).speculation is None
    assert command("0.32.0", target="T", vllm={"port": 1}) == "--model T --port 1"


def test_a_key_that_is_given_under_both_names_is_refused():
    with pytest.raises(InputError, match="quantization is given twice: as draft_quantization and under specul"):
        compiled(**MAIN, draft_quantization="fp8", speculative_config={"quantization": "fp8"})


def test_speculation_in_vllms_own_file_and_in_a_plan_is_refused(tmp_path):
    file = tmp_path / "serve.yaml"
    file.write_text("model: M\nspeculative-config:\n  method: ngram\n  num_speculative_tokens: 3\n")
    with pytest.raises(InputError, match="in the plan: keep one of them"):
        merged(read(["--config", str(file)]), LaunchPlan(**MAIN), {})


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ({"model": "T"}, "model is called target, one level up"),
        ({"api_key": "sk-1"}, "api-key is a secret, which ps would show: put it into a file, and name that as api_key"),
        ({"hf-token": "hf_1"}, "name that as hf_token_file one level up"),
        ({"speculative_model": "D"}, "speculative-model is about speculation: write draft one level up"),
        ({"spec-tokens": 5}, "write num_speculative_tokens one level up"),
        ({"speculative-model-quantization": "fp8"}, "write draft_quantization one level up"),
        ({"speculative_config": {}}, "write speculative_config one level up"),
        ({"max_num_seqs": None}, "max-num-seqs has no value: leave it out for vLLM's default"),
    ],
)
def test_what_cannot_stand_among_vllms_options_says_where_it_belongs(option, problem):
    (said,) = refusals(vllm=option)
    assert problem in said
    assert "sk-1" not in said


def test_all_that_is_wrong_among_vllms_options_is_said_at_once():
    (said,) = refusals(vllm={"model": "T", "port": None})
    assert "model is called target" in said
    assert "port has no value" in said


@pytest.mark.parametrize(
    "content",
    [
        {"num_speculative_tokens": True},
        {"num_speculative_tokens": 0},
        {"num_speculative_tokens": 2.5},
        {"draft_tensor_parallel_size": 0},
        {"disable_by_batch_size": 1},
        {"suffix_decoding_min_token_prob": 1.5},
        {"target": ""},
        {"draft": 7},
        {"draft_load_config": "dummy"},
        {"synthetic_acceptance_rates": [0.9, 2]},
        {"ready_timeout": float("nan")},
        {"num_speculative_tokens_per_batch_size": [[1, 2, "x"]]},
    ],
)
def test_an_impossible_value_is_refused(content):
    assert len(refusals(**content)) == 1


def test_what_a_plan_says_only_about_launching_says_nothing_about_the_server():
    assert not LaunchPlan(ready_timeout=5, sidecar=False, vllm_version="0.32.0").describes_server
    assert LaunchPlan(target="T").describes_server
    assert json.loads(LaunchPlan().model_dump_json(exclude_defaults=True)) == {}


def test_restarts_are_off_unless_asked_for():
    assert LaunchPlan().restarts is None
    assert LaunchPlan(restart="on-failure").restarts == Restarts()
    assert LaunchPlan(restart="on-failure", max_restarts=2, restart_delay=1).restarts == Restarts(2, 1.0)


@pytest.mark.parametrize(
    "content", [{"restart": "always"}, {"max_restarts": -1}, {"restart_delay": 0}, {"restart_delay": 301}]
)
def test_a_restart_policy_that_cannot_be_is_refused(content):
    assert len(refusals(**content)) == 1
