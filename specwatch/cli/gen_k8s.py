"""``specwatch gen-k8s``: rules, monitors, dashboards and the sidecar for Kubernetes, written or checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from specwatch.cli import gen_alerts
from specwatch.cli.pairs import merged, pairs_option
from specwatch.config import load
from specwatch.generate.files import write_or_check
from specwatch.generate.kubernetes import ALERTMANAGER, kubernetes_files
from specwatch.generate.kubernetes_config import Delivery, KubernetesConfig
from specwatch.generate.kubernetes_sidecar import secret_files
from specwatch.generate.rules_config import RulesConfig

PAIRS = (*gen_alerts.PAIRS, "labels", "vllm_pod_labels", "prometheus_labels")
"""Keys that map names to values."""


@click.command(name="gen-k8s", context_settings={"show_default": True})
@click.option("--output", type=click.Path(path_type=Path), default=Path("kubernetes"), help="Folder to write into.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where the folder holds anything else.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="YAML file with the options as keys.")
@click.option("--name", help="Begins the names of all objects.  [default: specwatch]")
@click.option("--namespace", help="Namespace of all but Alertmanager's part.  [default: specwatch]")
@pairs_option("--label", "labels", "Further label of all objects, such as release=kube-prometheus-stack.")
@click.option("--image", help="The sidecar's image, with a tag or a digest.  [default: specwatch:VERSION]")
@click.option(
    "--target", multiple=True, metavar="[NAME=]URL", help="Server that the sidecar watches; none: no sidecar."
)
@click.option("--sidecar-config", type=click.Path(path_type=Path), help="The sidecar's own --config: pace, K, links.")
@click.option(
    "--deliver",
    multiple=True,
    type=click.Choice([to.value for to in Delivery]),
    help="Whom the sidecar itself tells of alerts, where no Alertmanager does.",
)
@click.option(
    "--sidecar-tokens/--no-sidecar-tokens",
    default=None,
    help="Let the sidecar ask for tokens, from a Secret, in all but metrics and health.  [default: no tokens]",
)
@click.option("--storage", metavar="SIZE", help="Claim for the sidecar's database, such as 5Gi.  [default: in its pod]")
@click.option("--storage-class", help="Storage class of that claim.  [default: the cluster's]")
@click.option("--vllm-namespace", "vllm_namespaces", multiple=True, help="Where vLLM pods are.  [default: --namespace]")
@pairs_option("--vllm-pod-label", "vllm_pod_labels", "Label of the vLLM pods.  [default: app.kubernetes.io/name=vllm]")
@click.option("--vllm-port", help="Name or number of the port that vLLM serves on.  [default: http]")
@click.option("--monitoring-namespace", help="Where Prometheus and Alertmanager are.  [default: monitoring]")
@pairs_option("--prometheus-label", "prometheus_labels", "Label of the pods there that may read the sidecar.")
@click.option(
    "--scrape-protocols/--no-scrape-protocols",
    default=None,
    help="Ask for the text format; without it for Prometheus' operator before 0.72.  [default: ask]",
)
def command(output: Path, check: bool, config_file: Path | None, **flags: Any) -> None:
    """Write a kustomize base into --output: rules, monitors, dashboards, and the sidecar for the --target servers.

    A second base in its folder alertmanager holds an Alertmanager configuration. All options of gen-alerts are
    options here too; keys of the --config file are the options with underscores, in the plural where they may be
    repeated (labels, vllm_namespaces), but target and deliver.
    """
    config = load(KubernetesConfig, config_file, merged(flags, config_file, PAIRS))
    write_or_check(output, kubernetes_files(config), check=check, say=click.echo)
    if not check:
        click.echo(_next_steps(output, config))


def _next_steps(output: Path, config: KubernetesConfig) -> str:
    steps = [
        f"Apply: kubectl apply -k {output}, and for Alertmanager's configuration kubectl apply -k "
        f"{output / ALERTMANAGER}; what they need is said at the top of their files"
    ]
    if not config.target:
        steps.append("No sidecar: name vLLM servers with --target to have drift watched too")
    elif not config.storage:
        steps.append(
            "The sidecar's database outlives its container and goes with its pod; --storage 5Gi keeps it in a claim"
        )
    if keys := " and ".join(secret_files(config).values()):
        steps.append(f"The sidecar waits for the Secret {config.keys_of_sidecar} with {keys}")
    return "\n".join(steps)


# The rules are those of gen-alerts, so they are chosen by its options.
command.params += [option for option in gen_alerts.command.params if option.name in RulesConfig.model_fields]
