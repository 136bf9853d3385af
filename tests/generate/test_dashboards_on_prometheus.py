"""Every expression of the dashboards, asked of a real Prometheus that has scraped a simulated fleet, gives the truth.

The newest Prometheus that can be had is asked the same as the system's.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specwatch.generate.dashboards import BOARDS, Board, Settings
from specwatch.generate.dashboards.asks import MODEL, SERVER, Asks, of_sidecar
from specwatch.generate.dashboards.fleet import KNOWN as KNOWN_BY
from specwatch.generate.dashboards.fleet import UNDRAFTED, UNSAID
from specwatch.generate.dashboards.parts import LEVELS
from specwatch.generate.live_promql import FLEET
from specwatch.signals.findings import Level
from specwatch.signals.speedup import ASSUMED
from specwatch.vllm.metrics import Counter
from tests.support.dashboard_truth import WINDOW, Labels, Truth, Values, difference, known
from tests.support.dashboards import panels, substituted, variables
from tests.support.prometheus import Prometheus
from tests.support.recorded_fleet import DAY, LARGE, NOW, SCRAPE, Recorded, record, recorded_fleet
from tests.support.services import newer_program

ALL = {"job": ".*", "model_name": ".*", "instance": ".*", "engine": ".*"}
SEVERAL = {**ALL, "job": "(vllm|vllm-small)"}
ONE = {"job": "vllm", "model_name": LARGE, "instance": "two:8000", "engine": "0"}
OTHERS = {"interval": "5m", "gpus": "4", "weights": "35", "bandwidth": "2039"}

DASHBOARDS = {board: make(Settings()) for board, make in BOARDS.items()}
KNOWN = known(Asks(ASSUMED))

EXACT = 1e-6
"""Unix times in floats hold a window's length to about 1e-7."""

A_SCRAPE_OF_THE_DAY = 0.03
"""Sums over the last day reach over 40 scrapes here, and Prometheus extends them by up to one."""

V0_IS_OLD = 0.02
"""V0's gauge is up to five seconds old, and it is recorded every half minute."""

STATES = ("too few drafts", "V0", "not drafting", "down")


@dataclass(frozen=True)
class Asked:
    """One query of a panel."""

    board: Board
    panel: Mapping[str, Any]
    target: Mapping[str, Any]

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        return f"{self.board.value}: {self.panel['title']} {self.target['refId']}"

    @property
    def needs_sidecar(self) -> bool:
        """Whether it asks for what the sidecar alone knows."""
        return "specwatch_" in self.target["expr"].replace(":specwatch_", "")


def all_asked() -> list[Asked]:
    return [
        Asked(board, panel, target)
        for board, made in DASHBOARDS.items()
        for panel in panels(made)
        for target in panel["targets"]
    ]


def single(value: float) -> Values:
    return {frozenset(): value}


def every(values: Values, change: Callable[[float], float]) -> Values:
    return {key: change(value) for key, value in values.items()}


def per_second(values: Values) -> Values:
    return every(values, lambda value: value / WINDOW)


def with_v0(truth: Truth) -> Values:
    return {**truth.signal("acceptance_rate", SERVER), **truth.v0("acceptance_rate")}


def every_server(truth: Truth) -> Values:
    said = {**dict.fromkeys(truth.undrafted(), UNDRAFTED), **truth.worth()}
    return {**every(truth.signal("running_requests", SERVER), lambda _: UNSAID), **said}


def how_known(truth: Truth) -> Values:
    estimated = every(truth.signal("estimated_speedup", SERVER), lambda _: KNOWN_BY["estimated"])
    measured = {key: KNOWN_BY["measured"] for key in truth.worth() if dict(key)["instance"] in truth.told}
    return {**estimated, **measured}


def worth(truth: Truth) -> Values:
    return every(truth.signal("position_acceptance", FLEET), lambda rate: rate / ASSUMED.c)


def since_yesterday(truth: Truth, name: str) -> Values:
    return difference(truth.signal(name, SERVER), truth.signal(name, SERVER, at=NOW - DAY))


def counted(truth: Truth, name: Counter) -> Values:
    return truth.pooled(MODEL, lambda group: sum(part.counts[name] for part in group), DAY)


def last_position_brings(truth: Truth) -> Values:
    accepted = truth.signal("position_acceptance", SERVER)
    found: Values = {}
    for server, speedup in truth.signal("estimated_speedup", SERVER).items():
        last = min(rate for key, rate in accepted.items() if server < key)
        found[server] = last / ASSUMED.c / speedup
    return found


def bandwidth(truth: Truth) -> Values:
    return every(truth.steps(), lambda steps: steps * 35 / 2039)


Expected = Callable[[Truth], Values]

BY_PLACE: dict[str, tuple[Expected, float]] = {
    "fleet: Servers that lose A": (lambda t: single(t.states()["losing"]), EXACT),
    "fleet: Tokens gained in a day A": (lambda t: t.gained(FLEET, DAY), A_SCRAPE_OF_THE_DAY),
    "fleet: GPU-hours saved in a day A": (
        lambda t: every(t.hours_saved(FLEET), lambda hours: 4 * hours),
        A_SCRAPE_OF_THE_DAY,
    ),
    "fleet: Which servers gain least? A": (
        every_server,
        EXACT,
    ),
    "fleet: Which servers gain least? B": (how_known, EXACT),
    "fleet: Which servers gain least? C": (with_v0, 0.01),
    "fleet: Which servers gain least? D": (
        lambda t: since_yesterday(t, "acceptance_rate"),
        EXACT,
    ),
    "fleet: Do all servers gain alike? A": (lambda t: single(min(t.speedups())), EXACT),
    "fleet: Do all servers gain alike? B": (lambda t: single(statistics.median(t.speedups())), EXACT),
    "fleet: Do all servers gain alike? C": (lambda t: single(max(t.speedups())), EXACT),
    "fleet: How many tokens a second does speculation gain? A": (lambda t: per_second(t.gained(MODEL, WINDOW)), EXACT),
    "fleet: What did each model gain in the last day? A": (lambda t: t.gained(MODEL, DAY), A_SCRAPE_OF_THE_DAY),
    "fleet: What did each model gain in the last day? B": (
        lambda t: counted(t, Counter.GENERATION_TOKENS),
        A_SCRAPE_OF_THE_DAY,
    ),
    "fleet: Alerts firing A": (lambda t: single(len(alerts(t))), EXACT),
    "fleet: Which alerts fired, and when? A": (lambda t: lanes(t, "page", 2), EXACT),
    "fleet: Which alerts fired, and when? B": (lambda t: lanes(t, "ticket", 1), EXACT),
    "fleet: What fires now, and for how long? A": (lambda t: dict.fromkeys(alerts(t), HELD), EXACT),
    "fleet: What is wrong, and where? (sidecar) A": (lambda t: problems(t), EXACT),
    "drift: What is wrong, and where? (sidecar) A": (lambda t: problems(t), EXACT),
    "server: Speedup: does it pay? A": (lambda t: single(min(t.speedups())), EXACT),
    "server: How full is the KV cache? A": (lambda t: t.cache(), EXACT),
    "server: Why do requests end? A": (lambda t: t.finished(), EXACT),
    "server: Acceptance of V0 servers since their start A": (lambda t: t.v0("acceptance_rate"), V0_IS_OLD),
    "server: Acceptance length of V0 servers since their start A": (lambda t: t.v0("acceptance_length"), V0_IS_OLD),
    "drift: Which servers changed most? B": (
        lambda t: difference(t.signal("acceptance_rate", SERVER), t.signal("acceptance_rate", SERVER, DAY)),
        A_SCRAPE_OF_THE_DAY,
    ),
    "drift: Which servers changed most? C": (lambda t: since_yesterday(t, "acceptance_rate"), EXACT),
    "drift: Which servers changed most? E": (lambda t: since_yesterday(t, "draft_length"), EXACT),
    "drift: Is the first draft token still right? A": (lambda t: t.conditional(0, SERVER), EXACT),
    "drift: Are prompts as long as they were? A": (lambda t: t.mean_length("prompt"), EXACT),
    "drift: Are prompts as long as they were? B": (lambda t: t.mean_length("prompt", NOW - DAY), EXACT),
    "drift: Are answers as long as they were? A": (lambda t: t.mean_length("answer"), EXACT),
    "drift: Are answers as long as they were? B": (lambda t: t.mean_length("answer", NOW - DAY), EXACT),
    "drift: Are as many prompts in the prefix cache? A": (lambda t: t.nothing_cached(), EXACT),
    "speedup: Tokens gained now A": (lambda t: per_second(t.gained(FLEET, WINDOW)), EXACT),
    "speedup: How many tokens a second does it gain? A": (lambda t: per_second(t.gained(MODEL, WINDOW)), EXACT),
    "speedup: Which positions earn what they cost? A": (worth, EXACT),
    "speedup: Would a smaller K be faster? I": (lambda t: last_position_brings(t), EXACT),
    "speedup: How close is each server to its memory bandwidth? A": (bandwidth, EXACT),
    "speedup: How fast does one request get its tokens? A": (
        lambda t: every(t.signal("tpot", SERVER), lambda seconds: 1 / seconds),
        EXACT,
    ),
}
"""What each query that is no signal of the catalogue by itself should give, and how near."""

BY_PLACE["fleet: How many servers pay, and how many do not? A"] = (
    lambda t: {frozenset({("state", s)}): t.states()[s] for s in ("paying", "losing") if t.states()[s]},
    EXACT,
)
for letter, state in zip("BCDE", STATES, strict=True):
    BY_PLACE[f"fleet: How many servers pay, and how many do not? {letter}"] = (
        lambda t, state=state: single(t.states()[state]),
        EXACT,
    )
for number, letter in enumerate("ABCDEFGH"):
    BY_PLACE[f"drift: At which position does the draft lose the thread? {letter}"] = (
        lambda t, number=number: t.conditional(number, FLEET),
        EXACT,
    )
    BY_PLACE[f"speedup: Would a smaller K be faster? {letter}"] = (
        lambda t, number=number: t.speedup_at(number + 1, SERVER),
        EXACT,
    )


def expected(asked: Asked) -> tuple[Expected, float] | None:
    """How to work out what a query should give; None for what only the sidecar knows."""
    if asked.place in BY_PLACE:
        return BY_PLACE[asked.place]
    told = KNOWN.get(asked.target["expr"])
    if told is None:
        return None
    name, labels, window, at = told
    return (lambda truth: truth.signal(name, labels, window, at)), EXACT if window == WINDOW else A_SCRAPE_OF_THE_DAY


WATCHED = ("two:8000", "three:8000")
"""The servers that a sidecar speaks of."""


def sidecar_lines() -> list[str]:
    """What a sidecar says of two servers."""
    found = []
    for target in WATCHED:
        about = f'job="specwatch",instance="sidecar:9108",target="{target}",model_name="{LARGE}"'
        for place, value in SIDECAR.items():
            metric, _, labels = place.partition("{")
            found.append(f"{metric}{{{about}{',' + labels if labels else '}'} {value} {NOW:.3f}\n")
        checked = f'job="specwatch",target="{target}"'
        for metric in ("checks_total", "check_failures_total"):
            found += growing(f"specwatch_losslessness_{metric}{{{checked}}}")
        checked += ',temperature="0"'
        found += growing(f"specwatch_losslessness_tokens_total{{{checked}}}")
        found.append(f"specwatch_losslessness_evidence_ratio{{{checked}}} 0.2 {NOW:.3f}\n")
        found.append(f"specwatch_losslessness_verdict_timestamp_seconds{{{checked}}} {NOW - 900} {NOW:.3f}\n")
    for concurrency, value in (("4", 1.6), ("16", 1.1)):
        labels = f'job="specwatch",domain="json",num_speculative_tokens="5",concurrency="{concurrency}"'
        found.append(f"specwatch_calibrated_speedup_ratio{{{labels}}} {value} {NOW:.3f}\n")
    found.append(f'specwatch_model_drift_score{{job="specwatch",model_name="{LARGE}"}} 0.5 {NOW:.3f}\n')
    found.append(f'specwatch_fleet_drift_score{{job="specwatch"}} 0.3 {NOW:.3f}\n')
    return found


def growing(series: str) -> list[str]:
    """A counter that is scraped twice."""
    return [f"{series} {value} {at:.3f}\n" for value, at in ((10, NOW - SCRAPE), (11, NOW))]


SIDECAR = {
    "specwatch_drift_score": 0.4,
    "specwatch_drift_rise_score": 0.1,
    "specwatch_drift_reference_ratio": 0.8,
    "specwatch_drift_change_ratio": -0.1,
    "specwatch_drift_change_low_ratio": -0.15,
    "specwatch_drift_change_high_ratio": -0.05,
    "specwatch_drift_since_timestamp_seconds": NOW - 600,
    "specwatch_drift_regime_since_timestamp_seconds": NOW - 6000,
    "specwatch_drift_learned_ratio": 1.0,
    'specwatch_speedup_ratio{kind="estimated"}': 1.9,
    'specwatch_speedup_ratio{kind="calibrated"}': 1.5,
    'specwatch_speedup_ratio{kind="measured"}': 1.4,
    'specwatch_speedup_low_ratio{kind="calibrated"}': 1.4,
    'specwatch_speedup_high_ratio{kind="calibrated"}': 1.6,
    "specwatch_known_speedup": 1.4,
    "specwatch_break_even_acceptance_ratio": 0.4,
    "specwatch_saved_tokens_per_hour": 5000.0,
    "specwatch_saved_gpu_seconds_per_hour": 900.0,
    "specwatch_recommended_draft_tokens": 4.0,
    "specwatch_recommended_speedup_ratio": 1.6,
    "specwatch_configured_draft_tokens": 5.0,
    "specwatch_draft_cost_ratio": 0.05,
    'specwatch_running_requests_requests{window="5m"}': 4.0,
    'specwatch_acceptance_rate_ratio{window="5m"}': 0.8,
    'specwatch_workload_shift_ratio{feature="prompt_tokens"}': 0.3,
    'specwatch_diagnosis{code="traffic-changed",level="problem"}': 1.0,
    "specwatch_losslessness_distorted": 0.0,
}


def told_by_sidecar() -> dict[str, Values]:
    """What queries that ask for one of its metrics should give, the two servers chosen."""
    found: dict[str, Values] = {}
    for place, value in SIDECAR.items():
        metric, _, written = place.rstrip("}").partition("{")
        labels = dict(re.findall(r'(\w+)="([^"]*)"', written))
        by = () if "window" in labels else tuple(labels)
        expr = of_sidecar(metric, *([written] if "window" in labels else []), by=by)
        for server in WATCHED:
            kept = {name: labels[name] for name in by}
            key = frozenset({"instance": server, "model_name": LARGE, **kept}.items())
            found.setdefault(expr, {})[key] = value
    return found


HELD = 600.0
FIRING = (
    {"alertname": "SpeculativeAcceptanceRateLow", "severity": "ticket", "instance": "three:8000"},
    {"alertname": "SpeculationSlowerThanNone", "severity": "page", "instance": "three:8000"},
    {"alertname": "SpeculationNoTargets", "severity": "page"},
)


def alert_lines() -> list[str]:
    """What a Prometheus that evaluates alerts has of them, those of others and the heartbeat included."""
    others = (
        {"alertname": "SomebodyElses", "severity": "page", "instance": "two:8000"},
        {"alertname": "SpecwatchWatchdog", "severity": "none"},
    )
    found = []
    for alert in (*FIRING, *others):
        labels = ",".join(f'{name}="{value}"' for name, value in {**alert, "job": "vllm"}.items())
        found.append(f'ALERTS{{{labels},alertstate="firing"}} 1 {NOW:.3f}\n')
        found.append(f"ALERTS_FOR_STATE{{{labels}}} {NOW - HELD} {NOW:.3f}\n")
    return found


def alerts(truth: Truth) -> list[Labels]:
    """Those about the chosen servers, and about none."""
    about = [
        alert
        for alert in FIRING
        if "instance" not in alert or re.fullmatch(truth.chosen["instance"], alert["instance"])
    ]
    return [frozenset({**alert, "job": "vllm"}.items()) for alert in about]


def problems(truth: Truth) -> Values:
    """What the sidecar finds at the chosen servers."""
    chosen = [server for server in WATCHED if re.fullmatch(truth.chosen["instance"], server)]
    about = {"model_name": LARGE, "code": "traffic-changed"}
    return {frozenset({**about, "instance": server}.items()): LEVELS[Level.PROBLEM][0] for server in chosen}


def lanes(truth: Truth, severity: str, value: float) -> Values:
    found = [dict(labels) for labels in alerts(truth)]
    return {frozenset({("alertname", a["alertname"])}): value for a in found if a["severity"] == severity}


def recorded_of_v1() -> list[str]:
    """What the rules record of a V1 server, which its counters tell better."""
    name = "instance:specwatch_acceptance_rate:ratio_rate5m"
    return [f'{name}{{job="vllm",instance="two:8000",model_name="{LARGE}"}} 0.123 {NOW:.3f}\n']


@dataclass(frozen=True)
class Scene:
    """A Prometheus that holds the fleet, and what was true."""

    server: Prometheus
    recorded: Recorded
    closed: bool

    def truth(self, chosen: Mapping[str, str]) -> Truth:
        """What is true of the chosen servers."""
        return Truth(self.recorded, chosen, self.closed, dict.fromkeys(WATCHED, SIDECAR["specwatch_known_speedup"]))

    async def ask(self, expr: str, chosen: Mapping[str, str]) -> Values:
        """What an expression gives for the chosen servers."""
        samples = await self.server.query(substituted(expr, {**chosen, **OTHERS}), NOW)
        return {frozenset((n, v) for n, v in s.labels.items() if n != "__name__"): s.value for s in samples}


FURTHER = (*sidecar_lines(), *alert_lines(), *recorded_of_v1())


@pytest.fixture(scope="module")
def fleet() -> tuple[Recorded, list[str]]:
    return record()


@pytest.mark.services
@pytest.mark.parametrize("newest", [False, True], ids=["system's Prometheus", "newest Prometheus"])
async def test_the_dashboards_show_the_truth(newest: bool, fleet: tuple[Recorded, list[str]], tmp_path: Path):
    binary = newer_program("prometheus") if newest else None
    recorded, lines = fleet
    async with recorded_fleet(tmp_path, lines, FURTHER, binary) as server:
        scene = Scene(server, recorded, closed=not await _is_3(server))
        for chosen in (SEVERAL, ONE):
            await every_query_gives_the_truth(scene, chosen)
        for chosen in (ALL, SEVERAL, ONE):
            await no_panel_is_empty(scene, chosen)
        await what_the_sidecar_says_is_shown(scene)
        await variables_list_the_fleet(scene)
        await what_is_away_or_changed_is_told(scene)


async def _is_3(server: Prometheus) -> bool:
    async with server.session.get(f"{server.url}/api/v1/status/buildinfo") as answer:
        version: str = (await answer.json())["data"]["version"]
    return int(version.partition(".")[0]) >= 3


async def every_query_gives_the_truth(scene: Scene, chosen: Mapping[str, str]) -> None:
    truth, wrong = scene.truth(chosen), []
    for asked in all_asked():
        told = expected(asked)
        if told is None:
            assert asked.needs_sidecar, f"nobody says what {asked.place} should give"
            continue
        value, near = told
        shown, true = await scene.ask(asked.target["expr"], chosen), value(truth)
        if shown != pytest.approx(true, rel=near, abs=1e-9 if near == EXACT else 1e-3):
            wrong.append(f"{asked.place}: {shown} instead of {true}")
    assert not wrong, f"with {chosen}:\n" + "\n".join(wrong)


async def what_the_sidecar_says_is_shown(scene: Scene) -> None:
    told, seen = told_by_sidecar(), set()
    for asked in all_asked():
        expr = asked.target["expr"]
        if expr in told:
            seen.add(expr)
            assert await scene.ask(expr, SEVERAL) == pytest.approx(told[expr]), asked.place
    assert len(seen) >= 15


async def no_panel_is_empty(scene: Scene, chosen: Mapping[str, str]) -> None:
    for board, made in DASHBOARDS.items():
        for panel in panels(made):
            shown = [await scene.ask(target["expr"], chosen) for target in panel["targets"]]
            values = [value for each in shown for value in each.values()]
            about_v0 = "V0" in panel["title"] and chosen is ONE
            assert values or about_v0, f"{board.value}: {panel['title']} is empty with {chosen}"
            assert all(math.isfinite(value) for value in values), panel["title"]
            field = panel["fieldConfig"]["defaults"]
            if panel["type"] != "table" and "bandwidth" not in panel["title"]:
                low, high = field.get("min", -math.inf), field.get("max", math.inf)
                assert all(low - EXACT <= value <= high + EXACT for value in values), panel["title"]


async def variables_list_the_fleet(scene: Scene) -> None:
    members = scene.recorded.members
    for made in DASHBOARDS.values():
        for chosen, job in ((ALL, None), (SEVERAL, None), ({**ALL, "job": "vllm"}, "vllm")):
            for name, variable in variables(made).items():
                query = variable["query"]["query"].removeprefix("label_values(").removesuffix(")")
                series, label = substituted(query, chosen).rsplit(", ", 1)
                listed = await scene.server.label_values(label, series, NOW)
                if name == "instance" and job:
                    assert listed == sorted(m.instance for m in members if m.job == job)
                assert listed, (name, chosen)


async def what_is_away_or_changed_is_told(scene: Scene) -> None:
    (states,) = (p for p in panels(DASHBOARDS[Board.FLEET]) if "How many servers pay" in p["title"])
    (down,) = (target["expr"] for target in states["targets"] if target["legendFormat"] == "down")
    assert list((await scene.ask(down, ALL)).values()) == [1]
    for made in DASHBOARDS.values():
        restarts, deployments, firing = (entry["expr"] for entry in made["annotations"]["list"])
        for expr in (restarts, deployments):
            query = substituted(expr, {**ALL, **OTHERS})
            marks = await scene.server.query_range(query, NOW - 600, NOW, step=SCRAPE)
            assert [labels["instance"] for labels, _ in marks] == ["moved:8000"]
            assert all(points * SCRAPE <= 75 for _, points in marks), "marks for a minute at most"
        assert len(await scene.ask(firing, ALL)) == len(FIRING)
