from __future__ import annotations

import json

import pytest
from grafanalib import core
from grafanalib._gen import DashboardEncoder

from specwatch.generate.grafana_schema import normalise

PROMETHEUS = {"type": "prometheus", "uid": "${datasource}"}
STEPS = [core.Threshold("blue", 0, 0.0), core.Threshold("red", 1, 0.6)]


def normalised(*panels, variables=()):
    """A dashboard of these panels, through grafanalib and then through normalise."""
    dated = core.Dashboard(title="t", panels=list(panels), templating=core.Templating(list=list(variables)))
    return normalise(json.loads(json.dumps(dated.auto_panel_ids(), cls=DashboardEncoder)))


def only_panel(panel):
    return normalised(panel)["panels"][0]


def nulls(value, path=""):
    """Paths of every null in a document."""
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in nulls(inner, f"{path}.{key}")]
    if isinstance(value, list):
        return [found for index, inner in enumerate(value) for found in nulls(inner, f"{path}[{index}]")]
    return [path] if value is None else []


def test_the_schema_version_is_current():
    assert normalised()["schemaVersion"] == 42


def test_keys_that_left_the_schema_are_gone_from_the_top():
    assert not {"__inputs", "gnetId", "hideControls", "rows", "sharedCrosshair", "style", "id"} & normalised().keys()


def test_the_first_threshold_is_minus_infinity_and_no_string():
    panel = only_panel(core.TimeSeries(thresholds=STEPS))
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert steps == [{"color": "blue", "value": None}, {"color": "red", "value": 0.6}]


def test_thresholds_of_an_override_are_mended_too():
    override = {"matcher": {}, "properties": [{"id": "thresholds", "value": {"mode": "absolute", "steps": STEPS}}]}
    panel = only_panel(core.Table(overrides=[override]))
    steps = panel["fieldConfig"]["overrides"][0]["properties"][0]["value"]["steps"]
    assert steps == [{"color": "blue", "value": None}, {"color": "red", "value": 0.6}]


def test_nothing_else_is_null():
    dashboard = normalised(core.RowPanel(title="r"), core.Stat(thresholds=STEPS), core.Table(thresholds=STEPS))
    assert [path for path in nulls(dashboard) if not path.endswith("steps[0].value")] == []


def test_a_line_has_as_many_points_as_the_panel_is_wide():
    assert "maxDataPoints" not in only_panel(core.TimeSeries())
    assert only_panel(core.TimeSeries(maxDataPoints=1))["maxDataPoints"] == 1


@pytest.mark.parametrize(("instant", "ranged"), [(False, True), (True, False)])
def test_a_query_says_whether_it_is_over_a_range(instant, ranged):
    target = core.Target(expr="up", refId="A", instant=instant, datasource=PROMETHEUS)
    assert only_panel(core.TimeSeries(targets=[target]))["targets"] == [
        {
            "datasource": PROMETHEUS,
            "editorMode": "code",
            "exemplar": False,
            "expr": "up",
            "format": "time_series",
            "hide": False,
            "instant": instant,
            "range": ranged,
            "refId": "A",
        }
    ]


def test_a_table_cell_has_a_type_instead_of_a_display_mode():
    custom = only_panel(core.Table(displayMode="color-text"))["fieldConfig"]["defaults"]["custom"]
    assert custom["cellOptions"] == {"type": "color-text"}
    assert "displayMode" not in custom


def test_a_row_is_a_heading_and_no_panel():
    row = only_panel(core.RowPanel(title="r", gridPos=core.GridPos(1, 24, 0, 0)))
    assert row.keys() == {"collapsed", "gridPos", "id", "panels", "title", "type"}


def test_a_linear_scale_has_no_base_and_lines_do_not_stack():
    custom = only_panel(core.TimeSeries())["fieldConfig"]["defaults"]["custom"]
    assert custom["scaleDistribution"] == {"type": "linear"}
    assert custom["stacking"] == {"group": "A", "mode": "none"}


def test_a_variable_of_labels_starts_with_all_or_with_the_value_it_is_given():
    def variable(value):
        template = core.Template("job", "label_values(up, job)", multi=True, default=value)
        return normalised(variables=[template])["templating"]["list"][0]

    assert variable(None)["current"]["value"] == ["$__all"]
    assert variable("vllm")["current"]["value"] == ["vllm"]
    assert variable(None)["query"] == {
        "qryType": 1,
        "query": "label_values(up, job)",
        "refId": "PrometheusVariableQuery",
    }


def test_a_second_pass_changes_nothing():
    once = normalised(
        core.RowPanel(title="r"),
        core.TimeSeries(thresholds=STEPS, targets=[core.Target(expr="up", refId="A")]),
        core.Table(thresholds=STEPS),
        variables=[core.Template("job", "label_values(up, job)", multi=True)],
    )
    assert normalise(once) == once
