from __future__ import annotations

import json

import pytest

from tests.support.lint import codes


def panel(title: str = "Running", expr: str = "sum(vllm:num_requests_running)", **parts: object) -> dict[str, object]:
    return {"title": title, "targets": [{"expr": expr}], **parts}


def dashboard(*panels: dict[str, object]) -> str:
    return json.dumps({"title": "A dashboard", "panels": panels})


def at(x: int, y: int) -> dict[str, object]:
    return {"gridPos": {"x": x, "y": y, "w": 12, "h": 8}}


def test_panels_side_by_side_and_below_one_another_do_not_overlap():
    assert codes(dashboard(panel(**at(0, 0)), panel(**at(12, 0)), panel(**at(0, 8)))) == []


def test_a_panel_that_lies_over_several_is_told_once():
    assert codes(dashboard(panel(**at(0, 0)), panel(**at(12, 0)), panel(**at(6, 4)))) == ["SW302"]


def test_panels_of_a_closed_row_have_a_grid_of_their_own():
    row = {"type": "row", "title": "Closed", "panels": [panel(**at(0, 1))]}
    assert codes(dashboard(row, panel(**at(0, 1)))) == []


def test_ids_are_one_dashboards_even_within_a_closed_row():
    row = {"type": "row", "title": "Closed", "id": 2, "panels": [panel("Inside", id=1)]}
    assert codes(dashboard(panel(id=1), row)) == ["SW301"]


@pytest.mark.parametrize("source", ["${datasource}", "$ds", "-- Mixed --", {"uid": "${DS_PROMETHEUS}"}, None, {}])
def test_a_chosen_or_built_in_data_source_is_good_anywhere(source: object):
    assert codes(dashboard(panel(datasource=source))) == []


@pytest.mark.parametrize("source", ["Prometheus", {"type": "prometheus", "uid": "P1809F7CD0C75ACF3"}])
def test_a_data_source_by_its_name_or_id_is_one_grafanas(source: object):
    assert codes(dashboard(panel(datasource=source))) == ["SW303"]


def test_a_unit_may_be_an_overrides_or_an_old_axis():
    told = {
        "type": "timeseries",
        "description": "d",
        "targets": [{"expr": "vllm:num_requests_running", "legendFormat": "a"}],
    }
    override = {"overrides": [{"matcher": {}, "properties": [{"id": "unit", "value": "s"}]}]}
    assert codes(dashboard(panel(**told))) == ["SW304"]
    assert codes(dashboard(panel(**told, fieldConfig=override))) == []
    assert codes(dashboard(panel(**{**told, "type": "graph"}, yaxes=[{"format": "s"}]))) == []


def test_panels_of_other_programs_are_not_judged():
    assert codes(dashboard(panel(expr="node_load1", id=1, type="stat"), panel(expr="node_load5", id=1))) == []


def test_a_dashboard_of_thousands_of_panels_is_read_all_the_same():
    many = [panel(**at(0, 0)) for _ in range(3000)]
    assert len(codes(dashboard(*many))) == 999
