"""Every object against the schemas of Kubernetes and of Prometheus' operator; needs no kubectl and no cluster."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from specwatch.generate.kubernetes import kubernetes_files
from specwatch.generate.kubernetes_config import KubernetesConfig

KUBERNETES = ("1.25", "1.30", "1.33")
"""From the oldest that managed clusters still run; kubernetes-validate holds their published schemas."""

OPERATOR = "monitoring.coreos.com/v1"

CONFIGS = {
    "plain": KubernetesConfig(target=("http://llama-0.llama.inference.svc:8000",)),
    "without a sidecar": KubernetesConfig(),
    "everything": KubernetesConfig(
        name="spec",
        namespace="llm",
        labels={"release": "stack", "example.com/team": "a_b.c"},
        image="registry.example:5000/specwatch:1",
        target=("http://llama-0.llama.inference.svc:8000", "b=http://10.0.0.7:8000"),
        deliver=("slack", "pagerduty"),
        storage="20Gi",
        storage_class="fast.ssd",
        vllm_namespaces=("a", "b"),
        vllm_port="8000",
        target_labels={"cluster": "x"},
        time_scale=0.01,
        runbook_base="https://runbooks.example",
        dashboard_url="https://grafana.example/d/specwatch",
    ),
    "for an old operator": KubernetesConfig(target=("http://10.0.0.7:8000",), scrape_protocols=False),
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def objects(config: KubernetesConfig) -> Iterator[dict[str, Any]]:
    for text in kubernetes_files(config).values():
        document = yaml.safe_load(text)
        if document["kind"] != "Kustomization":
            yield document


def complaint(document: dict[str, Any]) -> str | None:
    """What a cluster that takes no unknown fields would say, or None."""
    of_operator = document["apiVersion"] == OPERATOR
    return _complaint_of_operator(document) if of_operator else _complaint_of_kubernetes(document)


def _complaint_of_kubernetes(document: dict[str, Any]) -> str | None:
    import kubernetes_validate

    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as problem:
            return f"{version}: {problem.message}"
    return None


def _complaint_of_operator(document: dict[str, Any]) -> str | None:
    import pydantic
    from cloudcoil.models.prometheus_operator import v1

    try:
        read = getattr(v1, document["kind"]).model_validate(document)
    except pydantic.ValidationError as problem:
        return str(problem)
    # The models leave out what they do not know.
    known = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return None if known == document else f"unknown fields: only {known} of {document} is known"


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_every_object_is_what_its_schema_allows(config: KubernetesConfig):
    assert [found for document in objects(config) if (found := complaint(document))] == []


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Deployment", ("spec", "template", "spec", "runAsNonRoot"), True),
        ("Deployment", ("spec", "replicas"), "one"),
        ("Deployment", ("spec", "template", "spec", "volumes", 1, "emptyDir", "size"), "5Gi"),
        ("PersistentVolumeClaim", ("spec", "accessModes"), "ReadWriteOnce"),
        ("PersistentVolumeClaim", ("spec", "storage"), "5Gi"),
        ("NetworkPolicy", ("spec", "ingress", 0, "to"), []),
        ("ServiceAccount", ("automountServiceAccountToken",), "no"),
        ("PrometheusRule", ("spec", "groups", 0, "interval"), "half a minute"),
        ("PrometheusRule", ("spec", "groups", 1, "rules", 0, "keepFiringFor"), "5m"),
        ("PodMonitor", ("spec", "podMetricsEndpoints", 0, "scrapeProtocols"), ["PrometheusText0.0.4"]),
        ("PodMonitor", ("spec", "scrapeProtocols"), ["Text"]),
        ("ServiceMonitor", ("spec", "endpoints", 0, "port"), 9108),
    ],
)
def test_a_field_in_the_wrong_place_or_of_the_wrong_kind_is_seen(kind: str, path: tuple[str | int, ...], value: Any):
    generated = (found for name in ("plain", "everything") for found in objects(CONFIGS[name]))
    document = copy.deepcopy(next(found for found in generated if found["kind"] == kind))
    inner: Any = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert complaint(document) is not None
