"""What the dashboards ask Prometheus: PromQL for the selected servers, from the catalogues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from specwatch.alerting.catalogue import RATE_WINDOW, Severity
from specwatch.alerting.watchdogs import alert
from specwatch.generate.dashboards.frame import EVERY_SERVER, SELECTOR, WINDOW
from specwatch.generate.grafana import Query
from specwatch.generate.live_promql import FLEET, SERVER, Live
from specwatch.generate.promql import (
    CACHE_USAGE,
    POSITION,
    V1_ONLY,
    Level,
    Recording,
    aggregated,
    number,
    sum_by,
)
from specwatch.signals.catalogue import MIN_DRAFTS, Signal, signals
from specwatch.signals.speedup import DraftCost
from specwatch.vllm.metrics import GAUGES, POSITION_SERIES, SERIES, Counter

MODEL = Level.MODEL.labels
"""Labels that tell models apart."""

BY_SERVER = "{{instance}} {{model_name}}"
BY_MODEL = "{{model_name}}"
BY_ENGINE = "{{instance}} engine {{engine}}"

LOSS = alert("SpeculationSlowerThanNone").threshold
"""The estimated speedup below which speculation is a tax."""

IDLE = alert("SpeculationNotDrafting").threshold
"""The share of drafted decode steps below which a server that could draft does not."""

LAST_DAY = "1d"
LAST_HOURS = "6h"
"""What is usual at this time of day."""
DAY_BEFORE = "offset 1d"

NOT_BY_ENGINE = 'job=~"$job", model_name=~"$model_name", instance=~"$instance"'
"""For series that speak of whole servers."""

OURS = 'alertname=~"Spec.*"'
"""The alerts of the catalogue, all of whose names begin alike."""

SIDECARS = 'model_name=~"$model_name", target=~"$instance"'
"""Chooses among the sidecar's series; it calls a server target, by the same host and port unless told otherwise."""

LOOK_BACK = "1h"
"""How long a server may be away and still be seen as restarted: the last count before is looked up over this."""

DEEPEST_POSITION = 7
"""The last draft position that panels speak of: K is 8 at most on nearly every server."""


@dataclass(frozen=True)
class Asks:
    """Expressions over what the variables select."""

    cost: DraftCost
    live: Live = field(default=Live(SELECTOR, WINDOW))

    def over(self, window: str) -> Asks:
        """The same over another window than the reader's."""
        return replace(self, live=replace(self.live, window=window))

    def signal(self, name: str, labels: tuple[str, ...] = FLEET) -> str:
        """A signal of the catalogue, pooled over what shares these labels."""
        return self.live.signal(self.catalogued(name), labels)

    def catalogued(self, name: str) -> Signal:
        """The catalogue's entry at this draft cost."""
        return next(signal for signal in signals(self.cost) if signal.name == name)

    def all(self, name: str, legend: str = "") -> Query:
        """A signal over everything that is selected."""
        return Query(self.signal(name), legend or self.catalogued(name).title)

    def models(self, name: str) -> Query:
        """A signal by model."""
        return Query(self.signal(name, MODEL), BY_MODEL)

    def servers(self, name: str) -> Query:
        """A signal by server."""
        return Query(self.signal(name, SERVER), BY_SERVER)

    def engines(self, name: str) -> Query:
        """A signal by engine."""
        return Query(self.signal(name, (*SERVER, "engine")), BY_ENGINE)

    def summed(self, name: str, labels: Iterable[str], *matchers: str) -> str:
        """A counter's rate over the window, summed."""
        return sum_by(labels, f"rate({self.live.over_window(name, *matchers)})")

    def mean(self, histogram: str, labels: Iterable[str]) -> str:
        """Mean of a histogram's observations within the window."""
        labels = tuple(labels)
        count = self.summed(f"{histogram}_count", labels)
        return f"{self.summed(f'{histogram}_sum', labels)}\n/\n({count} > 0)"

    def tokens_gained(self, labels: tuple[str, ...], window: str, function: str = "increase") -> str:
        """Tokens beyond those that plain decoding would have made in the same time, negative where it had made more.

        In a time in which drafting brings D + A tokens plain decoding brings (D + A) / S, which is v D + c N
        (``signals.speedup``).
        """
        live = replace(self.live, window=window)
        accepted, drafted, drafts = (
            sum_by(labels, live.rate(counter, function))
            for counter in (Counter.ACCEPTED_TOKENS, Counter.DRAFT_TOKENS, Counter.DRAFTS)
        )
        verified = "" if self.cost.v == 1.0 else f"\n- {number(self.cost.v - 1)} * {drafts}"
        return f"{accepted}\n- {number(self.cost.c)} * {drafted}{verified}"

    def hours_saved(self, labels: tuple[str, ...]) -> str:
        """Hours of engines that plain decoding would have needed more in the last day: none where nothing drafts.

        (S - 1) × coverage × hours with requests, S and coverage written out so that every counter is read once or
        twice: a day of a fleet's samples is much to read.
        """
        live = replace(self.live, window=LAST_DAY)
        drafts, drafted, steps = (
            sum_by(SERVER, live.rate(counter, "increase"))
            for counter in (Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.DECODE_STEPS)
        )
        plain = f"{number(self.cost.v)} * {drafts}\n+ {number(self.cost.c)} * {drafted}"
        gained = self.tokens_gained(SERVER, LAST_DAY)
        hours = f"({gained})\n/ ({plain} > 0)\n* {drafts}\n/ ({steps} > 0)\n* {self.busy_hours(SERVER)}"
        return sum_by(labels, f"({hours})")

    def generated(self, labels: tuple[str, ...], window: str) -> str:
        """Tokens generated within a window."""
        return sum_by(labels, self.over(window).live.rate(Counter.GENERATION_TOKENS, "increase"))

    def offset(self, by: str) -> Asks:
        """The same as it was before: ``by`` is an offset modifier."""
        return replace(self, live=replace(self.live, offset=f" {by}"))

    def busy_hours(self, labels: tuple[str, ...]) -> str:
        """Hours of the last day in which an engine had requests, looked at once a minute."""
        running = self.live.series(GAUGES[Counter.RUNNING_SECONDS])
        return sum_by(labels, f"sum_over_time(({running} > bool 0)[{LAST_DAY}:1m])") + " / 60"

    def cache_usage(self, labels: tuple[str, ...]) -> str:
        """How full the fullest engine's KV cache is, as a mean over the window."""
        return aggregated("max", labels, *(f"avg_over_time({self.live.over_window(name)})" for name in CACHE_USAGE))

    def prefix_hits(self, labels: tuple[str, ...]) -> str:
        """Share of prompt tokens that the prefix cache had; V0 does not tell."""

        def rates(what: str) -> str:
            names = (f"vllm:prefix_cache_{what}_total", f"vllm:gpu_prefix_cache_{what}_total")
            return sum_by(labels, *(f"rate({self.live.over_window(name)})" for name in names))

        return f"{rates('hits')}\n/\n({rates('queries')} > 0)"

    def steps(self, labels: tuple[str, ...]) -> str:
        """Engine steps a second, whole batches, of the fastest engine."""
        return aggregated("max", labels, f"rate({self.live.over_window('vllm:iteration_tokens_total_count')})")

    def acceptance_given_the_one_before(self, position: int, labels: tuple[str, ...] = FLEET) -> str:
        """Share accepted at a position of the drafts whose position before it was.

        Engines that have no such position must not be among those that might have reached it.
        """
        here = f"increase({self._positions(position)})"
        reached = f"increase({self._positions(position - 1)})" if position else self._drafts()
        before = sum_by(labels, f"{reached}\nand ignoring ({POSITION})\n{here}")
        return f"{sum_by(labels, here)}\n/\n({before} >= {number(MIN_DRAFTS)})"

    def speedup_at(self, k: int, labels: tuple[str, ...] = FLEET) -> str:
        """The estimated speedup if only the first ``k`` positions were drafted, of the engines that draft so many.

        An accepted position does not depend on those behind it, so the first k of a longer draft are a draft of k.
        """
        last = f"increase({self._positions(k - 1)})"
        drafts = sum_by(labels, f"{self._drafts()}\nand ignoring ({POSITION})\n{last}")
        first = f"increase({self._positions(*range(k))})"
        accepted = sum_by(labels, f"{first}\nand on (job, instance, model_name, engine)\n{last}")
        cost = number(self.cost.v + k * self.cost.c)
        return f"(1 + {accepted}\n/\n({drafts} >= {number(MIN_DRAFTS)})) / {cost}"

    def last_position_pays(self, labels: tuple[str, ...]) -> str:
        """What the last position brings for its cost ÷ what the whole step does: below 1 a smaller K is faster.

        With acceptance a of position K, S(K) = ((v + (K - 1) c) S(K - 1) + a) / (v + K c) is a mean of S(K - 1) and
        a / c, weighted by cost: a / c < S(K) exactly where S(K) < S(K - 1).
        """
        last = f"min by ({', '.join(labels)}) ({self.signal('position_acceptance', labels)})"
        return f"{last}\n/\n({number(self.cost.c)} * ({self.signal('estimated_speedup', labels)}))"

    def _enough_drafts(self) -> str:
        """Servers that drafted enough within the window to say anything of it."""
        return f"{sum_by(SERVER, self._drafts())} >= {number(MIN_DRAFTS)}"

    def _drafts(self) -> str:
        return f"increase({self.live.over_window(SERIES[Counter.DRAFTS][0], V1_ONLY)})"

    def _positions(self, *positions: int) -> str:
        chosen = "|".join(map(str, positions))
        return self.live.over_window(POSITION_SERIES, V1_ONLY, f'{POSITION}=~"{chosen}"')

    def worth_or(self, undrafted: float, unsaid: float) -> str:
        """What speculation is worth on every server; numbers for those that decode undrafted, and that cannot tell."""
        idle = f"0 * ({self.not_drafting()}) + {number(undrafted)}"
        every = f"0 * sum by ({', '.join(SERVER)}) ({self.live.series(EVERY_SERVER)}) + {number(unsaid)}"
        return f"{self.worth()}\nor\n({idle})\nor\n({every})"

    def worth_known(self, ranks: Mapping[str, float]) -> str:
        """How well each server's worth is known: the largest of its kinds' ranks."""
        told = (
            f"(0 * ({beside_servers(of_sidecar('specwatch_speedup_ratio', matcher))}) + {number(ranks[kind])})"
            for kind in ("measured", "calibrated")
            for matcher in [f'kind="{kind}"']
        )
        estimated = f"(0 * ({self.signal('estimated_speedup', SERVER)}) + {number(ranks['estimated'])})"
        return "\nor\n".join((*told, estimated))

    def not_drafting(self) -> str:
        """Coverage of the servers that could draft and decode without."""
        return f"({self.signal('draft_coverage', SERVER)}) < {number(IDLE)}"

    def worth(self) -> str:
        """Speedup by server: where a sidecar knows what was measured that, else the estimate, which sees no load.

        A sidecar's window may still have drafts when there are none here any more: then nothing is known.
        """
        known = named_as_server('specwatch_known_speedup{target=~"$instance"}', "max", "instance, model_name")
        told = f"({beside_servers(known)}) and ({self._enough_drafts()})"
        return f"({told})\nor\n({self.signal('estimated_speedup', SERVER)})"

    def losing(self) -> str:
        """How many servers speculation slows down."""
        return f"count (({self.worth()}) < {LOSS:g}) or vector(0)"

    def servers_in_state(self) -> dict[str, str]:
        """How many servers pay or lose, have too little traffic to say, do not draft, or cannot be scraped.

        The first one tells two states, by its label. Whoever does not draft has no draft or leaves it idle.
        """
        by_server = f"by ({', '.join(SERVER)})"
        pays = f'count_values ("state", ({self.worth()}) >= bool {LOSS:g})'
        named = f'label_replace({pays}, "state", "paying", "state", "1")'
        every = f"group {by_server} ({self.live.series(EVERY_SERVER)})"
        drafting = f"group {by_server} ({self.live.series(SERIES[Counter.DRAFT_TOKENS][0], V1_ONLY)})"
        enough = self._enough_drafts()
        idle = f"({self.not_drafting()}) unless ({enough})"
        v0 = f"group {by_server} ({self.recorded_alone('acceptance_rate')})"
        return {
            "{{state}}": f'label_replace({named}, "state", "losing", "state", "0")',
            "too few drafts": f"count ({drafting} unless ({enough}) unless ({self.not_drafting()})) or vector(0)",
            "V0": f"count ({v0}) or vector(0)",
            "not drafting": f"count (({idle}) or ({every} unless ({drafting} or {v0}))) or vector(0)",
            "down": f"count ({self.down()}) or vector(0)",
        }

    def down(self) -> str:
        """Servers that cannot be scraped, of the jobs that had a vLLM within the last hour."""
        ours = f'last_over_time({EVERY_SERVER}{{job=~"$job"}}[{LOOK_BACK}])'
        return f'up{{job=~"$job", instance=~"$instance"}} == 0\nand on (job)\n{ours}'

    def recorded_alone(self, name: str) -> str:
        """What is recorded of servers that have no counters to work it out from: those with the V0 engine."""
        recorded = Recording("", RATE_WINDOW).signal(self.catalogued(name))
        drafts = f"{SERIES[Counter.DRAFT_TOKENS][0]}{{{NOT_BY_ENGINE}, {V1_ONLY}}}"
        return f"{recorded}{{{NOT_BY_ENGINE}}}\nunless on (job, instance)\n{drafts}"

    def firing(self, severity: Severity | None = None) -> str:
        """Alerts of the catalogue that fire, about what is selected or about no single server."""
        chosen = f', severity="{severity.value}"' if severity else ', severity!="none"'
        return f'ALERTS{{{OURS}, alertstate="firing"{chosen}, instance=~"$instance|", model_name=~"$model_name|"}}'

    def alerts_since(self) -> str:
        """Seconds for which each alert has held."""
        about = 'instance=~"$instance|", model_name=~"$model_name|"'
        held = f"(time() - ALERTS_FOR_STATE{{{OURS}, {about}}})"
        labels = "alertname, severity, job, instance, model_name"
        return f"max by ({labels}) ({held}\nand ignoring (alertstate)\n{self.firing()})"

    def firing_count_by_alert(self) -> str:
        """On how many servers each alert fires."""
        return f"max by (alertname, instance, model_name) ({self.firing()})"

    def restarts(self) -> str:
        """Has a value where a server's count of tokens fell: after a restart it begins at 0 again."""
        tokens, labels = self.live.series(SERIES[Counter.GENERATION_TOKENS][0]), ", ".join(SERVER)
        before = f"sum by ({labels}) (last_over_time({tokens}[{LOOK_BACK}] offset 1m))"
        return f"sum by ({labels}) ({tokens})\n<\n{before}"

    def deployments(self) -> str:
        """K of a server that came back with another one than it had within the hour before."""
        labels = ", ".join(SERVER)
        positions = self.live.series(POSITION_SERIES, V1_ONLY)

        def k(series: str) -> str:
            return f"count by ({labels}) (group by ({labels}, {POSITION}) ({series}))"

        before = k(f"last_over_time({positions}[{LOOK_BACK}] offset 1m)")
        return f"{k(positions)}\n!=\n{before}\nand\n{self.restarts()}"


def less(now: str, before: str) -> str:
    """The difference of two expressions, whatever operators are in them."""
    return f"({now})\n-\n({before})"


def of_sidecar(metric: str, *matchers: str, by: Iterable[str] = ()) -> str:
    """What the sidecar says of the servers, under the name that vLLM's own series have, so that colours agree."""
    selector = ", ".join([SIDECARS, *matchers])
    return named_as_server(f"{metric}{{{selector}}}", "max", ", ".join(("instance", "model_name", *by)))


def named_as_server(expr: str, function: str, by: str) -> str:
    """An aggregation of what the sidecar says by target, which is then called instance."""
    return f'{function} by ({by}) (label_replace({expr}, "instance", "$1", "target", "(.+)"))'


def beside_servers(expr: str) -> str:
    """The same with the server's job, so that it stands in one row of a table with what vLLM says."""
    every = f"0 * sum by ({', '.join(SERVER)}) ({EVERY_SERVER}{{{SELECTOR}}})"
    return f"{every}\n+ on (instance, model_name) group_left ()\n{expr}"
