"""Replicas held against each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specwatch.signals.evidence import Evidence
from specwatch.signals.findings import Finding
from specwatch.signals.fleet_diagnosis import diagnose_fleet
from specwatch.signals.workload import Shift, WorkloadReading
from specwatch.vllm.metrics import Dialect
from specwatch.vllm.requests_seen import Feature
from tests.support.drift import alarmed, calm

NOW = 100_000.0


def server(rate: float | None = 0.85, alarm: bool = False, model: str = "m", shifted: bool = False) -> Evidence:
    shift = Shift(Feature.PROMPT_LENGTH, psi=0.9 if shifted else 0.0, noise=0.1, before=80, now=300 if shifted else 80)
    return Evidence(
        Dialect.V1,
        {"generation_throughput": 500.0, "acceptance_rate": rate, "estimated_speedup": 2.0},
        now=NOW,
        model_name=model,
        drift=alarmed(0.85, NOW - 600) if alarm else calm(0.85),
        workload=WorkloadReading(1.0, 200, (shift,)),
    )


def fell(to: float = 0.5, **more: object) -> Evidence:
    return server(to, alarm=True, **more)  # type: ignore[arg-type]


def first(evidences: dict[str, Evidence]) -> dict[str, Finding]:
    return {name: findings[0] for name, findings in diagnose_fleet(evidences).items()}


def test_all_replicas_moving_together_is_the_traffic():
    found = first({name: fell() for name in "abc"})
    assert {finding.code for finding in found.values()} == {"traffic-changed"}
    assert "on all 3 replicas" in found["a"].text
    assert "as long as before" in found["a"].text


def test_one_replica_alone_is_named_and_the_others_are_healthy():
    found = first({"a": fell(), "b": server(), "c": server()})
    assert [finding.code for finding in found.values()] == ["replica-off", "healthy", "healthy"]
    assert found["a"].text.startswith("a is off")
    assert "2 of the 2 others stayed" in found["a"].text


def test_a_name_of_any_length_is_cut_in_the_sentence():
    found = first({"x" * 5000: fell(), "b": server()})
    assert "x" * 40 + " is off" in found["x" * 5000].text
    assert "the other one stayed" in found["x" * 5000].text


def test_all_falling_to_next_to_nothing_together_is_the_traffic():
    assert first({name: fell(0.01) for name in "abc"})["a"].code == "traffic-changed"


def test_two_of_five_name_each_other():
    found = first({"a": fell(), "b": fell(), "c": server(), "d": server(), "e": server()})
    assert found["a"].code == found["b"].code == "replica-off"
    assert "as on b" in found["a"].text


def test_a_replica_that_falls_without_its_alarm_yet_counts_as_moving():
    later = replace(server(0.65), drift=replace(calm(0.85), score=0.6))
    found = first({"a": fell(), "b": later})
    assert found["a"].code == "traffic-changed"


def test_one_replica_with_new_prompts_of_its_own_got_other_traffic():
    found = first({"a": fell(shifted=True), "b": server(), "c": server()})
    assert found["a"].code == "traffic-changed"
    assert "on 1 of 3 replicas" in found["a"].text


def test_replicas_of_another_model_or_without_a_value_are_no_witnesses():
    found = first({"a": fell(), "b": server(model="other"), "c": server(rate=None)})
    assert found["a"].code == "drifted"


def test_a_name_may_be_hostile_and_long():
    found = first({"a": fell(), "x" * 5000: fell(), "b": server(), "c": server(), "d": server()})
    assert len(found["a"].text) < 400


def test_a_fleet_of_thousands_that_all_moved_is_told_in_a_sentence():
    found = first({f"r{i}": fell() for i in range(2000)})
    assert "on all 2000 replicas" in found["r7"].text


def test_nobody_is_no_fleet():
    assert diagnose_fleet({}) == {}


@pytest.mark.parametrize("count", [2, 40])
def test_a_garbled_replica_is_named_among_others(count: int):
    found = first({"a": fell(0.01), **{f"r{i}": server() for i in range(count)}})
    assert found["a"].code == "outputs-garbled"
    assert found["a"].text.startswith(f"Outputs of a may be garbled, and of no other of {count + 1} replicas")


def test_a_plain_server_beside_drafting_ones_of_its_model_is_no_problem_and_alone_it_is():
    plain = Evidence(Dialect.OFF, model_name="m")
    found = diagnose_fleet({"drafting": server(), "twin": plain, "alone": replace(plain, model_name="other")})
    assert [finding.code for finding in found["twin"]] == ["plain-twin"]
    assert [finding.code for finding in found["alone"]] == ["no-speculation"]
