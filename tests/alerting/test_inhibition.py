from __future__ import annotations

import pytest

from specwatch.alerting.catalogue import ALERTS
from specwatch.alerting.inhibition import INHIBITIONS, Same, inhibited_by
from specwatch.alerting.watchdogs import WATCHDOGS

NAMES = {entry.name for entry in (*ALERTS, *WATCHDOGS)}


def fires(*where: tuple[str, str, str]):
    """What fires, as alert, server and model."""
    return lambda alert, target, model: any(
        alert == one[0] and target in (None, one[1]) and model in (None, one[2]) for one in where
    )


@pytest.mark.parametrize("rule", INHIBITIONS, ids=lambda rule: rule.source)
def test_every_rule_names_alerts_of_the_catalogue_and_none_silences_itself(rule):
    assert {rule.source, *rule.symptoms} <= NAMES
    assert rule.source not in rule.symptoms
    assert rule.same[0] is Same.JOB


def test_a_server_that_is_down_silences_its_own_symptoms_and_no_other_server():
    down = fires(("SpeculationTargetDown", "gpu-3", "llama"))
    assert inhibited_by("SpeculativeAcceptanceRateLow", "gpu-3", "llama", down) == "SpeculationTargetDown"
    assert inhibited_by("SpeculativeAcceptanceRateLow", "gpu-4", "llama", down) is None
    assert inhibited_by("SpeculationTargetDown", "gpu-3", "llama", down) is None


def test_what_the_whole_model_does_silences_each_of_its_servers_and_no_other_model():
    fell = fires(("SpeculationBelowLastWeek", "", "llama"))
    assert inhibited_by("SpeculationDrifted", "gpu-3", "llama", fell) == "SpeculationBelowLastWeek"
    assert inhibited_by("SpeculationDrifted", "gpu-3", "qwen", fell) is None


def test_a_job_without_any_server_silences_what_is_said_of_each():
    nobody = fires(("SpeculationNoTargets", "", ""))
    assert inhibited_by("SpeculationTargetDown", "gpu-3", "llama", nobody) == "SpeculationNoTargets"
