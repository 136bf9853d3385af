"""The benchmark of predicted acceptance, on one short document of each domain."""

from __future__ import annotations

import pytest

from specwatch.measure.acceptance_walk import ScoredText

torch = pytest.importorskip("torch", reason="needs the extra torch")

from benchmarks import draft_evaluation as benchmark  # noqa: E402 -- they need torch
from specwatch.lab.corpus import DOMAINS  # noqa: E402

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]
torch.set_num_threads(1)  # more only hinder each other on models this small


@pytest.fixture(scope="module")
def pair() -> benchmark.Pair:
    return benchmark.Pair(1, "float32")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "TOKENS", 12)


def test_predictions_are_held_against_the_reference_sampler_and_hugging_face(pair, capsys):
    rows = [*benchmark.against_reference(pair, [2], "probabilistic"), *benchmark.against_huggingface(pair, [2])]
    assert [row.domain for row in rows] == [*DOMAINS, *DOMAINS]
    for row in rows:
        assert 0 <= row.predicted <= 1
        assert row.interval
        assert row.interval[0] <= row.counted <= row.interval[1]
    benchmark.show("both", rows)
    assert "largest difference" in capsys.readouterr().out


def test_a_prediction_pools_accepted_over_drafted():
    def text(*kept: float) -> ScoredText:
        return ScoredText(kept, kept, len(kept))

    # Of steps from token 1 on: one that is accepted, and two that are not.
    assert benchmark.pooled([text(0, 1), text(0, 0, 0)], k=1) == pytest.approx(1 / 3)


def test_one_document_has_an_interval_of_no_width():
    assert benchmark.interval([3], [4]) == (0.75, 0.75)
