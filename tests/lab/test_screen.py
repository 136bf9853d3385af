from __future__ import annotations

import io
import os
import pty
import re
import termios
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from specwatch.alerting import pagerduty, slack
from specwatch.lab.picture import MESSAGES_SHOWN, Moment, picture, sparkline
from specwatch.lab.screen import LOCAL_MODES, LiveScreen, PlainScreen, screen
from specwatch.lab.show import SCENES, Look
from specwatch.lab.sink import Received, Service
from tests.support.notifications import notification

ADDRESSES = (
    "page http://127.0.0.1:9108/ · metrics http://127.0.0.1:9108/metrics",
    "servers http://127.0.0.1:33501 http://127.0.0.1:39787 http://127.0.0.1:42905",
)
HOME, FOREIGN, _ = SCENES

NAMES = ("replica-0", "replica-1", "replica-2")


def server(name: str, rate: float | None = 0.852, score: float | None = 0.1) -> dict[str, Any]:
    """A target as /api/v1/signals tells it."""
    return {
        "target": {"name": name},
        "headline_window": "15s",
        "windows": {"15s": {"values": {"acceptance_rate": rate, "estimated_speedup": rate and 1 + 3 * rate}}},
        "drift": {"score": score, "reference": score if score is None else 0.86, "learned": 0.42},
    }


def message(number: int, service: Service = Service.SLACK) -> Received:
    about = notification(target=f"server-{number}", summary=f"Draft acceptance left its normal on server-{number}")
    payload = slack.payload(about) if service is Service.SLACK else pagerduty.payload(about, "0" * 32)
    return Received(1_764_433_300.0 + number, service, payload)


def alert(name: str, target: str, state: str = "firing") -> dict[str, Any]:
    return {"name": name, "target": target, "state": state}


def look(*messages: Received, alerts: tuple[dict[str, Any], ...] = (), names: tuple[str, ...] = NAMES) -> Look:
    return Look([server(name) for name in names], list(alerts), messages)


ALERTS = (
    *(alert("SpeculationDrifted", name) for name in NAMES),
    *(alert("SpeculativeAcceptanceRateLow", name, "pending") for name in NAMES),
    alert("SpeculationDrifted", NAMES[0], "resolved"),
)
BUSY = look(message(1), message(2, Service.PAGERDUTY), message(3), alerts=ALERTS)


def drawn(seen: Look, *, width: int = 80, pinned: tuple[str, ...] = ADDRESSES) -> list[str]:
    """The lines of the picture."""
    rates = {target["target"]["name"]: [0.85] * 40 for target in seen.signals}
    moment = Moment(FOREIGN, 12.4, seen, rates, seen.messages, pinned)
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(picture(moment, width))
    return console.export_text().splitlines()


def plain(draw) -> str:
    """What the screen for pipes printed."""
    output = io.StringIO()
    with screen(Console(file=output, width=80)) as shown:
        assert isinstance(shown, PlainScreen)
        draw(shown)
    return output.getvalue()


def live(draw, *, width: int = 80, height: int = 24) -> str:
    """What the screen for terminals wrote, control sequences included."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=width, height=height, color_system=None)
    with screen(console) as shown:
        assert isinstance(shown, LiveScreen)
        draw(shown)
    return output.getvalue()


def last_frame(written: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", written.rpartition(FOREIGN.title)[2])


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_of_the_picture_is_wider_than_the_terminal(width):
    for line in drawn(BUSY, width=width):
        assert cell_len(line) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_addresses_figures_alerts_and_messages_all_fit_a_window_of_24_lines(width):
    top = "\n".join(drawn(BUSY, width=width)[:24])
    for line in ADDRESSES:
        assert line in top
    for name in NAMES:
        assert re.search(rf"^{name} +85\.2% .*≤ 3\.56 × +0\.10  normal 86\.0%$", top, flags=re.MULTILINE)
    assert "● firing    SpeculationDrifted            replica-0 replica-1 replica-2" in top
    assert "○ pending   SpeculativeAcceptanceRateLow  replica-0 replica-1 replica-2" in top
    assert "✓ resolved  SpeculationDrifted            replica-0" in top
    assert "Firing: Draft acceptance left its normal on server-3" in top
    assert "PagerDuty" in top


def test_headings_of_the_table_stand_above_their_columns():
    lines = drawn(BUSY)
    at = next(index for index, line in enumerate(lines) if "est. speedup" in line)
    heading, first = lines[at : at + 2]
    assert heading.index("acceptance") + len("acceptance") == first.index("85.2%") + len("85.2%")
    assert heading.index("over 15s") == first.index("▇")
    assert heading.index("drift") == first.index("0.10")


def test_what_is_not_known_yet_is_said_so():
    seen = Look([server("a", rate=None, score=None)], [], ())
    text = "\n".join(drawn(seen))
    assert text.count("no value") == 2
    assert "learning 42%" in text
    assert "no alerts" in text
    assert "nothing yet" in text


def test_before_the_first_target_is_known_there_is_a_picture_too():
    assert any("acceptance" in line for line in drawn(Look([], [], ())))


def test_a_long_name_is_cut_and_the_figures_stay():
    lines = drawn(look(names=("x" * 200, "short")))
    assert any("x…" in line and "85.2%" in line and "86.0%" in line for line in lines)


def test_the_newest_message_comes_first_and_goes_on_below():
    lines = drawn(BUSY)
    titles = [line for line in lines if "left its normal on" in line or "server-2" in line]
    assert "server-3" in titles[0]
    assert lines.index("the newest goes on") > lines.index(titles[0])


def test_a_curve_shows_the_last_points_from_empty_to_full_and_leaves_gaps():
    assert sparkline([0.9, 0.0, 0.5, 1.0, None, 2.0, -1.0], 6) == "▁▅█ █▁"


def test_the_live_screen_shows_every_message_once_however_often_it_looks():
    messages = [message(number) for number in range(MESSAGES_SHOWN + 4)]

    def draw(shown):
        for count in (2, MESSAGES_SHOWN + 4, MESSAGES_SHOWN + 4, MESSAGES_SHOWN + 4):
            shown.watch(FOREIGN, 1.0, look(*messages[:count]))

    frame = last_frame(live(draw, height=60))
    assert re.findall(r"normal on server-(\d+)$", frame, flags=re.MULTILINE) == ["9", "8", "7", "6", "5", "4"]


def test_messages_of_an_earlier_scene_stay_in_the_live_screen():
    def draw(shown):
        shown.watch(HOME, 1.0, look(message(1)))
        shown.watch(FOREIGN, 1.0, look(message(2)))

    frame = last_frame(live(draw, height=60))
    assert re.findall(r"normal on server-(\d+)$", frame, flags=re.MULTILINE) == ["2", "1"]


@pytest.mark.parametrize("height", [10, 24, 60])
def test_the_live_screen_keeps_within_its_window_until_it_ends(height):
    def draw(shown):
        shown.pin(ADDRESSES)
        for second in range(3):
            shown.watch(FOREIGN, float(second), BUSY)
        written.append(shown._live.console.file.getvalue())

    written: list[str] = []
    live(draw, height=height)
    assert last_frame(written[0]).count("\n") < height


def test_keys_pressed_while_the_picture_is_drawn_do_not_show_in_it(monkeypatch):
    def echoes() -> bool:
        return bool(termios.tcgetattr(terminal)[LOCAL_MODES] & termios.ECHO)

    seen: list[bool] = []
    keyboard, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert echoes()
        live(lambda shown: seen.append(echoes()))
        assert seen == [False]
        assert echoes()
    os.close(keyboard)


def test_the_live_screen_says_and_waits_above_and_in_the_picture():
    def draw(shown):
        shown.say("three [servers]")
        shown.waiting("starting the sidecar", 3.4)
        shown.progress("training", 0.5)
        shown.pin(["the address"])
        shown.watch(FOREIGN, 1.0, look())

    written = live(draw)
    assert "three [servers]" in written
    assert "… starting the sidecar (3 s)" in written
    assert "… training ━━━━━━━━━━━━━━━┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ 50%" in written
    assert "the address" in last_frame(written)


def test_the_plain_screen_prints_no_control_characters():
    def draw(shown):
        shown.say("begin")
        shown.pin(ADDRESSES)
        shown.waiting("starting", 0.0)
        shown.watch(HOME, 0.0, BUSY)

    printed = plain(draw)
    assert "\x1b" not in printed
    assert all(character == "\n" or character.isprintable() for character in printed)
    for line in ADDRESSES:
        assert f"{line}\n" in printed


def test_the_plain_screen_prints_every_message_once_with_its_text():
    messages = [message(number) for number in range(20)]

    def draw(shown):
        for count in (0, 5, 5, 20, 20):
            shown.watch(HOME, 0.0, look(*messages[:count]))
        shown.watch(FOREIGN, 0.0, look())
        shown.watch(FOREIGN, 0.0, look(message(20, Service.PAGERDUTY)))

    printed = plain(draw)
    told = re.findall(r"^  -> (\w+) received: .* on server-(\d+)$", printed, flags=re.MULTILINE)
    assert told == [("Slack", str(number)) for number in range(20)] + [("PagerDuty", "20")]
    assert "what to do: server-20 (llama) accepts 50% of its draft tokens" in printed


def test_the_plain_screen_prints_a_scene_once_and_figures_every_five_seconds():
    def draw(shown):
        for seconds in (0.0, 0.5, 4.9, 5.2, 9.0, 10.1):
            shown.watch(HOME, seconds, look(names=("a",)))
        shown.watch(FOREIGN, 0.0, look(names=("a",)))

    printed = plain(draw)
    assert printed.count(f"== {HOME.title}\n   {HOME.explanation}\n") == 1
    assert re.findall(r"^ +(\d+) s  a: acceptance 85\.2% over 15s, speedup ≤ 3\.56 ×", printed, flags=re.MULTILINE) == [
        *("0", "5", "10"),
        "0",
    ]


def test_the_plain_screen_tells_of_a_wait_every_ten_seconds_and_of_progress_every_tenth():
    def draw(shown):
        for seconds in (0.0, 0.3, 5.0, 10.2, 15.0, 20.0):
            shown.waiting("starting", seconds)
        for fraction in (0.0, 0.05, 0.1, 0.15, 1.0):
            shown.progress("training", fraction)

    assert plain(draw).splitlines() == [
        *("… starting", "… starting (10 s)", "… starting (20 s)"),
        *("… training: 0%", "… training: 10%", "… training: 100%"),
    ]


def test_lines_in_a_pipe_are_not_broken():
    assert plain(lambda shown: shown.say("word " * 60)).count("\n") == 1
