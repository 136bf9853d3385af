"""Replicas of one model, held against each other: all moving together is the traffic, one alone is the replica."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from specwatch.signals.acceptance_change import explains_itself
from specwatch.signals.diagnosis import diagnose
from specwatch.signals.evidence import Evidence
from specwatch.signals.findings import Finding, Level
from specwatch.signals.peers import Peers
from specwatch.vllm.metrics import Dialect

ALIKE = 0.4
"""Share of one server's fall that another must have fallen to have moved with it. Their traffic is never quite the
same, and a window of one may still hold what was before the change."""

STIRRED = 0.25
"""Drift score from which a fall that raised no alarm yet is more than chance."""

PLAIN_TWIN = Finding(
    "plain-twin",
    Level.NOTICE,
    "It serves without speculation, beside servers of its model that draft: their speedup is measured against it.",
)


def diagnose_fleet(evidences: Mapping[str, Evidence]) -> dict[str, tuple[Finding, ...]]:
    """Findings of every server by its name, with the other replicas of its model in view."""
    models: dict[str | None, dict[str, Evidence]] = {}
    for name, evidence in evidences.items():
        models.setdefault(evidence.model_name, {})[name] = evidence
    seen = {model: _movements(replicas) for model, replicas in models.items()}
    found = {name: diagnose(evidence, _peers(name, *seen[evidence.model_name])) for name, evidence in evidences.items()}
    return found | {
        name: (PLAIN_TWIN,)
        for name, evidence in evidences.items()
        if evidence.dialect is Dialect.OFF and _has_drafting(models[evidence.model_name])
    }


def _has_drafting(replicas: Mapping[str, Evidence]) -> bool:
    return any(evidence.dialect is Dialect.V1 for evidence in replicas.values())


def _movements(replicas: Mapping[str, Evidence]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the replicas whose acceptance fell, and of those where it is as it was.

    Those that cannot tell yet are in neither, and neither are those that fell for a reason of their own: they say
    nothing about the others'.
    """
    falls = {name: fall for name, evidence in replicas.items() if (fall := _fall(evidence)) is not None}
    fallen = [fall for name, fall in falls.items() if replicas[name].fell]
    if not fallen:
        return (), tuple(falls)
    alike = ALIKE * median(fallen)
    moved: list[str] = []
    stayed: list[str] = []
    for name, fall in falls.items():
        evidence = replicas[name]
        if evidence.fell:
            if not explains_itself(evidence):
                moved.append(name)
        elif fall >= alike and _score(evidence) >= STIRRED:
            moved.append(name)
        else:
            stayed.append(name)
    return tuple(moved), tuple(stayed)


def _peers(name: str, moved: tuple[str, ...], stayed: tuple[str, ...]) -> Peers:
    return Peers(
        name, tuple(other for other in moved if other != name), tuple(other for other in stayed if other != name)
    )


def _score(evidence: Evidence) -> float:
    return evidence.drift.score or 0.0 if evidence.drift else 0.0


def _fall(evidence: Evidence) -> float | None:
    """Points by which acceptance lies below its normal; None where either is not known."""
    if evidence.reference is None or evidence.rate is None:
        return None
    return evidence.reference - evidence.rate
