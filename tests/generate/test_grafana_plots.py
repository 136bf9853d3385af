from __future__ import annotations

from specwatch.generate.grafana import BAD, GOOD, SHARE, Query, Scale, Words
from specwatch.generate.grafana_dashboard import Dashboard, Line, Section
from specwatch.generate.grafana_plots import Points, against, heatmap

WORDS = Words("Is it so?", "It is. Look.", "Nothing to see")


def only(panel):
    """The JSON of the only panel of a dashboard."""
    return Dashboard("u", "t", "d", (), (), (), (), (Section("Part", (Line(4, (panel,)),)),)).json()["panels"][1]


def test_a_heatmap_has_a_row_a_query_in_colours_that_everybody_can_read():
    drawn = only(heatmap(WORDS, [Query("a", "position 0"), Query("b", "position 1")], SHARE))
    assert drawn["type"] == "heatmap"
    assert [target["legendFormat"] for target in drawn["targets"]] == ["position 0", "position 1"]
    assert drawn["options"]["calculate"] is False
    color = drawn["options"]["color"]
    assert (color["scheme"], color["min"], color["max"]) == ("Cividis", 0, 1)
    assert drawn["fieldConfig"]["defaults"]["noValue"] == "Nothing to see"


def test_values_against_values_take_each_series_from_its_own_query():
    series = [Points("then", 0, "load", "Value #A", BAD), Points("now", 1, "load", "Value #B", GOOD)]
    queries = [Query("a"), Query("b")]
    drawn = only(against(WORDS, queries, series, Scale("suffix:×"), numeric="load"))
    assert drawn["type"] == "xychart"
    first, second = drawn["options"]["series"]
    assert second["frame"] == {"matcher": {"id": "byIndex", "options": 1}}
    assert (first["x"]["matcher"]["options"], first["y"]["matcher"]["options"]) == ("load", "Value #A")
    assert drawn["transformations"][0]["options"]["conversions"] == [
        {"targetField": "load", "destinationType": "number"}
    ]
    assert [override["matcher"]["options"] for override in drawn["fieldConfig"]["overrides"]] == [
        "Value #A",
        "Value #B",
    ]


def test_points_may_be_joined_by_a_dashed_line():
    series = [Points("break-even", 0, "load", "Value", BAD, is_line=True)]
    drawn = only(against(WORDS, [Query("a")], series, Scale("suffix:×"), numeric="load"))
    (override,) = drawn["fieldConfig"]["overrides"]
    assert {"id": "custom.show", "value": "lines"} in override["properties"]
