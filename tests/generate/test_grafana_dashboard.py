from __future__ import annotations

from specwatch.generate import grafana
from specwatch.generate.grafana import Query, Scale, Words
from specwatch.generate.grafana_dashboard import (
    Dashboard,
    Line,
    Section,
    annotation,
    arrange,
    datasource_variable,
    label_variable,
    text,
)


def panel():
    return grafana.stat(Words("Is it so?", "It is. Look.", "Nothing"), Query("up"), Scale("none"))


def built(**parts):
    """The JSON of a dashboard of one panel."""
    empty = {"links": (), "variables": (), "annotations": (), "sections": (Section("Part", (Line(4, (panel(),)),)),)}
    return Dashboard(uid="u", title="t", description="d", tags=("x",), **{**empty, **parts}).json()


def test_panels_of_a_line_stand_side_by_side_below_their_heading():
    sections = [Section("One", (Line(5, (panel(), panel())),)), Section("Two", (Line(7, (panel(),)),))]
    places = [(item.gridPos.x, item.gridPos.y, item.gridPos.w, item.gridPos.h) for item in arrange(sections)]
    assert places == [(0, 0, 24, 1), (0, 1, 12, 5), (12, 1, 12, 5), (0, 6, 24, 1), (0, 7, 24, 7)]


def test_a_variable_lists_the_values_of_its_label():
    variable = label_variable("instance", "Server", "up")
    (drawn,) = built(variables=(variable,))["templating"]["list"]
    assert (drawn["name"], drawn["label"], drawn["query"]["query"]) == (
        "instance",
        "Server",
        "label_values(up, instance)",
    )


def test_the_text_is_readable_as_it_is():
    assert text({"b": "×", "a": 1}) == '{\n  "a": 1,\n  "b": "×"\n}\n'


def test_a_variable_of_data_sources_starts_with_the_default_one():
    (drawn,) = built(variables=(datasource_variable(),))["templating"]["list"]
    assert (drawn["type"], drawn["query"], drawn["current"]) == ("datasource", "prometheus", {})


def test_an_annotation_asks_the_chosen_data_source():
    (drawn,) = built(annotations=(annotation("Restarts", "up == 0", "{{instance}}", grafana.NEUTRAL),))["annotations"][
        "list"
    ]
    assert (drawn["datasource"], drawn["expr"], drawn["enable"]) == (grafana.DATASOURCE, "up == 0", True)


def test_a_dashboard_cannot_be_edited_where_the_next_generation_would_undo_it():
    drawn = built()
    assert drawn["editable"] is False
    assert (drawn["uid"], drawn["title"], drawn["tags"]) == ("u", "t", ["x"])
    assert [item["id"] for item in drawn["panels"]] == [1, 2]
