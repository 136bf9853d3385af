"""The sidecar in Kubernetes: what runs it, what it is told, how it is reached, and by whom."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from specwatch.collect.targets import parse, parse_all
from specwatch.config import SidecarConfig, is_loopback, load
from specwatch.errors import InputError
from specwatch.generate import kubernetes_storage
from specwatch.generate.kubernetes_config import Delivery, KubernetesConfig
from specwatch.generate.kubernetes_objects import Object, identity, kubernetes_object, labels
from specwatch.generate.yaml_text import to_yaml
from specwatch.signals.speedup import ASSUMED

PORT = 9108
"""Where the sidecar serves by default."""

PORT_NAME = "http"

USER = 65532
"""The user without rights that images call nonroot; the Dockerfile's as well."""

CONFIG_FOLDER = PurePosixPath("/etc/specwatch/config")
SECRETS_FOLDER = PurePosixPath("/etc/specwatch/secrets")
CONFIG_FILE = "sidecar.yaml"

SECRET_KEYS: Mapping[Delivery, str] = {
    Delivery.SLACK: "slack-webhook",
    Delivery.PAGERDUTY: "pagerduty-routing-key",
}
"""Keys of the Secret that people make, and so names of the files in the container."""

SECRET_ENTRIES: Mapping[Delivery, str] = {
    Delivery.SLACK: "slack_webhook_file",
    Delivery.PAGERDUTY: "pagerduty_routing_key_file",
}
"""Entries of the sidecar's configuration that name those files."""

TOKEN_KEYS: Mapping[str, str] = {"read_token_file": "read-tokens", "admin_token_file": "admin-tokens"}
"""The same of the tokens by which the sidecar knows who asks."""

REQUESTS = {"cpu": "50m", "memory": "128Mi"}
LIMITS = {"cpu": "500m", "memory": "256Mi"}
"""A sidecar takes 65 MB, and half a MB more for each engine that it watches; reading a page takes a millisecond."""

READABLE_BY_GROUP = 0o440
"""Mode of the secret files: root's, readable for the group that the pod's ``fsGroup`` is."""

_POD = re.compile(r"(?P<pod>[a-z0-9-]+)\.[a-z0-9-]+\.(?P<namespace>[a-z0-9-]+)\.svc(\..+)?")
"""Name of one pod of a StatefulSet in the cluster's DNS; a Service's has a part less."""

_SIDECAR_HEAD = """\
The keys are the options of specwatch sidecar. It listens beyond loopback, because Prometheus and the kubelet ask from
outside the pod. """

_WITHOUT_TOKENS = """\
Nothing asks who reads, hence insecure, which it demands for that; the NetworkPolicy says who may.
"""

_WITH_TOKENS = """\
Both read without a token what open_metrics opens; all else takes one.
"""


def sidecar_objects(config: KubernetesConfig) -> dict[str, Object]:
    """Name of its file and object, of everything that the sidecar needs; none without a target."""
    if not config.target:
        return {}
    text = sidecar_text(config)
    return {
        "serviceaccount": _object("v1", "ServiceAccount", config, {"automountServiceAccountToken": False}),
        "configmap": _object("v1", "ConfigMap", config, {"data": {CONFIG_FILE: text}}),
        **_claim(config),
        "deployment": _object("apps/v1", "Deployment", config, {"spec": _deployment(config, text)}),
        "service": _object("v1", "Service", config, {"spec": _service(config)}),
        "networkpolicy": _object("networking.k8s.io/v1", "NetworkPolicy", config, {"spec": _network_policy(config)}),
    }


def _claim(config: KubernetesConfig) -> dict[str, Object]:
    if config.storage is None:
        return {}
    return {
        "persistentvolumeclaim": _object(
            "v1", "PersistentVolumeClaim", config, {"spec": kubernetes_storage.claim(config)}
        )
    }


def sidecar_text(config: KubernetesConfig) -> str:
    """The sidecar's configuration file; InputError for a target or an entry that it would refuse."""
    for target in parse_all(config.target):
        if is_loopback(urlsplit(target.url).hostname or ""):
            raise InputError(
                f"target {target.url}: from its pod, that is the sidecar itself; write the vLLM pod's name, such as "
                "http://vllm-0.vllm.NAMESPACE.svc:8000"
            )
    openness = "open_metrics" if config.sidecar_tokens else "insecure"
    flags = {"target": tuple(map(named, config.target)), "listen": f"0.0.0.0:{PORT}", openness: True}
    chosen = load(SidecarConfig, config.sidecar_config, flags)
    entries = chosen.model_dump(mode="json", exclude_defaults=True)
    _refuse_paths(entries, config)
    entries["database"] = str(kubernetes_storage.DATABASE)
    entries.update({entry: str(SECRETS_FOLDER / key) for entry, key in secret_files(config).items()})
    if config.runbook_base:
        entries.setdefault("runbooks_url", config.runbook_base)
    if config.draft_cost != ASSUMED.c:
        entries.setdefault("draft_cost", config.draft_cost)
    return to_yaml(entries, _SIDECAR_HEAD + (_WITH_TOKENS if config.sidecar_tokens else _WITHOUT_TOKENS))


def secret_files(config: KubernetesConfig) -> dict[str, str]:
    """Keys of the Secret that people make, by the entries of the configuration that name their files."""
    delivery = {SECRET_ENTRIES[to]: SECRET_KEYS[to] for to in config.deliver}
    return {**delivery, **(TOKEN_KEYS if config.sidecar_tokens else {})}


def named(target: str) -> str:
    """The target under the name that the PodMonitor gives the same pod, so that drift is told under its labels."""
    parsed = parse(target)
    pod = _POD.fullmatch(urlsplit(parsed.url).hostname or "")
    if pod is None or parsed.name != parse(parsed.url).name:
        return target
    return f"{pod['pod']}.{pod['namespace']}={target}"


def _refuse_paths(entries: Mapping[str, Any], config: KubernetesConfig) -> None:
    """InputError for files of this machine, which the container does not have."""
    remedies = {entry: f"say --deliver {to.value}, which mounts it" for to, entry in SECRET_ENTRIES.items()}
    remedies |= dict.fromkeys(TOKEN_KEYS, "say --sidecar-tokens, which mounts it")
    remedies["launch_record"] = "say num_speculative_tokens and draft_cost instead"
    remedies["database"] = "leave it out: it has a volume of its own, which outlives its pod with --storage"
    for entry, remedy in remedies.items():
        if entry in entries:
            raise InputError(f"{entry} in {config.sidecar_config}: the container does not have that file; {remedy}")


def _object(api_version: str, kind: str, config: KubernetesConfig, content: Mapping[str, Any]) -> Object:
    return kubernetes_object(api_version, kind, config.sidecar_name, config, content)


def _deployment(config: KubernetesConfig, text: str) -> dict[str, Any]:
    return {
        # A second one would deliver everything again, and has no business in the database of the first.
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": identity(config)},
        "template": {
            "metadata": {
                "labels": labels(config),
                # The sidecar reads its configuration at start: a change of it has to start a new one.
                "annotations": {"checksum/config": hashlib.sha256(text.encode()).hexdigest()},
            },
            "spec": _pod(config),
        },
    }


def _pod(config: KubernetesConfig) -> dict[str, Any]:
    return {
        "serviceAccountName": config.sidecar_name,
        "automountServiceAccountToken": False,
        # Else a Service of the same name would fill SPECWATCH_SIDECAR_PORT, which reads like an option.
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(config)],
        "volumes": _volumes(config),
    }


def _container(config: KubernetesConfig) -> dict[str, Any]:
    mounts = [{"name": "config", "mountPath": str(CONFIG_FOLDER), "readOnly": True}]
    mounts.append(kubernetes_storage.mount())
    if secret_files(config):
        mounts.append({"name": "secrets", "mountPath": str(SECRETS_FOLDER), "readOnly": True})
    return {
        "name": "sidecar",
        "image": config.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["sidecar", "--config", str(CONFIG_FOLDER / CONFIG_FILE)],
        "env": kubernetes_storage.variables(),
        "ports": [{"name": PORT_NAME, "containerPort": PORT}],
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5},
        # A minute: a start on a busy node takes seconds, and killing it loses its windows.
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "failureThreshold": 6},
        "resources": {"requests": dict(REQUESTS), "limits": dict(LIMITS)},
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": PORT_NAME}, "timeoutSeconds": 5}


def _volumes(config: KubernetesConfig) -> list[dict[str, Any]]:
    volumes = [{"name": "config", "configMap": {"name": config.sidecar_name}}, kubernetes_storage.volume(config)]
    if secret_files(config):
        items = [{"key": key, "path": key} for key in secret_files(config).values()]
        secret = {"secretName": config.keys_of_sidecar, "items": items, "defaultMode": READABLE_BY_GROUP}
        volumes.append({"name": "secrets", "secret": secret})
    return volumes


def _service(config: KubernetesConfig) -> dict[str, Any]:
    return {
        "type": "ClusterIP",
        "selector": identity(config),
        "ports": [{"name": PORT_NAME, "port": PORT, "targetPort": PORT_NAME}],
    }


def _network_policy(config: KubernetesConfig) -> dict[str, Any]:
    readers = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": config.monitoring_namespace}},
        "podSelector": {"matchLabels": dict(config.prometheus_labels)},
    }
    return {
        "podSelector": {"matchLabels": identity(config)},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [readers], "ports": [{"protocol": "TCP", "port": PORT_NAME}]}],
    }
