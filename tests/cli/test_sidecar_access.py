from __future__ import annotations

import asyncio
import base64
import socket
import sys
from pathlib import Path

import pytest

from specwatch import cli
from tests.support.sidecars import AWAY, sidecar

READER = "reader-0123456789abcdef"
OTHER = "other-0123456789abcdef"


def token_file(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


async def test_beyond_loopback_it_serves_whoever_has_a_token_under_any_name(tmp_path):
    tokens = token_file(tmp_path / "read", READER)
    async with sidecar(*AWAY, "--listen", "0.0.0.0:0", "--read-token-file", tokens, "--open-metrics") as it:
        basic = base64.b64encode(f"anna:{READER}".encode()).decode()
        assert (await it.get("/api/v1/alerts"))[0] == 401
        assert (await it.get("/api/v1/alerts", Authorization=f"Bearer {READER}", Host="sw.example.com"))[0] == 200
        assert (await it.get("/", Authorization=f"Basic {basic}"))[0] == 200
        assert (await it.get("/metrics"))[0] == 200
        Path(tokens).write_text(f"{OTHER}\n")
        assert (await it.get("/api/v1/alerts", Authorization=f"Bearer {READER}"))[0] == 401
        assert (await it.get("/api/v1/alerts", Authorization=f"Bearer {OTHER}"))[0] == 200
        assert await it.end() == 0
    assert READER not in it.said
    assert OTHER not in it.said
    assert "unencrypted" in it.said


def test_a_file_of_tokens_that_cannot_be_used_keeps_it_from_starting(tmp_path, capsys, monkeypatch):
    tokens = token_file(tmp_path / "read", "hunter2")
    monkeypatch.setattr(sys, "argv", ["specwatch", "sidecar", *AWAY, "--read-token-file", tokens])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    said = capsys.readouterr().err
    assert (caught.value.code, said.count("\n")) == (2, 1)
    assert said.startswith(f"specwatch: --read-token-file {tokens}: a line is no token")
    assert "hunter2" not in said


async def test_a_page_that_listens_to_events_does_not_hold_up_a_stop():
    async with sidecar(*AWAY) as it:
        host, port = it.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
        assert await it.end() == 0
        writer.close()
    assert "ERROR" not in it.said, it.said


async def test_the_head_of_a_request_is_bounded():
    async with sidecar(*AWAY) as it:
        host, port = it.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.settimeout(30)
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 2**17)
            assert client.recv(12) == b"HTTP/1.1 400"
        assert (await it.get("/healthz"))[0] == 200
