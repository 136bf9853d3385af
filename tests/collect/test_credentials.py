"""Tokens, passwords and certificates, on real sockets."""

from __future__ import annotations

import base64
import logging
import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from specwatch.collect.connections import connections
from specwatch.collect.credentials import Credentials
from specwatch.collect.http import Cause, Limits, ScrapeError, fetch, http_session
from specwatch.errors import InputError
from specwatch.scrape_config import HttpClient
from tests.support.http import serving, text_page

PEMS = Path(__file__).parents[1] / "fixtures" / "tls"
AUTHORITY = PEMS / "authority.pem"
SECRET = "hunter2-opensesame"  # noqa: S105


@pytest.fixture(autouse=True, params=[http_session, connections], ids=["aiohttp", "connections"])
def _either_carries_the_questions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "http_session", request.param)


def credentials(**client: Any) -> Credentials:
    return Credentials(HttpClient.model_validate(client))


def certified(name: str) -> dict[str, str]:
    return {"cert_file": str(PEMS / f"{name}.pem"), "key_file": str(PEMS / f"{name}.key")}


def server(asks_clients: bool = False) -> ssl.SSLContext:
    """Encryption of a server that may want to know its clients."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=AUTHORITY)
    context.load_cert_chain(PEMS / "server.pem", PEMS / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED if asks_clients else ssl.CERT_NONE
    return context


async def answer(url: str, known: Credentials | None) -> str:
    async with http_session() as session:
        return (await fetch(session, f"{url}/", Limits(), known)).body.decode()


async def refusal(url: str, known: Credentials | None) -> str:
    with pytest.raises(ScrapeError) as caught:
        await answer(url, known)
    return str(caught.value)


async def told(request: web.Request) -> web.Response:
    return web.Response(text=request.headers.get("Authorization", "nothing"))


async def test_a_token_is_shown_and_read_again_when_it_changes(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    known = credentials(authorization={"credentials_file": str(file)})
    async with serving({"/": told}) as url:
        assert await answer(url, known) == f"Bearer {SECRET}"
        file.write_text("another-token-of-another-length")
        assert await answer(url, known) == "Bearer another-token-of-another-length"


async def test_a_password_is_shown_as_browsers_do(tmp_path):
    (tmp_path / "password").write_text(SECRET)
    known = credentials(basic_auth={"username": "ada", "password_file": str(tmp_path / "password")})
    async with serving({"/": told}) as url:
        assert await answer(url, known) == "Basic " + base64.b64encode(f"ada:{SECRET}".encode()).decode()


async def test_a_token_that_is_gone_stands_as_it_was_and_the_log_says_so_once_without_it(tmp_path, caplog):
    file = tmp_path / "token"
    file.write_text(SECRET)
    known = credentials(authorization={"credentials_file": str(file)})
    async with serving({"/": told}) as url:
        await answer(url, known)
        file.unlink()
        caplog.set_level(logging.DEBUG)
        for _ in range(2):
            assert await answer(url, known) == f"Bearer {SECRET}"
    said = [record.getMessage() for record in caplog.records if record.name.startswith("specwatch")]
    assert said == [f"credentials_file {file}: no such file or directory; what it held before stands"]


async def test_no_redirect_takes_a_token_along(tmp_path):
    (tmp_path / "token").write_text(SECRET)
    known = credentials(authorization={"credentials_file": str(tmp_path / "token")})
    asked = []

    async def elsewhere(request: web.Request) -> web.Response:
        asked.append(request)
        return web.Response()

    async with serving({"/": elsewhere}) as other:

        async def move(_: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"{other}/")

        async with serving({"/": move}) as url:
            assert "HTTP 307" in await refusal(url, known)
    assert asked == []


async def test_a_server_of_an_unknown_authority_is_not_trusted_unless_it_is_named_or_nobody_is_asked_for():
    async with serving({"/": text_page("hello")}, encryption=server()) as url:
        assert "certificate does not hold" in await refusal(url, None)
        assert await answer(url, credentials(tls_config={"ca_file": str(AUTHORITY)})) == "hello"
        assert await answer(url, credentials(tls_config={"insecure_skip_verify": True})) == "hello"


async def test_the_name_in_the_certificate_is_the_one_that_is_asked_for():
    async with serving({"/": text_page("hello")}, encryption=server()) as url:
        expected = {"ca_file": str(AUTHORITY), "server_name": "another.example"}
        assert "certificate does not hold" in await refusal(url, credentials(tls_config=expected))


async def test_a_server_that_wants_to_know_its_clients_is_shown_a_certificate():
    trusted = {"ca_file": str(AUTHORITY)}
    async with serving({"/": text_page("hello")}, encryption=server(asks_clients=True)) as url:
        assert await answer(url, credentials(tls_config={**trusted, **certified("client")})) == "hello"
        await refusal(url, credentials(tls_config=trusted))
        await refusal(url, credentials(tls_config={**trusted, **certified("stranger")}))


async def test_a_renewed_certificate_is_shown_from_then_on(tmp_path):
    def put(name: str) -> None:
        for ending in ("pem", "key"):
            shutil.copy(PEMS / f"{name}.{ending}", tmp_path / f"mine.{ending}")

    put("stranger")
    mine = {"cert_file": str(tmp_path / "mine.pem"), "key_file": str(tmp_path / "mine.key")}
    known = credentials(tls_config={"ca_file": str(AUTHORITY), **mine})
    async with serving({"/": text_page("hello")}, encryption=server(asks_clients=True)) as url:
        await refusal(url, known)
        put("client")
        assert await answer(url, known) == "hello"


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ({"authorization": {"credentials_file": "{absent}"}}, "credentials_file .*absent: no such file"),
        ({"authorization": {"credentials_file": "{binary}"}}, "credentials_file .*binary: "),
        ({"basic_auth": {"username": "a", "password_file": "{empty}"}}, "password_file .*empty: the file is empty"),
        ({"tls_config": {"ca_file": "{absent}"}}, "ca_file .*absent: .*no such file"),
        ({"tls_config": {"ca_file": "{empty}"}}, "ca_file .*empty: "),
        (
            {"tls_config": certified("locked")},
            "cert_file .*locked.pem, key_file .*: no certificate and its key without",
        ),
        ({"tls_config": {"cert_file": "{binary}", "key_file": "{binary}"}}, "cert_file .*binary, key_file .*: "),
    ],
)
async def test_a_file_that_never_could_be_used_is_named_without_what_is_in_it(tmp_path, client, said):
    (tmp_path / "binary").write_bytes(b"\xff\xfe" + SECRET.encode())
    (tmp_path / "empty").write_text("\n")
    places = {name: str(tmp_path / name) for name in ("absent", "binary", "empty")}
    known = credentials(**{key: {k: v.format(**places) for k, v in part.items()} for key, part in client.items()})
    with pytest.raises(InputError, match=said) as caught:
        known.terms()
    assert SECRET not in str(caught.value)
    with pytest.raises(ScrapeError, match=said) as refused:
        await answer("http://127.0.0.1:1", known)
    assert refused.value.cause is Cause.CREDENTIALS


def test_no_secret_is_in_what_is_printed_of_credentials(tmp_path):
    (tmp_path / "token").write_text(SECRET)
    known = credentials(authorization={"credentials_file": str(tmp_path / "token")})
    assert SECRET not in f"{known!r} {known.terms()!r}"
