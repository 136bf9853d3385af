"""The dashboard *speedup*: what speculation is worth, how that is known, and what another K would give."""

from __future__ import annotations

from typing import Any

from specwatch.generate import grafana, grafana_dashboard
from specwatch.generate.dashboards.asks import (
    BY_SERVER,
    DEEPEST_POSITION,
    LAST_DAY,
    Asks,
    named_as_server,
    of_sidecar,
)
from specwatch.generate.dashboards.frame import Board, Settings, dashboard, link_to_server
from specwatch.generate.dashboards.parts import (
    LOSS,
    SPEEDUP,
    WORTHLESS,
    marks,
    speedup_trend,
    speedup_words,
    tokens_gained,
)
from specwatch.generate.dashboards.scales import (
    GAIN,
    NO_SERVER,
    NO_SIDECAR,
    NOT_CALIBRATED,
    NOT_CHECKED,
    NOT_MEASURED,
    NOTHING_DECODED,
    NOTHING_DRAFTED,
    SCORE,
    SHARE,
    TIMES,
)
from specwatch.generate.grafana import BAD, GOOD, HIGHEST, LOWEST, OTHER, WARN, Query, Scale, Steps, Words
from specwatch.generate.grafana_dashboard import Line, Section
from specwatch.generate.grafana_plots import Points, against
from specwatch.generate.grafana_table import Column, Name, Order, table
from specwatch.generate.live_promql import SERVER
from specwatch.signals.catalogue import signal

WEIGHTS, BANDWIDTH = "35", "2039"
"""In the boxes at first: 70 B parameters in 16 bit over four GPUs, each an A100 80 GB SXM with 2039 GB/s."""

TOKENS_PER_HOUR = Scale("suffix:tokens/h", low=None)
SIDECAR_WINDOW = 'window="5m"'
"""The sidecar's window that is the alerts' too."""

GPU_SECONDS_PER_HOUR = Scale("suffix:GPU-s/h", low=None)


def speedup(settings: Settings) -> dict[str, Any]:
    """The dashboard, as Grafana reads it."""
    asks = Asks(settings.cost)
    return dashboard(
        Board.SPEEDUP,
        "What is speculation worth, how is that known, and what would another K give?",
        (
            _headline(asks),
            _break_even(asks),
            _another_k(asks, settings),
            _limit(asks),
            _kinds(),
            _calibration(),
            _recommended(settings),
            _lossless(settings),
        ),
        settings,
        annotations=marks(asks),
        boxes=(
            grafana_dashboard.box_variable("weights", "GB of weights a GPU", WEIGHTS),
            grafana_dashboard.box_variable("bandwidth", "GB/s of a GPU", BANDWIDTH),
        ),
    )


def _headline(asks: Asks) -> Section:
    def of_kind(kind: str, title: str, description: str, empty: str) -> Any:
        each = of_sidecar("specwatch_speedup_ratio", f'kind="{kind}"')
        middle = Query(f"quantile (0.5, {each})", kind)
        return grafana.stat(Words(title, description, empty), middle, TIMES, grafana.bad_below(LOSS), now=True)

    panels = (
        of_kind(
            "measured",
            "Measured speedup",
            "Speed with speculation ÷ speed of the same server without, both measured: the middle one of the selected "
            "servers. This is the truth, where it is known.",
            NOT_MEASURED,
        ),
        of_kind(
            "calibrated",
            "Calibrated speedup",
            "Today's acceptance and batch size put into the step times that a calibration measured on this hardware: "
            "the middle one of the selected servers. It knows the load, which acceptance does not see.",
            NOT_CALIBRATED,
        ),
        grafana.stat(
            speedup_words(SPEEDUP, asks), asks.all("estimated_speedup"), TIMES, grafana.bad_below(LOSS), now=True
        ),
        grafana.stat(
            Words(
                "Tokens gained now",
                "Tokens a second beyond those that plain decoding would make in the same time, estimated. Below 0 "
                "speculation loses tokens.",
                NOTHING_DRAFTED,
            ),
            Query(asks.tokens_gained((), asks.live.window, "rate"), "gained"),
            GAIN,
            grafana.bad_below(0),
            now=True,
        ),
    )
    return Section("What is speculation worth?", (Line(5, panels),))


def _break_even(asks: Asks) -> Section:
    rate = grafana.time_series(
        Words(
            "Is acceptance above what drafting costs?",
            f"Acceptance rate by server beside the break-even of {asks.cost.c:.1%}, the cost of a draft token: the "
            "estimated speedup is above 1 exactly where the rate is above it. Large batches move the true one up.",
            NOTHING_DRAFTED,
        ),
        [asks.servers("acceptance_rate")],
        SHARE,
        first=LOWEST,
        alarm=asks.cost.c,
    )
    servers = speedup_trend(f"{SPEEDUP}: does it stay above {LOSS:g}?", asks.servers("estimated_speedup"), asks)
    return Section("Is it above break-even?", (Line(9, (servers, rate)),))


def _another_k(asks: Asks, settings: Settings) -> Section:
    ks = range(1, DEEPEST_POSITION + 2)
    rows = table(
        Words(
            "Would a smaller K be faster?",
            "The estimated speedup of each server if drafts ended after so many tokens, from the positions that are "
            "accepted now; the largest of a row is the best K for its traffic. First are those whose last position "
            "brings least for its cost: below 1 × what the whole step brings, a smaller K is faster.",
            NOTHING_DRAFTED,
        ),
        (
            Name("Server", "instance", link=link_to_server(settings)),
            Name("Model", "model_name"),
            Name("Job", "job", 90),
        ),
        (
            *(Column(f"K = {k}", asks.speedup_at(k, SERVER), TIMES, grafana.bad_below(LOSS), width=85) for k in ks),
            Column("Last brings", asks.last_position_pays(SERVER), TIMES, Steps(WARN, ((1.0, GOOD),)), width=105),
        ),
        Order("Last brings"),
    )
    worth = grafana.time_series(
        Words(
            "Which positions earn what they cost?",
            "Share accepted at each position ÷ the cost of drafting it: below 1, dashed, a position costs more than it "
            "brings. Where the last ones lie below, a smaller K is faster.",
            NOTHING_DRAFTED,
        ),
        [Query(f"({asks.signal('position_acceptance')}) / {asks.cost.c:g}", "position {{position}}")],
        TIMES,
        shade=GOOD,
        styles={f"position {index}": {"custom.lineWidth": 5 - index} for index in range(4)},
        alarm=WORTHLESS,
    )
    gained = tokens_gained(asks, "How many tokens a second does it gain?")
    return Section("Would another K gain more?", (Line(10, (rows,)), Line(9, (worth, gained))))


def _limit(asks: Asks) -> Section:
    # Gigabytes read a second ÷ gigabytes a second: weights are read once a step, whatever the batch.
    share = f"{asks.steps(SERVER)}\n* $weights / $bandwidth"
    limit = grafana.time_series(
        Words(
            "How close is each server to its memory bandwidth?",
            "Engine steps a second × gigabytes of weights a GPU reads for one ÷ its bandwidth, both from the boxes at "
            "the top. Near 100 % decoding waits for memory and verifying drafts is nearly free; far below, it is not.",
            NO_SERVER,
        ),
        [Query(share, BY_SERVER)],
        Scale("percentunit"),
        first=LOWEST,
        alarm=1.0,
    )
    per_step = grafana.time_series(
        Words(
            "How many tokens does a decode step bring?",
            "Tokens generated ÷ decode steps of requests, those without a draft included, by server. It times the "
            "steps a second is what users get.",
            NOTHING_DECODED,
        ),
        [asks.servers("tokens_per_step")],
        Scale("suffix:tokens", low=1.0, decimals=2),
        first=LOWEST,
    )
    speed = grafana.time_series(
        Words(
            "How fast does one request get its tokens?",
            "1 ÷ mean TPOT by server, tokens a second of one request. Speculation is meant to raise it; beside the "
            "batch size it shows what load takes of that.",
            NOTHING_DECODED,
        ),
        [Query(f"1 / ({asks.signal('tpot', SERVER)})", BY_SERVER)],
        Scale("suffix:tokens/s", decimals=1),
        first=LOWEST,
    )
    return Section("What bounds it?", (Line(9, (limit, per_step, speed)),))


def _kinds() -> Section:
    kinds = grafana.time_series(
        Words(
            "Speedup of each server, by how it is known (sidecar)",
            "Measured, calibrated and estimated, told apart by the line's name. An estimate far above the measurement "
            "says that overhead, which no formula sees, eats the gain.",
            NO_SIDECAR,
        ),
        [Query(of_sidecar("specwatch_speedup_ratio", by=("kind",)), "{{instance}} {{kind}}")],
        TIMES,
        first=LOWEST,
        alarm=LOSS,
    )
    tokens = grafana.time_series(
        Words(
            "Tokens saved per hour, by the best that is known (sidecar)",
            "What speculation gives beyond plain decoding, by server, from the surest kind of speedup there is. Below "
            "0 the server would make more tokens without it.",
            NO_SIDECAR,
        ),
        [Query(of_sidecar("specwatch_saved_tokens_per_hour"), BY_SERVER)],
        TOKENS_PER_HOUR,
        first=LOWEST,
        alarm=0.0,
    )
    gpus = grafana.time_series(
        Words(
            "GPU time saved per hour (sidecar)",
            "GPU-seconds that plain decoding would need more in an hour, by server. Times the price of a GPU it is the "
            "money that speculation saves, or loses below 0.",
            NO_SIDECAR,
        ),
        [Query(of_sidecar("specwatch_saved_gpu_seconds_per_hour"), BY_SERVER)],
        GPU_SECONDS_PER_HOUR,
        first=LOWEST,
        alarm=0.0,
    )
    return Section("Needs the sidecar: what is known best", (Line(9, (kinds, tokens, gpus)),))


def _calibration() -> Section:
    # A calibration is no server's: its cells bear no labels of one.
    curve = "max by (domain, num_speculative_tokens, concurrency) (specwatch_calibrated_speedup_ratio)"
    chart = against(
        Words(
            "Speedup against concurrency: where does it end to pay?",
            "The calibration's measured speedups by requests at once, and today's servers at their batch size. Left of "
            "where the points cross the dashed line speculation pays.",
            NOT_CALIBRATED,
        ),
        [Query(curve), Query(_today()), Query(f"0 * max by (concurrency) ({curve}) + {LOSS:g}")],
        (
            Points("calibration", 0, "concurrency", "Value #A", OTHER),
            Points("servers today", 1, "concurrency", "Value #B", GOOD),
            # Grafana draws no threshold on such a chart.
            Points("break-even", 2, "concurrency", "Value #C", BAD, is_line=True),
        ),
        Scale("suffix:×", decimals=2),
        numeric="concurrency",
    )
    break_even = grafana.time_series(
        Words(
            "Break-even acceptance at today's load (sidecar)",
            "The acceptance rate above which speculation pays at the batch size of the moment, beside acceptance now. "
            "Load lifts the break-even, drift lowers acceptance: where they cross, it loses.",
            NO_SIDECAR,
        ),
        [
            Query(of_sidecar("specwatch_break_even_acceptance_ratio"), "{{instance}} break-even"),
            Query(of_sidecar(signal("acceptance_rate").metric, SIDECAR_WINDOW), BY_SERVER),
        ],
        SHARE,
        styles={"/ break-even$/": {"custom.lineStyle": {"fill": "dash", "dash": [6, 6]}}},
    )
    return Section("Needs the sidecar with a calibration: load", (Line(10, (chart, break_even)),))


def _today() -> str:
    """Each server's calibrated speedup with its batch size as a label: one series holds both of a point's values."""
    batch = of_sidecar(signal("running_requests").metric, SIDECAR_WINDOW)
    value = of_sidecar("specwatch_speedup_ratio", 'kind="calibrated"')
    labelled = f'count_values by (instance, model_name) ("concurrency", round({batch}))'
    return f"{labelled}\n* on (instance, model_name) group_left ()\n{value}"


def _recommended(settings: Settings) -> Section:
    kinds = ("measured", "calibrated", "estimated")
    best_known = "\nor\n".join(of_sidecar("specwatch_speedup_ratio", f'kind="{kind}"') for kind in kinds)
    rows = table(
        Words(
            "Which K would be best, and what would it give? (sidecar)",
            "K as configured, the K that today's acceptance by position asks for, and its speedup beside the present "
            "one. Restart a server with it where the difference is worth a restart.",
            NO_SIDECAR,
        ),
        (Name("Server", "instance", link=link_to_server(settings)), Name("Model", "model_name")),
        (
            Column("K now", of_sidecar("specwatch_configured_draft_tokens"), Scale("none")),
            Column("Best K", of_sidecar("specwatch_recommended_draft_tokens"), Scale("none")),
            Column("Speedup with it", of_sidecar("specwatch_recommended_speedup_ratio"), TIMES, width=150),
            Column("Speedup now", best_known, TIMES, grafana.bad_below(LOSS)),
            Column("Draft cost", of_sidecar("specwatch_draft_cost_ratio"), SHARE),
        ),
        Order("Speedup now", only=True),
    )
    return Section("Needs the sidecar: what to change", (Line(8, (rows,)),))


def _lossless(settings: Settings) -> Section:
    def counted(metric: str, by: str = "instance") -> str:
        """How much was added in the last day; these series bear no model."""
        return named_as_server(f'increase({metric}{{target=~"$instance"}}[{LAST_DAY}])', "sum", by)

    evidence = grafana.time_series(
        Words(
            "Does any server write what its model would not? (sidecar)",
            "Evidence that text does not follow the model's own probabilities, of the test that is under way; 1, "
            "dashed, concludes. Speculation must not change what is written, whatever it does to the speed.",
            NOT_CHECKED,
        ),
        [
            Query(
                named_as_server(
                    'specwatch_losslessness_evidence_ratio{target=~"$instance"}', "max", "instance, temperature"
                ),
                "{{instance}} at temperature {{temperature}}",
            )
        ],
        SCORE,
        first=HIGHEST,
        alarm=1.0,
    )
    since = named_as_server(
        'time() - specwatch_losslessness_verdict_timestamp_seconds{target=~"$instance"}', "min", "instance"
    )
    rows = table(
        Words(
            "What did the checks of losslessness find? (sidecar)",
            "The last verdict on each server, how old it is, and what was tested in the last day. A distorted server "
            "is a defect of the build or the settings: take it out, and report it with its arguments.",
            NOT_CHECKED,
        ),
        (Name("Server", "instance", link=link_to_server(settings)),),
        (
            Column(
                "Verdict",
                named_as_server('specwatch_losslessness_distorted{target=~"$instance"}', "max", "instance"),
                Scale("none"),
                words={0.0: ("sound", GOOD), 1.0: ("distorted", BAD)},
            ),
            Column("Concluded", since, Scale("s")),
            Column("Tokens tested", counted("specwatch_losslessness_tokens_total"), Scale("short"), width=130),
            Column("Checks", counted("specwatch_losslessness_checks_total"), Scale("none", decimals=0), width=90),
            Column(
                "Failed", counted("specwatch_losslessness_check_failures_total"), Scale("none", decimals=0), width=90
            ),
        ),
        Order("Verdict", descending=True),
    )
    return Section("Needs the sidecar with checks of losslessness", (Line(8, (evidence, rows)),))
