from __future__ import annotations

import math

import pytest

from specwatch.lab.scenario import FOREIGN
from specwatch.lab.simulator import SimulatedServer
from tests.lab.pages import total

V0 = "0.8.5.post2"


def test_v0_shows_no_speculation_before_its_first_collection():
    server = SimulatedServer("lab", release=V0)
    server.advance(4)
    assert "vllm:generation_tokens_total" in server.page()
    assert "spec_decode" not in server.page()
    server.advance(2)
    assert "spec_decode_efficiency" in server.page()


def test_v0_adds_totals_to_its_counters_and_shows_averages_since_start():
    server = SimulatedServer("s", release=V0, traffic=FOREIGN)
    server.advance(120)
    page, truth = server.page(), server.truth()
    assert total(page, "vllm:spec_decode_num_draft_tokens_total") > 5 * truth.draft_tokens
    shown = total(page, "vllm:spec_decode_draft_acceptance_rate")
    assert shown > truth.acceptance_rate + 0.1
    length = total(page, "vllm:spec_decode_efficiency") * 6
    assert length == pytest.approx(truth.acceptance_length, rel=0.02)
    assert total(page, "vllm:generation_tokens_total") < truth.generated_tokens
    assert total(page, "vllm:generation_tokens_total") == truth.decode_steps + truth.requests_started


def test_v0_gauges_stand_still_while_nothing_is_generated():
    server = SimulatedServer("s", release=V0)
    server.advance(30)
    server.running = 0
    server.advance(30)
    before = server.page()
    server.advance(60)
    for name in ("vllm:spec_decode_efficiency", "vllm:spec_decode_num_draft_tokens_total"):
        assert total(server.page(), name) == total(before, name)


def test_v0_gauges_are_nan_when_nothing_was_drafted():
    server = SimulatedServer("s", release=V0)
    server.drafting = False
    server.advance(30)
    assert math.isnan(total(server.page(), "vllm:spec_decode_draft_acceptance_rate"))
