"""``specwatch sidecar``: watch vLLM servers; serve signals, alerts and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from specwatch.cli.receiver_options import receiver_options
from specwatch.config import SidecarConfig, load, split_address


@click.command("sidecar", context_settings={"show_default": True})
@click.option("--target", multiple=True, metavar="[NAME=]URL", help="Server to watch; repeat for more.")
@click.option(
    "--from-prometheus",
    metavar="URL",
    help="Scrape nothing: read counters from this Prometheus, Mimir, Thanos or VictoriaMetrics.",
)
@click.option(
    "--prometheus-selector",
    metavar="MATCHERS",
    help='With it, the targets of vLLM\'s servers and no others.  [default: job="vllm"]',
)
@click.option("--prometheus-tenant", metavar="NAME", help="With it, the tenant of Mimir that is asked for.")
@click.option("--shard", metavar="N/M", help="Watch the Nth of M parts of all targets, several sidecars the others.")
@click.option("--listen", metavar="HOST:PORT", help="Where to serve.  [default: 127.0.0.1:9108]")
@click.option(
    "--insecure",
    is_flag=True,
    default=None,
    help="Allow an address other than loopback with neither tokens nor client certificates.",
)
@click.option(
    "--read-token-file", type=click.Path(path_type=Path), help="Tokens that may read, one a line; others are refused."
)
@click.option("--admin-token-file", type=click.Path(path_type=Path), help="Tokens that may read and change.")
@click.option(
    "--open-metrics", is_flag=True, default=None, help="Answer /metrics, /healthz and /readyz without a token."
)
@click.option("--tls-cert-file", type=click.Path(path_type=Path), help="Certificate chain in PEM: serve HTTPS.")
@click.option("--tls-key-file", type=click.Path(path_type=Path), help="Its key in PEM, without a passphrase.")
@click.option(
    "--client-ca-file", type=click.Path(path_type=Path), help="Serve only who has a certificate of this authority."
)
@click.option(
    "--interval",
    type=float,
    metavar="SECONDS",
    help="Time between scrapes of a target.  [default: 5; 15 with --from-prometheus]",
)
@click.option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    help="Longest a scrape may take.  [default: 5; 15 with --from-prometheus]",
)
@click.option(
    "--launch-record", type=click.Path(path_type=Path), help="Record that specwatch launch wrote: K, method, sizes."
)
@click.option(
    "--database", type=click.Path(path_type=Path), help="Keeps state and history over restarts; made if absent."
)
@click.option(
    "--calibration",
    type=click.Path(path_type=Path),
    help="What specwatch calibrate measured on these servers: speedups are then calibrated or measured.",
)
@click.option(
    "--fingerprints", type=click.Path(path_type=Path), help="Domains that specwatch evaluate-draft knows, to name one."
)
@click.option(
    "--gpu", metavar="NAME", help="Which GPU, as specwatch roofline --list-gpus has it: tells how near its bound."
)
@click.option(
    "--model", metavar="MODEL", help="With --gpu: folder or cached repository of the target, if no record says."
)
@click.option("--gpus", type=int, metavar="N", help="GPUs of a server, for its bound and what is saved.  [default: 1]")
@click.option("--verify-every", metavar="DURATION", help="Test with a few tokens, this often, that text is lossless.")
@click.option(
    "--verify-temperature", type=float, multiple=True, metavar="T", help="Of those tests; repeat.  [default: 0, 1]"
)
@click.option("--verify-tokens", type=int, metavar="N", help="Tokens of a test at each temperature.  [default: 256]")
@click.option(
    "--verify-prompts", type=click.Path(path_type=Path), metavar="FILE.jsonl", help="Prompts for them, not our own."
)
@click.option("--verify-token-file", type=click.Path(path_type=Path), help="File holding the servers' API key.")
@click.option("--num-speculative-tokens", type=int, metavar="K", help="K, where neither page nor record shows it (V0).")
@click.option(
    "--draft-cost", type=float, metavar="C", help="Time of a draft token ÷ a plain target step, if you know it."
)
@receiver_options
@click.option(
    "--relay-only",
    is_flag=True,
    default=None,
    help="Send what Alertmanager posts to /webhooks/alertmanager, and nothing that is judged here.",
)
@click.option(
    "--time-scale", type=float, help="Multiplies every duration of alerts and drift: rehearsals only.  [default: 1]"
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), help="Lines for people, or JSON for programs.  [default: text]"
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="YAML file whose keys are these, with underscores.",
)
def command(config: Path | None, **flags: Any) -> None:
    """Scrape vLLM servers, derive what speculation is worth on each, and serve it.

    Signals go to /metrics (Prometheus), /api/v1/signals (JSON) and / (a page). Alerts are judged by the catalogue, and
    delivered where a receiver is given, for places without a Prometheus: docs/alerting.md.

    Every option may also be an environment variable, SPECWATCH_SIDECAR_ and its name: SPECWATCH_SIDECAR_DRAFT_COST,
    or SPECWATCH_SIDECAR_TARGET with spaces between the targets. Options win over variables, both over the file.

    Targets may also be found, in files, by a URL or in DNS: give the file Prometheus' own scrape_configs. SIGHUP has
    the file read again.
    """

    def read() -> SidecarConfig:
        return load(SidecarConfig, config, flags)

    settings = read()
    host, port = split_address(settings.listen)
    from specwatch.sidecar import logs
    from specwatch.sidecar.run import run

    logs.begin(settings.log_format)
    run(settings, host, port, read)
