from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from specwatch.cli import specwatch
from tests.support.programs import ROOT

READER = "reader-0123456789abcdef"
WEBHOOK = "https://hooks.slack.com/services/T00/B00/secretsecretsecret"


def written(folder: Path, text: str) -> Path:
    path = folder / "sidecar.yml"
    path.write_text(text)
    return path


def secret(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def checked(path: Path) -> tuple[int, list[str]]:
    """Exit code and lines."""
    result = CliRunner().invoke(specwatch, ["check-config", str(path)])
    said = result.output if result.exception is None or isinstance(result.exception, SystemExit) else ""
    if result.exception and not said:
        return getattr(result.exception, "exit_code", 1), str(result.exception).split("\n")
    return result.exit_code, said.splitlines()


def test_a_good_file_says_what_would_be_watched_who_would_be_told_and_who_may_ask(tmp_path):
    (tmp_path / "fleet.json").write_text(json.dumps([{"targets": ["gpu-3:8000"]}]))
    file = written(
        tmp_path,
        f"""
target: [gpu-1=http://gpu-1:8000, gpu-2=http://gpu-2:8000]
interval: 10
listen: 0.0.0.0:9108
read_token_file: {secret(tmp_path, "read", READER)}
slack_webhook_file: {secret(tmp_path, "slack", WEBHOOK)}
alertmanager: [https://alerts-1:9093, https://alerts-2:9093]
database: {tmp_path}/state.db
scrape_configs:
  - job_name: fleet
    file_sd_configs: [{{files: ["{tmp_path}/*.json"]}}]
    dns_sd_configs: [{{names: [_http._tcp.vllm.example.com]}}]
""",
    )
    code, (warning, *lines) = checked(file)
    assert warning.startswith("specwatch: warning: tokens travel to 0.0.0.0:9108 unencrypted")
    assert (code, lines) == (
        0,
        [
            "watches 3 servers every 10 s",
            "  gpu-1  http://gpu-1:8000/metrics",
            "  gpu-2  http://gpu-2:8000/metrics",
            "  gpu-3:8000  http://gpu-3:8000/metrics",
            "looks for servers in file_sd_configs of job fleet",
            "looks for servers in dns_sd_configs of job fleet",
            "tells slack, alertmanager alerts-1:9093 and alertmanager alerts-2:9093",
            f"keeps its state in {tmp_path}/state.db",
            "serves http://0.0.0.0:9108, to whoever has a token, from every machine that reaches it",
        ],
    )


def test_every_mistake_is_told_at_once_with_its_line(tmp_path):
    file = written(
        tmp_path,
        """\
target: [gpu-1=http://gpu-1:8000]
intervall: 5
timeout: -1
interval: 5
interval: 6
gpus: many
listen: 0.0.0.0:9108
verify_every: 1h
verify_prompts: /no/such/prompts.jsonl
slack_webhook_file: /no/such/slack
launch_record: /no/such/record
database: /no/such/folder/state.db
scrape_configs:
  - job_name: fleet
    tls_config:
      ca_file: /no/such/ca.pem
  - job_name: fleet
""",
    )
    code, lines = checked(file)
    assert code == 2
    assert lines[0].endswith("sidecar.yml: 11 mistakes")
    assert [line.strip() for line in lines[1:]] == [
        "line 2: intervall: unknown; did you mean interval?",
        "line 3: timeout: Input should be greater than 0, got '-1'",
        "line 5: interval: stands there twice",
        "line 6: gpus: Input should be a valid integer, unable to parse string as an integer, got 'many'",
        "line 7: --listen 0.0.0.0:9108 can be reached from other machines, and nothing asks who they are. Give "
        "--read-token-file and --admin-token-file, or --client-ca-file, keep it on 127.0.0.1, or say --insecure.",
        "line 9: verify_prompts: /no/such/prompts.jsonl: no such file",
        "line 10: slack_webhook_file: /no/such/slack: no such file",
        "line 11: launch_record: /no/such/record: no such file",
        "line 12: database: /no/such/folder/state.db: its folder is missing, or this user cannot write there",
        "line 13: scrape_configs: two jobs are called 'fleet'",
        "line 16: scrape_configs.0.tls_config.ca_file: /no/such/ca.pem: no such file",
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no target: name at least one server"),
        ("target: [http://a:1, http://a:1]", "line 1: two targets are called 'a:1'"),
        ("target: 5", "line 1: target: Input should be a list"),
        ("target: [a:1]\nlisten: here", "line 2: --listen 'here': write it as HOST:PORT"),
        ("target: [a:1]\nalertmanager: [alerts:9093]", "line 2: --alertmanager: expected an address"),
        ("target: [a:1]\ntls_cert_file: /dev/null", "line 2: tls_cert_file: /dev/null: it is no file"),
        (
            "target: [a:1]\nscrape_configs: [{job_name: b, static_configs: [{targets: [1], labels: {a: [b]}}]}]",
            "line 2",
        ),
        ("target: [a:1]\nscrape_configs: [{job_name: b, static_configs: [{targets: ['http://x']}]}]", "line 2"),
    ],
)
def test_a_mistake_is_told_in_words_and_with_its_line(tmp_path, text, what):
    code, lines = checked(written(tmp_path, text))
    assert code == 2
    assert what in "\n".join(lines)


@pytest.mark.parametrize(
    "text", ["{", "a: b: c", "- a", "target: &a [*a]", "\x00", "? [a]\n: b", "a: !!python/object:x {}"]
)
def test_what_is_no_configuration_at_all_is_one_message(tmp_path, text):
    code, lines = checked(written(tmp_path, text))
    assert code == 2
    assert str(tmp_path) in lines[0]


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert checked(tmp_path / "none.yml") == (2, [f"{tmp_path}/none.yml: no such file or directory"])


def test_no_secret_is_told(tmp_path, caplog):
    for name, text in (("read", f"{READER}\nbroken token"), ("slack", WEBHOOK.replace("https", "gopher"))):
        secret(tmp_path, name, text)
    file = written(
        tmp_path,
        f"target: [http://user:hunter22@a:1]\nread_token_file: {tmp_path}/read\nslack_webhook_file: {tmp_path}/slack\n",
    )
    code, lines = checked(file)
    said = "\n".join(lines) + caplog.text
    assert (code, len(lines)) == (2, 4)
    for hidden in (READER, "broken token", "secretsecret", "hunter22"):
        assert hidden not in said


def test_a_secret_that_is_none_is_told_where_its_file_is_named(tmp_path):
    token = secret(tmp_path, "webhook", "")
    key = secret(tmp_path, "slack", WEBHOOK)
    file = written(
        tmp_path,
        f"target: [http://a:1]\nslack_webhook_file: {key}\nwebhook_url: https://a/b\nwebhook_token_file: {token}\n",
    )
    code, lines = checked(file)
    assert code == 2
    assert lines[1:] == [f"  line 4: --webhook-token-file {token}: the file is empty"]


def test_files_of_targets_that_are_broken_are_told(tmp_path):
    (tmp_path / "fleet.json").write_text("[{]")
    file = written(
        tmp_path, f'scrape_configs: [{{job_name: fleet, file_sd_configs: [{{files: ["{tmp_path}/*.json"]}}]}}]'
    )
    code, lines = checked(file)
    assert code == 2
    assert "fleet.json" in "\n".join(lines)


def test_a_long_list_of_servers_is_cut(tmp_path):
    code, lines = checked(written(tmp_path, "target: [" + ", ".join(f"gpu-{n}:8000" for n in range(1000)) + "]"))
    assert (code, lines[0], lines[21]) == (0, "watches 1000 servers every 5 s", "  and 980 more")


def test_nothing_is_asked_of_the_network(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    text = "target: [gpu-1:8000]\nscrape_configs: [{job_name: a, http_sd_configs: [{url: http://sd/list}]}]"
    assert checked(written(tmp_path, text))[0] == 0


def test_the_configuration_in_the_kubernetes_example_can_be_used(tmp_path):
    import yaml

    entry = yaml.safe_load((ROOT / "examples" / "kubernetes" / "configmap.yaml").read_text())["data"]["sidecar.yaml"]
    mounted = "/var/lib/specwatch"
    assert mounted in entry
    assert checked(written(tmp_path, entry.replace(mounted, str(tmp_path))))[0] == 0


def test_a_sidecar_that_reads_a_prometheus_says_whom_it_would_ask(tmp_path):
    assert checked(ROOT / "examples" / "sidecar" / "from-prometheus.yaml") == (
        0,
        [
            'asks http://prometheus:9090 for the servers with job="vllm" every 15 s',
            "tells nobody of alerts: it shows them",
            "keeps its state in memory",
            "serves http://127.0.0.1:9108, to this machine alone",
        ],
    )
    code, lines = checked(written(tmp_path, "from_prometheus: https://mimir/prometheus\n"))
    assert (code, lines[0]) == (0, 'asks https://mimir/prometheus for the servers with job="vllm" every 15 s')


def test_what_cannot_be_asked_of_a_prometheus_is_named_with_its_line(tmp_path):
    file = written(
        tmp_path,
        """listen: 127.0.0.1:9108
from_prometheus: http://prometheus:9090
prometheus_selector: "{job='vllm'}"
prometheus:
  server_labels: []
  tls_config: {ca_file: /no/such/ca.pem}
""",
    )
    code, lines = checked(file)
    said = "\n".join(lines)
    assert code == 2
    assert "line 5: prometheus.server_labels: " in said
    good_labels = file.read_text().replace("[]", "[instance]")
    file.write_text(good_labels)
    said = "\n".join(checked(file)[1])
    assert "line 3: prometheus_selector" in said
    assert "line 6: prometheus.tls_config.ca_file: /no/such/ca.pem: no such file" in said
    both = written(tmp_path, "target: [a:1]\nfrom_prometheus: http://prometheus:9090\n")
    assert "line 2: from_prometheus: takes the place of target" in "\n".join(checked(both)[1])
