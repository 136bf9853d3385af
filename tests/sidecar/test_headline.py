"""The sentence about all servers; and that the page says the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pytest
from pydantic import TypeAdapter

from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.headline import headline, time_of_day
from specwatch.sidecar.verdict import ranked
from specwatch.sidecar.views import TargetView
from specwatch.signals.findings import Finding, Level
from tests.support.services import chromium
from tests.support.views import CHANGED, NOW, away, shown, silent
from tools.browser import browsing
from tools.rehearsal import rehearsing

IDLE = Finding("no-traffic", Level.NOTICE, "No tokens were generated in this window: nothing to judge.")
UNKNOWN = Finding("v0-engine", Level.NOTICE, "The V0 engine.")
TWIN = Finding("plain-twin", Level.NOTICE, "It serves without speculation.")
SINCE = NOW - 600
CLOCK = time_of_day(SINCE, NOW)

FLEETS = [
    pytest.param([], "No server is watched", id="none"),
    pytest.param([shown()], "gpu-1 pays.", id="one"),
    pytest.param([away()], "gpu-1: unreachable.", id="one is away"),
    pytest.param([shown(speedup=0.9, drifted_since=SINCE)], f"gpu-1 costs (drifted since {CLOCK}).", id="one costs"),
    pytest.param([shown(speedup=None, finding=TWIN)], "gpu-1: plain twin.", id="one is a twin"),
    pytest.param([shown(drifted_since=SINCE)], f"gpu-1 pays but drifted (since {CLOCK}).", id="one drifted"),
    pytest.param([shown("a"), shown("b")], "All 2 servers pay.", id="all pay"),
    pytest.param(
        [shown("a", speedup=None, finding=TWIN), shown("b", speedup=None, finding=TWIN)],
        "All 2 servers: plain twins.",
        id="all twins",
    ),
    pytest.param(
        [shown("a", speedup=None, finding=IDLE), shown("b", speedup=None, finding=IDLE)],
        "All 2 servers: without traffic.",
        id="all idle",
    ),
    pytest.param(
        [*(shown(f"gpu-{n}") for n in (1, 2, 4, 5, 6, 7)), shown("gpu-3", speedup=0.8, drifted_since=SINCE)],
        f"7 servers: 6 pay, 1 costs: gpu-3 (drifted since {CLOCK}).",
        id="one of seven",
    ),
    pytest.param(
        [shown("a"), shown("gpu-3", speedup=0.8, drifted_since=SINCE, finding=replace(CHANGED, cause="new domain"))],
        f"2 servers: 1 pays, 1 costs: gpu-3 (new domain, drifted since {CLOCK}).",
        id="one costs, and why",
    ),
    pytest.param(
        [shown("a", drifted_since=SINCE, finding=replace(CHANGED, cause="new domain")), shown("b")],
        f"2 servers: 1 pays, 1 pays but drifted: a (new domain, since {CLOCK}).",
        id="one drifted, and why",
    ),
    pytest.param(
        [shown("a"), away("b"), shown("c", drifted_since=SINCE), shown("d", speedup=0.5)],
        f"4 servers: 1 pays, 1 costs: d; 1 unreachable: b; 1 pays but drifted: c (since {CLOCK}).",
        id="several groups",
    ),
    pytest.param([away(f"n{n}") for n in range(5)], "5 servers: 5 unreachable: n0, n1, n2 and 2 more.", id="many"),
    pytest.param(
        [shown("a"), shown("b", speedup=None, finding=IDLE), shown("c", speedup=None, finding=UNKNOWN)],
        "3 servers: 1 pays, 2 without figures.",
        id="silent ones",
    ),
    pytest.param([silent()], "gpu-1: no news.", id="nobody knows of one"),
    pytest.param(
        [shown("a"), silent("b"), silent("c"), away("d")],
        "4 servers: 1 pays, 1 unreachable: d; 2 without news: b, c.",
        id="nobody knows of two",
    ),
    pytest.param([away("x" * 300)], f"{'x' * 11}…{'x' * 11}: unreachable.", id="a long name"),
]


@pytest.mark.parametrize(("views", "sentence"), FLEETS)
def test_the_sentence_says_how_things_are(views: Sequence[TargetView], sentence: str):
    assert headline(ranked(views), NOW) == sentence


def test_a_name_cannot_forge_a_line():
    assert headline(ranked([away("a\n\x1b[2Jb\u202ec")]), NOW) == "a  [2Jb c: unreachable."


def test_a_moment_of_another_day_says_which():
    noon = datetime(2027, 1, 15, 12, 0).timestamp()
    assert time_of_day(noon, noon + 60) == "12:00"
    assert time_of_day(noon, noon + 86_400) == "15 Jan, 12:00"


SAY = r"""async ([targets, now]) => {
    const { headline } = await import("/page/headline.js");
    const { ranked } = await import("/page/verdict.js");
    const { h } = await import("/page/dom.js");
    return h("p", {}, headline(ranked(targets), now)).textContent.replaceAll("\u00a0", " ");
}"""


@pytest.mark.browser
async def test_the_page_says_the_same():
    told = TypeAdapter(list[TargetView])
    async with rehearsing([SimulatedServer("gpu-0")]) as rehearsal, browsing(chromium()) as browser:
        page = await browser.new_page()
        await page.goto(rehearsal.url)
        for fleet in FLEETS[1:]:  # that no server is watched, the page says with what to do
            views, sentence = fleet.values
            assert await page.evaluate(SAY, [told.dump_python(views, mode="json"), NOW]) == sentence, fleet.id
