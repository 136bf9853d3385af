"""What specwatch asks of Grafana's HTTP API: health, folders, dashboards and their versions.

The paths below ``/api`` that it uses are those that Grafana 9 to 13 document. Nothing is followed anywhere else: a
token that is sent to an address goes to no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

import requests

from specwatch.errors import InputError, SpecwatchError

CONNECT_SECONDS, READ_SECONDS = 5.0, 30.0
"""How long a connection, and each wait for bytes of an answer, may take: a Grafana that needs longer is in trouble."""

LARGEST_ANSWER = 16 * 2**20
"""Bytes: a dashboard of this project has about 0.1 MB, and Grafana's own limit for one is far below this."""

LONGEST_WORDS = 200
"""Characters of Grafana's own words that an error repeats."""

HEALTH = "/api/health"
"""The one question that needs no token."""

_CHUNK = 2**16


@dataclass(frozen=True)
class Folder:
    """A folder of dashboards."""

    uid: str
    title: str
    writable: bool = True


@dataclass(frozen=True)
class Stored:
    """A dashboard as Grafana holds it."""

    dashboard: Mapping[str, Any]
    version: int
    folder_uid: str
    """Empty for Grafana's root folder."""
    folder_title: str
    provisioned: bool
    writable: bool


class Refused(SpecwatchError):
    """An answer that is no success: its status, and Grafana's own word for the reason where it gives one."""

    def __init__(self, text: str, status: int, reason: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason


class Grafana:
    """A Grafana at ``url``, asked with a service account's token. A context manager; errors are SpecwatchErrors."""

    def __init__(self, url: str, token: str, ca_file: Path | None = None) -> None:
        self.url = checked_url(url)
        if not token.isascii():
            raise InputError("--token-file: a token of Grafana has letters and digits of ASCII only")
        self._session = requests.Session()
        self._bearer = _Bearer(token)
        self._trusted = str(ca_file) if ca_file else True

    def __enter__(self) -> Grafana:
        """Nothing is opened before the first question."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self._session.close()

    def check(self) -> None:
        """Raise unless a Grafana answers at this address, which has not seen the token then."""
        answer = self._ask("GET", HEALTH, known=frozenset(range(200, 600)))
        if not isinstance(answer, dict) or "database" not in answer:
            raise SpecwatchError(
                f"{self.url} is no Grafana: /api/health does not answer as Grafana does; name the address that its "
                "own pages have, with the path below which it is served"
            )
        if answer["database"] != "ok":
            raise SpecwatchError(f"Grafana at {self.url} says that its database is {printable(answer['database'])}")

    def folder(self, uid: str) -> Folder | None:
        """The folder with this uid; None where there is none."""
        answer = self._ask("GET", f"/api/folders/{quote(uid, safe='')}", known=_NONE)
        return None if answer is None else _folder(answer)

    def folders_titled(self, title: str) -> tuple[Folder, ...]:
        """Folders of exactly this title, wherever they lie."""
        answer = self._ask("GET", "/api/search", parameters={"type": "dash-folder", "query": title, "limit": "5000"})
        if not isinstance(answer, list):
            raise _unexpected("a list of folders", answer)
        uids = [str(found.get("uid")) for found in answer if isinstance(found, dict) and found.get("title") == title]
        return tuple(folder for uid in uids if (folder := self.folder(uid)))

    def create_folder(self, folder: Folder) -> None:
        """Make a folder below the root."""
        self._ask("POST", "/api/folders", body={"uid": folder.uid, "title": folder.title})

    def dashboard(self, uid: str) -> Stored | None:
        """The dashboard with this uid; None where there is none."""
        answer = self._ask("GET", f"/api/dashboards/uid/{quote(uid, safe='')}", known=_NONE)
        if answer is None:
            return None
        if not isinstance(answer, dict) or not all(isinstance(answer.get(key), dict) for key in ("dashboard", "meta")):
            raise _unexpected("a dashboard", answer)
        dashboard, meta = answer["dashboard"], answer["meta"]
        return Stored(
            dashboard=dashboard,
            version=_whole(dashboard.get("version", 0)),
            folder_uid=str(meta.get("folderUid", "")),
            folder_title=str(meta.get("folderTitle", "")),
            provisioned=meta.get("provisioned") is True,
            writable=meta.get("canSave") is not False,
        )

    def message(self, uid: str, version: int) -> str | None:
        """What was written beside this version of a dashboard when it was saved; None where that is not known."""
        path = f"/api/dashboards/uid/{quote(uid, safe='')}/versions"
        answer = self._ask("GET", path, parameters={"limit": "10"}, known=_NONE)
        # Grafana 11 put the list into an object.
        versions = answer.get("versions") if isinstance(answer, dict) else answer
        for entry in versions if isinstance(versions, list) else ():
            if isinstance(entry, dict) and entry.get("version") == version:
                return str(entry.get("message", ""))
        return None

    def save(self, dashboard: Mapping[str, Any], folder_uid: str, message: str) -> None:
        """Create a dashboard, or replace the version of it that ``dashboard`` names; never another one."""
        body = {"dashboard": dashboard, "folderUid": folder_uid, "message": message, "overwrite": False}
        self._ask("POST", "/api/dashboards/db", body=body)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        known: frozenset[int] = frozenset(),
    ) -> Any:
        """The answer's JSON, None where it has none. Other statuses than 2xx are errors, those in ``known`` are not.

        A 404 that is known is None: there is nothing.
        """
        status, raw, location = self._exchange(method, path, parameters, body)
        if 300 <= status < 400:
            raise SpecwatchError(
                f"{self.url} answers with a redirect to {printable(location) or 'nowhere'}, which is not followed "
                "with a token; name that address with --url if it is the right one"
            )
        answer = _json(raw)
        if 200 <= status < 300:
            return answer
        if status in known:
            return None if status == requests.codes.not_found else answer
        raise _refusal(self.url, f"{method} {path}", status, answer)

    def _exchange(
        self, method: str, path: str, parameters: Mapping[str, str] | None, body: Mapping[str, Any] | None
    ) -> tuple[int, bytes, str]:
        try:
            with self._session.request(
                method,
                f"{self.url}{path}",
                params=parameters,
                data=None if body is None else json.dumps(body).encode(),
                headers={"Accept": "application/json", "Content-Type": "application/json"},
                timeout=(CONNECT_SECONDS, READ_SECONDS),
                # An object, because requests would prefer a password of ~/.netrc to a plain header.
                auth=_nobody if path == HEALTH else self._bearer,
                allow_redirects=False,
                stream=True,
                verify=self._trusted,  # of the session, requests would prefer the variable REQUESTS_CA_BUNDLE
            ) as response:
                raw = b""
                for chunk in response.iter_content(_CHUNK):
                    raw += chunk
                    if len(raw) > LARGEST_ANSWER:
                        raise SpecwatchError(f"{self.url}{path} answers with more than {LARGEST_ANSWER >> 20} MiB")
                return response.status_code, raw, response.headers.get("Location", "")
        except requests.exceptions.SSLError as problem:
            raise SpecwatchError(
                f"{self.url} has a certificate that is not trusted here: {_cause(problem)}; name the CA that signed "
                "it with --ca-file"
            ) from None
        except requests.exceptions.Timeout:
            raise SpecwatchError(f"{self.url} does not answer within {READ_SECONDS:g} s") from None
        except requests.exceptions.RequestException as problem:
            raise SpecwatchError(f"cannot reach Grafana at {self.url}: {_cause(problem)}") from None
        except OSError as problem:  # requests' own word for a CA file that cannot be used
            raise InputError(f"--ca-file: {printable(problem)}") from None


_NONE = frozenset([int(requests.codes.not_found)])


class _Bearer(requests.auth.AuthBase):
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _nobody(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Authorize nothing."""
    return request


def checked_url(url: str) -> str:
    """The address without a slash at its end; InputError unless it is http or https, without secrets or a query."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError(f"--url {printable(url)}: not an address") from None
    if parts.username or parts.password:
        raise InputError(f"--url {printable(parts.hostname)}: a password does not belong there; use --token-file")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.query or parts.fragment:
        raise InputError(f"--url {printable(url)}: write it as https://HOST or https://HOST/PATH")
    return url.rstrip("/")


def printable(words: object) -> str:
    """At most LONGEST_WORDS characters of somebody else's words, without what would steer a terminal."""
    text = "".join(sign if sign.isprintable() else "?" for sign in str(words))
    return text if len(text) <= LONGEST_WORDS else f"{text[: LONGEST_WORDS - 1]}…"


def _refusal(url: str, what: str, status: int, answer: Any) -> Refused:
    said = answer if isinstance(answer, dict) else {}
    words = printable(said.get("message", ""))
    reason = str(said.get("status", ""))
    if status == requests.codes.unauthorized:
        return Refused(f"Grafana at {url} refuses the token: {words or 'no reason given'}", status, reason)
    if status == requests.codes.forbidden:
        return Refused(
            f"the token may not {what}: {words or 'no reason given'}; its service account needs the role Editor, or "
            "to read and write this folder and its dashboards",
            status,
            reason,
        )
    return Refused(f"Grafana answers {what} with {status}: {words or 'no reason given'}", status, reason)


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _folder(answer: Any) -> Folder:
    if not isinstance(answer, dict) or "uid" not in answer:
        raise _unexpected("a folder", answer)
    return Folder(str(answer["uid"]), str(answer.get("title", "")), answer.get("canSave") is not False)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _unexpected(what: str, answer: Any) -> SpecwatchError:
    return SpecwatchError(f"Grafana should have answered with {what}, and answered {printable(repr(answer))}")


def _cause(problem: BaseException) -> str:
    """The innermost reason of requests' nested errors, in a few words."""
    inner, below = problem, _wrapped(problem)
    while below:
        inner, below = below, _wrapped(below)
    return printable(getattr(inner, "strerror", None) or inner).lower()


def _wrapped(problem: BaseException) -> BaseException | None:
    held = (problem.__cause__, getattr(problem, "reason", None), *problem.args, problem.__context__)
    return next((inner for inner in held if isinstance(inner, BaseException)), None)
