from __future__ import annotations

from specwatch.generate import grafana
from specwatch.generate.grafana import BAD, GOOD, Scale, Steps, Words
from specwatch.generate.grafana_dashboard import Dashboard, Line, Section
from specwatch.generate.grafana_table import Column, Name, Order, table

WORDS = Words("Is it so?", "It is. Look.", "Nothing to see")
TOKENS = Scale("suffix:tokens", low=1.0, decimals=2)


def only(panel):
    """The JSON of the only panel of a dashboard."""
    return Dashboard("u", "t", "d", (), (), (), (), (Section("Part", (Line(4, (panel,)),)),)).json()["panels"][1]


def test_a_table_asks_once_and_names_its_columns():
    columns = [Column("Up", "up", TOKENS), Column("Share", "share", grafana.SHARE, grafana.bad_below(0.5))]
    names = [Name("Server", "instance", link="/d/x")]
    drawn = only(table(WORDS, names, columns, Order("Share")))
    assert [(target["format"], target["instant"], target["range"]) for target in drawn["targets"]] == [
        ("table", True, False)
    ] * 2
    organised = drawn["transformations"][1]["options"]
    assert organised["renameByName"] == {"instance": "Server", "Value #A": "Up", "Value #B": "Share"}
    assert organised["indexByName"] == {"instance": 0, "Value #A": 1, "Value #B": 2}
    overrides = {entry["matcher"]["options"]: entry["properties"] for entry in drawn["fieldConfig"]["overrides"]}
    assert {"id": "unit", "value": "percentunit"} in overrides["Share"]
    assert {"id": "custom.cellOptions", "value": {"type": "color-text"}} in overrides["Share"]
    assert "custom.cellOptions" not in [entry["id"] for entry in overrides["Up"]]
    (link,) = [entry["value"][0] for entry in overrides["Server"] if entry["id"] == "links"]
    assert link["url"] == "/d/x"


def test_a_cell_without_a_figure_is_a_dash_and_no_judgement():
    column = Column("Share", "share", grafana.SHARE, grafana.bad_below(0.5))
    drawn = only(table(WORDS, [Name("Server", "instance")], [column], Order("Share")))
    properties = {entry["id"]: entry["value"] for entry in drawn["fieldConfig"]["overrides"][1]["properties"]}
    (mapping,) = properties["mappings"]
    assert mapping["options"]["match"] == "null+nan"
    assert mapping["options"]["result"] == {"text": "–", "color": grafana.NEUTRAL, "index": 0}


def test_a_table_of_one_column_calls_its_values_as_grafana_does():
    drawn = only(table(WORDS, [Name("Server", "instance")], [Column("Up", "up", TOKENS)], Order("Up", descending=True)))
    assert drawn["transformations"][1]["options"]["renameByName"]["Value"] == "Up"
    assert drawn["options"]["sortBy"] == [{"desc": True, "displayName": "Up"}]


def test_rows_without_the_figure_that_orders_them_may_be_left_out():
    def transformations(order):
        drawn = only(table(WORDS, [Name("Server", "instance")], [Column("Up", "up", TOKENS)], order))
        return [entry["id"] for entry in drawn["transformations"]]

    assert transformations(Order("Up")) == ["merge", "organize"]
    assert transformations(Order("Up", only=True)) == ["merge", "organize", "filterByValue"]


def test_a_column_may_be_drawn_as_bars_and_a_value_may_have_a_word():
    bar = Column("Share", "share", grafana.SHARE, Steps(GOOD), as_bar=True)
    word = Column("Level", "level", Scale("none"), words={2.0: ("bad", BAD)})
    drawn = only(table(WORDS, [Name("Server", "instance")], [bar, word], Order("Share")))
    share, level = (
        {entry["id"]: entry["value"] for entry in override["properties"]}
        for override in drawn["fieldConfig"]["overrides"][1:]
    )
    assert share["custom.cellOptions"]["type"] == "gauge"
    assert (share["min"], share["max"]) == (0, 1)
    assert level["mappings"][0]["options"]["2"] == {"text": "bad", "color": BAD, "index": 0}


def test_what_is_good_is_written_as_all_text_is_and_drawn_in_its_colour():
    figure, bar = (
        Column(title, "share", grafana.SHARE, grafana.bad_below(0.5), as_bar=title == "Bar")
        for title in ("Figure", "Bar")
    )
    drawn = only(table(WORDS, [Name("Server", "instance")], [figure, bar], Order("Bar")))
    colours = [
        [
            step["color"]
            for entry in override["properties"]
            if entry["id"] == "thresholds"
            for step in entry["value"]["steps"]
        ]
        for override in drawn["fieldConfig"]["overrides"][1:]
    ]
    assert colours == [[BAD, grafana.TEXT], [BAD, GOOD]]
