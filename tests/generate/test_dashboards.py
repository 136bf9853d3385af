from __future__ import annotations

import json
import re
from itertools import combinations

import pytest
import yaml

from specwatch.alerting.catalogue import ALERTS, STATES, WATCHDOGS, alert
from specwatch.generate import grafana
from specwatch.generate.dashboards import FILE, PROVISIONING, UID, Settings, dashboard_files, speculation
from specwatch.generate.files import differing
from specwatch.generate.grafana_dashboard import GRID_WIDTH
from specwatch.signals.catalogue import signals
from specwatch.signals.speedup import given
from specwatch.vllm.metrics import GAUGES, POSITION_SERIES, SERIES
from tests.support.dashboards import expressions, metrics, panels, variables
from tests.support.programs import ROOT

DASHBOARD = speculation(Settings())
PANELS = panels(DASHBOARD)
EXPRESSIONS = dict(expressions(DASHBOARD))

KNOWN_METRICS = {
    *(name for names in SERIES.values() for name in names),
    *GAUGES.values(),
    POSITION_SERIES,
    *(signal.metric for signal in signals()),
    *(f"specwatch_{state}" for state in STATES),
}
GENERATED = ROOT / "dashboards"

each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
each_expression = pytest.mark.parametrize("expr", EXPRESSIONS.values(), ids=EXPRESSIONS)


def panel_titled(title: str):
    return next(panel for panel in PANELS if title in panel["title"])


def test_the_committed_files_are_what_the_code_generates():
    files = dashboard_files()
    assert differing(GENERATED, files) == []
    assert sorted(str(path.relative_to(GENERATED)) for path in GENERATED.rglob("*") if path.is_file()) == sorted(files)


def test_generating_again_gives_the_same_bytes():
    assert dashboard_files() == dashboard_files()


def test_files_have_sorted_keys_and_a_final_newline():
    text = dashboard_files()[FILE]
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_the_address_of_the_dashboard_never_changes():
    assert (DASHBOARD["uid"], DASHBOARD["title"]) == ("specwatch-speculation", "specwatch: speculation")
    assert DASHBOARD["uid"] == UID
    assert "id" not in DASHBOARD


def test_the_provisioning_file_names_where_dashboards_lie():
    (provider,) = yaml.safe_load(dashboard_files()[PROVISIONING])["providers"]
    assert provider["type"] == "file"
    assert provider["options"]["path"].startswith("/var/lib/grafana/")


@each_panel
def test_every_panel_asks_the_chosen_data_source(panel):
    assert panel["datasource"] == grafana.DATASOURCE
    assert [target["datasource"] for target in panel["targets"]] == [grafana.DATASOURCE] * len(panel["targets"])


def test_every_variable_and_annotation_asks_the_chosen_data_source():
    asked = [*variables(DASHBOARD).values(), *DASHBOARD["annotations"]["list"]]
    assert [entry["datasource"] for entry in asked] == [grafana.DATASOURCE] * len(asked)


@each_panel
def test_every_panel_has_a_unit_and_a_word_for_having_nothing_to_show(panel):
    field = panel["fieldConfig"]["defaults"]
    assert field["unit"]
    assert field["noValue"] not in ("", "none", "No data")


@each_panel
def test_every_description_teaches_in_two_sentences(panel):
    assert len(re.findall(r"[.?!](?= [A-Z]|$)", panel["description"])) == 2


def test_no_two_panels_have_one_title():
    titles = [panel["title"] for panel in PANELS]
    assert len(set(titles)) == len(titles)


def test_every_panel_and_row_has_an_id_of_its_own():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert sorted(ids) == list(range(1, len(ids) + 1))


def test_no_two_panels_overlap_and_none_leaves_the_grid():
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= GRID_WIDTH for place in places)
    for a, b in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, (a, b)


@each_panel
def test_only_the_first_threshold_has_no_value(panel):
    first, *others = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert first["value"] is None
    assert all(isinstance(step["value"], float) for step in others)


@each_panel
def test_queries_of_a_panel_have_letters_of_their_own_and_are_few(panel):
    letters = [target["refId"] for target in panel["targets"]]
    assert len(set(letters)) == len(letters)
    assert len(letters) <= 8


@each_panel
def test_every_colour_has_a_meaning(panel):
    meant = {grafana.GOOD, grafana.WARN, grafana.BAD, grafana.OUTPUT, grafana.NEUTRAL, grafana.TRANSPARENT}
    colours = set(re.findall(r'"(?:color|fixedColor)": "([^"]+)"', json.dumps(panel)))
    assert colours <= meant


@each_panel
def test_a_series_by_server_is_called_by_its_server(panel):
    for target in panel["targets"]:
        if "by (job, instance, model_name)" in target["expr"] and target["range"]:
            assert target["legendFormat"] == "{{instance}} {{model_name}}"


@each_expression
def test_every_metric_is_one_that_specwatch_knows(expr):
    assert metrics(expr) <= KNOWN_METRICS


@each_expression
def test_windows_are_as_long_as_the_reader_zooms(expr):
    # The hour of the annotation is how far back the last count before a restart may lie; it is no rate's window.
    windows = re.findall(r"\[([^\]]*)\]", expr.replace("last_over_time", "").replace("[1h] offset", ""))
    assert set(windows) <= {"$__rate_interval"}


@each_panel
def test_counters_are_read_as_rates_and_gauges_as_means(panel):
    for target in panel["targets"]:
        expr = target["expr"]
        read = re.findall(r"(\w+)\((vllm:\w+)\{", expr)
        assert len(read) == expr.count("vllm:")
        for function, name in read:
            assert function in (("avg_over_time",) if name in GAUGES.values() else ("rate", "increase")), name


@each_expression
def test_speculation_counters_are_read_from_v1_alone(expr):
    for selector in re.findall(r"vllm:spec_decode\w+\{([^}]*)\}", expr):
        assert 'engine!=""' in selector


@each_expression
def test_sums_are_divided_and_ratios_never_averaged(expr):
    assert not re.search(r"\bavg\b|\bquantile|histogram_quantile", expr)
    assert all(divisor.lstrip("(").startswith("sum by") for divisor in expr.split("\n/\n")[1:])


def test_a_position_is_divided_by_the_drafts_of_the_engines_that_have_it():
    (target,) = panel_titled("lose the thread")["targets"]
    assert "+ ignoring (position) group_left ()" in target["expr"]
    assert target["expr"].startswith("sum by (position)")


@each_expression
def test_every_selection_follows_the_variables(expr):
    for name, selector in re.findall(r"(vllm:\w+)\{([^}]*)\}", expr):
        assert all(f'{label}=~"${label}"' in selector for label in variables(DASHBOARD)), name


def test_every_variable_takes_several_values_or_all():
    for variable in variables(DASHBOARD).values():
        assert (variable["multi"], variable["includeAll"], variable["allValue"]) == (True, True, ".*")


def test_variables_are_called_like_labels_so_that_an_alert_can_link_to_its_server():
    assert list(variables(DASHBOARD)) == ["job", "model_name", "instance", "engine"]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Does acceptance stay above 60%?", "SpeculativeAcceptanceRateLow"),
        ("does it stay above 1?", "SpeculationSlowerThanNone"),
        ("How much of decoding is drafted?", "SpeculationNotDrafting"),
        ("left its own normal", "SpeculationDrifted"),
    ],
)
def test_an_alerts_threshold_is_drawn_where_its_signal_is(title, name):
    field = panel_titled(title)["fieldConfig"]["defaults"]
    assert field["custom"]["thresholdsStyle"] == {"mode": "dashed"}
    assert field["thresholds"]["steps"][1] == {"color": grafana.BAD, "value": alert(name).threshold}


def test_a_speedup_is_always_called_estimated_and_at_most():
    speaking_of_it = [panel["title"] for panel in PANELS if "speedup" in panel["title"].lower()]
    assert len(speaking_of_it) == 2
    assert all("Estimated speedup, at most" in title for title in speaking_of_it)
    names = [override["matcher"]["options"] for override in panel_titled("gain least")["fieldConfig"]["overrides"]]
    assert "Estimated speedup, at most" in names


def test_the_worst_server_is_the_first():
    table = panel_titled("gain least")
    assert table["options"]["sortBy"] == [{"desc": False, "displayName": "Estimated speedup, at most"}]
    renamed = table["transformations"][1]["options"]["renameByName"]
    assert renamed["Value #A"] == "Estimated speedup, at most"


def test_all_alerts_of_the_catalogue_are_among_those_shown():
    (pattern,) = set(re.findall(r'alertname=~"([^"]*)"', json.dumps(DASHBOARD).replace('\\"', '"')))
    assert all(re.fullmatch(pattern, entry.name) for entry in (*ALERTS, *WATCHDOGS))


def test_alerts_about_no_single_server_stay_when_one_is_chosen():
    for target in panel_titled("alerts are firing")["targets"]:
        assert 'instance=~"$instance|"' in target["expr"]


def test_ratios_run_from_0_to_1():
    ratios = [panel for panel in PANELS if panel["fieldConfig"]["defaults"]["unit"] == "percentunit"]
    assert len(ratios) >= 6
    assert all(
        panel["fieldConfig"]["defaults"][end] == value for panel in ratios for end, value in (("min", 0), ("max", 1))
    )


def test_a_job_is_chosen_at_first_where_the_user_names_one():
    chosen = variables(speculation(Settings(job="llm-prod")))["job"]["current"]
    assert chosen == {"selected": True, "text": ["llm-prod"], "value": ["llm-prod"]}
    assert variables(DASHBOARD)["job"]["current"]["value"] == ["$__all"]


def test_a_prefix_and_tags_leave_the_rest_as_it_is():
    own = speculation(Settings(prefix="Team A: ", tags=("team-a",)))
    assert own["title"] == "Team A: specwatch: speculation"
    assert own["tags"] == [*DASHBOARD["tags"], "team-a"]
    assert {**own, "title": DASHBOARD["title"], "tags": DASHBOARD["tags"]} == DASHBOARD


def test_a_draft_cost_changes_the_speedup_and_what_is_said_of_it():
    dear = speculation(Settings(cost=given(0.3)))
    (panel,) = [panel for panel in panels(dear) if "does it stay above 1?" in panel["title"]]
    assert "0.3 * rate(vllm:spec_decode_num_draft_tokens_total" in panel["targets"][0]["expr"]
    assert "a draft token costs 30.0% of a plain step" in panel["description"]
