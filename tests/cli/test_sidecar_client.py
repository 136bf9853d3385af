"""Asking a sidecar, and what is said of everything that is none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner

from specwatch import __version__
from specwatch.cli import sidecar_client, specwatch
from specwatch.cli.sidecar_client import NoSidecar, read_address, sidecar
from specwatch.cli.sidecar_options import NOBODY, Identity
from specwatch.errors import InputError
from specwatch.lab.fleet import Fleet
from specwatch.lab.simulator import SimulatedServer
from tests.support.http import Handler, answering, serving
from tests.support.sidecars import AWAY
from tests.support.sidecars import sidecar as running
from tools.rehearsal import rehearsing

PEMS = Path(__file__).parents[1] / "fixtures" / "tls"
SIGNALS, ALERTS = "/api/v1/signals", "/api/v1/alerts"


def json_of(content: object, status: int = 200) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response(content, status=status)

    return handler


async def refusal(address: str, identity: Identity = NOBODY) -> str:
    """What is said where the signals cannot be read."""
    async with sidecar(address, identity) as client:
        with pytest.raises(NoSidecar) as caught:
            await client.signals()
    assert caught.value.exit_code == 3
    assert str(caught.value).startswith(f"{client.address}: ")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://127.0.0.1:9108", "http://127.0.0.1:9108"),
        ("localhost:9108", "http://localhost:9108"),
        ("https://example.com/specwatch/", "https://example.com/specwatch"),
        ("[::1]:9108/#/server/gpu-1", "http://[::1]:9108"),
    ],
)
def test_an_address_is_what_people_write(text, address):
    assert read_address(text) == address


@pytest.mark.parametrize("text", ["", "http://", "ftp://host", "host:99999", "host:0", "http://[::1", "a b://c"])
def test_what_is_no_address_is_said_so(text):
    with pytest.raises(InputError, match="write its address as http://HOST:PORT"):
        read_address(text)


def test_credentials_in_an_address_are_refused_and_not_repeated():
    with pytest.raises(InputError, match="--token-file") as caught:
        read_address("http://admin:hunter2@host:9108")
    assert "hunter2" not in str(caught.value)


async def test_a_sidecar_tells_its_servers_and_alerts():
    async with rehearsing([SimulatedServer("gpu-1", running=2)]) as rehearsal:
        await rehearsal.play(60, 15)
        async with sidecar(rehearsal.url) as client:
            told, alerts = await client.signals(), await client.alerts()
        assert told.at == rehearsal.clock.now()
        assert told.version == __version__
        assert told.targets == tuple(rehearsal.service.views())
        assert alerts == ()


async def test_nobody_there_is_said_so():
    assert "no sidecar answers there (connection refused)" in await refusal("http://127.0.0.1:1")
    assert "no sidecar answers there (the host name is not known)" in await refusal("http://no-such-host.invalid")


async def test_vllm_itself_is_recognised_and_the_way_without_a_sidecar_named():
    async with Fleet([SimulatedServer("gpu-1")]) as fleet:
        said = await refusal(fleet.urls[0])
    assert "this is a vLLM server (0.32.0), not a sidecar; --target" in said


@pytest.mark.parametrize(
    ("routes", "reason"),
    [
        ({}, "what answers there is no sidecar: HTTP 404"),
        ({SIGNALS: json_of({"detail": "Not Found"}, 404)}, "what answers there is no sidecar: HTTP 404"),
        ({SIGNALS: json_of([1, 2])}, "its JSON is of another kind"),
        ({SIGNALS: json_of({"targets": [{}], "version": "9.9.9\x1b[2J"})}, "of release 9.9.9 [2J, and specwatch"),
        ({SIGNALS: json_of({"at": 1, "version": "0.0.9", "targets": [7]})}, "use the release of the sidecar"),
    ],
)
async def test_another_server_or_another_release_is_told_from_a_sidecar(routes, reason):
    async with serving(routes) as url:
        said = await refusal(url)
    assert reason in said
    assert said.isprintable()


async def test_a_sidecar_whose_signals_or_windows_are_others_is_of_another_release():
    async with rehearsing([SimulatedServer("gpu-1")]) as rehearsal, sidecar(rehearsal.url) as client:
        text = (await client.get("signals")).decode()
    target = json.loads(text)
    del target["targets"][0]["windows"]["5m"]["values"]["acceptance_rate"]
    for told, reason in (
        (target, "no signal acceptance_rate over 5m"),
        (json.loads(text.replace('"30m"', '"half an hour"')), "a window half an hour"),
        (json.loads(text.replace('"headline_window":"5m"', '"headline_window":"7m"')), "no window 7m"),
    ):
        async with serving({SIGNALS: json_of(told)}) as url:
            assert reason in await refusal(url)


async def test_what_stands_on_a_web_page_is_not_repeated_but_a_short_reason_is():
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html><body>Sign in</body></html>", content_type="text/html")

    async def reason(_: web.Request) -> web.Response:
        return web.Response(text="ask for me by a loopback address\n", status=400)

    async with serving({SIGNALS: page}) as url:
        assert "HTTP 200;" in await refusal(url)
    async with serving({SIGNALS: reason}) as url:
        assert "HTTP 400 (ask for me by a loopback address);" in await refusal(url)


async def test_a_token_is_sent_and_asked_for_by_the_option(tmp_path):
    seen: list[str | None] = []

    async def guarded(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.json_response({"detail": "no"}, status=401 if seen[-1] is None else 403)

    file = tmp_path / "token"
    file.write_text("s3cret\n")
    async with serving({SIGNALS: guarded}) as url:
        without, wrong = await refusal(url), await refusal(url, Identity(file))
    assert seen == [None, "Bearer s3cret"]
    assert "the sidecar asks for a token (HTTP 401); name the file that holds one with --token-file" in without
    assert "the sidecar does not take this token (HTTP 403)" in wrong
    assert "s3cret" not in wrong


async def test_a_sidecar_that_asks_for_certificates_answers_who_shows_one_of_its_authority():
    server = ("--tls-cert-file", str(PEMS / "server.pem"), "--tls-key-file", str(PEMS / "server.key"))
    trusting = Identity(cacert=PEMS / "authority.pem")
    async with running(*AWAY, *server, "--client-ca-file", str(PEMS / "authority.pem")) as it:
        known = replace(trusting, cert=PEMS / "client.pem", key=PEMS / "client.key")
        async with sidecar(it.url, known) as client:
            assert [view.target.name for view in (await client.signals()).targets] == ["127.0.0.1:1"]
        assert "its certificate is not trusted" in await refusal(it.url)
        assert "may ask for a certificate of ours; name one" in await refusal(it.url, trusting)
        strange = replace(trusting, cert=PEMS / "stranger.pem", key=PEMS / "stranger.key")
        assert "does not take our certificate" in await refusal(it.url, strange)


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        (Identity(key=PEMS / "client.key"), "--key: give the certificate"),
        (Identity(cert=PEMS / "client.pem"), "--cert .*client.pem: no certificate and its key"),
        (Identity(cert=PEMS / "locked.pem", key=PEMS / "locked.key"), "--key .*locked.key: .*without a password"),
        (Identity(cacert=PEMS), "--cacert .*: no certificates in it: is a directory"),
        (Identity(cacert=PEMS / "nowhere.pem"), "--cacert .*nowhere.pem: no certificates in it: no such file"),
        (Identity(cacert=PEMS / "client.key"), "--cacert .*client.key: no certificates in it"),
    ],
)
async def test_certificates_that_cannot_be_used_are_named_with_their_option(identity, said):
    with pytest.raises(InputError, match=said):
        async with sidecar("https://127.0.0.1:1", identity):
            pass


async def test_certificates_without_tls_are_a_mistake():
    with pytest.raises(InputError, match="without TLS there are no certificates; write https://"):
        async with sidecar("127.0.0.1:1", Identity(cacert=PEMS / "authority.pem")):
            pass


@pytest.mark.parametrize("words", [("status",), ("references", "list")])
def test_every_command_that_asks_a_sidecar_takes_certificates(words):
    result = CliRunner().invoke(specwatch, [words[0], "--cacert", str(PEMS / "nowhere.pem"), *words[1:]])
    assert isinstance(result.exception, InputError)
    assert "--cacert" in str(result.exception)


async def test_a_token_does_not_follow_a_redirect(tmp_path):
    file = tmp_path / "token"
    file.write_text("s3cret")
    asked: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({})

    async def redirect(_: web.Request) -> web.Response:
        raise web.HTTPFound("/elsewhere")

    async with serving({SIGNALS: redirect, "/elsewhere": elsewhere}) as url:
        assert "HTTP 302" in await refusal(url, Identity(file))
    assert asked == []


async def test_an_absent_token_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"--token-file .*absent: no such file"):
        async with sidecar("http://127.0.0.1:1", Identity(tmp_path / "absent")):
            pass


async def test_an_answer_is_read_within_limits_of_time_and_size(monkeypatch):
    monkeypatch.setattr(sidecar_client, "LARGEST_ANSWER", 2**20)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b"[" * 2**16)

    async with serving({SIGNALS: endless}) as url:
        assert "the answer is larger than 1 MiB" in await refusal(url)
    async with answering(b"SSH-2.0-OpenSSH_9.2\r\n") as url:
        assert "no sidecar answers there" in await refusal(url)
    monkeypatch.setattr(sidecar_client, "ANSWER_SECONDS", 0.3)
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", close=False) as url:
        assert "no complete answer within 0.3 s" in await refusal(url)


async def test_json_without_end_or_sense_is_one_error():
    async def nested(_: web.Request) -> web.Response:
        return web.Response(body=b"[" * 100_000, content_type="application/json")

    async with serving({SIGNALS: nested}) as url:
        assert "its JSON is of another kind" in await refusal(url)
