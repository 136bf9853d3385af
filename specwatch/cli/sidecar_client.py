"""Asking a sidecar over HTTP, within limits of time and size, with one clear error for whatever else answers."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from pydantic import TypeAdapter, ValidationError

from specwatch import __version__
from specwatch.alerting.text import clean, cut
from specwatch.cli.sidecar_options import NOBODY, Identity
from specwatch.collect.http import connection_failure
from specwatch.collect.scraper import http_session, server_release
from specwatch.collect.targets import Target
from specwatch.errors import InputError, SpecwatchError
from specwatch.sidecar.views import TargetView
from specwatch.signals.catalogue import signals

ADDRESS = "http://127.0.0.1:9108"
"""Where ``specwatch sidecar`` serves by default."""

ANSWER_SECONDS = 10.0
"""Longest to wait for a whole answer: the sidecar answers from memory."""

LARGEST_ANSWER = 64 * 2**20
"""Bytes. A server takes about 7 kB of the signals' answer: this is nine thousand of them."""

LONGEST_REASON = 200
"""Characters of another's words that are repeated."""

LONGEST_VERSION = 40

WINDOW = re.compile(r"[0-9]+(\.[0-9]+)?[smhd]")
"""How windows are called, as ``views.window_label`` does."""

START_ONE = "specwatch sidecar says at its start where it serves"

TRUST_IT = "--cacert names the file of the authority that signed it"

SHOW_ONE = "name one that its authority signed with --cert and --key"

OBJECTION = re.compile(r"_ALERT_(\w*CERTIFICATE\w*|UNKNOWN_CA|HANDSHAKE_FAILURE)")
"""What OpenSSL calls it when the other side wants another certificate of ours, or one at all."""

Answered = TypeVar("Answered")


class NoSidecar(SpecwatchError):
    """No answer of a sidecar to read."""

    exit_code = 3

    def __init__(self, address: str, reason: str, remedy: str = START_ONE) -> None:
        super().__init__(f"{address}: {reason}; {remedy}")
        self.reason = reason
        """In a few words, without the address."""


@dataclass(frozen=True)
class SignalsAnswer:
    """What ``/api/v1/signals`` tells."""

    at: float
    """Unix seconds, by the sidecar's clock."""
    version: str
    targets: tuple[TargetView, ...]


@dataclass(frozen=True)
class Alert:
    """What is read of an alert; times are Unix seconds."""

    name: str
    target: str
    severity: str
    state: str
    since: float
    value_text: str
    condition: str
    summary: str
    silenced_by: str | None = None
    inhibited_by: str | None = None

    @property
    def is_loud(self) -> bool:
        """Whether somebody is told of it: not while it is silenced, or while another one says more."""
        return self.silenced_by is None and self.inhibited_by is None


@dataclass(frozen=True)
class AlertsAnswer:
    """What is read of ``/api/v1/alerts``."""

    alerts: tuple[Alert, ...]


_SIGNALS = TypeAdapter(SignalsAnswer)
_ALERTS = TypeAdapter(AlertsAnswer)


@dataclass(frozen=True)
class _Answer:
    status: int
    is_json: bool
    body: bytes

    @property
    def words(self) -> str:
        """The status, and the body where it is a short text."""
        text = "" if self.is_json else cut(clean(self.body[:4096].decode("utf-8", "replace")).strip(), LONGEST_REASON)
        return f"HTTP {self.status}" + (f" ({text})" if text and "<" not in text else "")

    def detail(self) -> str | None:
        """The reason that the sidecar gives for a refusal."""
        try:
            detail: Any = json.loads(self.body).get("detail")
        except (ValueError, AttributeError, RecursionError):
            return None
        return cut(clean(detail), LONGEST_REASON) if isinstance(detail, str) else None


def read_address(text: str) -> str:
    """A sidecar's address as it can be asked; ``localhost:9108`` will do. InputError for what is none."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InputError(f"sidecar {text!r}: write its address as http://HOST:PORT")
    if parts.username or parts.password:
        raise InputError(f"sidecar {parts.hostname}: credentials do not belong into the URL; see --token-file")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


@asynccontextmanager
async def sidecar(address: str, identity: Identity = NOBODY) -> AsyncIterator[SidecarClient]:
    """A client that keeps its connection; InputError where the address or a file of the identity cannot be used."""
    url, tls = read_address(address), identity.tls()
    if tls is not True and url.startswith("http:"):
        raise InputError(
            f"{url}: without TLS there are no certificates; write https://, or leave --cacert and --cert out"
        )
    async with http_session(identity.headers()) as session:
        yield SidecarClient(session, url, identity, tls)


class SidecarClient:
    """Asks one sidecar. NoSidecar where there is no answer that can be used."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        address: str,
        identity: Identity = NOBODY,
        tls: ssl.SSLContext | bool = True,
    ) -> None:
        self.address = address
        self._session = session
        self._identity = identity
        self._tls = tls

    async def signals(self) -> SignalsAnswer:
        """Every target now."""
        told = self._read(_SIGNALS, await self.get("signals"))
        lacking = next(filter(None, map(_lacking, told.targets)), None)
        if lacking:
            raise self._other_release(cut(clean(told.version), LONGEST_VERSION), lacking)
        return told

    async def alerts(self) -> tuple[Alert, ...]:
        """Alerts that are pending or firing, and those resolved lately."""
        return self._read(_ALERTS, await self.get("alerts")).alerts

    async def get(self, noun: str) -> bytes:
        """The JSON below ``/api/v1/``."""
        answer = await self._ask("GET", noun)
        if answer.status != 200 or not answer.is_json:
            raise await self._another(answer)
        return answer.body

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Change something; InputError with the sidecar's own reason where it refuses."""
        answer = await self._ask("POST", path, body)
        reason = answer.detail() if answer.status in (404, 409, 422) and answer.is_json else None
        if reason:
            raise InputError(f"{self.address}: {reason}")
        if answer.status != 200 or not answer.is_json:
            raise await self._another(answer)
        return json.loads(answer.body)

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> _Answer:
        headers = {"Accept": "application/json"}
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        url = f"{self.address}/api/v1/{path}"
        try:
            # A redirect is not followed: it would carry the token elsewhere.
            async with self._session.request(
                method, url, json=body, headers=headers, timeout=timeout, allow_redirects=False, ssl=self._tls
            ) as response:
                content = await self._body(response)
                return _Answer(response.status, response.content_type == "application/json", content)
        except asyncio.TimeoutError:
            raise NoSidecar(self.address, f"no complete answer within {ANSWER_SECONDS:g} s") from None
        except aiohttp.ClientConnectorCertificateError as problem:
            why = getattr(problem.certificate_error, "verify_message", type(problem.certificate_error).__name__)
            reason = f"its certificate is not trusted ({why})"
            raise NoSidecar(self.address, reason, TRUST_IT) from None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            if self.address.startswith("https:") and _is_refusal(problem):
                taken = "does not take our certificate" if self._identity.cert else "may ask for a certificate of ours"
                raise NoSidecar(self.address, f"it ends the connection, so it {taken}", SHOW_ONE) from None
            raise NoSidecar(self.address, f"no sidecar answers there ({_why(problem)})") from None

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_chunked(2**16):
            body += chunk
            if len(body) > LARGEST_ANSWER:
                raise NoSidecar(self.address, f"the answer is larger than {LARGEST_ANSWER // 2**20} MiB")
        return bytes(body)

    async def _another(self, answer: _Answer) -> NoSidecar:
        """Why an answer is none of a sidecar that lets us read."""
        if answer.status in (401, 403):
            if self._identity.token_file:
                remedy = "name the file of one that may do this with --token-file"
                return NoSidecar(self.address, f"the sidecar does not take this token (HTTP {answer.status})", remedy)
            remedy = "name the file that holds one with --token-file"
            return NoSidecar(self.address, f"the sidecar asks for a token (HTTP {answer.status})", remedy)
        release = await server_release(self._session, Target(self.address, self.address))
        if release:
            remedy = f"--target {self.address} reads it without a sidecar"
            return NoSidecar(self.address, f"this is a vLLM server ({release}), not a sidecar", remedy)
        return NoSidecar(self.address, f"what answers there is no sidecar: {answer.words}")

    def _read(self, form: TypeAdapter[Answered], body: bytes) -> Answered:
        try:
            return form.validate_json(body)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise self._other_release(_version(body), f"{place}: {first['msg']}") from None

    def _other_release(self, version: str | None, why: str) -> NoSidecar:
        if version is None:
            return NoSidecar(self.address, "what answers there is no sidecar: its JSON is of another kind")
        return NoSidecar(
            self.address,
            f"this sidecar is of release {version}, and specwatch {__version__} does not understand it "
            f"({cut(clean(why), LONGEST_REASON)})",
            "use the release of the sidecar",
        )


def _lacking(view: TargetView) -> str | None:
    """What is in the way of showing the view of another release."""
    names = {signal.name for signal in signals()}
    for label, window in view.windows.items():
        if not WINDOW.fullmatch(label):
            return f"a window {label}"
        if missing := names - window.values.keys():
            return f"no signal {min(missing)} over {label}"
    return None if view.headline_window in view.windows else f"no window {view.headline_window}"


def _version(body: bytes) -> str | None:
    """The release that an answer names, if it is a sidecar's at all."""
    try:
        told: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or not isinstance(told.get("targets", told.get("alerts")), list):
        return None
    return cut(clean(str(told.get("version", "unknown"))), LONGEST_VERSION)


def _is_refusal(problem: Exception) -> bool:
    """Whether the other side wants no part of us. In TLS 1.3 it says so after the handshake, or only closes."""
    is_cut_off = getattr(problem, "errno", None) in (errno.ECONNRESET, errno.EPIPE)
    return is_cut_off or isinstance(problem, aiohttp.ServerDisconnectedError) or bool(OBJECTION.search(str(problem)))


def _why(problem: Exception) -> str:
    """Why nothing came, in a few words."""
    if isinstance(problem, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    if isinstance(problem, aiohttp.ClientConnectorError):
        return connection_failure(problem)
    number = getattr(problem, "errno", None)
    return os.strerror(number).lower() if isinstance(number, int) and number > 0 else type(problem).__name__
