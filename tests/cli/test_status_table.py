"""The table of servers: what fits at which width, what every number says of itself, and names that mean harm."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.text import Text

from specwatch.cli.sidecar_client import Alert
from specwatch.cli.status_source import Look
from specwatch.cli.status_table import COLUMNS, Server, servers, table
from specwatch.cli.status_text import cut, name, per_second, safe
from specwatch.sidecar.verdict import Tone
from specwatch.signals.speedup import SpeedupKind
from tests.support.views import CHANGED, NOW, away, shown

HOSTILE = {
    "control characters": "a\x1b[2J\x1b]0;owned\x07\r\n\t\x9bb",
    "markup": "<script>alert(1)</script>[bold red]x[/]",
    "300 characters": "x" * 300,
    "wide characters": "日本語サーバー" * 20,
    "piled up accents": "z" + "\u0301" * 300,
    "another direction": "gpu-\u202e1\u2066\u200f\u200d\ufeff",
    "a lone surrogate": "\ud800",
    "nothing": "",
}


def alert(target: str, state: str = "firing", severity: str = "ticket", silenced_by: str | None = None) -> Alert:
    summary = f"Draft acceptance left its normal on {target}"
    return Alert("SpeculationDrifted", target, severity, state, NOW - 60, "1.5", "at or above 1", summary, silenced_by)


def rows(*views, alerts: tuple[Alert, ...] | None = ()) -> list[Server]:
    return servers(Look(NOW, views, alerts))


def lines(made: list[Server], width: int | None) -> list[str]:
    shown_table = table(made, width)
    return [line.plain for line in (shown_table.head, *shown_table.lines)]


FLEET = rows(
    shown("gpu-1"),
    shown("gpu-2", speedup=0.86, finding=CHANGED, drifted_since=NOW - 600),
    away("gpu-3"),
    shown("gpu-4", speedup=1.42, known=SpeedupKind.MEASURED, seconds=41.0),
    alerts=(alert("gpu-2"), alert("gpu-2", "pending"), alert("gpu-3", "pending")),
)


def test_at_80_columns_what_matters_at_night_fits():
    assert lines(FLEET, 80) == [
        "SERVER  STATE               SPEEDUP  ACCEPT  OVER  DRIFT  ALERTS     BATCH",
        "gpu-2   ▼ costs        ≤ 0.86× est.   81.2%    5m   1.50  1 firing     4.0",
        "gpu-3   ✗ unreachable             –       –    5m      –  1 pending    4.0",
        "gpu-1   ● pays         ≤ 2.00× est.   81.2%    5m      –               4.0",
        "gpu-4   ● pays          1.42× meas.   81.2%   41s      –               4.0",
    ]


def test_at_200_columns_everything_is_there_and_why():
    head, worst, *_ = lines(FLEET, 200)
    assert head.split() == [*(column.head for column in COLUMNS), "WHY"]
    assert worst.endswith("meta-llama/Llama-3.1-70B-Instruct  Traffic changed domain.")


def test_a_pipe_gets_every_column_and_no_blank_at_an_end():
    head, *body = lines(FLEET, None)
    assert head.split()[-1] == "WHY"
    assert len(body) == len(FLEET)
    assert all(line == line.rstrip() for line in body)


def test_it_never_takes_more_than_the_terminal_has_nor_loses_a_server():
    for width in range(1, 240):
        assert len(lines(FLEET, width)) == 1 + len(FLEET)
        # Below thirty columns names and states alone are wider than that, and are cut where they are drawn.
        assert max(map(cell_len, lines(FLEET, width))) <= max(width, 30)


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("width", [80, 200, None])
def test_a_hostile_name_is_clean_cut_text_on_its_line(hostile, width):
    made = rows(shown(hostile, model_name=hostile, finding=CHANGED), shown("gpu-1"))
    for line in lines(made, width):
        assert line.isprintable() or line == ""
        assert width is None or cell_len(line) <= width
    assert len({cell_len(line[: line.index("● pays")]) for line in lines(made, width)[1:]}) == 1


def test_both_ends_of_a_long_name_are_kept():
    assert name("rack-" + "x" * 100 + "-gpu-7", 21) == "rack-xxxxx…xxxx-gpu-7"
    assert name("日本語サーバー-7", 9) == "日本…ー-7"


def test_a_sentence_is_cut_by_the_cells_it_takes():
    assert cut("日本語", 4) == "日…"
    assert cut("abc", 3) == "abc"
    assert safe("a\x00b\u200dc") == "a bc"


def test_an_estimate_is_an_upper_bound_and_a_measurement_says_so():
    kinds = {kind: rows(shown(speedup=1.5, known=kind)) for kind in SpeedupKind}
    for kind, words in (("measured", "1.50× meas."), ("calibrated", "1.50× cal."), ("estimated", "≤ 1.50× est.")):
        assert f" {words} " in lines(kinds[SpeedupKind(kind)], 80)[1]


def test_what_is_not_known_is_no_zero():
    line = lines(rows(shown(speedup=None, signals={"running_requests": None})), 80)[1]
    assert line.split() == ["gpu-1", "○", "no", "estimate", "–", "–", "5m", "–", "–", "250"]


def test_a_window_that_is_not_covered_yet_says_what_it_covers():
    over = {seconds: lines(rows(shown(seconds=seconds)), 80)[1].split()[7] for seconds in (9.6, 41.0, 180.0, 299.0)}
    assert over == {9.6: "10s", 41.0: "41s", 180.0: "3m", 299.0: "5m"}


def test_what_v0_tells_says_that_it_is_since_the_start():
    old = shown(speedup=None, signals={"acceptance_rate": None}, since_start={"acceptance_rate": 0.92})
    assert "92.0% since start" in lines(rows(old), 120)[1]


@pytest.mark.parametrize(
    ("made", "tone"),
    [
        (rows(shown()), Tone.GOOD),
        (rows(shown(finding=CHANGED)), Tone.WARN),
        (rows(shown(drifted_since=NOW)), Tone.WARN),
        (rows(shown(), alerts=(alert("gpu-1"),)), Tone.WARN),
        (rows(shown(), alerts=(alert("gpu-1", severity="page"),)), Tone.BAD),
        (rows(shown(), alerts=(alert("gpu-1", "pending", "page"),)), Tone.GOOD),
        (rows(shown(), alerts=(alert("gpu-1", severity="page", silenced_by="7"),)), Tone.GOOD),
        (rows(shown(), alerts=(alert("gpu-2", severity="page"),)), Tone.GOOD),
        (rows(shown(), alerts=None), Tone.GOOD),
        (rows(away()), Tone.BAD),
        (rows(shown(speedup=0.5)), Tone.BAD),
        (rows(shown(speedup=None)), Tone.QUIET),
    ],
)
def test_somebody_must_look_for_a_state_an_alert_or_a_problem(made, tone):
    assert [server.tone for server in made] == [tone]


def test_figures_of_a_server_that_is_away_are_dim():
    assert "dim" in [str(span.style) for span in table(rows(away()), 80).lines[0].spans]


def test_digits_are_as_many_as_can_be_told():
    assert [per_second(rate) for rate in (0.0, 17.44, 99.96, 12345.6, None, float("nan"), float("inf"))] == [
        *("0.0", "17.4", "100.0", "12,346", "–", "–", "–")
    ]


def test_no_servers_are_no_lines():
    assert table([], 80).lines == []
    assert isinstance(table([], None).head, Text)
