"""Keys of ``specwatch top``: what they are, and what they change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specwatch.cli.status_source import Look
from specwatch.cli.status_table import Server, servers
from specwatch.cli.top_keys import Keys
from specwatch.cli.top_view import ORDERS, View, arranged, place, pressed
from tests.support.views import CHANGED, NOW, away, shown

ROWS = servers(
    Look(
        NOW,
        (
            shown("gpu-10", speedup=1.2, signals={"running_requests": 1.0}),
            shown("gpu-2", speedup=3.0, signals={"running_requests": 9.0}),
            shown("gpu-1", speedup=0.5, finding=CHANGED, drifted_since=NOW),
            away("gpu-3"),
        ),
        (),
    )
)


def names(rows: list[Server]) -> list[str]:
    return [row.view.target.name for row in rows]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b"s", ["s"]),
        (b"jk G", ["j", "k", " ", "G"]),
        (b"\x1b[A\x1bOB", ["up", "down"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[4~", ["pageup", "pagedown", "home", "end"]),
        (b"\r\n\x7f\x08", ["enter", "enter", "backspace", "backspace"]),
        (b"\x1bq", ["escape", "q"]),
        (b"\x1b[1;5A\x1b[<0;3;4Mx", ["x"]),
        ("é日\x00\x01".encode(), []),
    ],
)
def test_what_the_terminal_sends_is_a_key_or_nothing(sent, keys):
    assert Keys().feed(sent) == keys


@pytest.mark.parametrize("sent", [b"\x1b[A", b"\x1bOA", b"\x1b[5~"])
def test_a_sequence_may_come_in_pieces(sent):
    for split in range(1, len(sent)):
        keys = Keys()
        assert keys.feed(sent[:split]) == []
        assert keys.is_waiting
        assert keys.feed(sent[split:]) == Keys().feed(sent)


def test_an_escape_alone_is_a_key_once_nothing_follows_and_half_a_sequence_is_none():
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.end() == ["escape"]
    assert keys.feed(b"\x1b[") == []
    assert keys.end() == []
    assert not keys.is_waiting


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("w", ["gpu-1", "gpu-3", "gpu-2", "gpu-10"]),
        ("n", ["gpu-1", "gpu-2", "gpu-3", "gpu-10"]),
        ("s", ["gpu-1", "gpu-10", "gpu-2", "gpu-3"]),
        ("d", ["gpu-1", "gpu-3", "gpu-2", "gpu-10"]),
        ("b", ["gpu-2", "gpu-1", "gpu-3", "gpu-10"]),
    ],
)
def test_a_key_sorts(order, expected):
    assert names(arranged(ROWS, View(order=order))) == expected


@pytest.mark.parametrize("order", ORDERS)
def test_no_order_loses_a_server_and_those_without_the_figure_stay_last_backwards(order):
    forwards, backwards = (arranged(ROWS, View(order=order, is_backwards=turned)) for turned in (False, True))
    assert sorted(names(forwards)) == sorted(names(backwards)) == ["gpu-1", "gpu-10", "gpu-2", "gpu-3"]
    if order in "sa":
        assert names(backwards)[-1] == "gpu-3"


def test_r_turns_the_order_round_and_another_order_starts_forwards():
    view = pressed(View(), "r", ROWS, page=5, last=0)
    assert (view.is_backwards, view.order_words) == (True, "best first")
    assert pressed(view, "s", ROWS, page=5, last=0) == View(order="s")


def test_the_mark_moves_and_stays_on_the_table():
    view = View()
    for key, chosen in (("down", 1), ("j", 2), ("end", 3), ("down", 3), ("up", 2), ("pageup", 0), ("k", 0), ("G", 3)):
        view = pressed(view, key, ROWS, page=5, last=0)
        assert place(ROWS, view) == chosen, key


def test_the_mark_stays_on_its_server_when_the_order_changes_and_goes_to_the_first_when_it_is_gone():
    view = pressed(View(), "down", ROWS, page=5, last=0)
    assert view.chosen == ROWS[1].view.target.name
    assert place(arranged(ROWS, replace(view, order="n")), view) == 2
    assert place(ROWS[2:], view) == 0


def test_a_server_opens_scrolls_and_closes_to_where_one_was():
    view = pressed(View(), "down", ROWS, page=5, last=0)
    opened = pressed(view, "enter", ROWS, page=5, last=7)
    assert opened == replace(view, is_open=True)
    scrolled = pressed(pressed(opened, "pagedown", ROWS, page=5, last=7), "pagedown", ROWS, page=5, last=7)
    assert scrolled.scrolled == 7
    assert pressed(scrolled, "s", ROWS, page=5, last=7) == scrolled
    assert pressed(scrolled, "escape", ROWS, page=5, last=7) == view


def test_keys_do_nothing_where_there_is_no_server():
    assert pressed(View(), "down", [], page=5, last=0) == View()
    assert pressed(View(), "enter", [], page=5, last=0) == View()


def test_the_table_takes_keys_again_once_the_open_server_is_gone():
    view = View(chosen="gone", is_open=True)
    assert pressed(view, "n", ROWS, page=5, last=0).order == "n"


def typed(text: str, view: View | None = None) -> View:
    view = view or View()
    for key in text:
        view = pressed(view, key, ROWS, page=5, last=0)
    return view


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("gpu-1", ["gpu-1", "gpu-10"]),
        ("UNREACH", ["gpu-3"]),
        ("llama", ["gpu-1", "gpu-3", "gpu-2", "gpu-10"]),
        ("?", []),
    ],
)
def test_a_filter_is_typed_letter_by_letter_and_holds_of_name_state_and_model(wanted, found):
    view = typed(f"/{wanted}")
    assert names(arranged(ROWS, view)) == found
    kept = pressed(view, "enter", ROWS, page=5, last=0)
    assert (kept.wanted, kept.is_typing) == (wanted, False)
    assert pressed(kept, "escape", ROWS, page=5, last=0) == View()
    assert pressed(view, "escape", ROWS, page=5, last=0) == View()


def test_letters_of_a_filter_neither_sort_nor_reverse_and_it_has_an_end():
    view = typed("/sr" + "x" * 300)
    assert (view.order, view.is_backwards, len(view.wanted)) == ("w", False, 60)
    assert pressed(typed("/ab"), "backspace", ROWS, page=5, last=0).wanted == "a"
    assert pressed(typed("/ab"), "down", ROWS, page=5, last=0).wanted == "ab"
