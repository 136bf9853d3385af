"""What is wrong with one server, in plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from specwatch.signals.acceptance_change import explain
from specwatch.signals.evidence import Evidence
from specwatch.signals.findings import Finding, Level, figures
from specwatch.signals.load_diagnosis import (
    is_idle,
    k_too_long,
    not_drafting,
    partly_drafted,
    past_break_even,
    slower_than_none,
)
from specwatch.signals.peers import ALONE, Peers
from specwatch.signals.speedup import SpeedupKind
from specwatch.vllm.metrics import Dialect

PROMISED_ACCEPTANCE = 0.60
"""The figure that people ask for. It is no illness to be below it: all twelve configurations that Leviathan et al. 2023
published, 1.4 to 3.4 times faster, lie between 0.22 and 0.56."""

UNREADABLE: Mapping[Dialect, Finding] = {
    Dialect.NOT_VLLM: Finding(
        "not-vllm",
        Level.PROBLEM,
        "This is a metrics page, but not vLLM's: no series begins with vllm:. Point at the API server's port.",
    ),
    Dialect.MANGLED: Finding(
        "mangled-names",
        Level.PROBLEM,
        "An exporter on the way renamed vllm:… to vllm_…, so no rule or dashboard finds the series. Scrape vLLM's own "
        "port, or ask for text format 0.0.4 (Prometheus 2.53+: scrape_protocols: [PrometheusText0.0.4]).",
    ),
    Dialect.NO_STATS: Finding(
        "no-statistics",
        Level.PROBLEM,
        "vLLM exports no token statistics: it runs with --disable-log-stats, or it is an old V0 engine that has served "
        "nothing yet. Remove that flag, or send a request.",
    ),
    Dialect.DIFFUSION: Finding(
        "diffusion-model",
        Level.NOTICE,
        "A diffusion model: it denoises instead of drafting, so acceptance does not apply.",
    ),
    Dialect.OFF: Finding(
        "no-speculation",
        Level.PROBLEM,
        "vLLM serves without speculation: the page holds no spec_decode series. Start it with --speculative-config, or "
        "with specwatch launch.",
    ),
}
"""Dialects that leave nothing else to say."""


def diagnose(evidence: Evidence, peers: Peers = ALONE) -> tuple[Finding, ...]:
    """Findings, the most important first; at least one.

    ``peers`` is what the other replicas of the model did meanwhile, as ``fleet_diagnosis`` finds it.
    """
    if evidence.dialect in UNREADABLE:
        return (UNREADABLE[evidence.dialect],)
    changed = explain(evidence, peers) if _enough_traffic(evidence) else None
    found = [*([changed] if changed else []), *(finding for check in _CHECKS if (finding := check(evidence)))]
    problems = [finding for finding in found if finding.level is Level.PROBLEM]
    notices = [finding for finding in found if finding.level is not Level.PROBLEM]
    low = None if problems else _low_acceptance(evidence)
    return (*(problems or _healthy(evidence)), *([low] if low else []), *notices)


def _enough_traffic(evidence: Evidence) -> bool:
    return evidence.rate is not None


def _one_scrape(evidence: Evidence) -> Finding | None:
    if evidence.number("generation_throughput") is not None or evidence.rate is not None:
        return None
    return Finding("one-scrape", Level.NOTICE, "Nothing to judge yet: rates need two scrapes of one run of the server.")


def _no_traffic(evidence: Evidence) -> Finding | None:
    generated = evidence.number("generation_throughput")
    if generated is None or generated > 0:
        return None
    return Finding("no-traffic", Level.NOTICE, "No tokens were generated in this window: nothing to judge.")


def _too_little(evidence: Evidence) -> Finding | None:
    generated = evidence.number("generation_throughput")
    if not generated or evidence.rate is not None or evidence.dialect is Dialect.V0 or is_idle(evidence):
        return None
    return Finding(
        "too-little-traffic",
        Level.NOTICE,
        "Not enough traffic to say: too few drafts in this window to tell acceptance.",
        figures("tokens_per_second", generation_throughput=generated),
    )


def _v0(evidence: Evidence) -> Finding | None:
    if evidence.dialect is not Dialect.V0:
        return None
    return Finding(
        "v0-engine",
        Level.NOTICE,
        "The V0 engine: its speculation counters are corrupt and its acceptance gauge counts tokens behind a "
        "rejection, so only averages since the start can be told, and they need K (--num-speculative-tokens).",
    )


def _no_drafts_counter(evidence: Evidence) -> Finding | None:
    if evidence.dialect is not Dialect.V1_MIN:
        return None
    return Finding(
        "no-drafts-counter",
        Level.NOTICE,
        "vLLM 0.8.3 and 0.8.4 count no drafts: there is an acceptance rate, but no acceptance length or coverage.",
    )


def _low_acceptance(evidence: Evidence) -> Finding | None:
    rate = evidence.rate
    if rate is None or rate >= PROMISED_ACCEPTANCE:
        return None
    return Finding(
        "acceptance-low",
        Level.NOTICE,
        f"Acceptance is {rate:.1%}, below the {PROMISED_ACCEPTANCE:.0%} that many rules ask for: by itself no illness, "
        "for a cheap draft pays far below it. Hold it against the speedup and against its own normal.",
        figures("ratio", acceptance_rate=rate),
    )


def _slightly_below(evidence: Evidence) -> Finding | None:
    if not evidence.fell_slightly or evidence.rate is None or evidence.reference is None:
        return None
    return Finding(
        "slightly-below-normal",
        Level.NOTICE,
        f"Acceptance left its normal by more than chance and by little: {evidence.rate:.1%} now, "
        f"{evidence.reference:.1%} before. It is too small to matter so far, or on its way back.",
        figures("ratio", now=evidence.rate, reference=evidence.reference),
    )


def _many_engines(evidence: Evidence) -> Finding | None:
    if evidence.engines < 2:
        return None
    return Finding(
        "several-engines",
        Level.NOTICE,
        f"{evidence.engines} engines (data parallel) answer behind this page; the figures pool them.",
    )


_CHECKS: tuple[Callable[[Evidence], Finding | None], ...] = (
    not_drafting,
    past_break_even,
    slower_than_none,
    k_too_long,
    _slightly_below,
    _one_scrape,
    _no_traffic,
    _too_little,
    _v0,
    _no_drafts_counter,
    partly_drafted,
    _many_engines,
)
"""In order of weight, behind what changed acceptance."""


def _healthy(evidence: Evidence) -> list[Finding]:
    """That all is well, where there is something to say so by."""
    if evidence.rate is None or not_drafting(evidence):
        return []
    worth = evidence.worth
    known = evidence.speedup.kind if evidence.speedup else SpeedupKind.ESTIMATED
    words = "an estimated" if known is SpeedupKind.ESTIMATED else f"a {known.value}"
    drafted = " in the steps that it drafts" if partly_drafted(evidence) else ""
    most = f" at most{drafted}" if known is SpeedupKind.ESTIMATED else ""
    gain = "" if worth is None else f": {words} {worth:.2f} times the plain speed{most}"
    return [
        Finding(
            "healthy",
            Level.OK,
            f"Speculation fits this traffic{gain}.",
            figures("ratio", speedup=worth, acceptance_rate=evidence.rate),
        )
    ]
