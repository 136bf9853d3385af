"""The command line: one module a command, imported only when that command runs."""

from __future__ import annotations

import importlib
import io
import sys

import click

from specwatch import __version__
from specwatch.errors import SpecwatchError

COMMANDS = {
    "bench-hf": "Measure what speculation is worth in Hugging Face's generate",
    "calibrate": "Measure what speculation is worth, against a server without it",
    "check": "Say what speculation does on a running vLLM server",
    "check-config": "Say what is wrong with a sidecar's configuration, or what it would do",
    "demo": "Show the whole loop on this machine: launch, watch, drift, alert",
    "evaluate-draft": "Say what acceptance a draft will have on your texts, before it is deployed",
    "gen-alerts": "Write Prometheus rules and an Alertmanager configuration",
    "gen-dashboards": "Write Grafana dashboards",
    "gen-k8s": "Write rules, monitors, dashboards and the sidecar for Kubernetes",
    "launch": "Start vLLM with speculation, and the sidecar beside it",
    "lint": "Find mistakes in rules, routes and dashboards that watch vLLM",
    "methods": "List the ways to draft that a vLLM release has, and what each needs",
    "notify-test": "Send a test message through every receiver of alerts, and say what came back",
    "push-dashboards": "Bring the dashboards into a running Grafana",
    "references": "List, freeze or relearn what a sidecar takes as normal acceptance",
    "roofline": "Say how fast a model can decode at most on a GPU, and what drafts cost there",
    "sidecar": "Scrape vLLM servers; serve signals, alerts and a page",
    "status": "Say how every server stands that a sidecar watches, the worst first",
    "top": "Show how every server stands, live on one screen",
    "verify": "Say whether speculation is lossless on a running vLLM server",
}
"""Name and one-line help of every command; the module is the name with underscores."""


class LazyGroup(click.Group):
    """A group that imports a command's module when it is asked for, so that ``--help`` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import ``specwatch.cli.<name>`` and return its ``command``."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"specwatch.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from COMMANDS, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "SPECWATCH"})
@click.version_option(__version__, prog_name="specwatch")
def specwatch() -> None:
    """Watch what speculative decoding is worth on your vLLM servers."""


def main() -> None:
    """Run the command line; a SpecwatchError becomes one message and its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal of another encoding shows "?" for a sign that it lacks, instead of ending in a traceback.
            stream.reconfigure(errors="replace")
    try:
        specwatch.main(prog_name="specwatch")
    except SpecwatchError as problem:
        click.echo(f"specwatch: {problem}", err=True)
        sys.exit(problem.exit_code)
