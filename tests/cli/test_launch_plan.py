"""``specwatch launch --plan``: files, variables and flags, and what is said of the bad ones."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specwatch.cli import specwatch
from specwatch.errors import InputError
from specwatch.vllm.plan import LaunchPlan
from specwatch.vllm.schedule import SCHEDULE
from tests.support.programs import ROOT

EXAMPLES = ROOT / "examples" / "launch"
MODULE = "python -m vllm.entrypoints.openai.api_server"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text("target: T\ndraft: D\nmethod: draft_model\nnum_speculative_tokens: 5\nvllm: {host: 127.0.0.1}\n")
    return path


def planned(arguments: str, **environment: str) -> Result:
    words = ["launch", "--dry-run", *shlex.split(arguments)]
    words += [] if "--vllm-version" in arguments else ["--vllm-version", "0.20.0"]
    return CliRunner().invoke(specwatch, words, env=environment, auto_envvar_prefix="SPECWATCH")


def refusal(arguments: str, **environment: str) -> str:
    result = planned(arguments, **environment)
    assert isinstance(result.exception, InputError), result.output
    assert result.stdout == ""
    return str(result.exception)


def command(k: int = 5, draft: str = "D", rest: str = " --host 127.0.0.1", after: str = "") -> str:
    config = f'\'{{"method": "draft_model", "model": "{draft}", "num_speculative_tokens": {k}}}\''
    return f"{MODULE} --model T{rest} --speculative-config {config}{after}\n"


def test_a_plan_becomes_vllms_command(file):
    assert planned(f"--plan {file}").stdout == command()


def test_options_win_over_variables_and_both_over_the_plan(file):
    variables = {"SPECWATCH_LAUNCH_NUM_SPECULATIVE_TOKENS": "4", "SPECWATCH_LAUNCH_DRAFT": "E"}
    assert planned(f"--plan {file}", **variables).stdout == command(k=4, draft="E")
    assert planned(f"--plan {file} --num-speculative-tokens 3", **variables).stdout == command(k=3, draft="E")
    assert planned(f"--plan {file} --draft F --port 1", **variables).stdout == command(4, "F", after=" --port 1")


def test_the_plan_itself_may_be_named_by_a_variable(file):
    assert planned("", SPECWATCH_LAUNCH_PLAN=str(file)).stdout == command()


def test_variables_alone_are_a_plan():
    variables = {"TARGET": "T", "DRAFT": "D", "METHOD": "draft_model", "NUM_SPECULATIVE_TOKENS": "5"}
    variables |= {"VLLM": "{port: 8000, host: 127.0.0.1}", "DRAFT_TENSOR_PARALLEL_SIZE": "1"}
    said = planned("", **{f"SPECWATCH_LAUNCH_{key}": value for key, value in variables.items()}).stdout
    assert said.startswith(f"{MODULE} --model T --port 8000 --host 127.0.0.1 --speculative-config")
    assert '"num_speculative_tokens": 5, "draft_tensor_parallel_size": 1}' in said


def test_our_own_names_are_flags_too():
    said = planned("--target T --draft D --method draft_model --num-speculative-tokens 5 --host 127.0.0.1").stdout
    assert said == command(rest="", after=" --host 127.0.0.1")


@pytest.mark.parametrize("release", ["0.9.2", "0.32.0"])
def test_a_plan_may_name_its_release(file, release):
    file.write_text(file.read_text() + f"vllm_version: {release}\n")
    assert planned(f"--plan {file} --vllm-version {release}").exit_code == 0


@pytest.mark.parametrize(("example", "method"), [("draft-model", "draft_model"), ("ngram", None), ("eagle3", "eagle3")])
@pytest.mark.parametrize("release", ["0.9.2", "0.15.0", "0.24.0", "0.32.0", "0.33.0"])
def test_the_examples_are_plans(example, method, release):
    result = planned(f"--plan {EXAMPLES / example}.yaml --vllm-version {release}")
    assert result.exit_code == 0, result.output
    assert method is None or f'"method": "{method}"' in result.stdout
    assert "--host 127.0.0.1 --port 8000" in result.stdout


def test_every_example_is_tried_here():
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == {"draft-model", "ngram", "eagle3"}


def test_all_bad_entries_are_named_at_once_with_their_places(file):
    file.write_text("targt: T\nnum_speculative_tokens: many\nvllm: {model: T}\nsidecar_listen: [1]\n")
    said = refusal(f"--plan {file}", SPECWATCH_LAUNCH_DRAFT_TENSOR_PARALLEL_SIZE="none")
    assert said.splitlines()[0] == "5 entries of the configuration cannot be used:"
    assert f"targt in {file}: unknown; did you mean target?" in said
    assert f"num_speculative_tokens in {file}: Input should be a valid integer" in said
    assert f"vllm in {file}: model is called target, one level up" in said
    assert f"sidecar_listen in {file}: Input should be a valid string" in said
    assert "SPECWATCH_LAUNCH_DRAFT_TENSOR_PARALLEL_SIZE: Input should be a valid integer" in said


def test_an_option_of_vllm_on_the_wrong_level_is_told_where_it_belongs(file):
    file.write_text("target: T\ntensor_parallel_size: 4\n")
    assert f"tensor_parallel_size in {file}: unknown" in refusal(f"--plan {file}")
    assert "(vLLM's own options stand under vllm)" in refusal(f"--plan {file}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("target: [", "line 1: not valid YAML"),
        ("- target", "expected keys and values, found a list"),
        ("target: T\nmethod: eagl3\nnum_speculative_tokens: 3\n", "did you mean eagle3?"),
        ("target: T\ndraft: D\n", "num_speculative_tokens is missing"),
        ("draft: D\nmethod: draft_model\nnum_speculative_tokens: 5\n", "no model to serve"),
        ("", "no model to serve"),
    ],
)
def test_a_plan_that_cannot_be_used_is_one_message(file, text, problem):
    file.write_text(text)
    assert problem in refusal(f"--plan {file}")


def test_a_plan_that_is_not_there_is_named(tmp_path):
    assert refusal(f"--plan {tmp_path}/none.yaml") == f"{tmp_path}/none.yaml: no such file or directory"


def test_two_options_for_one_thing_must_agree(file):
    assert "draft is given twice: A by --draft and B by" in refusal(
        "--target T --draft A --spec-model B --spec-tokens 1"
    )
    assert "target is given twice: T by --target and M by" in refusal("--target T --model M")
    assert planned("--target T --model T --host 127.0.0.1").stdout == f"{MODULE} --model T --host 127.0.0.1\n"


def test_a_misspelt_variable_is_remarked_and_foreign_ones_are_not(file):
    variables = {"SPECWATCH_LAUNCH_DRAFFT": "E", "SPECWATCH_LAUNCH_SERVICE_HOST": "10.0.0.1"}
    result = planned(f"--plan {file}", **variables)
    assert result.stdout == command()
    assert "SPECWATCH_LAUNCH_DRAFFT is not read; did you mean SPECWATCH_LAUNCH_DRAFT?" in result.stderr
    assert "SERVICE_HOST" not in result.stderr


def test_a_limit_becomes_what_the_release_has_for_it(file):
    limit = f"--plan {file} --max-spec-concurrency 32"
    assert f'"{SCHEDULE}": [[1, 16, 5], [17, 32, 3], [33, 33, 0]]' in planned(f"{limit} --vllm-version 0.32.0").stdout
    assert '"disable_by_batch_size": 33' in planned(f"{limit} --vllm-version 0.9.2").stdout
    assert "--speculative-disable-by-batch-size 33" in planned(f"{limit} --vllm-version 0.7.3").stdout
    assert "vLLM 0.20.0 cannot stop drafting by batch size" in refusal(limit)


def test_a_limit_leaves_the_window_of_the_old_flags_as_it_was():
    flags = "--model M --speculative-model '[ngram]' --num-speculative-tokens 4 --ngram-prompt-lookup-max 4"
    said = planned(f"{flags} --max-spec-concurrency 2 --vllm-version 0.32.0").stdout
    assert '"prompt_lookup_max": 4, "prompt_lookup_min": 1' in said


def test_there_is_nothing_to_limit_without_speculation(tmp_path):
    assert "--max-spec-concurrency: the plan asks for no speculation" in refusal("--target T --max-spec-concurrency 3")
    assert "--calibration: the plan asks for no speculation" in refusal(f"--target T --calibration {tmp_path}/none")


def test_a_calibration_is_followed_where_it_was_measured_on_this_plan(file, tmp_path):
    measured = tmp_path / "calibration.json"
    advice = {"num_speculative_tokens": 5, "schedule": [[1, 24, 5], [25, 25, 0]]}
    content = {"format": 1, "target": "T", "method": "draft_model", "draft": "D", "recommended": advice}
    measured.write_text(json.dumps(content))
    words = f"--plan {file} --vllm-version 0.32.0 --calibration {measured}"
    assert f'"{SCHEDULE}": [[1, 24, 5], [25, 25, 0]]' in planned(words).stdout
    assert "it was measured with draft D, not E: measure this plan" in refusal(f"{words} --draft E")
    assert "num_speculative_tokens 5, not 3" in refusal(f"{words} --num-speculative-tokens 3")
    file.write_text(file.read_text().replace("num_speculative_tokens: 5\n", f"calibration: {measured}\n"))
    assert '"num_speculative_tokens": 5' in planned(f"--plan {file} --vllm-version 0.32.0").stdout


def test_the_documentation_names_every_key():
    text = (ROOT / "docs" / "launch-plan.md").read_text()
    assert [key for key in LaunchPlan.model_fields if f"`{key}`" not in text] == []


def test_a_plan_without_vllm_is_quick(file, record_property):
    words = [sys.executable, "-m", "specwatch", "launch", "--plan", file, "--dry-run", "--vllm-version", "0.32.0"]
    began = time.perf_counter()
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    record_property("specwatch launch --plan --dry-run, seconds", round(time.perf_counter() - began, 2))
    assert "--speculative-config" in ended.stdout
