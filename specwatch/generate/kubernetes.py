"""The files that ``specwatch gen-k8s`` writes: a kustomize base, and a second one for Alertmanager.

Alertmanager gets a Secret with its whole configuration instead of an AlertmanagerConfig: that would match alerts of
its own namespace only, which alerts over several have not, and it has no place for the texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from specwatch.generate.alertmanager import secrets
from specwatch.generate.kubernetes_config import KEYS_OF_ALERTMANAGER, KubernetesConfig
from specwatch.generate.kubernetes_monitoring import (
    alertmanager_secret,
    dashboard_objects,
    pod_monitor,
    rule_object,
    service_monitor,
)
from specwatch.generate.kubernetes_objects import Object
from specwatch.generate.kubernetes_sidecar import sidecar_objects
from specwatch.generate.yaml_text import choices, to_yaml

KUSTOMIZATION = "kustomization.yaml"
ALERTMANAGER = "alertmanager"
"""Folder of the base for Alertmanager's namespace."""

HEADS = {
    "prometheusrule": "What specwatch records and alerts on: the groups of specwatch.rules.yml.",
    "podmonitor": """\
Scrapes the vLLM pods under the job that the rules read. The text format is asked for because some exporters rename
vllm:x to vllm_x in the others. A pod is called by its name and namespace, not by an address that it will not keep.""",
    "servicemonitor": "Scrapes the sidecar: drift, which PromQL cannot tell, comes from there.",
    "serviceaccount": "The sidecar asks nothing of Kubernetes, so it gets no token.",
    "configmap": "What the sidecar is told.",
    "persistentvolumeclaim": """\
Where the sidecar's database outlives its pods. Whoever deletes it deletes what was learned, told and seen.""",
    "deployment": """\
The sidecar: one, because two would tell everything twice, without any right, writing to its database alone.
The image is built by the Dockerfile of the repository; push it where your cluster finds it.""",
    "service": "Where Prometheus finds the sidecar; to look at its page, kubectl port-forward.",
    "networkpolicy": """\
The sidecar listens beyond loopback for Prometheus, and nobody but Prometheus gets through.
It takes a network plugin that enforces policies. The kubelet's probes and kubectl port-forward pass.""",
}
"""What is said at the top of each file."""

_DASHBOARD_HEAD = "A dashboard, under the label that the sidecar of Grafana's Helm chart looks for."

_KUSTOMIZATION_HEAD = """\
specwatch in Kubernetes: kubectl apply -k this folder. Needs the CRDs of Prometheus' operator and the namespace."""

_SECRET_HEAD = f"""\
Who hears of the alerts, for an Alertmanager of Prometheus' operator, whose resource has to say
  configSecret: {{name}}
  secrets: [{KEYS_OF_ALERTMANAGER}]
This replaces its whole configuration; take the routes and receivers over where it has one already.
It holds no secret. Those are in {KEYS_OF_ALERTMANAGER}, which you make:
{{secrets}}"""


def kubernetes_files(config: KubernetesConfig) -> dict[str, str]:
    """Text of every file by path; InputError when the sidecar could not use what it is told."""
    objects = _objects(config)
    base = {f"{name}.yaml": _text(HEADS.get(name, _DASHBOARD_HEAD), document) for name, document in objects.items()}
    return {
        KUSTOMIZATION: _kustomization(base, config),
        **base,
        **_alertmanager_files(config),
    }


def _objects(config: KubernetesConfig) -> dict[str, Object]:
    """Name of its file and object, in the order of the kustomization."""
    sidecar = sidecar_objects(config)
    return {
        "prometheusrule": rule_object(config),
        "podmonitor": pod_monitor(config),
        **({"servicemonitor": service_monitor(config)} if sidecar else {}),
        **dashboard_objects(config),
        **sidecar,
    }


def _kustomization(resources: Iterable[str], config: KubernetesConfig) -> str:
    chosen = choices(config)
    again = "Generated: edit the options, not these files, and run `specwatch gen-k8s --output DIR` again."
    head = [_KUSTOMIZATION_HEAD, again, *([f"Chosen: {chosen}"] if chosen else [])]
    return to_yaml(_kustomize(resources), "\n".join(head))


def _alertmanager_files(config: KubernetesConfig) -> dict[str, str]:
    files = "\n".join(f"  {path}: {content}" for path, content in secrets(config).items())
    head = _SECRET_HEAD.format(name=alertmanager_secret(config)["metadata"]["name"], secrets=files)
    base = _kustomize(["secret.yaml"])
    return {
        f"{ALERTMANAGER}/{KUSTOMIZATION}": to_yaml(base, "Alertmanager's part, in Alertmanager's namespace."),
        f"{ALERTMANAGER}/secret.yaml": _text(head, alertmanager_secret(config)),
    }


def _kustomize(resources: Iterable[str]) -> dict[str, Any]:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
    }


def _text(head: str, document: Object) -> str:
    return to_yaml(document, f"{head}\nGenerated by specwatch gen-k8s.")
