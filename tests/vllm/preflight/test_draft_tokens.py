"""K, by rule of thumb and by a profile of acceptance from a file or a running sidecar."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from specwatch.errors import InputError
from specwatch.vllm.preflight import profile
from specwatch.vllm.preflight.draft_tokens import check
from specwatch.vllm.preflight.findings import Finding, Severity
from specwatch.vllm.preflight.profile import Profile
from tests.support.models import planned

FALLING = Profile((0.8, 0.6, 0.4, 0.2, 0.1, 0.05), cost=0.1, source="here")


def told(tokens: int | None, known: Profile | None = None, method: str = "draft_model") -> list[Finding]:
    return list(check(planned("org/m", "org/d", tokens=tokens, method=method, profile=known)))


def test_the_speedup_is_tokens_by_time():
    # (1 + 0.8 + 0.6) / (1 + 2 · 0.1)
    assert FALLING.speedup(2) == pytest.approx(2.0)
    assert FALLING.speedup(0) == 1.0


def test_the_best_k_ends_where_a_token_costs_more_than_it_brings():
    assert FALLING.best == 3
    assert max(range(7), key=lambda tokens: (1 + sum(FALLING.positions[:tokens])) / (1 + 0.1 * tokens)) == 3


@pytest.mark.parametrize("tokens", [1, 5, 7, None])
def test_a_usual_k_is_not_remarked(tokens):
    assert told(tokens) == []


@pytest.mark.parametrize("tokens", [8, 99])
def test_from_eight_on_k_is_warned_of(tokens):
    (warned,) = told(tokens)
    assert warned.severity is Severity.WARNING
    assert "5 is the usual start" in warned.remedy


@pytest.mark.parametrize("method", ["ngram", "suffix", "dflash", "medusa"])
def test_methods_whose_further_tokens_cost_no_pass_are_not(method):
    assert told(16, method=method) == []


def test_with_a_profile_each_tokens_gain_is_told_and_the_best_k():
    (warned,) = told(6, FALLING)
    assert warned.severity is Severity.WARNING
    assert "token 1 +0.64, token 2 +0.36, token 3 +0.15, token 4 -0.01" in warned.text
    assert warned.remedy == "3 draft tokens give 2.15 times, 6 give 1.97: take 3."


def test_beyond_the_profile_nothing_is_claimed():
    (warned,) = told(9, FALLING)
    assert warned.remedy == "3 draft tokens give 2.15 times: take 3."


@pytest.mark.parametrize(
    ("tokens", "remedy"), [(3, "That is the best K of it."), (2, "3 is the best of those measured.")]
)
def test_a_k_that_is_not_too_large_is_a_note(tokens, remedy):
    (noted,) = told(tokens, FALLING)
    assert (noted.severity, noted.remedy) == (Severity.NOTE, remedy)


def test_a_draft_that_never_pays_is_said_to():
    (warned,) = told(3, Profile((0.05, 0.01), cost=0.1, source="here"))
    assert "Drafting does not pay" in warned.remedy


def test_a_profile_is_read_from_a_file(tmp_path: Path):
    file = tmp_path / "profile.json"
    file.write_text('{"acceptance_by_position": [0.8, 0.5], "draft_cost": 0.2}')
    assert profile.read(str(file)) == Profile((0.8, 0.5), 0.2, str(file))
    file.write_text('{"acceptance_by_position": [1, 0]}')
    assert profile.read(str(file)).cost == profile.ASSUMED_COST


def test_a_profile_is_read_from_a_calibration_where_few_requests_ran_and_drafts_were_longest(tmp_path: Path):
    cells = [
        {"domain": "code", "concurrency": 16, "num_speculative_tokens": 5, "acceptance_by_position": [0.1]},
        {"domain": "code", "concurrency": 1, "num_speculative_tokens": 1, "acceptance_by_position": [0.2]},
        {"domain": "code", "concurrency": 1, "num_speculative_tokens": 2, "acceptance_by_position": [0.9, 0.8]},
    ]
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps({"format": 1, "draft_cost": 0.03, "cells": cells}))
    assert profile.read(str(file)) == Profile((0.9, 0.8), 0.03, f"code in {file}")


def view(positions: Any) -> dict[str, Any]:
    """What a sidecar says of a target."""
    return {
        "target": {"name": "chat"},
        "cost": {"c": 0.07},
        "headline_window": "5m",
        "windows": {
            "1m": {"values": {"position_acceptance": [0.1]}},
            "5m": {"values": {"position_acceptance": positions}},
        },
    }


@pytest.fixture
def sidecar() -> Iterator[tuple[str, dict[str, Any]]]:
    """A server that answers like a sidecar, and what it answers."""
    content: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(content).encode()
            self.send_response(200 if self.path == "/api/v1/signals" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", content
    server.shutdown()
    server.server_close()


def test_a_profile_is_read_from_a_sidecar_over_the_window_that_it_speaks_of(sidecar):
    address, content = sidecar
    content["targets"] = [view(None), view([0.9, 0.7])]
    assert profile.read(f"{address}/") == Profile((0.9, 0.7), 0.07, f"chat at {address}/")


def test_a_sidecar_without_enough_traffic_gives_none(sidecar):
    address, content = sidecar
    content["targets"] = [view(None)]
    with pytest.raises(InputError, match="no acceptance by position in it"):
        profile.read(address)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"acceptance_by_position": [2]}', '{"acceptance_by_position": [true]}', '{"targets": [1]}'],
)
def test_a_file_that_holds_none_is_named(tmp_path: Path, text):
    file = tmp_path / "profile.json"
    file.write_text(text)
    with pytest.raises(InputError, match=f"--profile-from {file}"):
        profile.read(str(file))


@pytest.mark.parametrize("source", ["http://127.0.0.1:1", "/no/such/profile.json"])
def test_a_place_that_does_not_answer_is_named(source):
    with pytest.raises(InputError, match=f"--profile-from {source}"):
        profile.read(source)
