"""What is wrong, in plain words, from one server's evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from specwatch.signals.catalogue import Value
from specwatch.signals.drift import DriftReading
from specwatch.signals.speedup import ASSUMED, DraftCost
from specwatch.vllm.metrics import Dialect


class Level(str, Enum):
    """How much a finding matters."""

    OK = "ok"
    NOTICE = "notice"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One thing worth saying: a stable code for scripts, a sentence for people."""

    code: str
    level: Level
    text: str


@dataclass(frozen=True)
class Evidence:
    """What is known of one server over one window."""

    dialect: Dialect
    values: Mapping[str, Value] = field(default_factory=dict)
    """Signals by name, as ``catalogue.evaluate`` gives them."""
    engines: int = 1
    cost: DraftCost = ASSUMED
    drift: DriftReading | None = None

    def number(self, name: str) -> float | None:
        """A scalar signal, or None without enough to say."""
        value = self.values.get(name)
        return value if isinstance(value, float) else None


PROMISED_ACCEPTANCE = 0.60
"""The figure that people ask for; ``alerting.catalogue`` says why it is no proof of a loss."""

IDLE_COVERAGE = 0.01
"""Share of drafted steps below which a configured draft counts as idle, as in SpeculationNotDrafting."""

MIXED_COVERAGE = 0.90
"""Share of drafted steps below which the undrafted ones are worth a word: prompts admitted with one uncached token
and the ends of requests move it by a few per cent only."""

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


def diagnose(evidence: Evidence) -> tuple[Finding, ...]:
    """Findings, the most important first; at least one."""
    if evidence.dialect in UNREADABLE:
        return (UNREADABLE[evidence.dialect],)
    found = [finding for check in _CHECKS if (finding := check(evidence))]
    problems = [finding for finding in found if finding.level is Level.PROBLEM]
    notices = [finding for finding in found if finding.level is not Level.PROBLEM]
    return (*(problems or _healthy(evidence)), *notices)


def _one_scrape(evidence: Evidence) -> Finding | None:
    if evidence.number("generation_throughput") is not None or evidence.number("acceptance_rate") is not None:
        return None
    return Finding("one-scrape", Level.NOTICE, "Nothing to judge yet: rates need two scrapes of one run of the server.")


def _no_traffic(evidence: Evidence) -> Finding | None:
    generated = evidence.number("generation_throughput")
    if generated is None or generated > 0:
        return None
    return Finding("no-traffic", Level.NOTICE, "No tokens were generated in this window: nothing to judge.")


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


def _too_little(evidence: Evidence) -> Finding | None:
    generated = evidence.number("generation_throughput")
    if not generated or evidence.number("acceptance_rate") is not None or evidence.dialect is Dialect.V0:
        return None
    if _is_idle(evidence):
        return None
    return Finding("too-little-traffic", Level.NOTICE, "Too few drafts in this window to tell acceptance.")


def _not_drafting(evidence: Evidence) -> Finding | None:
    if not _is_idle(evidence):
        return None
    return Finding(
        "not-drafting",
        Level.PROBLEM,
        "Speculation is configured, tokens flow, and hardly a step is drafted: a dynamic schedule at K = 0, a batch "
        "above its limit, or requests that cannot be speculated.",
    )


def _is_idle(evidence: Evidence) -> bool:
    coverage = evidence.number("draft_coverage")
    return coverage is not None and coverage < IDLE_COVERAGE


def _partly_drafted(evidence: Evidence) -> Finding | None:
    coverage = evidence.number("draft_coverage")
    if coverage is None or not IDLE_COVERAGE <= coverage < MIXED_COVERAGE:
        return None
    return Finding(
        "partly-drafted",
        Level.NOTICE,
        f"Only {coverage:.0%} of decode steps are drafted: n-gram misses, a dynamic schedule or requests that cannot "
        "be speculated.",
    )


def _slower(evidence: Evidence) -> Finding | None:
    speedup = evidence.number("estimated_speedup")
    if speedup is None or speedup >= 1:
        return None
    return Finding(
        "slower-than-none",
        Level.PROBLEM,
        f"Speculation costs more than it gives: at most {speedup:.2f} times the plain speed ({evidence.cost.source}). "
        "Lower K, change the draft, or turn it off.",
    )


def _low_acceptance(evidence: Evidence) -> Finding | None:
    rate = evidence.number("acceptance_rate")
    if rate is None or rate >= PROMISED_ACCEPTANCE:
        return None
    return Finding(
        "acceptance-low",
        Level.PROBLEM,
        f"Acceptance is {rate:.1%}, below {PROMISED_ACCEPTANCE:.0%}: the draft does not fit this traffic, K is long "
        "for it, or the sampling temperature is high. A cheap draft can still pay: hold it against the speedup.",
    )


def _drifted(evidence: Evidence) -> Finding | None:
    drift, rate = evidence.drift, evidence.number("acceptance_rate")
    if drift is None or not drift.alarmed or drift.reference is None:
        return None
    now = "" if rate is None else f" and is {rate:.1%} now"
    return Finding(
        "drifted",
        Level.PROBLEM,
        f"Acceptance left its own normal: it used to be {drift.reference:.1%}{now}. See whether all replicas moved "
        "together (the traffic changed) or only this one.",
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
    _slower,
    _drifted,
    _not_drafting,
    _low_acceptance,
    _one_scrape,
    _no_traffic,
    _too_little,
    _v0,
    _no_drafts_counter,
    _partly_drafted,
    _many_engines,
)
"""In order of weight."""


def _healthy(evidence: Evidence) -> list[Finding]:
    """That all is well, where there is something to say so by."""
    if evidence.number("acceptance_rate") is None:
        return []
    speedup = evidence.number("estimated_speedup")
    gain = "" if speedup is None else f": an estimated {speedup:.2f} times the plain speed at most"
    return [Finding("healthy", Level.OK, f"Speculation fits this traffic{gain}.")]
