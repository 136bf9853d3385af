"""What is a mistake by Grafana's schema: wrong types and unknown keys, not what Grafana fills in itself."""

from __future__ import annotations

import pytest

from tools.grafana import schema

DASHBOARD = {
    "type": "object",
    "additionalProperties": False,
    "required": ["title", "uid"],
    "properties": {
        "title": {"type": "string"},
        "panels": {},
        "annotations": {
            "properties": {"list": {"items": {"additionalProperties": False, "properties": {"name": {}}}}},
        },
    },
}
STAT = {"definitions": {"Options": {"additionalProperties": False, "properties": {"graphMode": {"enum": ["none"]}}}}}


@pytest.fixture(autouse=True)
def _without_npm(tmp_path, monkeypatch):
    (tmp_path / "composable" / "stat" / "panelcfg" / "x").mkdir(parents=True)
    monkeypatch.setattr(schema, "TYPES", tmp_path)
    monkeypatch.setattr(schema, "generated", lambda kind, *_: STAT if kind == "stat" else DASHBOARD)


def problems(**keys: object) -> list[str]:
    return list(schema.problems({"title": "t", "panels": [], **keys}))


def panel(**keys: object) -> list[str]:
    return problems(panels=[{"type": "row", "panels": [{"type": "stat", "title": "A", **keys}]}])


def test_keys_that_grafana_fills_in_may_be_missing():
    assert problems() == []


def test_a_wrong_type_and_an_unknown_key_are_found_with_their_place():
    assert problems(title=5) == ["dashboard title: 5 is not of type 'string'"]
    assert "'rows' was unexpected" in problems(rows=[])[0]


def test_an_annotation_has_the_keys_of_its_data_source_and_no_others():
    assert problems(annotations={"list": [{"name": "a", "expr": "up", "step": "60s"}]}) == []
    assert "'colour'" in problems(annotations={"list": [{"name": "a", "expr": "up", "colour": "red"}]})[0]


def test_options_are_checked_by_the_panels_type_in_closed_rows_too():
    assert panel(options={"graphMode": "none"}) == []
    assert "'sparkline' is not one of" in panel(options={"graphMode": "sparkline"})[0]


def test_a_type_without_field_settings_may_have_none():
    assert "stat has no FieldConfig" in panel(fieldConfig={"defaults": {"custom": {"lineWidth": 2}}})[0]


def test_a_type_that_grafana_does_not_have_is_named():
    assert problems(panels=[{"type": "graph", "title": "B"}]) == ["panel 'B': Grafana has no panel type 'graph'"]
