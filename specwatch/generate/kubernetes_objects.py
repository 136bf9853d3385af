"""What Kubernetes' objects have in common: kind, name, labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specwatch import __version__
from specwatch.generate.kubernetes_config import OWN_PREFIX, KubernetesConfig

Object = dict[str, Any]
"""One object as Kubernetes' YAML has it."""

MONITORING = "monitoring.coreos.com/v1"
"""The API of Prometheus' operator."""


def kubernetes_object(
    api_version: str, kind: str, name: str, config: KubernetesConfig, content: Mapping[str, Any], **metadata: Any
) -> Object:
    """An object in the chosen namespace under the labels that all have; ``metadata`` replaces or adds."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": config.namespace, "labels": labels(config), **metadata},
        **content,
    }


def identity(config: KubernetesConfig) -> dict[str, str]:
    """Labels that tell this installation from every other: selectors rest on them, so they never change."""
    return {f"{OWN_PREFIX}name": "specwatch", f"{OWN_PREFIX}instance": config.name}


def labels(config: KubernetesConfig) -> dict[str, str]:
    """The labels of every object."""
    return {**identity(config), f"{OWN_PREFIX}version": __version__, **config.labels}
