"""Replicas of one model, held against each other: all moving together is the traffic, one alone is the replica."""

from __future__ import annotations

from collections.abc import Mapping

from specwatch.signals.acceptance_change import explains_itself
from specwatch.signals.diagnosis import diagnose
from specwatch.signals.evidence import Evidence
from specwatch.signals.findings import Finding
from specwatch.signals.peers import Peers

ALIKE = 0.4
"""Share of one server's fall that another must have fallen to have moved with it. Their traffic is never quite the
same, and a window of one may still hold what was before the change."""

STIRRED = 0.25
"""Drift score from which a fall that raised no alarm yet is more than chance."""


def diagnose_fleet(evidences: Mapping[str, Evidence]) -> dict[str, tuple[Finding, ...]]:
    """Findings of every server by its name, with the other replicas of its model in view."""
    falls = {name: fall for name, evidence in evidences.items() if (fall := _fall(evidence)) is not None}
    alone = {name for name in falls if evidences[name].fell and explains_itself(evidences[name])}
    return {
        name: diagnose(evidence, _peers(name, evidences, falls, alone) if evidence.fell else Peers(name))
        for name, evidence in evidences.items()
    }


def _peers(name: str, evidences: Mapping[str, Evidence], falls: Mapping[str, float], alone: set[str]) -> Peers:
    moved: list[str] = []
    stayed: list[str] = []
    for other, evidence in evidences.items():
        if other == name or other in alone or other not in falls or evidence.model_name != evidences[name].model_name:
            continue
        together = evidence.fell or (
            falls[other] >= ALIKE * falls.get(name, 0.0) and ((evidence.drift and evidence.drift.score) or 0) >= STIRRED
        )
        (moved if together else stayed).append(other)
    return Peers(name, tuple(moved), tuple(stayed))


def _fall(evidence: Evidence) -> float | None:
    """Points by which acceptance lies below its normal; None where either is not known."""
    if evidence.reference is None or evidence.rate is None:
        return None
    return evidence.reference - evidence.rate
