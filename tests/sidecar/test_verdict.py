from __future__ import annotations

import pytest

from specwatch.collect.targets import Target
from specwatch.sidecar.verdict import Verdict, by_name, ranked, speedup_of, verdict_of
from specwatch.sidecar.watch import TargetWatch
from specwatch.signals.findings import Finding, Level
from specwatch.signals.speedup import SpeedupKind
from tests.support.views import CHANGED, NOW, away, shown, silent


def finding(code: str, level: Level = Level.NOTICE) -> Finding:
    return Finding(code, level, "Something.")


NEW = TargetWatch(Target("gpu-1", "http://127.0.0.1:8000/metrics")).view(NOW)


@pytest.mark.parametrize(
    ("view", "verdict"),
    [
        pytest.param(shown(speedup=0.99), Verdict.COSTS, id="slower than none"),
        pytest.param(shown(speedup=0.9, known=SpeedupKind.MEASURED), Verdict.COSTS, id="measured slower"),
        pytest.param(shown(speedup=0.9, drifted_since=NOW), Verdict.COSTS, id="slower and drifted"),
        pytest.param(away(), Verdict.UNREACHABLE, id="away"),
        pytest.param(shown(speedup=None, finding=finding("x", Level.PROBLEM)), Verdict.UNREADABLE, id="no figures"),
        pytest.param(shown(finding=finding("not-drafting")), Verdict.NOT_DRAFTING, id="off"),
        pytest.param(shown(drifted_since=NOW - 60), Verdict.DRIFTED, id="drifted"),
        pytest.param(shown(speedup=None, finding=finding("no-speculation")), Verdict.NO_SPECULATION, id="plain"),
        pytest.param(shown(), Verdict.PAYS, id="well"),
        pytest.param(shown(speedup=None, finding=finding("plain-twin")), Verdict.PLAIN_TWIN, id="twin"),
        pytest.param(shown(speedup=None, finding=finding("v0-engine")), Verdict.NO_ESTIMATE, id="V0"),
        pytest.param(shown(finding=finding("off-by-schedule")), Verdict.NO_ESTIMATE, id="off, but for few steps"),
        pytest.param(shown(speedup=None, finding=finding("no-traffic")), Verdict.NO_TRAFFIC, id="idle"),
        pytest.param(NEW, Verdict.WAITING, id="new"),
        pytest.param(silent(), Verdict.NO_NEWS, id="nobody knows"),
    ],
)
def test_a_server_stands_in_one_word(view, verdict):
    assert verdict_of(view) is verdict


def test_what_was_measured_counts_before_an_estimate():
    view = shown(speedup=0.9, known=SpeedupKind.CALIBRATED, signals={"estimated_speedup": 2.0})
    assert speedup_of(view) == (0.9, SpeedupKind.CALIBRATED)
    assert verdict_of(view) is Verdict.COSTS


def names(*views) -> list[str]:
    return [judged.view.target.name for judged in ranked(views)]


def test_the_worst_comes_first():
    assert names(shown("a"), away("b"), shown("c", speedup=0.5), shown("d", drifted_since=NOW)) == ["c", "b", "d", "a"]


def test_one_with_a_problem_comes_before_its_like_and_the_least_speedup_before_more():
    servers = [shown("a"), shown("b", finding=CHANGED, speedup=2.0), shown("c", finding=CHANGED, speedup=1.2)]
    assert names(*servers) == ["c", "b", "a"]


def test_figures_that_differ_little_do_not_change_the_order():
    assert names(shown("b", speedup=1.51, finding=CHANGED), shown("a", speedup=1.52, finding=CHANGED)) == ["a", "b"]
    assert names(shown("b", speedup=1.1), shown("a", speedup=9.9)) == ["a", "b"]


def test_names_are_sorted_as_people_do():
    names = ["gpu-10", "gpu-2", "GPU-1", "", "9" * 400]
    assert sorted(names, key=by_name) == ["", "9" * 400, "GPU-1", "gpu-2", "gpu-10"]
