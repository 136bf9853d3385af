"""TLS of the sidecar's own server: its certificate, and the authority that has to vouch for whoever asks."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

from specwatch.config import SidecarConfig
from specwatch.errors import InputError

log = logging.getLogger(__name__)

OPTIONS = {"tls_cert_file": "--tls-cert-file", "tls_key_file": "--tls-key-file", "client_ca_file": "--client-ca-file"}


class Tls:
    """A server's certificate, read anew when its files have changed: certificates are renewed every few weeks."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        """InputError, with the file, for what cannot be used."""
        self._certificate = certificate
        self._key = key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._stamp = self._stamped()
        self._load(self.context)
        if client_ca:
            self._demand_certificates(client_ca)

    def refresh(self) -> None:
        """Use a renewed certificate for connections from now on; keep the old one where the new is unusable."""
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            # Tried apart first: a key that does not fit its certificate must not spoil the context in use.
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._load(self.context)
        except InputError as problem:
            log.error("%s; the certificate before stays in use", problem)
        else:
            log.info("%s: the renewed certificate is in use", self._certificate)

    def _stamped(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in (self._certificate, self._key) if path.exists())

    def _load(self, context: ssl.SSLContext) -> None:
        _refuse_unreadable("tls_cert_file", self._certificate)
        _refuse_unreadable("tls_key_file", self._key)
        try:
            # An empty passphrase: else OpenSSL would ask for one on the terminal.
            context.load_cert_chain(self._certificate, self._key, password="")
        except (ssl.SSLError, OSError) as problem:
            raise InputError(
                f"--tls-cert-file {self._certificate} and --tls-key-file {self._key}: expected a certificate and its "
                f"key in PEM, the key without a passphrase ({getattr(problem, 'reason', None) or problem.strerror})"
            ) from None

    def _demand_certificates(self, client_ca: Path) -> None:
        _refuse_unreadable("client_ca_file", client_ca)
        try:
            self.context.load_verify_locations(client_ca)
        except (ssl.SSLError, OSError):
            raise InputError(f"--client-ca-file {client_ca}: expected certificates in PEM") from None
        self.context.verify_mode = ssl.CERT_REQUIRED


def from_config(config: SidecarConfig) -> Tls | None:
    """TLS as configured, None without; InputError for files that are missing, or do not belong together."""
    certificate, key = config.tls_cert_file, config.tls_key_file
    if certificate and key:
        return Tls(certificate, key, config.client_ca_file)
    if certificate or key or config.client_ca_file:
        raise InputError("--tls-cert-file and --tls-key-file belong together, and --client-ca-file needs both")
    return None


def _refuse_unreadable(option: str, path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as problem:
        raise InputError(f"{OPTIONS[option]} {path}: {os.strerror(problem.errno or 0).lower()}") from None
