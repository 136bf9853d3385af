from __future__ import annotations

import pytest

from specwatch.alerting.diagnosis_text import in_its_unit, in_words
from specwatch.signals.findings import Figure, Finding, Level


def test_a_finding_in_words_has_its_sentence_what_helps_and_the_numbers():
    finding = Finding(
        "x",
        Level.PROBLEM,
        "Only gpu-3 fell.",
        (
            Figure("acceptance_rate", 0.341, "ratio"),
            Figure("speedup", 0.82, "ratio"),
            Figure("running", 3.0, "requests"),
        ),
        "Restart it.",
    )
    other = Finding("y", Level.NOTICE, "Two engines.")
    assert in_words([finding, other]) == (
        "Only gpu-3 fell. Restart it. (acceptance rate 34.1%, speedup 0.82×, running 3 requests)"
    )
    assert in_words([other]) == "Two engines."
    assert in_words([]) == ""


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure("changed_at", 1795985759.7, "seconds"), "2026-11-29 20:55 UTC"),
        (Figure("window", 300.0, "seconds"), "5 min"),
        (Figure("step_latency", 0.0231, "seconds"), "0.0231 seconds"),
        (Figure("drift_score", 1.5, "ratio"), "1.50"),
        (Figure("k", 5.0), "5"),
        (Figure("replicas_moved", 1.0, "servers"), "1 server"),
        (Figure("generation_throughput", 1.0, "tokens_per_second"), "1 tokens/s"),
    ],
)
def test_a_number_reads_as_what_it_is(figure, text):
    assert in_its_unit(figure) == text
