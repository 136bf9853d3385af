"""``specwatch gen-alerts``: Prometheus rules and an Alertmanager configuration, written or checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from specwatch.alerting.catalogue import Severity
from specwatch.config import load, read_yaml
from specwatch.errors import SpecwatchError
from specwatch.generate import alert_files
from specwatch.generate.alertmanager import secrets
from specwatch.generate.files import differing, write_all
from specwatch.generate.rules_config import Audience, RulesConfig

_Command = TypeVar("_Command", bound=Callable[..., Any])

AUDIENCES = click.Choice([audience.value for audience in Audience])


def _assignments(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Names and values; what the values may be is left to the configuration's own validation."""
    pairs = [text.partition("=") for text in texts]
    for name, equals, value in pairs:
        if not (name and equals and value):
            raise click.BadParameter(f"{name + equals + value!r} is not of the form NAME=VALUE", ctx, param)
    return {name: value for name, _, value in pairs}


def _mapping(option: str, name: str, text: str) -> Callable[[_Command], _Command]:
    return click.option(option, name, metavar="NAME=VALUE", multiple=True, callback=_assignments, help=text)


@click.command(context_settings={"show_default": True})
@click.option("--output", type=click.Path(path_type=Path), default=Path("alerts"), help="Folder to write into.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where the folder holds anything else.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="YAML file with the options as keys.")
@click.option("--vllm-job", help="Prometheus' job of the vLLM servers.  [default: vllm]")
@click.option("--specwatch-job", help="Prometheus' job of the sidecar.  [default: specwatch]")
@_mapping("--target-label", "target_labels", "Further label of the targets.")
@click.option("--rate-window", help="Window of the rates, such as 5m.  [default: 5m]")
@click.option("--interval", help="Time between evaluations, such as 30s.  [default: 30s]")
@click.option("--draft-cost", type=float, help="Time of a draft token ÷ of a plain step.  [default: 0.05]")
@_mapping("--threshold", "thresholds", "Threshold of an alert, by its name.")
@_mapping("--severity", "severities", f"{' or '.join(severity.value for severity in Severity)}, by alert.")
@click.option("--time-scale", type=float, help="Factor on every duration, for rehearsals.  [default: 1]")
@click.option("--runbook-base", help="Address under which docs/runbooks is published.")
@click.option("--dashboard-url", help="Address of the dashboard in Grafana.")
@click.option("--slack-url-file", help="Where Alertmanager finds the address of the Slack webhook.")
@click.option("--slack-channel", help="Slack channel, where the webhook's own is not meant.")
@click.option("--slack-for", type=AUDIENCES, help="Alerts that Slack gets.  [default: all]")
@click.option("--pagerduty-key-file", help="Where Alertmanager finds PagerDuty's integration key.")
@click.option("--pagerduty-url", help="Address of PagerDuty's Events API, where it is not the one in the US.")
@click.option("--pagerduty-for", type=AUDIENCES, help="Alerts that PagerDuty gets.  [default: all]")
def command(output: Path, check: bool, config_file: Path | None, **flags: Any) -> None:
    """Write Prometheus rules, their tests and an Alertmanager configuration into --output.

    The rules work on vLLM's own metrics, without the sidecar too. Keys of the --config file are the options with
    underscores (vllm_job); target_labels, thresholds and severities map names to values.
    """
    config = load(RulesConfig, config_file, _merged(flags, config_file))
    files = alert_files.alert_files(config)
    if not check:
        for path in write_all(output, files):
            click.echo(f"wrote {path}")
        click.echo(_next_steps(output, config))
        return
    changed = differing(output, files)
    if changed:
        names = ", ".join(changed)
        raise SpecwatchError(f"{output} is not what these options generate ({names}): run the same without --check")
    click.echo(f"{output} is what these options generate")


def _merged(flags: dict[str, Any], config_file: Path | None) -> dict[str, Any]:
    """The flags, with those of the form NAME=VALUE added to what the file has under the same key.

    Where the file has something else than a mapping there, the flag is left out, so that the file is refused.
    """
    in_file = read_yaml(config_file) if config_file else {}
    merged = dict(flags)
    for key in ("target_labels", "thresholds", "severities"):
        before = in_file.get(key, {})
        merged[key] = {**before, **flags[key]} if flags[key] and isinstance(before, dict) else None
    return merged


def _next_steps(output: Path, config: RulesConfig) -> str:
    held = " and ".join(f"{content} in {path}" for path, content in secrets(config).items())
    return (
        f"Prometheus: add {output / alert_files.RULES} to rule_files; test: promtool test rules "
        f"{output / alert_files.TESTS}\n"
        f"Alertmanager: --config.file={output / alert_files.ALERTMANAGER}, with {held}"
    )
