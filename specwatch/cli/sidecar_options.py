"""The options by which every command that asks a sidecar says who it is, and whom it trusts."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import click

from specwatch.collect.credentials import client_context
from specwatch.errors import InputError
from specwatch.secret_files import read_secret

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Identity:
    """Who we are to a sidecar, and whom we take for one: all of it files."""

    token_file: Path | None = None
    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    @property
    def options(self) -> list[str]:
        """The options that were given."""
        return [f"--{each.name.replace('_', '-')}" for each in fields(self) if getattr(self, each.name)]

    def headers(self) -> Mapping[str, str]:
        """What proves it in every request; InputError where the token's file cannot be used."""
        if self.token_file is None:
            return {}
        return {"Authorization": f"Bearer {read_secret(self.token_file, '--token-file')}"}

    def tls(self) -> ssl.SSLContext | bool:
        """What proves it in the handshake, True for the system's authorities; InputError for unusable files."""
        if self.key and not self.cert:
            raise InputError("--key: give the certificate that it belongs to with --cert")
        if not (self.cacert or self.cert):
            return True
        return client_context(self.cacert, self.cert, self.key, ("--cacert", "--cert", "--key"))


NOBODY = Identity()
"""No token, no certificate, and the system's authorities."""


def identity_options(command: Command) -> Command:
    """``--token-file``, ``--cacert``, ``--cert`` and ``--key``, for a command that takes an ``identity``."""

    @functools.wraps(command)
    def identified(
        *args: Any, token_file: Path | None, cacert: Path | None, cert: Path | None, key: Path | None, **options: Any
    ) -> Any:
        return command(*args, identity=Identity(token_file, cacert, cert, key), **options)

    with_options: Any = identified
    for name, what in (
        ("--key", "Its key, where it is in a file of its own; without a passphrase."),
        ("--cert", "Certificate in PEM, where the sidecar asks who we are."),
        ("--cacert", "Authority in PEM that the sidecar's certificate is signed by.  [default: the system's]"),
        ("--token-file", "File with a token, where it asks for one."),
    ):
        with_options = click.option(name, type=click.Path(path_type=Path), metavar="FILE", help=what)(with_options)
    return with_options  # type: ignore[no-any-return]
