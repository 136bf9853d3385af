"""The API against its own OpenAPI document: schemathesis asks by it, well and badly, and holds the answers to it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    negative_data_rejection,
    positive_data_acceptance,
)

from specwatch.collect.targets import Target
from specwatch.sidecar.access import Access, TokenFile
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service, ServiceSettings
from specwatch.vllm.metrics import read_page
from tests.support.pages import page_text

ADMIN = "admin-0123456789abcdef"
HEADERS = {"Host": "127.0.0.1:9108", "Authorization": f"Bearer {ADMIN}"}
PAGES = ("vllm-0.32.0-v1-draft_model-json", "vllm-0.32.0-v1-draft_model-es")
EXAMPLES = 60
"""Of each operation."""

STREAM = "/api/v1/events"
"""It never ends, and a client in the same process waits for its end."""

FOLDER = tempfile.TemporaryDirectory()
"""The schema is read before any fixture is there."""


def watching() -> FastAPI:
    """An application behind a token, with a target that has shown two pages and another that has shown none."""
    token = Path(FOLDER.name) / "token"
    token.write_text(ADMIN)
    targets = [Target("gpu", "http://127.0.0.1:1/metrics"), Target("a", "http://127.0.0.1:1/metrics")]
    service = Service(targets, settings=ServiceSettings(interval=86_400.0))
    for age, page in zip((10, 0), PAGES, strict=True):
        service.watches["gpu"].observe(service.clock.now() - age, read_page(page_text(page)))
    for tally in service.tallies.values():
        tally.ended_at = service.clock.now()
    return create_app(service, AlertBook(), access=Access(None, TokenFile(token, "--admin-token-file")))


SCHEMA = schemathesis.openapi.from_asgi("/api/v1/openapi.json", watching(), headers=HEADERS)

NOT_HELD_TO = [
    # Where a path has a route a method, 405 names the methods of one of them: Starlette's own doing.
    allow_header_conformance,
    # No schema says that one moment lies before another, or lies ahead.
    positive_data_acceptance,
    # What nobody asked for is left alone: Alertmanager's webhooks hold more than is read, and so do queries.
    negative_data_rejection,
]


@SCHEMA.exclude(path=STREAM).parametrize()
@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_the_document_says(case: schemathesis.Case):
    case.call_and_validate(headers=HEADERS, excluded_checks=NOT_HELD_TO)


@pytest.mark.parametrize("asks", [True, False])
def test_the_document_says_whether_a_token_is_asked_for(asks: bool, tmp_path: Path):
    (tmp_path / "token").write_text(ADMIN)
    token = TokenFile(tmp_path / "token", "--read-token-file")
    access = Access(token, open_metrics=True) if asks else Access()
    document = create_app(Service(), AlertBook(), access=access).openapi()
    assert ("security" in document) == asks
    assert document["paths"]["/healthz"]["get"].get("security") == ([] if asks else None)
