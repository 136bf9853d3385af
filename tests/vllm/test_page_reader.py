"""A reader that knows the last page's layout says of every page what reading it anew says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specwatch.lab.scenario import HOME
from specwatch.lab.simulator import SimulatedServer
from specwatch.vllm.metrics import PageError, PageReader, Snapshot, read_page
from specwatch.vllm.page_layout import LONGEST, Layout
from tests.support.pages import FIXTURES, page_text

PAGES = sorted(path.stem for path in FIXTURES.glob("vllm-*-*.txt"))
PAGE = page_text("vllm-0.32.0-v1-draft_model-es")
LINES = PAGE.split("\n")[:-1]
COUNTER = 'vllm:generation_tokens_total{engine="0",model_name="./lab_target"}'


def said(read: PageReader | None, text: str) -> Snapshot | str:
    try:
        return read.read(text) if read else read_page(text)
    except PageError as problem:
        return str(problem)


def knows(first: str) -> PageReader:
    """A reader that has read this page."""
    reader = PageReader()
    said(reader, first)
    return reader


@pytest.mark.parametrize("name", PAGES)
def test_a_captured_page_says_the_same_the_second_time(name: str):
    text = page_text(name)
    reader = knows(text)
    assert reader.read(text) == reader.read(text) == read_page(text)


def test_pages_of_a_server_that_goes_on_are_read_by_their_layout(monkeypatch):
    server = SimulatedServer("a", model_name="m", k=5, traffic=HOME, running=8, seed=1)
    pages = []
    for _ in range(20):
        server.advance(5.0)
        pages.append(server.page())
    told = [read_page(page) for page in pages]
    reader = knows(pages[0])
    monkeypatch.setattr("specwatch.vllm.metrics._understand", lambda text: pytest.fail("read anew"))
    assert [reader.read(page) for page in pages] == told
    assert len({str(snapshot) for snapshot in told}) == len(told)


def test_replicas_share_what_is_remembered():
    assert knows(PAGE)._known is knows(PAGE)._known is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("./lab_target", "another"),
        lambda text: text.replace('engine="0"', 'engine="1"'),
        lambda text: text.replace(COUNTER, COUNTER + " 7\n" + COUNTER.replace('"0"', '"1"')),
        lambda text: text.replace(f"{COUNTER} 2906.0", f"{COUNTER} NaN"),
        lambda text: text.replace(f"{COUNTER} 2906.0", f"{COUNTER} 2_906.0"),
        lambda text: text.replace(f"{COUNTER} 2906.0", f"{COUNTER} 2906.0 1700000000000"),
        lambda text: text.replace(f"{COUNTER} 2906.0", f"{COUNTER} 1e400"),
        lambda text: text.replace(f"{COUNTER} 2906.0", f"{COUNTER} -5"),
        lambda text: text.replace(f"{COUNTER} 2906.0", f"{COUNTER}}} 5"),
        lambda text: text.replace('success_total{engine="0",finished_reason="stop"', 'success_total{engine="0"'),
        lambda text: text.replace("vllm:", "vllm_"),
        lambda text: text[:-1],
        lambda text: text + "\n",
        lambda text: text + f"{COUNTER} 5\n",
        lambda text: "\n".join(reversed(text.split("\n"))),
        lambda text: "",
    ],
)
def test_a_page_laid_out_otherwise_is_read_anew(change):
    changed = change(PAGE)
    assert changed != PAGE
    assert said(knows(PAGE), changed) == said(None, changed)
    assert said(knows(changed), PAGE) == read_page(PAGE)


def test_a_type_of_which_the_last_page_had_only_the_beginning_is_seen():
    cut, whole = "# TYPE vllm:x\nup 1\n", "# TYPE vllm:x gauge\nup 1\n"
    assert said(knows(cut), whole) == said(None, whole) != said(None, cut)


def test_a_huge_page_is_read_and_not_remembered():
    text = PAGE + "# HELP x y\n" * (LONGEST // 10)
    assert Layout.of(text, [], 0) is None
    assert knows(text).read(text) == read_page(PAGE)


LINE = st.one_of(
    st.sampled_from(LINES),
    st.tuples(st.sampled_from(LINES), st.text(max_size=6)).map("".join),
    st.tuples(st.sampled_from(LINES), st.integers(0, 200)).map(lambda cut: cut[0][: cut[1]]),
    st.tuples(st.sampled_from(LINES), st.floats().map(str)).map(lambda new: f"{new[0].rpartition(' ')[0]} {new[1]}"),
    st.text(max_size=30),
)
CHANGE = st.tuples(st.integers(0, len(LINES) - 1), st.lists(LINE, max_size=2))


def changed(changes: list[tuple[int, list[str]]]) -> str:
    """The page with some of its lines replaced by none, one or two others."""
    lines = [[line] for line in LINES]
    for number, instead in changes:
        lines[number] = instead
    return "".join(line + "\n" for part in lines for line in part)


@settings(max_examples=300, deadline=None)
@given(st.lists(CHANGE, max_size=3), st.lists(CHANGE, max_size=3))
def test_of_any_two_pages_the_second_says_what_it_says_alone(first: list, second: list):
    before, after = changed(first), changed(second)
    assert repr(said(knows(before), after)) == repr(said(None, after))
