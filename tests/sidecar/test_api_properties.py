"""Whatever is asked, in whatever words: no route fails on our side. Requests are made from the OpenAPI document."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specwatch.collect.targets import Target
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service
from specwatch.vllm.metrics import read_page
from tests.support.asgi import Answer, ask, every_route
from tests.support.openapi import Operation, operations, requests
from tests.support.pages import page_text

PAGES = ("vllm-0.32.0-v1-draft_model-json", "vllm-0.32.0-v1-draft_model-es")
JSON = [("Content-Type", "application/json")]
EXAMPLES = 120
"""Of each operation: some twenty operations, a few milliseconds a request, twenty seconds in all on a busy machine."""


@cache
def watching() -> FastAPI:
    """An application with a target that has shown two pages and another that has shown none."""
    service = Service([Target("gpu", "http://127.0.0.1:1/metrics"), Target("a", "http://127.0.0.1:1/metrics")])
    for age, page in zip((10, 0), PAGES, strict=True):
        service.watches["gpu"].observe(service.clock.now() - age, read_page(page_text(page)))
    return create_app(service, AlertBook())


@cache
def loop() -> asyncio.AbstractEventLoop:
    """One for all requests, as it is where the application serves: its events belong to a loop."""
    return asyncio.new_event_loop()


def asked_now(*words: Any, **more: Any) -> Answer:
    return loop().run_until_complete(ask(watching(), *words, **more))


DOCUMENT: dict[str, Any] = watching().openapi()
OPERATIONS = list(operations(DOCUMENT))


def test_every_route_that_programs_use_is_in_the_document():
    known = {(operation.method, operation.path.replace("{id}", "x")) for operation in OPERATIONS}
    for method, path in every_route(watching()):
        if path.startswith("/api/") and method != "HEAD" and not path.endswith("openapi.json"):
            assert (method, path) in known


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}")
def test_no_request_makes_a_route_fail(operation: Operation):
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(requests(operation, DOCUMENT))
    def answers(asked):
        answer = asked_now(operation.method, asked.path, JSON, query=asked.query, body=asked.body)
        assert answer.status < 500 or answer.status in operation.documented, answer

    answers()


@settings(max_examples=EXAMPLES)
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]),
    path=st.text(max_size=30).map(lambda text: "/" + text)
    | st.sampled_from([path for _, path in every_route(watching())]),
    headers=st.lists(
        st.tuples(
            st.sampled_from(["Origin", "Content-Length", "Content-Type", "Authorization", "If-None-Match", "Host"]),
            st.text(st.characters(max_codepoint=255), max_size=30),
        ),
        max_size=3,
    ),
)
def test_no_path_method_or_header_makes_it_fail(method, path, headers):
    answer = asked_now(method, path, headers)
    assert answer.status < 500 or path == "/readyz", answer
