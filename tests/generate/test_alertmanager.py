from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

from specwatch.alerting.catalogue import Alert, Severity
from specwatch.alerting.watchdogs import HEARTBEAT
from specwatch.generate import alert_files
from specwatch.generate.alertmanager import configuration, inhibitions, receiver_name, templates
from specwatch.generate.files import write_all
from specwatch.generate.promql import quoted
from specwatch.generate.rules_config import RULES, Audience, RulesConfig
from tests.support.programs import run
from tests.support.services import amtool, newer_program

DEFAULT = RulesConfig()

each_alert = pytest.mark.parametrize("entry", RULES, ids=lambda entry: entry.name)


MODEL = 'meta-llama/Llama "3.1" (70B)'
EVERYTHING = RulesConfig(
    model_teams={MODEL: "search", "qwen/*": "chat", "a.b+c": "chat"},
    team_slack_url_files={"search": "/run/search-slack"},
    team_pagerduty_key_files={"search": "/run/search-key"},
    webhook_url="http://hooks.example/alerts?x=1&y=2",
    webhook_token_file="/run/token",  # noqa: S106 (a path)
    heartbeat_url="https://heartbeat.example/ping",
    ticket_hours="monday:friday 08:00-18:30 Europe/Berlin",
)
"""Every kind of receiver and route."""


def receiver(severity: Severity, config: RulesConfig) -> dict[str, Any]:
    found: dict[str, Any] = next(
        entry for entry in configuration(config)["receivers"] if entry["name"] == receiver_name(severity)
    )
    return found


def strings(document: Any) -> list[str]:
    """Every text in a document."""
    if isinstance(document, str):
        return [document]
    parts = document.values() if isinstance(document, dict) else document if isinstance(document, list) else []
    return [text for part in parts for text in strings(part)]


def test_the_file_holds_the_configuration_as_it_is():
    text = alert_files.alert_files(DEFAULT)[alert_files.ALERTMANAGER]
    assert yaml.safe_load(text) == configuration(DEFAULT)


def test_the_file_says_which_secrets_are_read_from_where():
    text = alert_files.alert_files(RulesConfig(slack_url_file="/run/slack"))[alert_files.ALERTMANAGER]
    assert "#   /run/slack: the address of the Slack webhook\n" in text
    assert "#   /etc/alertmanager/secrets/pagerduty-key: the integration key" in text


def test_secrets_stay_in_files():
    keys = set(re.findall(r"^\s*-? ?(\w+):", yaml.safe_dump(configuration(DEFAULT)), flags=re.MULTILINE))
    assert {"api_url_file", "routing_key_file"} <= keys
    assert not keys & {"api_url", "routing_key", "service_key", "slack_api_url"}


def test_a_page_is_critical_and_a_ticket_a_warning_and_both_reach_slack():
    for severity, urgency in ((Severity.PAGE, "critical"), (Severity.TICKET, "warning")):
        found = receiver(severity, DEFAULT)
        assert [entry["severity"] for entry in found["pagerduty_configs"]] == [urgency]
        assert len(found["slack_configs"]) == 1


@pytest.mark.parametrize("audience", [Audience.PAGE, Audience.TICKET, Audience.NONE])
def test_channels_are_kept_to_their_audience(audience: Audience):
    for severity in Severity:
        included = audience.includes(severity)
        assert ("pagerduty_configs" in receiver(severity, RulesConfig(pagerduty_for=audience))) == included
        assert ("slack_configs" in receiver(severity, RulesConfig(slack_for=audience))) == included


def test_secrets_of_a_channel_that_nobody_uses_are_not_asked_for():
    text = alert_files.alert_files(RulesConfig(slack_for=Audience.NONE))[alert_files.ALERTMANAGER]
    assert "slack" not in text.replace("# Chosen: slack_for", "").lower()


def test_both_channels_hear_that_an_alert_is_over():
    for severity in Severity:
        for channel in ("pagerduty_configs", "slack_configs"):
            assert all(entry["send_resolved"] for entry in receiver(severity, DEFAULT)[channel])


def test_channel_and_address_are_written_where_they_are_chosen():
    chosen = RulesConfig(slack_channel="#llm", pagerduty_url="https://events.eu.pagerduty.com/v2/enqueue")
    assert receiver(Severity.PAGE, chosen)["slack_configs"][0]["channel"] == "#llm"
    assert receiver(Severity.PAGE, chosen)["pagerduty_configs"][0]["url"] == chosen.pagerduty_url
    assert "channel" not in receiver(Severity.PAGE, DEFAULT)["slack_configs"][0]
    assert "url" not in receiver(Severity.PAGE, DEFAULT)["pagerduty_configs"][0]


def test_servers_of_one_model_come_in_one_message():
    assert configuration(DEFAULT)["route"]["group_by"] == ["alertname", "job", "model_name"]


def test_an_unknown_severity_still_reaches_somebody():
    assert configuration(DEFAULT)["route"]["receiver"] == receiver_name(Severity.TICKET)


def test_every_duration_is_scaled():
    def durations(config: RulesConfig) -> list[str]:
        route = configuration(config)["route"]
        own = [route[key] for key in ("group_wait", "group_interval", "repeat_interval")]
        return [*own, *(child["repeat_interval"] for child in route["routes"])]

    assert durations(DEFAULT) == ["30s", "5m", "1d", "1m", "4h", "1d"]
    assert durations(RulesConfig(time_scale=0.01)) == ["300ms", "3s", "864s", "600ms", "144s", "864s"]


def test_every_inhibition_says_which_labels_must_agree_and_names_alerts_that_exist():
    names = {entry.name for entry in RULES}
    for rule in inhibitions():
        assert rule["equal"][0] == "job"
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            assert set(matcher.split('"')[1].split("|")) <= names


def test_every_text_that_is_used_is_defined_and_every_one_defined_is_used():
    defined = set(re.findall(r'define "([\w.]+)"', templates()))
    used = set(re.findall(r'template "([\w.]+)"', templates() + " ".join(strings(configuration(DEFAULT)))))
    assert used == defined


def test_texts_are_cut_below_the_thousand_that_go_accepts_in_a_repetition():
    repetitions = [int(number) for number in re.findall(r"\{(?:\d+,)?(\d+)\}", templates())]
    assert repetitions
    assert max(repetitions) <= 1000


def test_a_webhook_gets_alerts_and_their_ends_with_a_token_by_file():
    for severity in Severity:
        (webhook,) = receiver(severity, EVERYTHING)["webhook_configs"]
        assert webhook["url"] == EVERYTHING.webhook_url
        assert webhook["send_resolved"]
        assert webhook["http_config"] == {"authorization": {"credentials_file": "/run/token"}}
    assert "webhook_configs" not in receiver(Severity.PAGE, DEFAULT)
    assert "#   /run/token: the webhook's bearer token" in alert_files.alert_files(EVERYTHING)[alert_files.ALERTMANAGER]


def test_a_team_has_its_own_secrets_where_it_has_any():
    found = {entry["name"]: entry for entry in configuration(EVERYTHING)["receivers"]}
    assert found["specwatch-search-page"]["slack_configs"][0]["api_url_file"] == "/run/search-slack"
    assert found["specwatch-search-ticket"]["pagerduty_configs"][0]["routing_key_file"] == "/run/search-key"
    assert found["specwatch-chat-page"]["slack_configs"][0]["api_url_file"] == EVERYTHING.slack_url_file


def test_the_sign_of_life_goes_to_whoever_waits_for_it_and_to_nobody_else():
    found = {entry["name"]: entry for entry in configuration(EVERYTHING)["receivers"]}
    assert found["specwatch-heartbeat"]["webhook_configs"] == [
        {"url": "https://heartbeat.example/ping", "send_resolved": False}
    ]
    assert configuration(DEFAULT)["receivers"][-1] == {"name": "specwatch-heartbeat"}


def test_tickets_are_mute_out_of_hours_and_pages_never():
    document = configuration(EVERYTHING)
    (interval,) = document["time_intervals"]
    assert interval["time_intervals"] == [
        {"weekdays": ["saturday", "sunday"], "location": "Europe/Berlin"},
        {
            "times": [
                {"start_time": "00:00", "end_time": "08:00"},
                {"start_time": "18:30", "end_time": "24:00"},
            ],
            "location": "Europe/Berlin",
        },
    ]
    leaves = [leaf for route in document["route"]["routes"] for leaf in route.get("routes", [route])]
    for leaf in leaves:
        assert ("mute_time_intervals" in leaf) == leaf["receiver"].endswith("-ticket")
    assert "time_intervals" not in configuration(DEFAULT)


def test_nothing_silences_itself_and_nothing_silences_in_a_circle():
    silenced_by = {
        rule["source_matchers"][0].split('"')[1]: set(rule["target_matchers"][0].split('"')[1].split("|"))
        for rule in inhibitions()
    }
    for source, targets in silenced_by.items():
        assert source not in targets
        assert not any(source in silenced_by.get(target, set()) for target in targets)


def test_what_names_no_server_is_not_silenced_by_one():
    for rule in inhibitions():
        targets = rule["target_matchers"][0].split('"')[1].split("|")
        if "instance" in rule["equal"]:
            assert not {"SpeculationBelowLastWeek", "SpeculationMetricsAbsent"} & set(targets)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_all(tmp_path, alert_files.alert_files(DEFAULT))
    return tmp_path / alert_files.ALERTMANAGER


@pytest.mark.services
@pytest.mark.parametrize(
    "config",
    [
        DEFAULT,
        RulesConfig(time_scale=0.013),
        RulesConfig(slack_for=Audience.NONE),
        RulesConfig(pagerduty_for=Audience.PAGE, slack_channel="#a b", pagerduty_url="http://127.0.0.1:1/v2/enqueue"),
        RulesConfig(slack_url_file='/run/a "b" ü: c', pagerduty_key_file="relative"),
        EVERYTHING,
    ],
    ids=["as it comes", "rehearsed", "PagerDuty alone", "other channels", "hard paths", "everything"],
)
def test_amtool_accepts_the_configuration_and_its_templates(config: RulesConfig, tmp_path: Path):
    write_all(tmp_path, alert_files.alert_files(config))
    said = run([amtool(), "check-config", tmp_path / alert_files.ALERTMANAGER]).stdout
    assert f"{2 * (1 + len(config.teams)) + 1} receivers" in said
    assert "1 templates" in said


@pytest.mark.services
def test_a_newer_amtool_accepts_the_configuration_and_routes_the_same(tmp_path: Path):
    tool = newer_program("amtool")
    write_all(tmp_path, alert_files.alert_files(EVERYTHING))
    file = tmp_path / alert_files.ALERTMANAGER
    run([tool, "check-config", file])
    for entry in RULES:
        labels = [f"alertname={entry.name}", f"severity={entry.severity.value}", "model_name=qwen/x"]
        expected = f"--verify.receivers={receiver_name(entry.severity, 'chat')}"
        run([tool, "config", "routes", "test", f"--config.file={file}", expected, *labels])


@pytest.mark.services
@each_alert
def test_every_alert_is_routed_by_its_severity(entry: Alert, written: Path):
    labels = [f"alertname={entry.name}", f"severity={entry.severity.value}", "job=vllm", "instance=a:8000"]
    expected = f"--verify.receivers={receiver_name(entry.severity)}"
    run([amtool(), "config", "routes", "test", f"--config.file={written}", expected, *labels])


@pytest.mark.services
def test_an_alert_without_a_severity_is_routed_to_the_tickets(written: Path):
    expected = f"--verify.receivers={receiver_name(Severity.TICKET)}"
    run([amtool(), "config", "routes", "test", f"--config.file={written}", expected, "alertname=Other"])


@pytest.mark.services
def test_the_sign_of_life_is_routed_past_everybody(written: Path):
    labels = [f"alertname={HEARTBEAT.name}", "severity=none"]
    run(
        [
            amtool(),
            "config",
            "routes",
            "test",
            f"--config.file={written}",
            "--verify.receivers=specwatch-heartbeat",
            *labels,
        ]
    )


@pytest.mark.services
@pytest.mark.parametrize(
    ("labels", "team"),
    [
        ({"model_name": MODEL}, "search-"),
        ({"model_name": "qwen/anything"}, "chat-"),
        ({"model_name": "a.b+c"}, "chat-"),
        ({"model_name": "axb+c"}, ""),
        ({"model_name": f"{MODEL} finetuned"}, ""),
        ({"team": "chat", "model_name": "other"}, "chat-"),
        ({}, ""),
    ],
)
@pytest.mark.parametrize("severity", Severity)
def test_a_team_hears_of_its_models_and_of_what_bears_its_label(
    severity: Severity, labels: dict[str, str], team: str, tmp_path: Path
):
    write_all(tmp_path, alert_files.alert_files(EVERYTHING))
    expected = f"--verify.receivers=specwatch-{team}{severity.value}"
    given = [f"{name}={quoted(value)}" for name, value in {"severity": severity.value, **labels}.items()]
    file = f"--config.file={tmp_path / alert_files.ALERTMANAGER}"
    run([amtool(), "config", "routes", "test", file, expected, *given])


ABSURD = {
    "as it should be": "meta-llama/Llama-3.1-70B",
    "quotes": "\"'`\\\\{{ .Evil }}",
    "markup": "<!channel> & | >",
    "Unicode": "日本語 💥 e\u0301",
    "long": "a" * 5000,
}


@pytest.mark.services
@pytest.mark.parametrize("model", ABSURD.values(), ids=ABSURD)
def test_the_silence_link_names_the_group_and_is_one_address_whatever_labels_hold(model: str, tmp_path: Path):
    data = {
        "status": "firing",
        "receiver": "specwatch-ticket",
        "externalURL": "http://alertmanager.example:9093",
        "groupLabels": {"alertname": "SpeculationDrifted", "job": "v llm", "model_name": model},
        "commonLabels": {},
        "commonAnnotations": {},
        "alerts": [{"status": "firing", "labels": {}, "annotations": {}}],
    }
    (tmp_path / "data.json").write_text(json.dumps(data))
    (tmp_path / "specwatch.tmpl").write_text(templates())
    said = run(
        [
            amtool(),
            "template",
            "render",
            f"--template.glob={tmp_path}/specwatch.tmpl",
            f"--template.data={tmp_path}/data.json",
            '--template.text={{ template "specwatch.silence" . }}',
        ]
    ).stdout.strip()
    assert re.fullmatch(r"http://alertmanager\.example:9093/#/silences/new\?filter=[\w%.~-]+", said)
    matchers = unquote(said.split("filter=")[1])
    assert matchers.startswith('{alertname="SpeculationDrifted",job="v llm"')
    assert (f"model_name={json.dumps(model, ensure_ascii=False)}" in matchers) == (len(model) <= 100)
    assert len(said) < 3000
