"""Who may read the sidecar and who may change it: tokens in files, each file with a role."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import re
import stat
from enum import Enum
from pathlib import Path

from specwatch.config import SidecarConfig, is_loopback
from specwatch.errors import InputError

log = logging.getLogger(__name__)

TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,512}={0,2}")
"""A bearer token as RFC 6750 writes it; fewer than 16 characters could be guessed."""

MOST_TOKENS = 100
"""In a file: rotation needs two, and every request is compared with all."""

LARGEST_FILE = 2**16
"""Bytes of a file of tokens: a hundred of them and their comments."""

OPEN_PATHS = frozenset({"/metrics", "/healthz", "/readyz"})
"""What ``--open-metrics`` opens: figures and names of targets, for a Prometheus and for probes without a token."""


class Role(str, Enum):
    """What somebody may do; admin includes read."""

    READ = "read"
    ADMIN = "admin"


class TokenFile:
    """The tokens in a file, one a line; ``#`` begins a comment. Read anew whenever the file has changed.

    Only digests are kept. A file that cannot be used any more holds no token: who takes it away means to lock out.
    """

    def __init__(self, path: Path, option: str) -> None:
        """InputError, without a word of what is in it, for a file that holds no tokens."""
        self._path = path
        self._option = option
        self._stamp = self._stamped()
        self._digests = self._read()
        if path.stat().st_mode & stat.S_IROTH:
            log.warning("%s holds tokens and every user of this machine can read it: chmod 600 %s", path, path)

    def holds(self, digest: bytes) -> bool:
        """Whether the token of this digest stands in the file; takes as long whichever of them it is."""
        self._refresh()
        return sum([hmac.compare_digest(known, digest) for known in self._digests]) > 0

    def _refresh(self) -> None:
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._digests = self._read()
        except InputError as problem:
            self._digests = ()
            log.error("%s; until that is mended, none of its tokens is accepted", problem)
        else:
            log.info("%s: read anew, tokens: %d", self._path, len(self._digests))

    def _stamped(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> tuple[bytes, ...]:
        lines = [line.strip() for line in self._text().splitlines()]
        tokens = [line for line in lines if line and not line.startswith("#")]
        if not all(map(TOKEN.fullmatch, tokens)):
            raise self._unusable("a line is no token: 16 to 512 of A-Z a-z 0-9 - . _ ~ + / (openssl rand -hex 32)")
        if not 0 < len(tokens) <= MOST_TOKENS:
            raise self._unusable(f"it has to hold 1 to {MOST_TOKENS} tokens, one a line, and holds {len(tokens)}")
        return tuple(map(digested, tokens))

    def _text(self) -> str:
        try:
            with self._path.open("rb") as file:
                raw = file.read(LARGEST_FILE + 1)
            text = raw.decode("ascii")
        except OSError as problem:
            raise self._unusable(os.strerror(problem.errno or 0).lower()) from None
        except UnicodeDecodeError:
            raise self._unusable("no plain text") from None
        if len(raw) > LARGEST_FILE:
            raise self._unusable(f"larger than {LARGEST_FILE // 1024} KiB; this is no file of tokens")
        return text

    def _unusable(self, why: str) -> InputError:
        return InputError(f"{self._option} {self._path}: {why}")


class Access:
    """Decides which role an ``Authorization`` header gives; without any file of tokens everybody is admin."""

    def __init__(
        self, read: TokenFile | None = None, admin: TokenFile | None = None, open_metrics: bool = False
    ) -> None:
        self._files = [(role, file) for role, file in ((Role.READ, read), (Role.ADMIN, admin)) if file]
        self.open_paths: frozenset[str] = OPEN_PATHS if open_metrics else frozenset()
        """What is answered without a token."""

    @property
    def asks(self) -> bool:
        """Whether a token is asked for."""
        return bool(self._files)

    def role(self, authorization: str) -> Role | None:
        """The role of whoever sends this header; None for nobody we know."""
        if not self._files:
            return Role.ADMIN
        digest = digested(presented(authorization))
        # All files are looked through, so that the time tells nothing; admin comes last, and is the greater role.
        roles = [role for role, file in self._files if file.holds(digest)]
        return roles[-1] if roles else None


def presented(authorization: str) -> str:
    """The token in a header: a bearer's, or the password of basic authentication, whoever the user; "" for none."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def digested(token: str) -> bytes:
    """What is kept and compared in place of a token: as long for each, and no secret."""
    return hashlib.sha256(token.encode()).digest()


def from_config(config: SidecarConfig, host: str) -> Access:
    """Access as configured; InputError where other machines reach ``host`` and nothing asks who they are."""
    access = Access(
        read=TokenFile(config.read_token_file, "--read-token-file") if config.read_token_file else None,
        admin=TokenFile(config.admin_token_file, "--admin-token-file") if config.admin_token_file else None,
        open_metrics=config.open_metrics,
    )
    if config.open_metrics and not access.asks:
        raise InputError("--open-metrics: without a file of tokens nothing is closed; add --read-token-file")
    if not (is_loopback(host) or access.asks or config.client_ca_file or config.insecure):
        raise InputError(
            f"--listen {config.listen} can be reached from other machines, and nothing asks who they are. Give "
            "--read-token-file and --admin-token-file, or --client-ca-file, keep it on 127.0.0.1, or say --insecure."
        )
    if access.asks and not (is_loopback(host) or config.tls_cert_file):
        log.warning("tokens travel to %s unencrypted: give --tls-cert-file, or a proxy with TLS", config.listen)
    return access
