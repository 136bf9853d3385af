"""``specwatch gen-alerts``: Prometheus rules and an Alertmanager configuration, written or checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from specwatch.alerting.catalogue import Severity
from specwatch.cli.pairs import merged, pairs_option
from specwatch.config import load
from specwatch.generate import alert_files
from specwatch.generate.alertmanager import secrets
from specwatch.generate.files import write_or_check
from specwatch.generate.rules_config import Audience, RulesConfig

AUDIENCES = click.Choice([audience.value for audience in Audience])

PAIRS = (
    "target_labels",
    "alert_labels",
    "thresholds",
    "severities",
    "model_teams",
    "team_slack_url_files",
    "team_pagerduty_key_files",
)
"""Keys that map names to values."""


@click.command(context_settings={"show_default": True})
@click.option("--output", type=click.Path(path_type=Path), default=Path("alerts"), help="Folder to write into.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where the folder holds anything else.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="YAML file with the options as keys.")
@click.option("--vllm-job", help="Prometheus' job of the vLLM servers.  [default: vllm]")
@click.option("--specwatch-job", help="Prometheus' job of the sidecar.  [default: specwatch]")
@pairs_option("--target-label", "target_labels", "Further label of the targets.")
@pairs_option("--alert-label", "alert_labels", "Further label of every alert, such as team=search.")
@click.option("--rate-window", help="Window of the rates, such as 5m.  [default: 5m]")
@click.option("--interval", help="Time between evaluations, such as 30s.  [default: 30s]")
@click.option("--draft-cost", type=float, help="Time of a draft token ÷ of a plain step.  [default: 0.05]")
@pairs_option("--threshold", "thresholds", "Threshold of an alert, by its name.")
@pairs_option("--severity", "severities", f"{' or '.join(severity.value for severity in Severity)}, by alert.")
@click.option("--max-spec-concurrency", type=float, help="Requests in one engine up to which speculation pays.")
@click.option("--v0-num-speculative-tokens", type=int, help="K of servers with the V0 engine, which do not show it.")
@click.option("--time-scale", type=float, help="Factor on every duration, for rehearsals.  [default: 1]")
@click.option("--runbook-base", help="Address under which docs/runbooks is published.")
@click.option("--dashboard-url", help="Address of the dashboard in Grafana.")
@click.option("--slack-url-file", help="Where Alertmanager finds the address of the Slack webhook.")
@click.option("--slack-channel", help="Slack channel, where the webhook's own is not meant.")
@click.option("--slack-for", type=AUDIENCES, help="Alerts that Slack gets.  [default: all]")
@click.option("--pagerduty-key-file", help="Where Alertmanager finds PagerDuty's integration key.")
@click.option("--pagerduty-url", help="Address of PagerDuty's Events API, where it is not the one in the US.")
@click.option("--pagerduty-for", type=AUDIENCES, help="Alerts that PagerDuty gets.  [default: all]")
@click.option("--webhook-url", help="Address of a webhook that gets alerts as Alertmanager writes them.")
@click.option("--webhook-token-file", help="Where Alertmanager finds the webhook's bearer token.")
@click.option("--webhook-for", type=AUDIENCES, help="Alerts that the webhook gets.  [default: all]")
@click.option("--heartbeat-url", help="Address that raises the alarm when the alert that always fires stops coming.")
@pairs_option("--model-team", "model_teams", "Team that hears of a model's alerts; * stands for anything.")
@pairs_option("--team-slack-url-file", "team_slack_url_files", "A team's own Slack webhook.")
@pairs_option("--team-pagerduty-key-file", "team_pagerduty_key_files", "A team's own PagerDuty service.")
@click.option("--ticket-hours", help="When tickets are told: monday:friday 08:00-18:00 UTC.  [default: always]")
def command(output: Path, check: bool, config_file: Path | None, **flags: Any) -> None:
    """Write Prometheus rules, their tests and an Alertmanager configuration into --output.

    The rules work on vLLM's own metrics, without the sidecar too. Keys of the --config file are the options with
    underscores (vllm_job); target_labels, thresholds and severities map names to values.
    """
    config = load(RulesConfig, config_file, merged(flags, config_file, PAIRS))
    write_or_check(output, alert_files.alert_files(config), check=check, say=click.echo)
    if not check:
        click.echo(_next_steps(output, config))


def _next_steps(output: Path, config: RulesConfig) -> str:
    held = " and ".join(f"{content} in {path}" for path, content in secrets(config).items())
    return (
        f"Prometheus: add {output / alert_files.RULES} to rule_files; test: promtool test rules "
        f"{output / alert_files.TESTS}\n"
        f"Alertmanager: --config.file={output / alert_files.ALERTMANAGER}, with {held}"
    )
