"""What ``specwatch top`` draws, without a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from specwatch.cli.status_source import Look
from specwatch.cli.status_table import servers
from specwatch.cli.top_screen import Heard, Screen
from specwatch.cli.top_view import View
from specwatch.sidecar.headline import time_of_day
from specwatch.sidecar.views import TargetView
from specwatch.signals.findings import Figure, Finding, Level
from specwatch.signals.speedup import Speedup, SpeedupKind
from tests.cli.test_status_table import HOSTILE, alert
from tests.support.views import CHANGED, NOW, away, shown

LOOK = Look(
    NOW,
    (shown("gpu-1"), shown("gpu-3", speedup=0.86, finding=CHANGED, drifted_since=NOW - 600), away("gpu-2")),
    (alert("gpu-3"), alert("gpu-2", "pending", "page")),
)


def heard(look: Look = LOOK, **changes: object) -> Heard:
    return replace(Heard(look, servers(look)), **changes)


def screen(how: Heard, view: View | None = None, width: int = 80, height: int = 24) -> list[str]:
    lines = Screen(how, "127.0.0.1:9108", view or View(), width, height).lines()
    assert len(lines) <= height
    assert all(line.cell_len <= width for line in lines)
    return [line.plain.rstrip() for line in lines]


def opened(view: TargetView, width: int = 80, height: int = 80, **changes: object) -> str:
    look = Look(NOW, (view,), (alert(view.target.name),))
    return "\n".join(screen(heard(look, **changes), View(chosen=view.target.name, is_open=True), width, height))


def test_at_80_by_24_it_says_how_things_are_and_what_is_wrong_with_the_chosen_one():
    assert screen(heard()) == [
        f"specwatch top · 127.0.0.1:9108                                   ● live {heard().time}",
        f"3 servers: 1 pays, 1 costs: gpu-3 (drifted since {clock(NOW - 600)}); 1 unreachable: gpu-2.",
        f"1 firing, 1 pending · ticket since {clock(NOW - 60)}: Draft acceptance left its normal on g…",
        "",
        "  SERVER  STATE               SPEEDUP  ACCEPT  OVER  DRIFT  ALERTS     BATCH",
        "▸ gpu-3   ▼ costs        ≤ 0.86× est.   81.2%    5m   1.50  1 firing     4.0",
        "  gpu-2   ✗ unreachable             –       –    5m      –  1 pending    4.0",
        "  gpu-1   ● pays         ≤ 2.00× est.   81.2%    5m      –               4.0",
        "  3 servers, worst first",
        *[""] * 7,
        "",
        "gpu-3: Traffic changed domain. Retrain the draft.",
        *[""] * 4,
        "↑↓ choose  enter open  / filter  r reverse  q quit",
        "sort by w worst  n name  s speedup  a acceptance  d drift  b batch  t tokens/s",
    ]


def clock(at: float) -> str:
    return time_of_day(at, NOW)


@pytest.mark.parametrize("view", [View(), View(chosen="gpu-3", is_open=True, scrolled=99)])
def test_it_fits_whatever_the_terminal_is(view):
    for width in (1, 2, 19, 40, 80, 81, 132, 200, 400):
        for height in (1, 2, 3, 5, 8, 12, 19, 20, 24, 60):
            assert screen(heard(), view, width, height)
            assert screen(heard(failure="connection refused", age=40.0), view, width, height)


def test_the_chosen_line_stays_in_sight_among_many():
    look = Look(NOW, tuple(shown(f"gpu-{n}") for n in range(1000)), ())
    for chosen in ("gpu-0", "gpu-7", "gpu-500", "gpu-999"):
        lines = screen(heard(look), View(chosen=chosen))
        assert len([line for line in lines if line.startswith("▸")]) == 1
        assert any(line.startswith(f"▸ {chosen} ") for line in lines)
    assert "  991–1000 of 1000 servers, worst first" in lines


def test_how_it_is_sorted_is_said():
    assert "  3 servers, highest speedup first" in screen(heard(), View(order="s", is_backwards=True))


def test_gone_and_stale_are_told_apart_with_the_age_of_the_figures():
    gone = screen(heard(failure="no sidecar answers there (connection refused)", age=42.0))
    assert gone[0].endswith("✗ disconnected, 42 s old")
    assert " ".join(gone[1:3]) == (
        "Disconnected: no sidecar answers there (connection refused). The figures are from " + f"{heard().time}."
    )
    stale = screen(heard(age=600.0))
    assert stale[0].endswith("◆ stale, 10 min old")
    assert stale[1].startswith("Stale: there is nothing new. The figures are from ")
    assert screen(heard(age=5.0))[0].endswith(f"● live {heard().time}")
    lines = Screen(heard(age=600.0), "x", View(), 80, 24).lines()
    assert all(any(str(span.style) == "dim" for span in line.spans) for line in lines if "gpu-1" in line.plain)


def test_alerts_that_are_not_known_are_not_called_none():
    unknown = screen(heard(Look(NOW, LOOK.targets, None)))
    assert "alerts are not known: the sidecar did not answer what is firing" in unknown
    assert "no alert fires" in screen(heard(Look(NOW, LOOK.targets, ())))


def test_without_servers_or_findings_it_says_so():
    assert "No server is watched" in screen(heard(Look(NOW, (), ())))
    assert "gpu-1: nothing to say" in screen(heard(Look(NOW, (shown(findings=()),), ())))


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("is_open", [False, True])
def test_nothing_that_comes_from_outside_reaches_the_terminal_as_a_command(hostile, is_open):
    finding = Finding("x", Level.PROBLEM, f"Finding {hostile}", (Figure(hostile, 1.0),), hostile)
    view = replace(
        shown(hostile, finding=finding, model_name=hostile, release=hostile, method=hostile, error=hostile),
        target=replace(shown().target, name=hostile, url=hostile),
    )
    look = Look(NOW, (view,), (alert(hostile),))
    for width in (40, 80, 200):
        for line in screen(heard(look, failure=hostile), View(chosen=hostile, is_open=is_open), width, 60):
            assert line == "" or line.isprintable()
            assert cell_len(line) <= width


def test_an_open_server_says_everything_with_window_and_kind():
    worth = Speedup(1.42, 1.3, 1.5, SpeedupKind.MEASURED, "a plain twin", None, 8290.0, None, 3, 1.5)
    finding = Finding("x", Level.PROBLEM, "Traffic changed.", (Figure("acceptance_rate", 0.3, "ratio"),), "Retrain it.")
    view = shown("gpu-1", finding=finding, drifted_since=NOW - 600, speedups=(worth,), restarts=1)
    text = opened(view)
    for said in (
        "gpu-1  ◆ pays, drifted",
        "vLLM 0.32.0 · dialect v1 · meta-llama/Llama-3.1-70B-Instruct · K = 5",
        "last good scrape 2 s ago · 1 restart seen",
        "✗ Traffic changed.\n  Retrain it.\n  acceptance rate 30.0%",
        f"firing since {clock(NOW - 60)} (ticket): Draft acceptance left its normal on gpu-1, 1.5,",
        "Speedup 1.42× measured, over 5m; 95% interval 1.30–1.50×\n  known from: a plain twin",
        "best K on this traffic: 3 (1.50× measured); saves 8,290 tokens an hour",
        "Drift 1.50, alarm at 1; normal acceptance 86.0%",
        f"fell since {clock(NOW - 600)}: -20.0 points (95% interval -25.0 to -15.0)",
        "over                              1m       5m       5m       5m",
        "Acceptance rate                81.2%    81.2%    81.2%    81.2%",
        "Speedup, estimated           ≤ 2.00×  ≤ 2.00×  ≤ 2.00×  ≤ 2.00×",
    ):
        assert said in text, said


def test_an_estimate_says_how_far_measurements_stray():
    assert "Speedup ≤ 2.00× estimated, over 5m; published measurements stray to 1.36–2.58×" in opened(shown())


def test_an_interval_stands_below_its_figure():
    signals = {"acceptance_rate_low": 0.784, "acceptance_rate_high": 0.841}
    lines = opened(shown(signals=signals)).splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("Acceptance rate "))
    assert lines[at + 1].split() == ["95%", "interval", *["78.4–84.1%"] * 4]


def test_positions_are_told_over_their_window():
    signals = {"position_acceptance": (0.9, 0.8, None)}
    assert "Acceptance by position, over 5m: 90% 80% –" in opened(shown(signals=signals))


def test_a_server_without_figures_says_why():
    text = opened(away("gpu-2"))
    assert "✗ The last scrape failed: no connection: connection refused." in text
    assert "Speedup" not in text


def test_a_long_server_scrolls_to_its_end_and_says_how_much_is_below():
    top = screen(heard(), View(chosen="gpu-3", is_open=True), 80, 12)
    assert top[-1].startswith("↑↓ scroll  esc back  q quit    ")
    assert top[-1].endswith("below")
    end = screen(heard(), View(chosen="gpu-3", is_open=True, scrolled=99), 80, 12)
    assert end[-1] == "↑↓ scroll  esc back  q quit"
    assert top[1] == end[1] == "gpu-3  ▼ costs"


def test_a_silenced_alert_is_not_counted_and_is_told_of_on_its_server():
    look = Look(NOW, (shown("gpu-1"),), (alert("gpu-1", severity="page", silenced_by="7"),))
    assert "no alert fires" in screen(heard(look))
    opened_lines = screen(heard(look), View(chosen="gpu-1", is_open=True), 200, 60)
    assert any(line.startswith("firing since") and line.endswith("alarm at or above 1, muted") for line in opened_lines)


def test_a_filter_says_what_it_leaves_and_the_sentence_still_speaks_of_all():
    lines = screen(heard(), View(wanted="gpu-1", is_typing=True))
    assert "  1 server with “gpu-1”, worst first" in lines
    assert "filter: gpu-1▏ enter keep  esc drop" in lines
    assert lines[1].startswith("3 servers: 1 pays, 1 costs: gpu-3")
    assert "  0 servers with “x”, worst first" in screen(heard(), View(wanted="x"))
