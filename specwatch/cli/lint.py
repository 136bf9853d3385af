"""``specwatch lint``: mistakes in the rules, routes and dashboards that people have already."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from specwatch.lint import report
from specwatch.lint.run import Outcome, run
from specwatch.vllm.features import NEWEST
from specwatch.vllm.releases import Release

EXIT_FOUND = 1
EXIT_UNUSABLE = 2


@click.command("lint", context_settings={"show_default": True})
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--vllm-version", default=str(NEWEST), metavar="X", help="The release that the servers run.")
@click.option("--fix", is_flag=True, help="Write plain new names and missing _total into the files.")
@click.option("--format", "form", type=click.Choice(["text", "json", "sarif"]), default="text", help="What to print.")
def command(paths: tuple[Path, ...], vllm_version: str, fix: bool, form: str) -> None:
    """Say what is wrong with Prometheus rules, Alertmanager configurations and Grafana dashboards that watch vLLM.

    Metrics that the release does not have and what came in their place, rates and ratios that mean nothing, alerts that
    cannot fire. FILE is YAML or JSON, or a folder of them; PrometheusRule objects and ConfigMaps are read too. Give all
    files of a set at once: what one records, another may read.

    Exit code: 0 nothing but notes, 1 something is wrong, 2 a file cannot be used. docs/lint.md lists the codes.
    """
    outcome = run(paths, Release.parse(vllm_version), fix)
    click.echo(_printed(outcome, form))
    for problem in outcome.problems:
        click.echo(f"specwatch: {report.shown(problem)}", err=True)
    sys.exit(EXIT_UNUSABLE if outcome.problems else EXIT_FOUND if outcome.failed else 0)


def _printed(outcome: Outcome, form: str) -> str:
    if form == "text":
        return report.as_text(outcome)
    return json.dumps(report.as_json(outcome) if form == "json" else report.as_sarif(outcome), indent=2)
