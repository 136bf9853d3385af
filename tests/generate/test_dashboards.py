from __future__ import annotations

import json
import re
from itertools import combinations

import pytest
import yaml

from specwatch.alerting.catalogue import ALERTS
from specwatch.alerting.watchdogs import WATCHDOGS, alert
from specwatch.collect.targets import Target
from specwatch.config import SidecarConfig
from specwatch.errors import InputError
from specwatch.generate import grafana
from specwatch.generate.dashboards import BOARDS, PROVISIONING, Board, Settings, dashboard_files
from specwatch.generate.files import differing
from specwatch.generate.grafana_dashboard import GRID_WIDTH
from specwatch.generate.recording_rules import recording_rules
from specwatch.generate.rules_config import RulesConfig
from specwatch.sidecar import exporter, losslessness
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.service import Service
from specwatch.signals.speedup import given
from specwatch.vllm.metrics import GAUGES
from tests.support.dashboards import expressions, panels, titled, variables
from tests.support.programs import ROOT

DASHBOARDS = {board: make(Settings()) for board, make in BOARDS.items()}
PANELS = [
    pytest.param(panel, id=f"{board.value}: {panel['title']}") for board in Board for panel in panels(DASHBOARDS[board])
]
EXPRESSIONS = [
    pytest.param(expr, id=f"{board.value}: {place}")
    for board in Board
    for place, expr in expressions(DASHBOARDS[board])
]
GENERATED = ROOT / "dashboards"

MOST_QUERIES = 9
"""Of one panel: more are more than a reader tells apart, and each is one that Prometheus answers."""

each_board = pytest.mark.parametrize("board", Board, ids=lambda board: board.value)
each_panel = pytest.mark.parametrize("panel", PANELS)
each_expression = pytest.mark.parametrize("expr", EXPRESSIONS)


def panel_of(board: Board, title: str):
    return titled(DASHBOARDS[board], title)


def test_the_committed_files_are_what_the_code_generates():
    files = dashboard_files()
    assert differing(GENERATED, files) == []
    assert sorted(str(path.relative_to(GENERATED)) for path in GENERATED.rglob("*") if path.is_file()) == sorted(files)


def test_generating_again_gives_the_same_bytes():
    assert dashboard_files() == dashboard_files()


@each_board
def test_files_have_sorted_keys_and_a_final_newline(board):
    text = dashboard_files()[f"specwatch-{board.value}.json"]
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_addresses_and_titles_never_change():
    assert {board["uid"]: board["title"] for board in DASHBOARDS.values()} == {
        "specwatch-fleet": "specwatch: fleet",
        "specwatch-server": "specwatch: server",
        "specwatch-drift": "specwatch: drift",
        "specwatch-speedup": "specwatch: speedup",
    }
    assert not any("id" in board for board in DASHBOARDS.values())


def test_the_provisioning_file_names_the_folder_and_where_dashboards_lie():
    (provider,) = yaml.safe_load(dashboard_files(Settings(folder="Ops: LLM"))[PROVISIONING])["providers"]
    assert (provider["type"], provider["folder"]) == ("file", "Ops: LLM")
    assert provider["options"]["path"].startswith("/var/lib/grafana/")


@each_board
def test_every_dashboard_links_to_the_three_others_and_keeps_choices_and_time(board):
    links = DASHBOARDS[board]["links"]
    assert [link["url"] for link in links] == [f"/d/specwatch-{other.value}" for other in Board if other is not board]
    assert all(link["includeVars"] and link["keepTime"] and link["type"] == "link" for link in links)


@each_panel
def test_every_panel_asks_the_chosen_data_source(panel):
    assert panel["datasource"] == grafana.DATASOURCE
    assert [target["datasource"] for target in panel["targets"]] == [grafana.DATASOURCE] * len(panel["targets"])


@each_board
def test_every_variable_and_annotation_asks_the_chosen_data_source(board):
    asked = [*variables(DASHBOARDS[board]).values(), *DASHBOARDS[board]["annotations"]["list"]]
    assert [entry["datasource"] for entry in asked] == [grafana.DATASOURCE] * len(asked)


@each_panel
def test_every_panel_has_a_unit_and_a_word_for_having_nothing_to_show(panel):
    field = panel["fieldConfig"]["defaults"]
    assert field["unit"]
    assert field["noValue"] not in ("", "none", "No data")


@each_panel
def test_every_description_teaches_in_two_sentences(panel):
    assert len(re.findall(r"[.?!](?= [A-Z]|$)", panel["description"])) == 2


@each_board
def test_no_two_panels_of_a_dashboard_have_one_title(board):
    titles = [panel["title"] for panel in panels(DASHBOARDS[board])]
    assert len(set(titles)) == len(titles)


@each_board
def test_every_panel_and_row_has_an_id_of_its_own(board):
    ids = [panel["id"] for panel in DASHBOARDS[board]["panels"]]
    assert sorted(ids) == list(range(1, len(ids) + 1))


@each_board
def test_no_two_panels_overlap_and_none_leaves_the_grid(board):
    places = [panel["gridPos"] for panel in DASHBOARDS[board]["panels"]]
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
    assert len(letters) <= MOST_QUERIES


@each_panel
def test_every_colour_has_a_meaning(panel):
    meant = {
        grafana.GOOD,
        grafana.WARN,
        grafana.BAD,
        grafana.OUTPUT,
        grafana.NEUTRAL,
        grafana.OTHER,
        grafana.GONE,
        grafana.TRANSPARENT,
        grafana.TEXT,
    }
    colours = set(re.findall(r'"(?:color|fixedColor)": "([^"]+)"', json.dumps(panel)))
    assert colours <= meant


@each_panel
def test_every_line_has_a_name(panel):
    if panel["type"] in ("timeseries", "bargauge", "state-timeline", "heatmap"):
        assert all(target["legendFormat"] for target in panel["targets"])


@each_panel
def test_a_series_by_server_is_called_by_its_server(panel):
    for target in panel["targets"]:
        if target["expr"].startswith("sum by (job, instance, model_name) (") and panel["type"] == "timeseries":
            assert target["legendFormat"] == "{{instance}} {{model_name}}"


@each_panel
def test_what_only_the_sidecar_knows_says_so_in_its_title_and_where_it_is_empty(panel):
    def asks_only_the_sidecar(expr: str) -> bool:
        """What stands behind an ``or`` for fleets without one is asked of vLLM's own counters."""
        return all(re.search(r"(?<!:)\bspecwatch_", part) for part in expr.split("\nor\n"))

    if all(asks_only_the_sidecar(target["expr"]) for target in panel["targets"]):
        assert re.search("sidecar|Measured|Calibrated|concurrency", panel["title"]), panel["title"]
        assert "sidecar" in panel["fieldConfig"]["defaults"]["noValue"]


@each_panel
def test_counters_are_read_as_rates_and_gauges_as_means(panel):
    functions = {"rate", "increase"}
    for target in panel["targets"]:
        for function, name in re.findall(r"(\w+)\((vllm:\w+)\{", target["expr"]):
            if name in GAUGES.values() or name.endswith("usage_perc"):
                assert function in ("avg_over_time", "last_over_time"), name
            else:
                assert function in functions, name


@each_expression
def test_speculation_counters_are_read_from_v1_alone(expr):
    for selector in re.findall(r"vllm:spec_decode\w+\{([^}]*)\}", expr):
        assert 'engine!=""' in selector


@each_expression
def test_ratios_are_never_averaged(expr):
    assert not re.search(r"\bavg\b|histogram_quantile", expr)


@each_expression
def test_every_selection_follows_the_variables(expr):
    for name, selector in re.findall(r"(vllm:\w+)\{([^}]*)\}", expr):
        # What decides whether a server is V0, or a job vLLM's, asks beyond the chosen engine and server.
        aside = "unless on (job, instance)" in expr or "and on (job)\nlast_over_time" in expr
        needed = ("job",) if aside else ("job", "model_name", "instance", "engine")
        assert all(f'{label}=~"${label}"' in selector for label in needed), name


@each_board
def test_every_variable_takes_several_values_or_all(board):
    for variable in variables(DASHBOARDS[board]).values():
        assert (variable["multi"], variable["includeAll"], variable["allValue"]) == (True, True, ".*")


@each_board
def test_variables_are_called_like_labels_so_that_an_alert_can_link_to_its_server(board):
    assert list(variables(DASHBOARDS[board])) == ["job", "model_name", "instance", "engine"]


@each_board
def test_the_window_is_the_alerts_at_first(board):
    (window,) = (entry for entry in DASHBOARDS[board]["templating"]["list"] if entry["name"] == "interval")
    assert (window["type"], window["current"]["value"]) == ("interval", "5m")
    assert [option["value"] for option in window["options"]] == window["query"].split(",")


@pytest.mark.parametrize(
    ("board", "title", "name"),
    [
        (Board.FLEET, "Does each model's acceptance stay above 60%?", "SpeculativeAcceptanceRateLow"),
        (Board.FLEET, "by model: above 1?", "SpeculationSlowerThanNone"),
        (Board.FLEET, "Has a model's traffic drifted?", "SpeculationDrifted"),
        (Board.SERVER, "Does acceptance stay above 60%?", "SpeculativeAcceptanceRateLow"),
        (Board.SERVER, "does it stay above 1?", "SpeculationSlowerThanNone"),
        (Board.SERVER, "How much of decoding is drafted?", "SpeculationNotDrafting"),
        (Board.SERVER, "left its own normal", "SpeculationDrifted"),
        (Board.DRIFT, "fallen from its own normal", "SpeculationDrifted"),
        (Board.SPEEDUP, "does it stay above 1?", "SpeculationSlowerThanNone"),
        (Board.SPEEDUP, "Which positions earn", "SpeculationLastPositionsWasted"),
    ],
)
def test_an_alerts_threshold_is_drawn_where_its_signal_is(board, title, name):
    field = panel_of(board, title)["fieldConfig"]["defaults"]
    assert field["custom"]["thresholdsStyle"] == {"mode": "dashed"}
    assert field["thresholds"]["steps"][1] == {"color": grafana.BAD, "value": alert(name).threshold}


def test_an_estimated_speedup_is_always_called_estimated_and_at_most():
    estimated = {
        panel["title"]
        for board in Board
        for panel in panels(DASHBOARDS[board])
        for target in panel["targets"]
        if "0.05 *" in target["expr"] and panel["type"] in ("stat", "timeseries") and "suffix:×" in str(panel)
        if "specwatch_known_speedup" not in target["expr"]
    }
    assert estimated
    assert all("Estimated speedup, at most" in title for title in estimated)


def test_a_speedup_that_a_sidecar_may_know_says_that_it_is_estimated_elsewhere():
    mixed = [panel for board in Board for panel in panels(DASHBOARDS[board]) if "specwatch_known_speedup" in str(panel)]
    assert mixed
    for panel in mixed:
        if "suffix:×" in str(panel):
            assert "as measured where a sidecar knows it and else estimated, at most" in panel["description"]


def test_the_worst_server_is_the_first_and_leads_to_its_own_dashboard():
    table = panel_of(Board.FLEET, "gain least")
    assert table["options"]["sortBy"] == [{"desc": False, "displayName": "Speedup"}]
    renamed = table["transformations"][1]["options"]["renameByName"]
    assert renamed["Value #A"] == "Speedup"
    (link,) = re.findall(r'"url": "([^"]+)"', json.dumps(table))
    assert link.startswith("/d/specwatch-server?${__url_time_range}&")
    assert link.endswith("&var-instance=${__value.raw}")


def test_all_alerts_of_the_catalogue_are_among_those_shown():
    patterns = set(re.findall(r'alertname=~"([^"]*)"', json.dumps(DASHBOARDS[Board.FLEET]).replace('\\"', '"')))
    assert len(patterns) == 1
    assert all(re.fullmatch(pattern, entry.name) for entry in (*ALERTS, *WATCHDOGS) for pattern in patterns)


def test_alerts_about_no_single_server_stay_when_one_is_chosen():
    for title in ("Which alerts fired", "What fires now"):
        for target in panel_of(Board.FLEET, title)["targets"]:
            assert 'instance=~"$instance|"' in target["expr"]


def test_ratios_run_from_0_to_1():
    ratios = [
        panel
        for board in Board
        for panel in panels(DASHBOARDS[board])
        if panel["fieldConfig"]["defaults"]["unit"] == "percentunit"
        and not re.search("memory bandwidth|How large is the change", panel["title"])
    ]
    assert len(ratios) >= 12
    for panel in ratios:
        field = panel["fieldConfig"]["defaults"]
        assert (field["min"], field["max"]) in ((0, 1), (-1, 1)), panel["title"]


def test_a_job_is_chosen_at_first_where_the_user_names_one():
    chosen = variables(BOARDS[Board.FLEET](Settings(job="llm-prod")))["job"]["current"]
    assert chosen == {"selected": True, "text": ["llm-prod"], "value": ["llm-prod"]}
    assert variables(DASHBOARDS[Board.FLEET])["job"]["current"]["value"] == ["$__all"]


@each_board
def test_a_prefix_and_tags_leave_the_rest_as_it_is(board):
    own = json.dumps(BOARDS[board](Settings(prefix="team-a-", tags=("mine",))))
    assert json.loads(own)["uid"] == f"team-a-specwatch-{board.value}"
    assert json.loads(own)["title"] == f"team-a-specwatch: {board.value}"
    assert json.loads(own.replace("team-a-", "").replace(', "mine"]', "]")) == DASHBOARDS[board]


@pytest.mark.parametrize("prefix", ["Team A: ", "a/b", "é", "x" * 24])
def test_a_prefix_that_no_address_can_have_is_refused(prefix):
    with pytest.raises(InputError, match="--prefix"):
        Settings(prefix=prefix)


def test_another_type_of_data_source_is_asked_everywhere():
    kind = "victoriametrics-metrics-datasource"
    for make in BOARDS.values():
        text = json.dumps(make(Settings(datasource_type=kind)))
        assert '"prometheus"' not in text
        assert kind in text


def test_an_unknown_type_of_data_source_is_refused_with_those_there_are():
    with pytest.raises(InputError, match=r"'mysql'.*prometheus"):
        Settings(datasource_type="mysql")


def test_a_draft_cost_changes_the_speedup_and_what_is_said_of_it():
    panel = titled(BOARDS[Board.SERVER](Settings(cost=given(0.3))), "does it stay above 1?")
    assert "0.3 * rate(vllm:spec_decode_num_draft_tokens_total" in panel["targets"][0]["expr"]
    assert "a draft token costs 30.0% of a plain step" in panel["description"]


def told_by_a_sidecar() -> set[str]:
    """Names of everything that a sidecar with all its parts has on its page."""
    config = SidecarConfig(target=("gpu=http://127.0.0.1:1",), verify_every=600)
    targets = [Target("gpu", "http://127.0.0.1:1/metrics")]
    service = Service(targets, losslessness=losslessness.from_config(config))
    page = exporter.render(service, AlertBook(())).decode()
    return set(re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE))


@each_board
def test_whatever_is_asked_of_the_sidecar_is_on_its_page(board):
    asked = {name for _, expr in expressions(DASHBOARDS[board]) for name in re.findall(r"(?<!:)\bspecwatch_\w+", expr)}
    assert asked
    assert asked - told_by_a_sidecar() == set()


@each_board
def test_whatever_is_recorded_is_what_the_rules_record(board):
    names = {rule["record"] for rule in recording_rules(RulesConfig())}
    read = {name for _, expr in expressions(DASHBOARDS[board]) for name in re.findall(r"\w+:specwatch_\w+:\w+", expr)}
    assert read <= names
