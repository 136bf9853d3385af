"""Whatever is sent, in whatever words: no route fails on our side. What the document allows is in test_openapi."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from specwatch.collect.targets import Target
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service
from specwatch.vllm.metrics import read_page
from tests.support.asgi import Answer, ask, every_route
from tests.support.pages import page_text

PAGES = ("vllm-0.32.0-v1-draft_model-json", "vllm-0.32.0-v1-draft_model-es")
JSON = [("Content-Type", "application/json")]
EXAMPLES = 120
"""Of each route, a few milliseconds a request."""


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


def test_every_route_that_programs_use_is_in_the_document():
    paths = watching().openapi()["paths"]
    known = {(method.upper(), path.replace("{id}", "x")) for path, methods in paths.items() for method in methods}
    for method, path in every_route(watching()):
        if path.startswith("/api/") and method != "HEAD" and not path.endswith("openapi.json"):
            assert (method, path) in known


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=40) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("path", sorted(path for method, path in every_route(watching()) if method == "POST"))
def test_no_body_makes_a_route_fail(path: str):
    @settings(max_examples=EXAMPLES)
    @given(JUNK.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
    def answers(body: bytes):
        answer = asked_now("POST", path, JSON, body=body)
        assert answer.status < 500, answer

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
