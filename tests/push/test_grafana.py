from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from specwatch.errors import InputError, SpecwatchError
from specwatch.push import grafana as client
from specwatch.push.grafana import Grafana, checked_url, printable
from tests.support.grafana import TOKEN, grafana
from tests.support.http import answering

CERTIFICATE = Path(__file__).parent.parent / "fixtures" / "loopback-tls.pem"
"""A certificate for 127.0.0.1 that signs itself, and its key."""


def checked(url: str, ca_file: Path | None = None) -> None:
    with Grafana(url, TOKEN, ca_file) as asked:
        asked.check()


async def refused(raw: bytes, close: bool = True) -> str:
    """What is said of a server that answers with this."""
    async with answering(raw, close) as url:
        with pytest.raises(SpecwatchError) as caught:
            await asyncio.to_thread(checked, url)
    return str(caught.value)


def test_a_certificate_that_nobody_signed_is_refused_before_the_token_is_sent():
    with grafana(CERTIFICATE) as fake:
        with pytest.raises(SpecwatchError, match=r"self.signed certificate.*--ca-file"):
            checked(fake.url)
        assert fake.requests == []


def test_a_certificate_of_the_named_ca_is_taken():
    with grafana(CERTIFICATE) as fake:
        checked(fake.url, CERTIFICATE)
        assert fake.requests == [("GET", "/api/health")]


def test_a_ca_file_without_a_certificate_is_said(tmp_path: Path):
    (tmp_path / "ca.pem").write_text("nothing")
    with grafana(CERTIFICATE) as fake, pytest.raises(SpecwatchError, match=r"ca.file|certificate"):
        checked(fake.url, tmp_path / "ca.pem")


def test_the_token_goes_to_a_grafana_only_and_though_netrc_has_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login root password root\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with grafana() as fake, Grafana(fake.url, TOKEN) as asked:
        asked.check()
        asked.folder("x")
        assert fake.authorization == [None, f"Bearer {TOKEN}"]


def test_a_token_that_no_header_can_hold_is_refused_and_not_repeated():
    with pytest.raises(InputError, match="--token-file") as caught:
        Grafana("http://127.0.0.1:1", "glsa_推論")
    assert "推論" not in str(caught.value)


async def test_a_redirect_is_named_and_not_followed():
    with grafana() as fake:
        head = f"HTTP/1.1 302 Found\r\nLocation: {fake.url}/login\r\nContent-Length: 0\r\n\r\n"
        said = await refused(head.encode())
        assert f"redirect to {fake.url}/login" in said
        assert "--url" in said
        assert fake.requests == []


async def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client, "LARGEST_ANSWER", 2**20)
    said = await refused(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (2**20 + 2**17))
    assert "more than 1 MiB" in said


async def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client, "READ_SECONDS", 0.2)
    assert "does not answer within 0.2 s" in await refused(b"", close=False)


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"ok"'],
)
async def test_what_answers_otherwise_is_no_grafana(answer):
    assert "is no Grafana" in await refused(answer)


async def test_a_grafana_without_its_database_is_said():
    body = b'{"database": "failing"}'
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(body)}\r\n\r\n"
    assert "its database is failing" in await refused(head.encode() + body)


@pytest.mark.parametrize(
    "url", ["grafana", "ftp://grafana", "https://", "http://g:99999", "http://g/?x=1", "http://[g"]
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(InputError, match="--url"):
        checked_url(url)


def test_a_password_in_the_address_is_refused_and_not_repeated():
    with pytest.raises(InputError) as caught:
        checked_url("https://admin:hunter2@grafana.example.com")
    assert "hunter2" not in str(caught.value)


def test_a_path_below_which_grafana_is_served_stays():
    assert checked_url("https://example.com/grafana/") == "https://example.com/grafana"


def test_words_of_others_are_short_and_steer_no_terminal():
    assert printable("a\x1b[2Jb\nc") == "a?[2Jb?c"
    assert len(printable("x" * 9999)) == 200
