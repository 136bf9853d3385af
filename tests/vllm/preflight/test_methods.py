"""What single methods need of their models and of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from specwatch.vllm.preflight import methods
from specwatch.vllm.preflight.run import examine
from tests.support.models import LLAMA, codes, found, model, planned


@pytest.mark.parametrize(
    ("method", "head", "refused"),
    [
        ("eagle", {"hidden_size": 64}, False),
        ("eagle", {"hidden_size": 32}, True),
        ("eagle3", {"hidden_size": 64}, False),
        ("eagle3", {"hidden_size": 32}, True),
        ("eagle3", {"hidden_size": 32, "target_hidden_size": 64}, False),
        ("eagle3", {"target_hidden_size": 128}, True),
        ("eagle3", {"transformer_layer_config": {"hidden_size": 64}}, False),
        ("draft_model", {"hidden_size": 32}, False),
    ],
)
def test_a_head_must_be_made_for_the_targets_inner_states(tmp_path: Path, method, head, refused):
    pair = model(tmp_path / "t"), model(tmp_path / "d", LLAMA | head)
    told = examine(planned(*pair, method=method)).findings
    assert ("hidden-size" in codes(told)) is refused
    if refused:
        assert f"Take a head that was trained for {pair[0]}" in found(told, "hidden-size").remedy


@pytest.mark.parametrize("key", ["num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"])
@pytest.mark.parametrize(
    ("tokens", "refused"), [(1, False), (2, False), (4, False), (3, True), (5, True), (None, False)]
)
def test_a_built_in_head_wants_a_multiple_of_what_it_predicts(tmp_path: Path, key, tokens, refused):
    target = model(tmp_path, LLAMA | {key: 2})
    told = examine(planned(target, method="mtp", tokens=tokens)).findings
    assert ("predicted-tokens" in codes(told)) is refused
    if tokens == 5:
        assert found(told, "predicted-tokens").remedy == "vLLM wants a multiple of 2: 4 or 6."


def test_the_number_may_stand_in_the_language_models_part(tmp_path: Path):
    target = model(tmp_path, {"model_type": "x", "text_config": {"mtp_num_hidden_layers": 2}})
    assert "predicted-tokens" in codes(examine(planned(target, method="mtp", tokens=3)).findings)


@pytest.mark.parametrize("named", [False, True])
def test_a_target_without_a_prediction_head_is_refused_and_can_be_forced(tmp_path: Path, named):
    target = model(tmp_path)
    plan = planned(target, target if named else None, method="mtp", tokens=1)
    refused = found(examine(plan).findings, "no-prediction-head")
    assert (refused.refuses, refused.forcible) == (True, True)


@pytest.mark.parametrize("kind", ["mimo_v2_flash", "gemma4_assistant", "deepseek_mtp"])
def test_a_head_that_vllm_knows_without_a_number_is_left_to_vllm(tmp_path: Path, kind):
    target = model(tmp_path, LLAMA | {"model_type": kind})
    assert "no-prediction-head" not in codes(examine(planned(target, method="mtp", tokens=1)).findings)


def test_an_mlp_speculator_predicts_a_number_of_tokens_too(tmp_path: Path):
    pair = model(tmp_path / "t"), model(tmp_path / "d", {"model_type": "mlp_speculator", "n_predict": 3})
    told = examine(planned(*pair, method="mlp_speculator", tokens=4, release="0.9.2")).findings
    assert "predicted-tokens" in codes(told)


@pytest.mark.parametrize(
    ("there", "installed", "refused"), [(None, True, True), ("spec", True, False), (None, False, False)]
)
def test_suffix_needs_its_package_beside_this_vllm(monkeypatch, there, installed, refused):
    monkeypatch.setattr(methods.importlib.util, "find_spec", lambda name: there)
    monkeypatch.setattr("specwatch.vllm.preflight.budget.gpu_memories", lambda environment: [])
    told = examine(planned("org/m", method="suffix", installed=installed)).findings
    assert ("arctic-inference" in codes(told)) is refused


def test_translation_is_for_draft_models_only(tmp_path: Path):
    pair = model(tmp_path / "t"), model(tmp_path / "d")
    told = examine(planned(*pair, method="eagle3", options={"use_heterogeneous_vocab": True})).findings
    assert found(told, "heterogeneous-method").refuses
