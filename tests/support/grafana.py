"""A stand-in for Grafana: the part of its HTTP API that specwatch uses, answering as Grafana's documentation says.

Dashboards have versions with messages; saving without the newest version's number is answered with 412; tokens are
refused with 401, and what a token may not do with 403. ``nested_versions`` chooses how the list of versions comes:
Grafana 11 put it into an object.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "glsa_" + "0" * 32 + "_00000000"
"""The one token that is taken."""

DENIED = {"message": "You'll need additional permissions to perform this action", "title": "Access denied"}


@dataclass
class Version:
    """One saved state of a dashboard."""

    dashboard: dict[str, Any]
    message: str
    folder_uid: str


@dataclass
class FakeGrafana:
    """What it holds, what it has been asked, and what it refuses."""

    url: str = ""
    folders: dict[str, str] = field(default_factory=dict)
    """Titles by uid."""
    dashboards: dict[str, list[Version]] = field(default_factory=dict)
    """Versions by uid, the oldest first."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of everything that was asked."""
    authorization: list[str | None] = field(default_factory=list)
    nested_versions: bool = True
    may_write: bool = True
    may_read: bool = True
    provisioned: set[str] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)
    """Uids whose title another dashboard of the folder has."""
    before_save: Any = None
    """Called with the uid before a dashboard is saved: what somebody else does meanwhile."""

    @property
    def written(self) -> list[str]:
        """Paths of the requests that change something."""
        return [path for method, path in self.requests if method != "GET"]

    def edit(self, uid: str, **changes: Any) -> None:
        """Somebody edits the dashboard in the browser and saves it."""
        newest = self.dashboards[uid][-1]
        version = newest.dashboard["version"] + 1
        edited = {**newest.dashboard, **changes, "version": version}
        self.dashboards[uid].append(Version(edited, "", newest.folder_uid))

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Status and JSON of one request."""
        names = [unquote(name) for name in path.strip("/").split("/")]
        if names == ["api", "folders"] and method == "POST":
            return self._create_folder(body)
        if names[:2] == ["api", "folders"]:
            return self._folder(names[2])
        if names == ["api", "search"]:
            return self._search(query)
        if names[:3] == ["api", "dashboards", "uid"]:
            return self._versions(names[3]) if names[4:] else self._dashboard(names[3])
        if names == ["api", "dashboards", "db"] and method == "POST":
            return self._save(body)
        return 404, {"message": "Not found"}

    def _search(self, query: dict[str, str]) -> tuple[int, Any]:
        words = query.get("query", "").lower()
        found = [(uid, title) for uid, title in self.folders.items() if words in title.lower()]
        return 200, [{"id": 1, "uid": uid, "title": title, "type": "dash-folder"} for uid, title in found]

    def _folder(self, uid: str) -> tuple[int, Any]:
        if uid not in self.folders:
            return 404, {"message": "folder not found", "status": "not-found"}
        return 200, {"id": 1, "uid": uid, "title": self.folders[uid], "canSave": self.may_write, "version": 1}

    def _create_folder(self, body: dict[str, Any]) -> tuple[int, Any]:
        if not self.may_write:
            return 403, DENIED
        if body["uid"] in self.folders:
            return 412, {"message": "a folder with the same uid already exists", "status": "version-mismatch"}
        self.folders[body["uid"]] = body["title"]
        return 200, {"id": 1, "uid": body["uid"], "title": body["title"], "version": 1}

    def _dashboard(self, uid: str) -> tuple[int, Any]:
        if not self.may_read:
            return 403, DENIED
        if uid not in self.dashboards:
            return 404, {"message": "Dashboard not found"}
        newest = self.dashboards[uid][-1]
        meta = {
            "canSave": self.may_write,
            "folderUid": newest.folder_uid,
            "folderTitle": self.folders.get(newest.folder_uid, "General"),
            "provisioned": uid in self.provisioned,
            "version": newest.dashboard["version"],
        }
        return 200, {"dashboard": newest.dashboard, "meta": meta}

    def _versions(self, uid: str) -> tuple[int, Any]:
        newest_first = [
            {"version": saved.dashboard["version"], "message": saved.message, "createdBy": "sa-1-specwatch"}
            for saved in reversed(self.dashboards.get(uid, []))
        ]
        return 200, {"continueToken": "", "versions": newest_first} if self.nested_versions else newest_first

    def _save(self, body: dict[str, Any]) -> tuple[int, Any]:
        dashboard, folder = body["dashboard"], body.get("folderUid", "")
        uid = dashboard["uid"]
        if self.before_save:
            self.before_save(uid)
        if not self.may_write:
            return 403, DENIED
        if folder and folder not in self.folders:
            return 400, {"message": "folder not found"}
        if uid in self.provisioned:
            return 400, {"message": "Cannot save provisioned dashboard"}
        if uid in self.unnamed and not body["overwrite"]:
            words = "A dashboard with the same name in the folder already exists"
            return 412, {"message": words, "status": "name-exists"}
        versions = self.dashboards.setdefault(uid, [])
        newest = versions[-1].dashboard["version"] if versions else 0
        if versions and dashboard.get("version", 0) != newest and not body["overwrite"]:
            words = "The dashboard has been changed by someone else"
            return 412, {"message": words, "status": "version-mismatch"}
        versions.append(
            Version({**dashboard, "id": len(self.dashboards), "version": newest + 1}, body["message"], folder)
        )
        return 200, {"id": 1, "uid": uid, "url": f"/d/{uid}/x", "status": "success", "version": newest + 1}


@contextmanager
def grafana(certificate: Path | None = None) -> Iterator[FakeGrafana]:
    """A Grafana without dashboards on a free port of the loopback, over TLS with this certificate and its key."""
    fake = FakeGrafana()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    fake.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(fake: FakeGrafana) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            fake.requests.append((self.command, parts.path))
            authorization = self.headers.get("Authorization")
            fake.authorization.append(authorization)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if parts.path == "/api/health":
                status, answer = 200, {"commit": "x", "database": "ok", "version": "13.2.3"}
            elif authorization != f"Bearer {TOKEN}":
                status, answer = 401, {"message": "Invalid API key", "messageId": "api-key.invalid", "statusCode": 401}
            else:
                status, answer = fake.answer(self.command, parts.path, query, body)
            raw = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler
