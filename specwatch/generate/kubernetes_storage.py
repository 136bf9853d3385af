"""Where the sidecar's database is in Kubernetes: in its pod, or in a claim that outlives pods."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from specwatch.generate.kubernetes_config import KubernetesConfig

FOLDER = PurePosixPath("/var/lib/specwatch")
"""The one place where the sidecar may write."""

DATABASE = FOLDER / "state.db"

VOLUME = "state"

MOST_IN_POD = "5Gi"
"""From which the kubelet ends the pod. The database is bounded at 2 GiB, and where it was damaged, the old one stays
beside a new one. It is a bound: nothing is set aside for it."""


def volume(config: KubernetesConfig) -> dict[str, Any]:
    """The volume, for the pod. Without a claim it outlives the container, and goes with the pod."""
    if config.storage is None:
        return {"name": VOLUME, "emptyDir": {"sizeLimit": MOST_IN_POD}}
    return {"name": VOLUME, "persistentVolumeClaim": {"claimName": config.sidecar_name}}


def mount() -> dict[str, Any]:
    """Where the container has it."""
    return {"name": VOLUME, "mountPath": str(FOLDER)}


def variables() -> list[dict[str, str]]:
    """What the container's environment says: SQLite needs a place for large sorts, and nothing else may be written."""
    return [{"name": "SQLITE_TMPDIR", "value": str(FOLDER)}]


def claim(config: KubernetesConfig) -> dict[str, Any]:
    """What the claim asks for: a volume for one node at a time, so that two sidecars on two nodes cannot have it."""
    of_class = {"storageClassName": config.storage_class} if config.storage_class else {}
    return {
        "accessModes": ["ReadWriteOnce"],
        **of_class,
        "resources": {"requests": {"storage": config.storage}},
    }
