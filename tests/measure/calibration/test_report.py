"""The report's charts and sentences."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest

from specwatch.measure.calibration.blocks import Block, Design
from specwatch.measure.calibration.chart import HEIGHT, NAME_GAP, WIDTH, Line, chart, scale
from specwatch.measure.calibration.html import report
from specwatch.measure.calibration.result import Result, Subject, concluded
from specwatch.measure.calibration.stats import Estimate
from specwatch.measure.calibration.words import costs, crossings, recommendation
from specwatch.measure.prompt_sets import PromptSet
from tests.support.runs import PLAIN_STEP, runs_of

LENGTHS = {"home": 3.0, "away": 1.3}


def law(block: Block) -> tuple[float, float]:
    """A step costs a tenth more for every draft token, and twice as much at 16 requests as at one."""
    if block.k == 0:
        return PLAIN_STEP, 1.0
    return PLAIN_STEP * (1 + math.log2(block.cell.concurrency) / 4 + 0.1 * block.k), LENGTHS[block.cell.domain]


def result(ks: tuple[int, ...] = (1, 2), shares: tuple[float, float] = (0.9, 0.1), **design) -> Result:
    domains = (PromptSet("home", ("a",)), PromptSet("away", ("b",)))
    plan = Design(domains=domains, ks=ks, max_concurrency=16, **design)
    subject = Subject("T", "draft_model", "D", "0.32.0", "H100")
    return concluded(subject, plan, dict(zip(LENGTHS, shares, strict=True)), runs_of(plan, law), 0.0)


def test_domains_are_told_where_they_cross():
    assert crossings(result()) == [
        "home: faster up to 16 requests at a time, the most that was measured.",
        "away: slower than no speculation from 2 requests at a time on.",
    ]
    assert crossings(result(ks=(1, 5)))[1] == (
        "away: with K 1 slower than no speculation from 2 requests at a time on; "
        "with K 5 slower than no speculation at every load."
    )


def test_costs_are_told_and_what_is_assumed_with_one_k():
    assert costs(result()) == [
        "At one request at a time a draft token costs 10.0% of a plain step and verifying 1.00 plain steps; "
        "at 16 requests at a time 10.0% and 2.00."
    ]
    assert costs(result(ks=(2,)))[0].endswith("since only one K was measured.")


def test_the_recommendation_is_a_sentence():
    assert recommendation(result()) == "Recommended for this traffic: K 1 at all batch sizes."
    assert recommendation(result(shares=(0.0, 1.0))).endswith(
        "K 1 at batch size 1, no drafting at batch sizes from 2 on."
    )
    assert recommendation(result(ks=(5,), shares=(0.0, 1.0))) == "Recommended for this traffic: no speculation."


def test_the_report_has_a_chart_a_domain_and_one_for_all_with_every_measured_speedup():
    page = report(result())
    assert page.count("<svg") == 3
    assert page.count("<title>K 2 at ") == 3 * 5
    assert "All together: home 90%, away 10%" in page
    assert page.count('<div class="scroll"><table>') == 2


def test_temperatures_share_a_line_and_have_a_table_each():
    page = report(result(temperatures=(0.0, 0.7)))
    assert page.count("<svg") == 3
    assert "home, temperature 0<" in page
    assert "home, temperature 0.7<" in page


def lines(*speedups: float) -> list[Line]:
    return [Line(f"K {k}", ((1, Estimate(1.0)), (8, Estimate(value)))) for k, value in enumerate(speedups)]


def numbers(attribute: str, drawn: str) -> list[float]:
    return [float(value) for value in re.findall(rf' {attribute}="([-\d.]+)"', drawn)]


@pytest.mark.parametrize("speedups", [(1.0,), (0.01, 30.0), (1.2, 1.21, 1.19)])
def test_everything_is_drawn_inside_the_picture_and_names_never_on_each_other(speedups):
    drawn = chart("x", lines(*speedups), scale(lines(*speedups)))
    for attribute, most in (("x", WIDTH), ("x1", WIDTH), ("x2", WIDTH), ("y", HEIGHT), ("y1", HEIGHT), ("y2", HEIGHT)):
        assert all(0 <= value <= most for value in numbers(attribute, drawn))
    names = sorted(float(y) for y in re.findall(r'class="name" x="[\d.]+" y="([\d.]+)"', drawn))
    assert all(after - before >= NAME_GAP - 0.1 for before, after in pairwise(names))


def test_one_concurrency_is_drawn_too():
    single = [Line("K 3", ((1, Estimate(1.5, 1.4, 1.6)),))]
    assert "K 3 at 1: 1.50 ×, 95 % interval 1.40 to 1.60" in chart("x", single, scale(single))
