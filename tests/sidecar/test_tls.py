from __future__ import annotations

import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from specwatch.config import SidecarConfig
from specwatch.errors import InputError
from specwatch.sidecar.tls import Tls, from_config
from tests.support.sidecars import AWAY, sidecar

PEMS = Path(__file__).parents[1] / "fixtures" / "tls"
AUTHORITY = PEMS / "authority.pem"


def pair(name: str) -> tuple[Path, Path]:
    return PEMS / f"{name}.pem", PEMS / f"{name}.key"


def trusting(client: str | None = None) -> ssl.SSLContext:
    """What a client of ours trusts, and shows."""
    context = ssl.create_default_context(cafile=AUTHORITY)
    if client:
        context.load_cert_chain(*pair(client))
    return context


def options(name: str, *more: str) -> list[str]:
    certificate, key = pair(name)
    return [*AWAY, "--tls-cert-file", str(certificate), "--tls-key-file", str(key), *more]


@asynccontextmanager
async def asking(url: str, context: ssl.SSLContext) -> AsyncIterator[int]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz", ssl=context) as answer:
        yield answer.status


async def test_it_serves_https_and_nothing_else():
    async with sidecar(*options("server")) as it:
        assert it.url.startswith("https://127.0.0.1:")
        async with asking(it.url, trusting()) as status:
            assert status == 200
        with pytest.raises(aiohttp.ClientError):
            async with asking(it.url.replace("https:", "http:"), trusting()):
                pass
        assert await it.end() == 0


async def test_with_an_authority_of_clients_only_those_it_knows_get_an_answer():
    async with sidecar(*options("server", "--client-ca-file", str(AUTHORITY), "--listen", "0.0.0.0:0")) as it:
        async with asking(it.url, trusting("client")) as status:
            assert status == 200
        for stranger in (None, "stranger"):
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                async with asking(it.url, trusting(stranger)):
                    pass
        assert await it.end() == 0


def served(tls: Tls) -> bytes:
    """The certificate that a client is shown."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = tls.context.wrap_bio(to_server, to_client, server_side=True)
    client = trusting().wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for side in (client, server) * 3:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    shown = client.getpeercert(binary_form=True)
    assert shown
    return shown


def der(name: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair(name)[0].read_text())


def put(name: str, folder: Path) -> None:
    """Renew the certificate in a folder as programs do: new files in the old ones' places."""
    for kind, path in zip(("pem", "key"), pair(name), strict=True):
        shutil.copy(path, folder / "new")
        (folder / "new").replace(folder / f"tls.{kind}")


def test_a_renewed_certificate_is_used_without_a_restart_and_an_unusable_one_is_not(tmp_path, caplog):
    put("server", tmp_path)
    tls = Tls(tmp_path / "tls.pem", tmp_path / "tls.key", None)
    assert served(tls) == der("server")
    put("renewed", tmp_path)
    tls.refresh()
    assert served(tls) == der("renewed")
    shutil.copy(pair("server")[0], tmp_path / "tls.pem")
    tls.refresh()
    tls.refresh()
    assert served(tls) == der("renewed")
    assert caplog.text.count("the certificate before stays in use") == 1
    (tmp_path / "tls.key").unlink()
    tls.refresh()
    assert served(tls) == der("renewed")


def configured(**entries: Path | None) -> SidecarConfig:
    return SidecarConfig.model_validate(entries)


def test_without_a_certificate_there_is_no_tls():
    assert from_config(configured()) is None


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ({"tls_cert_file": AUTHORITY}, "belong together"),
        ({"tls_key_file": AUTHORITY}, "belong together"),
        ({"client_ca_file": AUTHORITY}, "needs both"),
        ({"tls_cert_file": PEMS / "none", "tls_key_file": AUTHORITY}, "--tls-cert-file .*none: no such file"),
        ({"tls_cert_file": AUTHORITY, "tls_key_file": PEMS / "none"}, "--tls-key-file .*none: no such file"),
        ({"tls_cert_file": PEMS / "server.pem", "tls_key_file": PEMS / "client.key"}, "KEY_VALUES_MISMATCH"),
        ({"tls_cert_file": PEMS / "make.py", "tls_key_file": PEMS / "server.key"}, "in PEM"),
        ({"tls_cert_file": PEMS / "locked.pem", "tls_key_file": PEMS / "locked.key"}, "without a passphrase"),
    ],
)
def test_files_that_cannot_be_used_are_named_before_anything_is_served(entries, what):
    with pytest.raises(InputError, match=what):
        from_config(configured(**entries))


def test_an_authority_without_certificates_is_named():
    certificate, key = pair("server")
    for unusable, what in ((PEMS / "make.py", "certificates in PEM"), (PEMS / "none", "no such file")):
        with pytest.raises(InputError, match=f"--client-ca-file .*{what}"):
            from_config(configured(tls_cert_file=certificate, tls_key_file=key, client_ca_file=unusable))
