"""Why acceptance is not what it was: the draft, the server, the deployment, or the traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from specwatch.signals.course import Block, Deployment
from specwatch.signals.evidence import LEAST_CHANGE, Evidence, acceptance, first_position, first_positions, mean_k
from specwatch.signals.findings import Figure, Finding, Level, duration, figures
from specwatch.signals.peers import Peers, listed
from specwatch.signals.trend import Decay, Point, decay, difference
from specwatch.signals.window import Increments
from specwatch.signals.workload import Shift
from specwatch.vllm.metrics import Counter
from specwatch.vllm.requests_seen import Feature

NOTHING_ACCEPTED = 0.05
"""Acceptance rate that no draft has on prompts it was made for: in the lab a draft reaches 1 to 2 % on a language that
it never saw, by chance."""

EVERYTHING_ACCEPTED = 0.95
"""Acceptance rate that text reaches when it repeats itself: one token in a hundred rejected at K = 5 gives 0.97. The
best rate seen on honest traffic is 0.925, a draft trained on the lab's own JSON."""

LEAST_FALL = 0.05
"""Fall of the acceptance rate, in points, that is worth saying of a deployment or a decay."""

LEAST_FALL_OVER_K = 0.08
"""The same of the first draft tokens over a change of K: longer drafts end well drafted requests in fewer steps, and
badly drafted ones weigh more, 2 to 3 points from K = 3 to 7 where requests differ as in the lab."""

SURE = 5.0
"""Standard errors from which a change at a deployment counts."""

LASTING = 6.0
"""Windows, half an hour of five minutes each, after which a change of domain is there to stay."""

FORGOTTEN = 288.0
"""Windows, a day of five minutes each, after which what a deployment brought is the normal."""

AROUND = 1.0
"""Windows by which a change and a deployment may be apart and still be one event: the change's time is an estimate."""

LONGER_K = 0.5
"""Mean draft tokens more than before that make rates incomparable: later positions are accepted less."""

DOMAIN_REMEDY = (
    "Check the clients first: sampling temperature, a new prompt template or a new tenant. If the new traffic stays, "
    "evaluate another draft or method on it (n-gram and suffix need no training), shorten K until then, and align the "
    "draft on this traffic by distilling it from the target's own outputs."
)
REPLICA_REMEDY = (
    "Compare its draft's revision, vLLM release, flags and node with the others', read its log, and take it out of "
    "the load balancer until a restart has put it right."
)


def explain(evidence: Evidence, peers: Peers) -> Finding | None:
    """The most likely reason of a change of acceptance, or None where there is none to explain."""
    for check in _REASONS:
        finding = check(evidence, peers)
        if finding is not None:
            return finding
    return None


def explains_itself(evidence: Evidence) -> bool:
    """Whether a fall has its reason in this server's own life, so that it says nothing about the others'."""
    return decays(evidence) is not None or _at_deployment(evidence) is not None


def decays(evidence: Evidence) -> Decay | None:
    """The decay since the latest restart, where acceptance fell, little by little, and requests are what they were."""
    deployed = evidence.course.deployed
    if deployed is None or not evidence.fell or _new_prompts(evidence):
        return None
    return decay(_points(evidence.course.since(deployed.at), acceptance), LEAST_FALL)


def _repeating(evidence: Evidence, _peers: Peers) -> Finding | None:
    rate, reference = evidence.rate, evidence.reference
    if rate is None or rate < EVERYTHING_ACCEPTED or reference is None or rate <= reference:
        return None
    longer = _longer_answers(evidence)
    if longer is None or evidence.shift(Feature.PROMPT_LENGTH):
        return None
    return Finding(
        "outputs-repeat",
        Level.PROBLEM,
        f"Outputs may be degenerating: acceptance rose from {reference:.1%} to {rate:.1%} and answers run longer "
        f"({_described(longer)}) while prompts stayed the same, as when text repeats itself.",
        (*_rates(evidence), *_shift_figures(longer)),
        "Read some outputs. If they loop, check repetition penalties, stop tokens and the chat template, and what "
        "was deployed last; acceptance will look excellent until then.",
        cause="outputs repeat",
    )


def _longer_answers(evidence: Evidence) -> Shift | None:
    for feature in (Feature.FINISH_REASON, Feature.GENERATION_LENGTH):
        shift = evidence.shift(feature)
        if shift is not None and shift.now > shift.before:
            return shift
    return None


def _garbled(evidence: Evidence, peers: Peers) -> Finding | None:
    rate, reference = evidence.rate, evidence.reference
    if not evidence.fell or rate is None or reference is None or rate >= NOTHING_ACCEPTED:
        return None
    everywhere = peers.moved and not peers.stayed
    if everywhere or _at_deployment(evidence) or _new_prompts(evidence) or not _prompts_known(evidence):
        return None
    if peers.stayed:
        what = f"Outputs of {listed((peers.name,))} may be garbled, and of no other of {peers.known + 1} replicas"
    else:
        what = "Outputs may be garbled, or the traffic is of a kind that the draft does not know at all"
    return Finding(
        "outputs-garbled",
        Level.PROBLEM,
        f"{what}: {_fall(evidence)}, on every prompt at once, and prompts look as before.",
        _rates(evidence),
        "Read some outputs and compare them with those of a server without speculation at temperature 0. If they are "
        "sound, see whether clients send something new; if they do not, the draft is broken: check its files and "
        "restart.",
        cause="outputs may be garbled",
    )


def _deployed(evidence: Evidence, peers: Peers) -> Finding | None:
    deployment = _at_deployment(evidence)
    if deployment is None:
        return None
    measure, name = _comparable(evidence, deployment)
    sides = (deployment.before, _after(evidence, deployment))
    before, after = (_mean(_points(blocks, measure)) or 0.0 for blocks in sides)
    what = " and ".join(deployment.changes) or "a restart"
    age = evidence.now - deployment.at
    return Finding(
        "deploy-changed",
        Level.PROBLEM,
        f"A deployment changed it: {name} went from {before:.1%} to {after:.1%} with {what} {duration(age)} ago.",
        (
            *figures("ratio", before=before, after=after),
            Figure("deployed_at", deployment.at, "seconds"),
            Figure("replicas_moved", len(peers.moved) + 1.0, "servers"),
        ),
        "Compare what was deployed with what ran before: draft and its revision, vLLM release, K, method, sampling "
        "defaults. Roll back if nobody meant it.",
        cause="deployment changed it",
    )


def _at_deployment(evidence: Evidence) -> Deployment | None:
    """The latest deployment, where acceptance fell with it and not before or after."""
    deployment = evidence.course.deployed
    if deployment is None or decays(evidence):
        return None
    measure, _ = _comparable(evidence, deployment)
    least = LEAST_FALL if measure is acceptance else LEAST_FALL_OVER_K
    change = difference(_points(deployment.before, measure), _points(_after(evidence, deployment), measure))
    if change is None or change[0] > -least or -change[0] < SURE * change[1]:
        return None
    if _recovered(evidence, deployment):
        return None
    near = AROUND * evidence.window_seconds
    if evidence.fell and evidence.changed_at is not None and evidence.changed_at > deployment.at + near:
        return None
    return deployment


def _recovered(evidence: Evidence, deployment: Deployment) -> bool:
    """Whether acceptance is by now what it was before a deployment, or has been at its new level for a day."""
    if evidence.now - deployment.at > FORGOTTEN * evidence.window_seconds:
        return True
    measure, _ = _comparable(evidence, deployment)
    first = evidence.positions[: _common_positions(evidence, deployment)]
    now = evidence.rate if measure is acceptance else sum(first) / len(first) if first else None
    before = _mean(_points(deployment.before, measure))
    return now is not None and before is not None and now > before - LEAST_CHANGE


def _after(evidence: Evidence, deployment: Deployment) -> tuple[Block, ...]:
    """As many blocks since a deployment as are kept of the time before."""
    return evidence.course.since(deployment.at)[: max(len(deployment.before), 3)]


def _comparable(evidence: Evidence, deployment: Deployment) -> tuple[Callable[[Increments], float | None], str]:
    """What may be compared over a deployment: another K makes another rate of the same draft."""
    if not any(change.startswith("K ") for change in deployment.changes):
        return acceptance, "acceptance"
    positions = _common_positions(evidence, deployment)
    tokens = "token" if positions == 1 else f"{positions} tokens"
    return partial(first_positions, positions=positions), f"acceptance of the first {tokens} of a draft"


def _common_positions(evidence: Evidence, deployment: Deployment) -> int:
    """Draft positions known before and after a deployment."""
    blocks = (*deployment.before, *_after(evidence, deployment))
    return min((len(block.work.accepted_per_position) for block in blocks if block.work.get(Counter.DRAFTS)), default=0)


def _decaying(evidence: Evidence, peers: Peers) -> Finding | None:
    found, deployed = decays(evidence), evidence.course.deployed
    if found is None or deployed is None or (peers.moved and not peers.stayed):
        return None
    sofar = evidence.now - deployed.at
    return Finding(
        "draft-decays",
        Level.PROBLEM,
        f"The draft decays since the restart {duration(sofar)} ago: acceptance went from {found.start:.1%} to "
        f"{found.end:.1%} little by little.",
        (
            *figures("ratio", at_restart=found.start, now=found.end, per_hour=found.per_hour),
            Figure("restarted_at", deployed.at, "seconds"),
        ),
        "Restart it and see whether acceptance comes back: then it is the engine, not the traffic. Report it to vLLM "
        "with both curves, and restart on a schedule until it is mended.",
        cause="draft decays since restart",
    )


def _schedule_moved(evidence: Evidence, _peers: Peers) -> Finding | None:
    """A schedule that drafts more again lowers the rate of the same draft."""
    changed = evidence.changed_at
    rate, first, k_now = evidence.rate, evidence.positions[:1], evidence.number("draft_length")
    if not evidence.fell or changed is None or rate is None or not first or k_now is None:
        return None
    blocks = evidence.course.until(changed)
    before, k_before = _mean(_points(blocks, first_position)), _mean(_points(blocks, mean_k))
    if before is None or k_before is None:
        return None
    if k_now < k_before + LONGER_K or first[0] < before - LEAST_FALL:
        return None
    return Finding(
        "draft-length-changed",
        Level.NOTICE,
        f"Drafts are longer, {k_now:.1f} tokens after {k_before:.1f}, which alone lowers the acceptance rate: the "
        f"first token of a draft is accepted as before ({before:.1%}, now {first[0]:.1%}).",
        (*figures("tokens", draft_length_before=k_before, draft_length=k_now), *_rates(evidence)),
    )


def _traffic_or_replica(evidence: Evidence, peers: Peers) -> Finding | None:
    if not evidence.fell or evidence.reference is None:
        return None
    prompts = _new_prompts(evidence)
    alone = bool(peers.stayed) and len(peers.moved) < len(peers.stayed)
    if alone and not prompts:
        return _replica_off(evidence, peers)
    if peers.moved or prompts:
        return _domain(evidence, peers, prompts)
    return _drifted(evidence)


def _domain(evidence: Evidence, peers: Peers, prompts: Shift | None) -> Finding:
    total = peers.known + 1
    if not peers.known:
        who = ""
    elif peers.stayed:
        who = f" on {len(peers.moved) + 1} of {total} replicas"
    else:
        who = f" on all {total} replicas"
    looks = f", and prompts changed with it ({_described(prompts)})" if prompts else f", though {_looks(evidence)}"
    lasting = (
        evidence.changed_at is not None and evidence.now - evidence.changed_at >= LASTING * evidence.window_seconds
    )
    stays = " It lasts: the draft needs this traffic." if lasting else ""
    name, distance = evidence.likeness or (None, None)
    like = f" It looks most like {name[:40]!r} now." if name else ""
    return Finding(
        "traffic-changed",
        Level.PROBLEM,
        f"The traffic changed domain: {_fall(evidence)}{who}{looks}.{like}{stays}",
        (
            *_rates(evidence),
            *_shift_figures(prompts),
            *figures("ratio", distance_to_known_domain=distance),
            Figure("replicas_moved", len(peers.moved) + 1.0, "servers"),
        ),
        DOMAIN_REMEDY,
        cause="traffic changed domain",
    )


def _replica_off(evidence: Evidence, peers: Peers) -> Finding:
    others = "the other one" if peers.known == 1 else f"{len(peers.stayed)} of the {peers.known} others"
    also = f" as on {listed(peers.moved)}" if peers.moved else ""
    return Finding(
        "replica-off",
        Level.PROBLEM,
        f"{listed((peers.name,))} is off{also}: its {_fall(evidence)} while {others} stayed as before, and "
        f"{_looks(evidence)}.",
        (*_rates(evidence), Figure("replicas_stayed", float(len(peers.stayed)), "servers")),
        REPLICA_REMEDY,
        cause="this replica is off",
    )


def _drifted(evidence: Evidence) -> Finding:
    return Finding(
        "drifted",
        Level.PROBLEM,
        f"Acceptance left its normal: {_fall(evidence)}. Whether the traffic changed or this server is off cannot be "
        f"told: there is no second replica to compare with, and {_looks(evidence)}.",
        _rates(evidence),
        "Ask whether clients changed temperature, template or kind of request; then compare draft, release and flags "
        "with the last deployment, and try a restart.",
    )


_REASONS: tuple[Callable[[Evidence, Peers], Finding | None], ...] = (
    _repeating,
    _schedule_moved,
    _garbled,
    _decaying,
    _deployed,
    _traffic_or_replica,
)
"""The narrowest first: each leaves what it cannot explain to the next."""


def _prompts_known(evidence: Evidence) -> bool:
    return evidence.workload is not None and evidence.workload.shift(Feature.PROMPT_LENGTH) is not None


def _looks(evidence: Evidence) -> str:
    """How prompts look where no shift is known."""
    return "prompts are as long as before" if _prompts_known(evidence) else "what prompts looked like is not known yet"


def _new_prompts(evidence: Evidence) -> Shift | None:
    """How prompts differ from the reference. Answers are no witness: a broken draft or model changes them as well."""
    return evidence.shift(Feature.PROMPT_LENGTH) or evidence.shift(Feature.PREFIX_CACHE)


def _fall(evidence: Evidence) -> str:
    now = "" if evidence.rate is None else f" to {evidence.rate:.1%}"
    return f"acceptance fell from {evidence.reference:.1%}{now}{_for(evidence)}"


def _for(evidence: Evidence) -> str:
    changed = evidence.changed_at
    return "" if changed is None else f" {duration(max(0.0, evidence.now - changed))} ago"


def _rates(evidence: Evidence) -> tuple[Figure, ...]:
    drift = evidence.drift
    return (
        *figures("ratio", reference=evidence.reference, now=evidence.rate),
        *figures("seconds", window=evidence.window_seconds, changed_at=evidence.changed_at),
        *figures("ratio", drift_score=drift.score if drift else None),
    )


_WORDS = {
    Feature.PROMPT_LENGTH: "median about {before:.0f} → {now:.0f} tokens",
    Feature.GENERATION_LENGTH: "median about {before:.0f} → {now:.0f} tokens",
    Feature.FINISH_REASON: "{before:.0%} → {now:.0%} run into their limit",
    Feature.PREFIX_CACHE: "{before:.0%} → {now:.0%} of their tokens are in the prefix cache",
}


def _described(shift: Shift) -> str:
    return _WORDS[shift.feature].format(before=shift.before, now=shift.now)


def _shift_figures(shift: Shift | None) -> tuple[Figure, ...]:
    if shift is None:
        return ()
    unit = "tokens" if shift.feature in (Feature.PROMPT_LENGTH, Feature.GENERATION_LENGTH) else "ratio"
    name = shift.feature.value
    return (
        Figure(f"{name}_psi", shift.psi),
        Figure(f"{name}_before", shift.before, unit),
        Figure(f"{name}_now", shift.now, unit),
    )


def _points(blocks: Sequence[Block], measure: Callable[[Increments], float | None]) -> list[Point]:
    points = []
    for block in blocks:
        value, weight = measure(block.work), block.work.get(Counter.DRAFT_TOKENS)
        if value is not None and weight:
            points.append(Point((block.began + block.ended) / 2, value, weight))
    return points


def _mean(points: Sequence[Point]) -> float | None:
    weight = sum(point.weight for point in points)
    return sum(point.value * point.weight for point in points) / weight if weight else None
