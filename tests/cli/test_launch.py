"""``specwatch launch`` as people type it: plans, refusals, and whole starts of a stand-in for vLLM."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from shutil import which

import pytest
from click.testing import CliRunner, Result

from specwatch.cli.launch import command
from specwatch.lab.child import free_port
from tests.support import fake_vllm
from tests.support.programs import ROOT

ARTICLE = (
    "--model meta-llama/Meta-Llama-3.1-70B-Instruct --tensor-parallel-size 4 "
    "--speculative-model meta-llama/Llama-3.2-1B-Instruct --num-speculative-tokens 5 --speculative-max-model-len 8192 "
    "--gpu-memory-utilization 0.92 --max-num-seqs 64 --port 8000 --host 0.0.0.0"
)
MODULE = "python -m vllm.entrypoints.openai.api_server"


def plan(arguments: str, version: str = "0.32.0") -> Result:
    words = ["--dry-run", "--vllm-version", version, *shlex.split(arguments)]
    return CliRunner().invoke(command, words, env={"HF_HUB_CACHE": "/no/such/cache"})


def specwatch(words: list[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specwatch", "launch", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_plan_is_one_line_that_can_be_pasted_and_its_notes_are_apart():
    planned = plan(ARTICLE)
    assert planned.exit_code == 0
    assert planned.stdout == (
        f"{MODULE} --model meta-llama/Meta-Llama-3.1-70B-Instruct --tensor-parallel-size 4 --speculative-config "
        '\'{"method": "draft_model", "model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 5, '
        '"max_model_len": 8192, "draft_sample_method": "greedy"}\' --gpu-memory-utilization 0.92 --max-num-seqs 64 '
        "--port 8000 --host 0.0.0.0\n"
    )
    assert all(line.startswith("specwatch │ ") for line in planned.stderr.splitlines())
    assert [line.split(": ")[0].removeprefix("specwatch │ ") for line in planned.stderr.splitlines()] == [
        "--speculative-model, --num-speculative-tokens and --speculative-max-model-len left vLLM with 0.8.3",
        "draft_sample_method greedy",
        "max_model_len 8192",
        "--host 0.0.0.0",
        "meta-llama/Meta-Llama-3.1-70B-Instruct is no folder here and not in the cache /no/such/cache",
        "meta-llama/Llama-3.2-1B-Instruct is no folder here and not in the cache /no/such/cache",
        "With speculation, vLLM 0.32.0",
    ]


def test_options_of_vllm_pass_in_their_order_whatever_they_look_like():
    text = "--model M -tp 2 -O3 --seed -1 -dph 127.0.0.1 --served-model-name a b --enable-lora --x=y --override '{}'"
    assert plan(f"{text} --host 127.0.0.1").stdout == f"{MODULE} {text} --host 127.0.0.1\n"


def test_what_follows_two_dashes_is_not_read():
    planned = plan("--model M --host 127.0.0.1 -- --speculative-modle D --no-sidecar")
    assert planned.stdout == f"{MODULE} --model M --host 127.0.0.1 --speculative-modle D --no-sidecar\n"


def test_options_of_specwatch_stay_with_specwatch():
    planned = plan("--model M --no-sidecar --sidecar-listen 127.0.0.1:1 --ready-timeout 5 --host 127.0.0.1")
    assert planned.stdout == f"{MODULE} --model M --host 127.0.0.1\n"


@pytest.mark.parametrize("host", ["", "--host 0.0.0.0", "--host ::"])
def test_a_server_open_to_every_network_is_remarked_once(host, monkeypatch):
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    said = plan(f"--model M {host}").stderr
    assert said.count("listens on every network of this machine, without a key; --host 127.0.0.1 keeps it local") == 1


def test_a_server_on_loopback_is_not_remarked():
    assert plan("--model M --host 127.0.0.1").stderr == ""


@pytest.mark.parametrize("flag", ["--api-key sk-secret", "--api-key=sk-secret", "--api_key sk-secret sk-secret2"])
def test_an_api_key_is_never_shown_and_the_better_way_is(flag):
    planned = plan(f"--model M --host 127.0.0.1 {flag}")
    assert "sk-secret" not in planned.output
    assert planned.stdout == f'{MODULE} --model M --host 127.0.0.1 --api-key "$VLLM_API_KEY"\n'
    assert "--api-key-file FILE or VLLM_API_KEY keeps it hidden" in planned.stderr


def test_a_key_in_a_file_is_read_before_anything_starts(tmp_path: Path):
    (tmp_path / "key").write_text("sk-secret\n")
    planned = plan(f"--model M --api-key-file {tmp_path}/key")
    assert planned.stdout == f"{MODULE} --model M\n"
    assert "listens on every network of this machine; --host" in planned.stderr
    assert "sk-secret" not in planned.output
    both = plan(f"--model M --api-key-file {tmp_path}/key --api-key sk-other")
    assert "--api-key and --api-key-file: keep the file" in str(both.exception)
    missing = plan(f"--model M --hf-token-file {tmp_path}/none")
    assert "--hf-token-file" in str(missing.exception)
    assert "no such file" in str(missing.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "no model to serve"),
        ("--port 8000", "no model to serve"),
        ("--model M --speculative-model D", "num_speculative_tokens is missing"),
        ("--model M --port http", "--port http: a port from 1 to 65535 is needed"),
        ("--model M --config /no/such.yaml", "--config /no/such.yaml: cannot be read"),
        ("--model M -sc '{'", "--speculative-config: no JSON at character 2"),
        ("--model M --speculative-modle D", "--speculative-model is the nearest"),
    ],
)
def test_input_that_cannot_be_used_ends_with_2_and_one_message(arguments, message):
    ended = specwatch(["--dry-run", "--vllm-version", "0.32.0", *shlex.split(arguments)])
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count("specwatch: ") == 1
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_version_that_is_none_is_refused():
    ended = specwatch(["--dry-run", "--vllm-version", "newest", "--model", "M"])
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "'newest' is no vLLM version" in ended.stderr


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_the_options_of_specwatch(flag):
    shown = CliRunner().invoke(command, [flag]).output
    assert all(option in shown for option in ("--dry-run", "--vllm-version", "--no-sidecar", "--ready-timeout"))
    assert "  specwatch launch --model" in shown


def test_a_plan_needs_neither_vllm_nor_torch_nor_the_sidecar():
    words = ["launch", "--dry-run", "--vllm-version", "0.9.2", *shlex.split(ARTICLE)]
    heavy = {"vllm", "torch", "transformers", "aiohttp", "fastapi", "prometheus_client", "rich"}
    script = (
        "import sys; from specwatch.cli import specwatch; "
        f"specwatch({words!r}, standalone_mode=False); print(sorted({heavy!r} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[1] == "[]"


def test_without_vllm_and_without_a_version_it_is_said_what_to_do():
    script = (
        "import sys, importlib.util; importlib.util.find_spec = lambda name: None; from specwatch.cli import main; "
        "sys.argv[1:] = ['launch', '--dry-run', '--model', 'M']; main()"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "vLLM is not installed beside specwatch" in ended.stderr
    assert "--dry-run --vllm-version X" in ended.stderr


def test_a_taken_port_is_refused_before_anything_starts(tmp_path: Path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        ended = specwatch(["--model", "M", "--port", port, "--no-sidecar"], fake_vllm.install(tmp_path))
        both = specwatch(
            ["--model", "M", "--port", str(free_port()), "--sidecar-listen", f"127.0.0.1:{port}"],
            os.environ | {"PYTHONPATH": str(tmp_path)},
        )
    assert ended.returncode == both.returncode == 2
    assert f"--port: nothing can listen on port {port}" in ended.stderr
    assert f"--sidecar-listen: nothing can listen on port {port} of 127.0.0.1" in both.stderr
    assert "a log line" not in ended.stdout + both.stdout


def test_a_whole_start_runs_the_translated_command_and_ends_with_its_code(tmp_path: Path):
    environment = fake_vllm.install(tmp_path) | {"FAKE_VLLM": json.dumps({"exit_before": 3})}
    words = f"M --port {free_port()} --host 127.0.0.1 --speculative-model D --num-speculative-tokens 5 --no-sidecar"
    ended = specwatch(shlex.split(words), environment)
    assert ended.returncode == 3
    assert '\'--speculative-config\', \'{"method": "draft_model", "model": "D"' in ended.stdout
    assert "specwatch │ vLLM 0.32.0 (vllm): " in ended.stderr
    assert "specwatch │ vLLM ended with code 3" in ended.stderr


def test_the_sidecar_gets_target_address_and_record_and_the_record_goes_with_the_server(tmp_path: Path):
    environment = fake_vllm.install(tmp_path / "site") | {"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
    port, own = free_port(), free_port()
    words = f"--model org/M --port {port} --host 127.0.0.1 --sidecar-listen 127.0.0.1:{own} --sidecar-config none.yaml"
    with subprocess.Popen(
        [sys.executable, "-m", "specwatch", "launch", *shlex.split(words)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout)
        started = next(line for line in lines if "starting the sidecar" in line)
        record = Path(shlex.split(started)[shlex.split(started).index("--launch-record") + 1])
        content = json.loads(record.read_text())
        process.send_signal(signal.SIGTERM)
        rest = "".join(lines)
    assert f"sidecar --target M=http://127.0.0.1:{port} --listen 127.0.0.1:{own} --launch-record {record}" in started
    assert started.rstrip().endswith("--config none.yaml")
    assert (content["release"], content["target"], content["method"]) == ("0.32.0", "org/M", None)
    assert process.returncode == 0, rest
    assert not record.exists()
    assert not record.parent.exists()


def test_secrets_are_in_vllms_environment_and_nowhere_else(tmp_path: Path):
    for name, secret in (("key", "sk-secret"), ("token", "hf_secret")):
        (tmp_path / name).write_text(secret)
    plan = {"variables": ["VLLM_API_KEY", "HF_TOKEN"], "exit_after": 0}
    environment = fake_vllm.install(tmp_path / "site") | {"FAKE_VLLM": json.dumps(plan)}
    files = f"--api-key-file {tmp_path}/key --hf-token-file {tmp_path}/token"
    ended = specwatch(shlex.split(f"M --port {free_port()} --host 127.0.0.1 --no-sidecar {files}"), environment)
    assert "VLLM_API_KEY=sk-secret\nHF_TOKEN=hf_secret\n" in ended.stdout
    assert ended.stdout.count("secret") == 2
    assert "secret" not in ended.stderr


def test_a_typed_key_is_moved_out_of_vllms_command_line(tmp_path: Path):
    plan = {"variables": ["VLLM_API_KEY"], "exit_after": 0}
    environment = fake_vllm.install(tmp_path / "site") | {"FAKE_VLLM": json.dumps(plan)}
    words = f"M --port {free_port()} --host 127.0.0.1 --no-sidecar --api-key sk-secret"
    ended = specwatch(shlex.split(words), environment)
    assert "VLLM_API_KEY=sk-secret" in ended.stdout
    assert ended.stdout.count("secret") == 1
    assert "secret" not in ended.stderr


def test_the_record_counts_the_starts_after_a_failure(tmp_path: Path):
    over = tmp_path / "over"
    plan = {"runs": [{"exit_when": str(over), "exit_code": 1}, {}]}
    places = {"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path), "MARK": str(tmp_path)}
    environment = fake_vllm.install(tmp_path / "site") | places | {"FAKE_VLLM": json.dumps(plan)}
    words = f"--model org/M --port {free_port()} --host 127.0.0.1 --sidecar-listen 127.0.0.1:{free_port()}"
    words += " --sidecar-config none.yaml --restart on-failure --restart-delay 0.1"
    with subprocess.Popen(
        [sys.executable, "-m", "specwatch", "launch", *shlex.split(words)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout)
        started = next(line for line in lines if "starting the sidecar" in line)
        record = Path(shlex.split(started)[shlex.split(started).index("--launch-record") + 1])
        first = json.loads(record.read_text())
        over.touch()
        again = next(line for line in lines if "vLLM is ready" in line)
        second = json.loads(record.read_text())
        process.send_signal(signal.SIGTERM)
        rest = "".join(lines)
    assert again
    assert (first["restarts"], second["restarts"]) == (0, 1)
    assert second["started_at"] > first["started_at"]
    assert process.returncode == 0, rest


SERVICE = ROOT / "examples" / "launch" / "specwatch-vllm.service"


def test_the_service_of_the_examples_starts_what_launch_understands(tmp_path: Path):
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(SERVICE)
    service = unit["Service"]
    assert (service["Type"], service["KillMode"], service["TimeoutStartSec"]) == ("notify", "mixed", "infinity")
    program, name, *words = shlex.split(service["ExecStart"])
    assert (program, name) == ("/opt/specwatch/bin/specwatch", "launch")
    words[words.index("--plan") + 1] = str(ROOT / "examples" / "launch" / "draft-model.yaml")
    assert plan(shlex.join(words)).exit_code == 0


def test_systemd_finds_nothing_wrong_with_the_service(tmp_path: Path):
    if which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    copy = tmp_path / SERVICE.name
    copy.write_text(SERVICE.read_text().replace("/opt/specwatch/bin/specwatch", "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, check=False
    )
    assert [line for line in checked.stderr.splitlines() if SERVICE.name in line] == []
