"""What the dashboard's panels say: each title asks or states something, each description teaches in two sentences."""

from __future__ import annotations

from collections.abc import Mapping

from specwatch.generate.grafana import Words

NOTHING_DRAFTED = "Too few drafts in view to say"
NOTHING_DECODED = "Nothing is decoded in view"
NO_SERVER = "No vLLM server is scraped under this selection"
NO_SIDECAR = "No drift score: it needs specwatch's sidecar, scraped by this Prometheus"


def acceptance_words(threshold: float) -> Words:
    """Acceptance over time, against an alert's threshold."""
    return Words(
        f"Does acceptance stay above {threshold:.0%}?",
        "Accepted draft tokens ÷ draft tokens by server, the alert's threshold dashed. A cheap draft can pay below it, "
        "so read it beside the estimated speedup.",
        NOTHING_DRAFTED,
    )


def speedup_words(title: str, draft_cost: float, loss: float) -> Words:
    """The estimated speedup, at that cost of a draft token; below ``loss`` speculation is a tax."""
    return Words(
        title,
        f"Speed of drafted steps ÷ speed without speculation, if a draft token costs {draft_cost:.1%} of a plain step "
        "and verifying costs nothing extra. Overhead and large batches only lower it: below "
        f"{loss:g}, speculation costs more than it gives.",
        NOTHING_DRAFTED,
    )


SERVERS = Words(
    "Which servers gain least?",
    "Every server now: those that draft too little to say, marked by a dash, then from the smallest estimated speedup "
    "upwards. A click on a server shows it alone.",
    NO_SERVER,
)

ALERTS_FIRING = Words(
    "Which alerts are firing, and since when?",
    "Specwatch's alerts as this Prometheus evaluates them: a page wants somebody now, a ticket in working hours. Each "
    "lane is one alert on one server, coloured for as long as it fired.",
    "No alert of specwatch is firing",
)

DRIFT = Words(
    "Has acceptance left its own normal?",
    "The sidecar learns each server's usual acceptance and its spread, then adds up how far it falls below; 1 raises "
    "the alarm. All servers rising together mean the traffic changed, one alone means the replica.",
    NO_SIDECAR,
)

HEADLINE: Mapping[str, Words] = {
    "acceptance_rate": Words(
        "Acceptance rate: does it fit?",
        "Accepted draft tokens ÷ draft tokens, over all that is selected. It falls when the traffic no longer looks "
        "like what the draft learned.",
        NOTHING_DRAFTED,
    ),
    "acceptance_length": Words(
        "Acceptance length per step",
        "Mean tokens that a drafted step brings, the target's own bonus token included. Tokens per second follow it, "
        "but it is no speedup: the draft's time is not in it.",
        NOTHING_DRAFTED,
    ),
    "draft_coverage": Words(
        "Coverage: is it drafting?",
        "Share of decode steps that were drafted. Acceptance speaks of these steps only, so a high one over a small "
        "share gains little.",
        NOTHING_DECODED,
    ),
    "running_requests": Words(
        "Running requests: how busy?",
        "Mean number of requests in the batch, all servers together. Speculation spends spare arithmetic, which large "
        "batches leave little of.",
        NO_SERVER,
    ),
    "generation_throughput": Words(
        "Generated tokens: how fast?",
        "Tokens generated per second, all servers together. This is what speculation is meant to raise for the same "
        "machines.",
        NO_SERVER,
    ),
}
"""Figures for all that is selected, by signal."""

TRENDS: Mapping[str, Words] = {
    "position_acceptance": Words(
        "At which position does the draft lose the thread?",
        "Share of drafts whose token at this position was accepted, divided by the drafts of the engines that have "
        "the position. Where the last positions are near 0, a smaller K drafts less for the same gain.",
        NOTHING_DRAFTED,
    ),
    "position_now": Words(
        "Which positions are worth drafting now?",
        "The same shares as they are now, the first drafted token at the top. A position pays while its bar exceeds "
        "what a draft token costs.",
        NOTHING_DRAFTED,
    ),
    "draft_length": Words(
        "How long are the drafts?",
        "Mean K: draft tokens ÷ drafts by server. It lies below the configured K where n-gram or suffix drafting "
        "found nothing to propose, or a dynamic schedule lowered it.",
        NOTHING_DRAFTED,
    ),
    "draft_coverage": Words(
        "How much of decoding is drafted?",
        "Share of decode steps that were drafted, by server, the alert's threshold dashed. It falls to 0 when a "
        "dynamic schedule says K = 0 at this batch size.",
        NOTHING_DECODED,
    ),
    "tokens": Words(
        "How much of the drafting is wasted?",
        "Draft tokens proposed, accepted and rejected per second, beside all tokens generated. Rejected ones cost "
        "verification that a large batch would use for other requests.",
        NO_SERVER,
    ),
    "tpot": Words(
        "Mean TPOT: how fast do tokens reach users?",
        "Mean time per output token of requests that ended: decode time ÷ tokens. A mean moves with speculation, "
        "where percentiles from buckets stick to a bucket's edge.",
        NOTHING_DECODED,
    ),
    "step_latency": Words(
        "Mean ITL: how long does a decode step take?",
        "Mean time between the outputs of a request: one step, however many tokens it brought. It improves when "
        "speculation collapses, so judge by TPOT.",
        NOTHING_DECODED,
    ),
    "running_requests": Words(
        "Batch size: how much is there to verify at once?",
        "Mean number of requests in the batch, by server. The larger it is, the less of the arithmetic is spare for "
        "verifying drafts.",
        NO_SERVER,
    ),
    "waiting_requests": Words(
        "Is there a queue?",
        "Mean number of requests waiting for a place in the batch, by server. A server that queues gains from "
        "throughput, where wasted drafts hurt most.",
        NO_SERVER,
    ),
}
"""Lines over time."""
