"""The pictures of the dashboards: what is asked, and what a story leaves in Prometheus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specwatch.lab.incidents import ILL
from tools.grafana.answers import ask, choices, expressions, substituted
from tools.grafana.history import STEP, History, evaluate_rules, instance, levels, play, prometheus, stretched
from tools.grafana.scenes import FEW, MANY, Scene, healthy, incident, scenes

DASHBOARDS = Path(__file__).parent.parent.parent / "dashboards"


def variable(name: str, **settings: object) -> dict[str, object]:
    return {"name": name, "type": "query", "query": "", **settings}


DASHBOARD = {
    "panels": [
        {"id": 1, "type": "row", "panels": [{"id": 2, "type": "stat", "targets": [{"expr": "a", "refId": "A"}]}]},
        {"id": 3, "type": "stat", "targets": [{"expr": "b", "refId": "A"}]},
    ],
    "annotations": {"list": [{"name": "c", "expr": "c"}, {"name": "built in"}]},
    "templating": {
        "list": [
            variable("job", includeAll=True, allValue=".*"),
            variable("window", query="1m,5m", current={"value": "5m"}),
            variable("gpus", type="textbox", query="2", current={}),
            variable("instance", includeAll=True),
        ]
    },
}


def test_queries_of_closed_rows_and_annotations_count():
    assert list(expressions(DASHBOARD)) == ["a", "b", "c"]


def test_variables_have_what_is_chosen_else_all_else_what_they_begin_with():
    values = choices(DASHBOARD, {"instance": "a.b:8000"}, 3600)
    assert (values["job"], values["window"], values["gpus"]) == (".*", "5m", "2")
    assert values["instance"] == "a\\\\.b:8000"


def test_variables_are_replaced_however_they_are_written_and_others_stay():
    written = 'x{a="$job", b="${job}", c="${job:regex}"}[$window] $1 $jobs'
    assert substituted(written, {"job": "j", "window": "5m"}) == 'x{a="j", b="j", c="j"}[5m] $1 $jobs'


def test_what_is_counted_is_counted_as_often_as_the_story_is_long():
    page = '# TYPE x_total counter\nx_total{a="1 2"} 3.0\ny_bucket{le="+Inf"} 2\ny_sum 0.5\ngauge 7\n'
    assert stretched(page).splitlines() == [
        "# TYPE x_total counter",
        'x_total{a="1 2"} 60',
        'y_bucket{le="+Inf"} 40',
        "y_sum 10",
        "gauge 7",
    ]


def test_rules_come_after_those_that_they_read():
    rules = [
        {"alert": "High", "expr": "b > 1"},
        {"record": "b", "expr": "sum(a:rate)"},
        {"record": "a:rate", "expr": "rate(x[5m])"},
    ]
    assert [[rule.get("record", "High") for rule in level] for level in levels(rules)] == [["a:rate"], ["b"], ["High"]]


def test_rules_that_read_each_other_are_refused():
    with pytest.raises(ValueError, match="circle"):
        list(levels([{"record": "a", "expr": "b"}, {"record": "b", "expr": "a"}]))


@pytest.mark.parametrize("story", [None, *ILL])
def test_every_kind_of_incident_has_a_scene_of_a_few_servers(story):
    scene = incident(story, FEW) if story else healthy(FEW)
    names = [server.name for server in scene.servers]
    assert scene.name in scenes()
    assert len(set(names)) == len(names) == FEW
    assert scene.subject in names


def test_a_scene_may_have_many_servers():
    assert len(incident(ILL[0], MANY).servers) == MANY


@pytest.mark.services
async def test_a_story_is_in_prometheus_with_what_the_rules_record_and_every_query_is_answered(tmp_path: Path):
    whole = healthy(FEW)
    scene = Scene("short", whole.servers[:2], 12 * 60, whole.subject)
    names = frozenset(
        ["up", "specwatch_acceptance_ratio", "vllm:num_requests_running"]
        + [f"vllm:spec_decode_num_{what}_total" for what in ("drafts", "draft_tokens", "accepted_tokens")]
    )
    history = await play(scene, names, tmp_path)
    await evaluate_rules(history, tmp_path)
    async with prometheus(tmp_path) as server:
        up = await server.over_time("up", history.start, history.end)
        assert {series["metric"]["job"] for series in up} == {"vllm", "specwatch"}
        recorded = await server.over_time("instance:specwatch_acceptance_rate:ratio_rate5m", history.end, history.end)
        shown = {series["metric"]["instance"]: float(series["values"][0][1]) for series in recorded}
        for played in scene.servers:
            assert shown[instance(played.name)] == pytest.approx(played.truth().acceptance_rate, abs=0.1)
        firing = await server.over_time('ALERTS{alertstate="firing"}', history.end, history.end)
        assert "SpecwatchWatchdog" in {series["metric"]["alertname"] for series in firing}
        for path in sorted(DASHBOARDS.glob("*.json")):
            dashboard = json.loads(path.read_text())
            view = await ask(server, dashboard, {}, History(history.end - STEP, history.end))
            assert len(view.answers) == len(list(expressions(dashboard))) - len(dashboard["annotations"]["list"])
