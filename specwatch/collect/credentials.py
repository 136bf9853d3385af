"""Who we are to a server, and which servers we trust: tokens, passwords, certificates, all from files."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from specwatch.collect.changed_files import MadeOfFiles
from specwatch.errors import InputError
from specwatch.scrape_config import HttpClient, TlsConfig
from specwatch.secret_files import read_secret


@dataclass(frozen=True)
class Terms:
    """What one request is made with."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: ssl.SSLContext | bool = True
    """True: the system's certificate authorities."""
    server_name: str | None = None
    """Expected in the certificate in place of the URL's host."""


class Credentials:
    """How the servers of one group are asked; files are read again when they change."""

    def __init__(self, client: HttpClient) -> None:
        token, basic, tls = client.authorization, client.basic_auth, client.tls_config
        secret = token.credentials_file if token else basic.password_file if basic else None
        self._headers = MadeOfFiles([secret] if secret else [], lambda: _headers(client))
        files = [path for path in (tls.ca_file, tls.cert_file, tls.key_file) if path]
        self._context = MadeOfFiles(files, lambda: _context(tls))
        self._server_name = tls.server_name

    def terms(self) -> Terms:
        """For the next request; InputError, without a word of a secret, where a file never could be used."""
        return Terms(self._headers.get(), self._context.get(), self._server_name)


def _headers(client: HttpClient) -> dict[str, str]:
    if client.authorization:
        secret = read_secret(client.authorization.credentials_file, "credentials_file")
        return {"Authorization": f"{client.authorization.type} {secret}"}
    if client.basic_auth:
        password = read_secret(client.basic_auth.password_file, "password_file")
        pair = base64.b64encode(f"{client.basic_auth.username}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}


def client_context(
    ca_file: Path | None,
    cert_file: Path | None,
    key_file: Path | None,
    called: tuple[str, str, str] = ("ca_file", "cert_file", "key_file"),
) -> ssl.SSLContext:
    """Whom to trust and who we are; InputError where the files, which the user knows as ``called``, are no use.

    Without a CA, the system's authorities are trusted.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as problem:
        raise InputError(f"{called[0]} {ca_file}: no certificates in it: {_reason(problem)}") from None
    if cert_file:
        try:
            # The empty password: else a locked key would ask for one at the terminal, and wait.
            context.load_cert_chain(cert_file, key_file, password="")
        except OSError as problem:
            both = f"{called[1]} {cert_file}" + (f", {called[2]} {key_file}" if key_file else "")
            raise InputError(f"{both}: no certificate and its key without a password: {_reason(problem)}") from None
    return context


def _context(tls: TlsConfig) -> ssl.SSLContext | bool:
    if tls == TlsConfig(server_name=tls.server_name):
        return True
    context = client_context(tls.ca_file, tls.cert_file, tls.key_file)
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _reason(problem: OSError) -> str:
    """OpenSSL's reason, or the system's; both of a few words and without the file's content."""
    if isinstance(problem, ssl.SSLError):
        return problem.reason or "OpenSSL finds none"
    return (problem.strerror or type(problem).__name__).lower()
