from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from specwatch.cli import specwatch
from specwatch.errors import InputError, SpecwatchError
from specwatch.generate.kubernetes_config import KubernetesConfig

POD = "http://llama-0.llama.inference.svc:8000"
LOW = "SpeculativeAcceptanceRateLow"
SINGULAR = {
    "thresholds": "threshold",
    "severities": "severity",
    "target_labels": "target-label",
    "alert_labels": "alert-label",
    "model_teams": "model-team",
    "team_slack_url_files": "team-slack-url-file",
    "team_pagerduty_key_files": "team-pagerduty-key-file",
    "labels": "label",
    "vllm_namespaces": "vllm-namespace",
    "vllm_pod_labels": "vllm-pod-label",
    "prometheus_labels": "prometheus-label",
}
"""Options that may be repeated, under keys in the plural."""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(specwatch, ["gen-k8s", *map(str, arguments)])


def written(folder: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((folder / name).read_text())
    return document


def refusal(*arguments: object) -> str:
    problem = run(*arguments).exception
    assert isinstance(problem, InputError)
    assert problem.exit_code == 2
    return str(problem)


def test_the_files_are_written_named_and_the_next_steps_told(tmp_path: Path):
    result = run("--output", tmp_path / "new", "--target", POD)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    on_disk = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert lines[:-2] == [f"wrote {path}" for path in sorted(on_disk)]
    assert f"kubectl apply -k {tmp_path}/new" in lines[-2]
    assert f"kubectl apply -k {tmp_path}/new/alertmanager" in lines[-2]
    assert "goes with its pod; --storage 5Gi keeps it" in lines[-1]


def test_with_a_claim_nothing_is_said_of_what_goes_with_the_pod(tmp_path: Path):
    result = run("--output", tmp_path, "--target", POD, "--storage", "5Gi", "--storage-class", "fast")
    assert "goes with its pod" not in result.output
    assert written(tmp_path, "persistentvolumeclaim.yaml")["spec"]["storageClassName"] == "fast"


def test_the_folder_is_kubernetes_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert run().exit_code == 0
    assert (tmp_path / "kubernetes" / "kustomization.yaml").is_file()


def test_that_there_is_no_sidecar_is_said(tmp_path: Path):
    result = run("--output", tmp_path)
    assert "No sidecar: name vLLM servers with --target" in result.output
    assert not (tmp_path / "deployment.yaml").exists()


def test_the_secret_that_the_sidecar_waits_for_is_named(tmp_path: Path):
    result = run("--output", tmp_path, "--target", POD, "--deliver", "slack", "--deliver", "pagerduty")
    assert "the Secret specwatch-keys with slack-webhook and pagerduty-routing-key" in result.output


def test_options_reach_the_files(tmp_path: Path):
    options = ["--name", "spec", "--namespace", "llm", "--label", "release=stack", "--image", "r.example/s:1"]
    options += ["--target", POD, "--vllm-namespace", "a", "--vllm-namespace", "b", "--vllm-pod-label", "app=llm"]
    options += ["--vllm-port", "8000", "--monitoring-namespace", "obs", "--prometheus-label", "app=prom"]
    options += ["--no-scrape-protocols", "--threshold", f"{LOW}=0.4", "--vllm-job", "llm", "--slack-channel", "#llm"]
    assert run("--output", tmp_path, *options).exit_code == 0
    monitor = written(tmp_path, "podmonitor.yaml")
    assert monitor["metadata"]["name"] == "spec-vllm"
    assert monitor["metadata"]["namespace"] == "llm"
    assert monitor["metadata"]["labels"]["release"] == "stack"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}
    assert monitor["spec"]["selector"] == {"matchLabels": {"app": "llm"}}
    assert monitor["spec"]["podMetricsEndpoints"][0]["portNumber"] == 8000
    assert "scrapeProtocols" not in monitor["spec"]
    assert "r.example/s:1" in (tmp_path / "deployment.yaml").read_text()
    assert "app: prom" in (tmp_path / "networkpolicy.yaml").read_text()
    assert "ratio_rate5m < 0.4" in (tmp_path / "prometheusrule.yaml").read_text()
    assert 'job="llm"' in (tmp_path / "prometheusrule.yaml").read_text()
    assert "'#llm'" in (tmp_path / "alertmanager" / "secret.yaml").read_text()
    assert written(tmp_path, "alertmanager/secret.yaml")["metadata"]["namespace"] == "obs"


def test_a_file_gives_the_options_and_the_command_line_wins(tmp_path: Path):
    file = tmp_path / "choices.yml"
    file.write_text(f"namespace: from-file\nlabels: {{team: a, tier: b}}\ntarget: ['{POD}']\nvllm_port: 8001\n")
    run("--output", tmp_path, "--config", file, "--namespace", "from-flag", "--label", "team=c")
    metadata = written(tmp_path, "deployment.yaml")["metadata"]
    assert metadata["namespace"] == "from-flag"
    assert (metadata["labels"]["team"], metadata["labels"]["tier"]) == ("c", "b")
    assert written(tmp_path, "podmonitor.yaml")["spec"]["podMetricsEndpoints"][0]["portNumber"] == 8001


def test_what_was_chosen_stands_in_the_kustomization(tmp_path: Path):
    run("--output", tmp_path, "--namespace", "llm")
    assert '# Chosen: namespace: "llm"\n' in (tmp_path / "kustomization.yaml").read_text()


def test_every_choice_can_be_made_in_the_file_and_on_the_command_line():
    text = run("--help").output
    for key in KubernetesConfig.model_fields:
        assert re.search(rf"--{SINGULAR.get(key, key.replace('_', '-'))}\b", text), key


def test_a_check_of_fresh_files_succeeds_and_one_of_changed_files_names_them(tmp_path: Path):
    run("--output", tmp_path)
    assert run("--output", tmp_path, "--check").output == f"{tmp_path} is what these options generate\n"
    (tmp_path / "podmonitor.yaml").write_text("")
    problem = run("--output", tmp_path, "--check").exception
    assert isinstance(problem, SpecwatchError)
    assert problem.exit_code == 1
    assert "(podmonitor.yaml)" in str(problem)
    assert (tmp_path / "podmonitor.yaml").read_text() == ""


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        (("--name", "My_Stack"), "such as my-stack"),
        (("--namespace", "a.b"), "such as a-b"),
        (("--threshold", f"{LOW}=60"), "write 0.6 for 60 %"),
        (("--image", "specwatch"), "a tag or a digest"),
        (("--target", "http://localhost:8000"), "the sidecar itself"),
        (("--deliver", "slack"), "name the vLLM servers"),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_written(options: tuple[str, ...], meant: str, tmp_path: Path):
    assert meant in refusal("--output", tmp_path / "new", *options)
    assert not (tmp_path / "new").exists()


def test_an_unknown_key_of_the_file_is_refused_with_file_and_nearest_key(tmp_path: Path):
    file = tmp_path / "choices.yml"
    file.write_text("namspace: x\nvllm_namespace: [y]\n")
    text = refusal("--config", file)
    assert f"namspace in {file}: unknown; did you mean namespace?" in text
    assert f"vllm_namespace in {file}: unknown; did you mean vllm_namespaces?" in text


@pytest.mark.parametrize("content", ["labels: a\n", "target: a\n", "- a\n", "a: [\n", "labels: {team: 1}\n"])
def test_a_file_of_another_shape_is_refused(content: str, tmp_path: Path):
    file = tmp_path / "choices.yml"
    file.write_text(content)
    assert str(file) in refusal("--config", file)


def test_somebody_else_than_slack_and_pagerduty_is_a_usage_error():
    result = run("--target", POD, "--deliver", "mail")
    assert result.exit_code == 2
    assert "'slack', 'pagerduty'" in result.output
