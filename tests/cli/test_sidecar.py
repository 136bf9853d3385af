from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path

import pytest

from specwatch import cli
from tests.support.http import answering, serving, text_page
from tests.support.pages import page_text
from tests.support.sidecars import AWAY, sidecar

PAGE = text_page(page_text("vllm-0.32.0-v1-draft_model-json"))


def refused(capsys, monkeypatch, *words: str) -> tuple[int, str]:
    """Exit code and message of a sidecar that does not start."""
    monkeypatch.setattr(sys, "argv", ["specwatch", "sidecar", *words])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    output, said = capsys.readouterr()
    assert output == ""
    assert isinstance(caught.value.code, int)
    return caught.value.code, said


@pytest.fixture
def refusal(capsys, monkeypatch):
    """Exit code and message of a sidecar that does not start."""
    return lambda *words: refused(capsys, monkeypatch, *words)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_serves_until_it_is_asked_to_end_and_then_ends_well(number):
    async with serving({"/metrics": PAGE}) as url, sidecar("--target", f"gpu={url}", "--listen", "127.0.0.1:0") as it:
        assert [(target["target"]["name"], target["up"]) for target in await it.signals()] == [("gpu", True)]
        assert await it.get("/healthz") == (200, "ok\n")
        status, page = await it.get("/metrics")
        assert 'specwatch_target_up{model_name="./lab_target",target="gpu"} 1.0' in page
        assert (status, (await it.get("/"))[0]) == (200, 200)
        assert await it.end(number) == 0
    (line,) = it.lines
    assert "serving http://127.0.0.1:" in line


async def test_it_ends_while_a_target_hangs_and_a_client_holds_its_connection():
    async with answering(b"", close=False) as silent, sidecar("--target", silent, "--listen", "127.0.0.1:0") as it:
        host, port = it.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as idle:
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(15) == b"HTTP/1.1 200 OK"
            assert await it.end() == 0
    assert "Traceback" not in it.said


async def test_a_target_that_fails_is_said_once_and_the_others_are_served():
    async with serving({"/metrics": PAGE}) as url:
        words = ("--target", f"here={url}", "--target", "away=http://127.0.0.1:1", "--interval", "0.2")
        async with sidecar(*words, "--listen", "127.0.0.1:0") as it:
            assert {target["target"]["name"]: target["up"] for target in await it.signals()} == {
                "here": True,
                "away": False,
            }
            for _ in range(500):
                if 'specwatch_scrape_failures_total{target="away"} 3.0' in (await it.get("/metrics"))[1]:
                    break
                await asyncio.sleep(0.02)
            assert await it.end() == 0
    assert it.said.count("away") == 1
    assert "'away' at http://127.0.0.1:1/metrics: no connection: connection refused" in it.said


async def test_a_foreign_host_header_is_refused_on_loopback_only():
    async with sidecar(*AWAY) as it:
        assert (await it.get("/metrics", Host="evil.example"))[0] == 400
    async with sidecar("--target", "http://127.0.0.1:1", "--listen", "0.0.0.0:0", "--insecure") as it:
        assert (await it.get("/metrics", Host="specwatch.example.com"))[0] == 200


async def test_options_come_from_variables_and_a_file_in_that_order_of_weight(tmp_path):
    (tmp_path / "sidecar.yml").write_text("target: [file=http://127.0.0.1:1]\ninterval: 30\ndraft_cost: 0.3\n")
    async with serving({"/metrics": PAGE}) as url:
        variables = {
            "SPECWATCH_SIDECAR_CONFIG": str(tmp_path / "sidecar.yml"),
            "SPECWATCH_SIDECAR_TARGET": f"one={url} two={url}",
            "SPECWATCH_SIDECAR_LISTEN": "127.0.0.1:1",
            "SPECWATCH_SIDECAR_INTERVAL": "0.2",
            "SPECWATCH_SIDECAR_NUM_SPECULATIVE_TOKENS": "7",
        }
        async with sidecar("--listen", "127.0.0.1:0", env=variables) as it:
            targets = await it.signals()
    assert [target["target"]["name"] for target in targets] == ["one", "two"]
    assert [(target["k"], target["cost"]["c"]) for target in targets] == [(7, 0.3)] * 2


async def test_a_launch_record_tells_k_method_and_cost(tmp_path):
    record = tmp_path / "launch.json"
    record.write_text(
        '{"format": 1, "started_at": 1.0, "release": "0.32.0", "method": "draft_model", "num_speculative_tokens": 4, '
        '"target_parameters": 1000, "draft_parameters": 20}'
    )
    async with sidecar(*AWAY, "--launch-record", str(record)) as it:
        (target,) = await it.signals()
    assert (target["k"], target["method"], target["cost"]["c"]) == (4, "draft_model", 0.02)


@pytest.mark.parametrize("address", ["0.0.0.0:9108", "10.0.0.1:9108", "[::]:9108", "gpu-1.example.com:9108"])
def test_an_address_that_others_reach_needs_a_word_of_its_own(refusal, address):
    code, said = refusal("--target", "http://127.0.0.1:1", "--listen", address)
    assert code == 2
    assert said.startswith(f"specwatch: --listen {address} can be reached from other machines")
    assert "--insecure" in said


@pytest.mark.parametrize("address", ["9108", ":9108", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:99999", "127.0.0.1"])
def test_an_address_is_host_and_port(refusal, address):
    code, said = refusal("--target", "http://127.0.0.1:1", "--listen", address)
    assert (code, said.count("\n")) == (2, 1)
    assert "HOST:PORT" in said


def test_a_taken_port_is_one_message(refusal):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refusal("--target", "http://127.0.0.1:1", "--listen", f"127.0.0.1:{port}") == (
            1,
            f"specwatch: cannot listen on 127.0.0.1:{port}: something listens there already, perhaps another sidecar. "
            "Choose with --listen.\n",
        )


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a..b"])
def test_a_host_that_does_not_exist_is_one_message(refusal, host):
    code, said = refusal("--target", "http://127.0.0.1:1", "--listen", f"{host}:0", "--insecure")
    assert (code, said) == (1, f"specwatch: cannot listen on {host}:0: no such host name. Choose with --listen.\n")


def test_without_a_target_there_is_nothing_to_watch(refusal):
    code, said = refusal()
    assert (code, said.count("\n")) == (2, 1)
    assert "--target http://HOST:PORT" in said


@pytest.mark.parametrize(
    ("words", "name"), [(("a=http://x:1", "a=http://y:2"), "a"), (("http://x:1", "x:1/other/metrics"), "x:1")]
)
def test_two_targets_of_one_name_are_refused(refusal, words, name):
    code, said = refusal(*(word for target in words for word in ("--target", target)))
    assert (code, said.count("\n")) == (2, 1)
    assert f"two targets are called '{name}'" in said


def test_two_targets_in_a_variable_are_two(refusal, monkeypatch):
    monkeypatch.setenv("SPECWATCH_SIDECAR_TARGET", "a=http://x:1 a=http://y:2")
    assert refusal() == (
        2,
        "specwatch: two targets are called 'a': give each a name of its own with --target NAME=URL\n",
    )


@pytest.mark.parametrize("target", ["ftp://x", "http://", "http://user:secret@x:1", "http://x:port", "\x1b=http://x:1"])
def test_a_target_that_is_no_address_is_refused(refusal, target):
    code, said = refusal("--target", target)
    assert (code, said.count("\n")) == (2, 1)
    assert "secret" not in said
    assert "\x1b" not in said


def test_a_configuration_that_cannot_be_used_is_told_whole(refusal, tmp_path: Path):
    file = tmp_path / "sidecar.yml"
    file.write_text("intervall: 5\ntimeout: -1\n")
    code, said = refusal("--target", "http://x:1", "--config", str(file))
    assert code == 2
    assert said.startswith("specwatch: 2 entries of the configuration cannot be used:\n")
    assert f"intervall in {file}: unknown; did you mean interval?" in said
    assert f"timeout in {file}: " in said
    assert refusal("--config", str(tmp_path / "missing.yml")) == (
        2,
        f"specwatch: {tmp_path}/missing.yml: no such file or directory\n",
    )


@pytest.mark.parametrize("option", ["--slack-webhook-file", "--pagerduty-routing-key-file", "--launch-record"])
def test_a_file_that_is_missing_is_named(refusal, tmp_path, option):
    code, said = refusal("--target", "http://x:1", option, str(tmp_path / "missing"))
    assert (code, said.count("\n")) == (2, 1)
    assert str(tmp_path / "missing") in said


@pytest.mark.parametrize("words", [("--interval", "soon"), ("--num-speculative-tokens", "0"), ("--draft-cost", "11")])
def test_a_value_that_cannot_be_is_refused(refusal, words):
    code, said = refusal("--target", "http://x:1", *words)
    assert code == 2
    assert words[0].strip("-").replace("-", "_") in said.replace("-", "_")


def test_help_tells_of_the_variables(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["specwatch", "sidecar", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "SPECWATCH_SIDECAR_TARGET" in capsys.readouterr().out
