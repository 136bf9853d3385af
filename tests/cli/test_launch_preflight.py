"""Preflight as people meet it: lines, refusals, ``--force``, ``--json``, and what a start does with them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specwatch.cli.launch import command
from tests.support import fake_vllm
from tests.support.models import LLAMA, LLAMA_1B, LLAMA_70B, WORDS, model, write
from tests.support.programs import ROOT

SWAPPED = (*WORDS[:3], *reversed(WORDS[3:]))
K5 = "--num-speculative-tokens 5 --host 127.0.0.1"


def plan(arguments: str, *more: str, offline: bool = False) -> Result:
    words = ["--dry-run", "--vllm-version", "0.32.0", *shlex.split(arguments), *more]
    environment = {"HF_HUB_CACHE": "/no/such/cache", "HF_HUB_OFFLINE": "1" if offline else "0"}
    return CliRunner().invoke(command, words, env=environment)


@pytest.fixture
def pair(tmp_path: Path) -> str:
    """Flags of a target and a draft with mixed numbers."""
    target, draft = model(tmp_path / "target"), model(tmp_path / "draft", words=SWAPPED)
    return f"--model {target} --speculative-model {draft} {K5}"


@pytest.fixture
def llamas(tmp_path: Path) -> str:
    """Flags of Llama 3.1 70B and 3.2 1B, of which there are configurations and one small tokenizer."""
    target, draft = model(tmp_path / "70B", LLAMA_70B), model(tmp_path / "1B", LLAMA_1B)
    return f"--model {target} --speculative-model {draft} {K5} --tensor-parallel-size 4 --max-num-seqs 64"


def test_a_refusal_is_one_message_with_the_way_past_it_and_no_command(pair):
    refused = plan(pair)
    assert refused.exit_code == 1  # click's runner; the program itself ends with 2, as below
    assert refused.stdout == ""
    assert "4 of 8 numbers mean different tokens" in str(refused.exception)
    assert str(refused.exception).endswith("--force starts it all the same.")


def test_force_goes_on_and_says_so_in_the_log(pair):
    forced = plan(pair, "--force")
    assert forced.exit_code == 0
    assert "specwatch │ --force: goes on although vocabulary-differs is refused: " in forced.stderr
    assert "--speculative-config" in forced.stdout


def test_force_does_not_go_past_what_vllm_refuses_itself(tmp_path: Path):
    target, draft = model(tmp_path / "t"), model(tmp_path / "d", LLAMA | {"vocab_size": 16})
    refused = plan(f"--model {target} --speculative-model {draft} {K5}", "--force")
    assert refused.exit_code != 0
    assert "refuses a draft of another size" in str(refused.exception)
    assert "--force" not in str(refused.exception)


def test_without_preflight_nothing_is_looked_at(pair):
    blind = plan(pair, "--no-preflight")
    assert blind.exit_code == 0
    assert "vocabular" not in blind.stderr


def test_the_memory_is_a_table_among_the_launchers_lines(llamas):
    planned = plan(llamas, "--max-model-len", "8192", "--gpu-memory", "80GiB", "--gpu-memory-utilization", "0.92")
    lines = planned.stderr.splitlines()
    place = lines.index("specwatch │ Memory on each of 4 GPUs")
    assert [line.split("GiB")[0].split()[-1] for line in lines[place + 1 : place + 6]] == [
        "32.85",
        "0.58",
        "3.65",
        "4.23",
        "73.60",
    ]
    assert planned.exit_code == 0


def test_a_warning_is_marked_and_stops_nothing(llamas):
    planned = plan(llamas, "--gpu-memory", "24GiB")
    assert "specwatch │ warning: The weights alone take 33.4 GiB of each GPU" in planned.stderr
    assert planned.exit_code == 0


def test_json_holds_command_findings_and_memory_and_nothing_else_is_on_standard_output(llamas):
    planned = plan(llamas, "--json", "--gpu-memory", "80GiB", "--max-model-len", "8192", "--api-key", "sk-secret")
    report = json.loads(planned.stdout)
    assert report["release"] == "0.32.0"
    assert report["command"].startswith("python -m vllm.entrypoints.openai.api_server --model ")
    assert report["refused"] is False
    assert {"code": "sampling", "severity": "note"}.items() <= report["findings"][-1].items()
    assert report["memory"]["draft_weights"] == 1_235_814_400 * 2 / 4
    assert report["memory"]["share"] == pytest.approx(0.0574, abs=1e-4)
    assert any("no key" in note or "VLLM_API_KEY" in note for note in report["notes"])
    assert "sk-secret" not in planned.output


def test_json_of_a_refused_plan_says_so_and_ends_with_2(pair):
    refused = plan(pair, "--json")
    report = json.loads(refused.stdout)
    assert refused.exit_code == 2
    assert (report["refused"], report["command"]) == (True, None)
    (finding,) = [finding for finding in report["findings"] if finding["severity"] == "refusal"]
    assert finding["code"] == "vocabulary-differs"
    assert finding["forcible"] is True
    assert json.loads(plan(pair, "--json", "--force").stdout)["refused"] is False


@pytest.mark.parametrize(
    "arguments", ["", "--model M --speculative-model D", "--model M -sc '{'", "--model M --gpu-memory much"]
)
def test_json_of_a_plan_that_cannot_be_made_is_json_too(arguments):
    refused = plan(arguments, "--json")
    assert refused.exit_code == 2
    report = json.loads(refused.stdout)
    assert (report["refused"], report["findings"][0]["code"]) == (True, "command-line")


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        ("{}/none", "there is no folder {}/none: nothing is compared."),
        ("org/none", "org/none is no folder here and not in the cache /no/such/cache, and HF_HUB_OFFLINE is set"),
    ],
)
def test_a_plan_for_another_machine_may_name_models_that_are_not_here(tmp_path: Path, draft, message):
    target = model(tmp_path / "t")
    planned = plan(f"--model {target} --speculative-model {draft.format(tmp_path)} {K5}", offline=True)
    assert planned.exit_code == 0
    assert message.format(tmp_path) in planned.stderr


def launched(words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "specwatch", "launch", "--no-sidecar", *shlex.split(words)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("target", "variables", "message"),
    [
        ("{}/none", {}, "there is no folder {}/none. Check the name"),
        ("org/none", {"HF_HUB_OFFLINE": "1"}, "org/none is no folder here and not in the cache"),
        ("{}/empty", {}, "{}/empty is no model: it has no config.json."),
        ("{}/broken", {}, "{}/broken/config.json cannot be read"),
        ("{}/cut", {}, "{}/cut/model.safetensors is cut off"),
    ],
)
def test_a_start_with_a_model_that_is_none_is_refused_with_2_and_nothing_started(
    tmp_path: Path, target, variables, message
):
    environment = fake_vllm.install(tmp_path / "site") | {"HF_HUB_CACHE": str(tmp_path / "hub")} | variables
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    model(tmp_path / "cut", shapes={"a": [64, 64]})
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    ended = launched(f"--model {target.format(tmp_path)} --host 127.0.0.1 --port 18999", environment)
    assert ended.returncode == 2
    assert message.format(tmp_path) in ended.stderr
    assert ended.stderr.count("specwatch: ") == 1
    assert "Traceback" not in ended.stderr
    assert "a log line" not in ended.stdout + ended.stderr


def test_json_is_for_plans(tmp_path: Path):
    ended = launched("--model M --json --host 127.0.0.1", fake_vllm.install(tmp_path))
    assert ended.returncode == 2
    assert "add --dry-run" in json.loads(ended.stdout)["findings"][0]["text"]


def test_a_forced_start_reaches_vllm_with_the_reason_in_the_log(tmp_path: Path, pair):
    environment = fake_vllm.install(tmp_path / "site") | {"FAKE_VLLM": json.dumps({"exit_before": 3})}
    ended = launched(f"{pair} --port 18998 --force", environment)
    assert ended.returncode == 3
    assert "--force: goes on although vocabulary-differs is refused" in ended.stderr
    assert "a log line on standard output" in ended.stdout


def test_a_profile_tells_what_k_is_worth(tmp_path: Path, llamas):
    profile = tmp_path / "profile.json"
    write(profile, {"acceptance_by_position": [0.7, 0.3, 0.05, 0.01, 0.0], "draft_cost": 0.1})
    planned = plan(llamas, "--profile-from", str(profile))
    assert "specwatch │ warning: num_speculative_tokens 5: by the acceptance of" in planned.stderr
    assert "2 draft tokens give 1.67 times, 5 give 1.37: take 2." in planned.stderr


def test_preflight_imports_nothing_heavy(pair):
    words = ["launch", "--dry-run", "--vllm-version", "0.32.0", "--force", *shlex.split(pair)]
    heavy = ["aiohttp", "fastapi", "numpy", "requests", "sentencepiece", "tokenizers", "torch", "vllm"]
    script = (
        "import sys; from specwatch.cli import specwatch; "
        f"specwatch({words!r}, standalone_mode=False); print(sorted(set({heavy!r}) & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("flag", ["--preflight", "--force", "--json", "--gpu-memory", "--profile-from"])
def test_help_tells_of_it(flag):
    assert flag in CliRunner().invoke(command, ["--help"]).output
