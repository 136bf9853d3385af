"""Every route, those to come included: closed without a token, and changes closed to readers."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from specwatch.collect.targets import Target
from specwatch.sidecar.access import OPEN_PATHS, Access, TokenFile
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.guard import LARGEST_BODY, Guard
from specwatch.sidecar.service import Service
from tests.support.asgi import Answer, ask, every_route

READER = "reader-0123456789abcdef"
ADMIN = "admin-0123456789abcdef"
BEARERS = {
    "nobody": [],
    "stranger": [("Authorization", "Bearer stranger-0123456789")],
    "reader": [("Authorization", f"Bearer {READER}")],
    "admin": [("Authorization", f"Bearer {ADMIN}")],
}
JSON = ("Content-Type", "application/json")
UNKNOWN = [("GET", "/nothing"), ("POST", "/nothing"), ("GET", "/metrics/"), ("GET", "//metrics"), ("GET", "/METRICS")]


def guarded(tmp_path: Path, open_metrics: bool = False) -> FastAPI:
    """The whole application, its target not scraped, with a token of each role."""
    files = []
    for name, token in (("read", READER), ("admin", ADMIN)):
        (tmp_path / name).write_text(token)
        files.append(TokenFile(tmp_path / name, f"--{name}-token-file"))
    service = Service([Target("gpu", "http://127.0.0.1:1/metrics")])
    return create_app(service, AlertBook(), access=Access(*files, open_metrics=open_metrics))


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return guarded(tmp_path)


async def asked(app: FastAPI, method: str, path: str, who: str) -> Answer:
    return await ask(app, method, path, [*BEARERS[who], JSON], body=b"{}" if method not in ("GET", "HEAD") else b"")


def refused(answer: Answer) -> bool:
    return answer.status in (401, 403)


async def test_no_route_answers_without_a_token(app):
    routes = list(every_route(app))
    assert {("GET", "/"), ("GET", "/metrics"), ("GET", "/readyz"), ("POST", "/api/v1/references/freeze")} <= set(routes)
    for method, path in (*routes, *UNKNOWN):
        for who in ("nobody", "stranger"):
            answer = await asked(app, method, path, who)
            assert answer.status == 401, f"{method} {path} answers {who}"
            assert answer.headers["www-authenticate"].startswith("Basic ")
            assert b"gpu" not in answer.body


async def test_reading_takes_the_role_read_and_every_change_the_role_admin(app):
    for method, path in every_route(app):
        reads = method in ("GET", "HEAD")
        assert refused(await asked(app, method, path, "reader")) != reads, f"{method} {path} as reader"
        assert not refused(await asked(app, method, path, "admin")), f"{method} {path} as admin"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "BREW"])
async def test_a_method_that_is_not_known_to_read_needs_an_admin(app, method):
    assert (await asked(app, method, "/metrics", "reader")).status == 403
    assert (await asked(app, method, "/metrics", "admin")).status == 405


async def test_a_route_that_is_added_later_is_closed_as_well(app):
    app.get("/api/v1/secrets")(lambda: "new")
    assert (await asked(app, "GET", "/api/v1/secrets", "nobody")).status == 401
    assert (await asked(app, "GET", "/api/v1/secrets", "reader")).status == 200


async def test_metrics_and_health_can_be_opened_and_nothing_else_is(tmp_path):
    app = guarded(tmp_path, open_metrics=True)
    open_to_all = {
        (method, path) for method, path in every_route(app) if not refused(await asked(app, method, path, "nobody"))
    }
    assert open_to_all == {("GET", path) for path in ("/metrics", "/healthz", "/readyz")}
    assert {path for _, path in open_to_all} == OPEN_PATHS
    for path in OPEN_PATHS:
        assert (await asked(app, "POST", path, "nobody")).status == 401


async def test_a_browser_whose_reader_may_not_change_asks_for_another_password(app):
    reader = [("Authorization", "Basic OnJlYWRlci0wMTIzNDU2Nzg5YWJjZGVm")]
    assert (await ask(app, "GET", "/", reader)).status == 200
    answer = await ask(app, "POST", "/api/v1/references/relearn", [*reader, JSON], body=b"{}")
    assert (answer.status, answer.headers["www-authenticate"][:5]) == (401, "Basic")


async def test_a_token_does_not_make_up_for_a_foreign_host_or_origin(app):
    admin = BEARERS["admin"]
    assert (await ask(app, "GET", "/metrics", admin, host="evil.example")).status == 400
    for origin in ("http://evil.example", "null", "http://[", "http://127.0.0.1:9109"):
        answer = await ask(app, "POST", "/api/v1/references/relearn", [*admin, ("Origin", origin)], body=b"{}")
        assert answer.status == 403, origin
    own = [*admin, JSON, ("Origin", "http://127.0.0.1:9108")]
    assert (await ask(app, "POST", "/api/v1/references/relearn", own, body=b"{}")).status == 422


async def test_the_public_address_of_a_proxy_is_ours_as_well():
    app = create_app(Service([]), AlertBook(), public_url="https://SW.example.com/")
    for host, path, status in (("sw.example.com", "/metrics", 200), ("evil.example", "/metrics", 400)):
        assert (await ask(app, "GET", path, host=host)).status == status
    for origin, status in (("https://sw.example.com", 422), ("https://evil.example", 403), ("null", 403)):
        asked = await ask(app, "POST", "/api/v1/references/relearn", [JSON, ("Origin", origin)], body=b"{}")
        assert asked.status == status


async def test_a_body_is_bounded_whatever_its_head_says(app):
    for length in (str(LARGEST_BODY + 1), "9" * 400, "-1", "x"):
        sized = [*BEARERS["admin"], JSON, ("Content-Length", length)]
        assert (await ask(app, "POST", "/api/v1/references/relearn", sized, body=b"{}")).status == 413, length
    pieces = [b" " * 2**18] * 5
    answer = await ask(app, "POST", "/api/v1/references/relearn", [*BEARERS["admin"], JSON], body=pieces)
    assert answer.status == 413


async def test_a_body_that_does_not_arrive_is_given_up(app, monkeypatch):
    monkeypatch.setattr("specwatch.sidecar.guard.BODY_SECONDS", 0.01)
    answer = await ask(app, "POST", "/api/v1/references/relearn", [*BEARERS["admin"], JSON], body=())
    assert answer.status == 408


async def test_who_is_cancelled_at_the_moment_at_which_a_body_arrives_ends():
    arriving: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def receive() -> Message:
        return await arriving

    async def send(message: Message) -> None:
        raise AssertionError(message)

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    guard = Guard(reading, Access(), local_only=False, refused=Counter())
    serving = asyncio.create_task(guard(scope, receive, send))
    await asyncio.sleep(0.01)
    arriving.set_result({"type": "http.request"})
    # It has arrived; whoever waits for it has not run again yet.
    await asyncio.sleep(0)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_refusals_are_counted_by_reason(app):
    admin = BEARERS["admin"]
    await ask(app, "GET", "/", admin, host="evil.example")
    await ask(app, "POST", "/", [*admin, ("Origin", "http://evil.example")])
    await asked(app, "GET", "/", "nobody")
    await asked(app, "GET", "/", "stranger")
    await asked(app, "POST", "/", "reader")
    await ask(app, "POST", "/", [*admin, ("Content-Length", "9" * 9)])
    page = (await ask(app, "GET", "/metrics", admin)).body.decode()
    counts = dict(re.findall(r'specwatch_refused_requests_total{reason="(\w+)"} (\S+)', page))
    assert counts == {"host": "1.0", "origin": "1.0", "token": "2.0", "role": "1.0", "size": "1.0"}


async def test_refused_tokens_are_told_in_few_lines_and_changes_in_one_each(app, caplog):
    caplog.set_level("INFO")
    for _ in range(100):
        await asked(app, "GET", "/api/v1/alerts", "stranger")
    await ask(app, "POST", "/api/v1/x\ny", BEARERS["admin"])
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "refused 'GET' '/api/v1/alerts' of 127.0.0.1, no valid token; so far: 1",
        r"'POST' '/api/v1/x\ny' by 127.0.0.1: 404",
    ]


async def test_no_token_is_in_any_answer_or_line(app, caplog):
    caplog.set_level("DEBUG")
    for who in BEARERS:
        for method, path in (*every_route(app), *UNKNOWN):
            answer = await asked(app, method, path, who)
            told = answer.body.decode() + str(answer.headers)
            assert READER not in told
            assert ADMIN not in told
    assert READER not in caplog.text
    assert ADMIN not in caplog.text


async def test_what_is_no_http_request_is_closed(app):
    said = []

    async def send(message):
        said.append(message)

    await app({"type": "websocket", "path": "/", "headers": [], "app": app}, None, send)
    assert said == [{"type": "websocket.close", "code": 1008}]
