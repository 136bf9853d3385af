from __future__ import annotations

import pytest

from specwatch.generate import grafana
from specwatch.generate.grafana import BAD, GOOD, Query, Scale, Steps, Words
from specwatch.generate.grafana_dashboard import Dashboard, Line, Section

WORDS = Words("Is it so?", "It is. Look.", "Nothing to see")
UP = Query("up", "{{instance}}")
TOKENS = Scale("suffix:tokens", low=1.0, decimals=2)


def only(panel):
    """The JSON of the only panel of a dashboard."""
    return Dashboard("u", "t", "d", (), (), (), (), (Section("Part", (Line(4, (panel,)),)),)).json()["panels"][1]


@pytest.mark.parametrize(
    "panel",
    [
        grafana.stat(WORDS, UP, TOKENS),
        grafana.time_series(WORDS, [UP], TOKENS),
        grafana.states(WORDS, [UP], {1.0: ("up", GOOD)}),
    ],
    ids=["stat", "time_series", "states"],
)
def test_every_kind_of_panel_says_its_words(panel):
    drawn = only(panel)
    assert (drawn["title"], drawn["description"]) == ("Is it so?", "It is. Look.")
    assert drawn["fieldConfig"]["defaults"]["noValue"] == "Nothing to see"
    assert drawn["targets"][0]["expr"] == "up"


def test_a_figure_has_its_unit_range_and_the_last_value():
    drawn = only(grafana.stat(WORDS, UP, Scale("percentunit", high=1.0)))
    field = drawn["fieldConfig"]["defaults"]
    assert (field["unit"], field["min"], field["max"]) == ("percentunit", 0.0, 1.0)
    assert drawn["options"]["reduceOptions"]["calcs"] == ["lastNotNull"]


def test_a_scale_without_an_upper_end_sets_none():
    field = only(grafana.time_series(WORDS, [UP], TOKENS))["fieldConfig"]["defaults"]
    assert (field["unit"], field["min"], field["decimals"]) == ("suffix:tokens", 1.0, 2)
    assert "max" not in field


def test_a_threshold_is_a_dashed_line_only_where_there_is_an_alarm():
    def style(alarm):
        field = only(grafana.time_series(WORDS, [UP], TOKENS, alarm=alarm))["fieldConfig"]["defaults"]
        return field["custom"]["thresholdsStyle"]["mode"], [step["value"] for step in field["thresholds"]["steps"]]

    assert style(None) == ("off", [None])
    assert style(0.6) == ("dashed", [None, 0.6])


def test_series_have_a_colour_each_are_shades_or_have_one_given():
    plain = only(grafana.time_series(WORDS, [UP], TOKENS))
    assert plain["fieldConfig"]["defaults"]["color"] == {"mode": "palette-classic"}
    shades = only(grafana.time_series(WORDS, [UP], TOKENS, shade=GOOD))
    assert shades["fieldConfig"]["defaults"]["color"] == {"mode": "shades", "fixedColor": GOOD}
    given = only(grafana.time_series(WORDS, [UP], TOKENS, styles={"wasted": grafana.fixed(BAD)}))
    assert given["fieldConfig"]["overrides"] == [
        {
            "matcher": {"id": "byName", "options": "wasted"},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": BAD}}],
        }
    ]


@pytest.mark.parametrize(
    ("steps", "colours"),
    [(grafana.bad_below(0.6), [BAD, GOOD]), (Steps(GOOD), [GOOD])],
)
def test_colours_follow_the_value_upwards(steps, colours):
    drawn = only(grafana.stat(WORDS, UP, TOKENS, steps))
    assert [step["color"] for step in drawn["fieldConfig"]["defaults"]["thresholds"]["steps"]] == colours


def test_several_queries_get_letters_in_their_order():
    drawn = only(grafana.time_series(WORDS, [UP, Query("down")], TOKENS))
    assert [(target["refId"], target["expr"]) for target in drawn["targets"]] == [("A", "up"), ("B", "down")]


@pytest.mark.parametrize(("first", "descending"), [(grafana.LOWEST, False), (grafana.HIGHEST, True)])
def test_a_legend_begins_with_what_wants_a_look(first, descending):
    legend = only(grafana.time_series(WORDS, [UP], TOKENS, first=first))["options"]["legend"]
    assert (legend["sortBy"], legend["sortDesc"]) == ("Last *", descending)


def test_a_lane_has_a_word_and_a_colour_for_each_value():
    labels = {1.0: ("ticket", grafana.WARN), 2.0: ("page", BAD)}
    (mapping,) = only(grafana.states(WORDS, [UP], labels))["fieldConfig"]["defaults"]["mappings"]
    assert mapping["options"] == {
        "1": {"text": "ticket", "color": grafana.WARN, "index": 0},
        "2": {"text": "page", "color": BAD, "index": 1},
    }


def test_a_legend_says_how_far_a_line_went_in_the_direction_that_wants_a_look():
    def told(**settings):
        return only(grafana.time_series(WORDS, [UP], TOKENS, **settings))["options"]["legend"]["calcs"]

    assert told(first=grafana.LOWEST) == ["lastNotNull", "min"]
    assert told(first=grafana.HIGHEST) == ["lastNotNull", "max"]
    assert told(stacked=True) == []


def test_areas_on_top_of_one_another_are_filled():
    custom = only(grafana.time_series(WORDS, [UP], TOKENS, stacked=True))["fieldConfig"]["defaults"]["custom"]
    assert custom["stacking"]["mode"] == "normal"
    assert custom["fillOpacity"] > 0


def test_an_axis_of_few_things_does_not_run_to_a_hundred():
    scale = Scale("none", at_least=1.0)
    assert only(grafana.time_series(WORDS, [UP], scale))["fieldConfig"]["defaults"]["custom"]["axisSoftMax"] == 1.0
