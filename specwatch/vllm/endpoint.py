"""Where a vLLM server will listen, read from its command line, and whether that place is free."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from specwatch.errors import InputError
from specwatch.vllm.arguments import file_options, option, present

DEFAULT_PORT = 8000
"""vLLM's own."""
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound
"""Addresses that mean every network, and where to reach such a server from here."""


@dataclass(frozen=True)
class Endpoint:
    """Address of a server: where it binds and where to reach it from this machine."""

    bind: str
    """Host as vLLM was told; "" means every network, vLLM's default."""
    port: int
    tls: bool = False

    @property
    def host(self) -> str:
        """Address to connect to."""
        return _EVERYWHERE.get(self.bind, self.bind)

    @property
    def url(self) -> str:
        """Base address, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    @property
    def exposed(self) -> bool:
        """Whether it listens on every network of the machine."""
        return self.bind in _EVERYWHERE

    def healthy(self, timeout: float) -> bool:
        """Whether ``/health`` answers 200 within that many seconds; certificates are not checked."""
        connection = (
            # The certificate names the public host, and this asks the process that was just started.
            http.client.HTTPSConnection(
                self.host,
                self.port,
                timeout=timeout,
                context=ssl._create_unverified_context(),  # noqa: S323
            )
            if self.tls
            else http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        )
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def endpoint(words: Sequence[str]) -> Endpoint | None:
    """Where a command line makes vLLM listen; None where that is no TCP port (a Unix socket, a node without API)."""
    if present(words, "--uds") or present(words, "--headless"):
        return None
    path = option(words, "--config")
    from_file = file_options(path) if path else {}

    def value(name: str) -> str:
        return option(words, name) or str(from_file.get(name) or "")

    if value("--uds"):
        return None
    return Endpoint(value("--host"), _port(value("--port"), "--port"), bool(value("--ssl-certfile")))


def listen_address(text: str, flag: str) -> Endpoint:
    """Read ``HOST:PORT``; InputError naming the flag."""
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise InputError(f"{flag} {text}: HOST:PORT is needed, such as 127.0.0.1:9108")
    return Endpoint(host.strip("[]"), _port(port, flag))


def _port(text: str, flag: str) -> int:
    if not text:
        return DEFAULT_PORT
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise InputError(f"{flag} {text}: a port from 1 to 65535 is needed, chosen beforehand")
    return int(text)


def refuse_taken(place: Endpoint, flag: str, remedy: str) -> None:
    """InputError when nothing could listen there now: the port is taken, or the address is not this machine's."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            place.bind or None, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as problem:
        raise InputError(f"{flag}: {place.bind} is no address of this machine: {problem}") from None
    with socket.socket(family, kind, protocol) as attempt:
        # As servers set it: connections that a predecessor left in TIME_WAIT are no obstacle.
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(address)
        except OSError as problem:
            raise InputError(
                f"{flag}: nothing can listen on port {place.port} of {place.bind or 'this machine'}: "
                f"{problem.strerror}. {remedy}"
            ) from None
