"""What a platform team may choose about the Kubernetes files, validated with what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from specwatch import __version__
from specwatch.generate.rules_config import RulesConfig

SIDECAR = "-sidecar"
"""Ends the names of what belongs to the sidecar."""

LONGEST_LABEL = 63
"""Characters of a DNS label, and so of a namespace, a Service's name and a label's value (RFC 1123)."""

LONGEST_OBJECT_NAME = 253
"""Characters of most objects' names (a DNS subdomain, RFC 1123)."""

LONGEST_PORT_NAME = 15
"""Characters of a port's name (RFC 6335)."""

KEYS_OF_ALERTMANAGER = "specwatch-alertmanager-keys"
"""The Secret that people make for Alertmanager; Prometheus' operator mounts it under its own name."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = rf"({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-\w.]*[A-Za-z0-9])?)?"
_IMAGE = r"[a-z0-9][\w.:/-]*(:[\w][\w.-]*|@sha256:[0-9a-f]{64})"
_SIZE = r"[1-9]\d{0,6}(Mi|Gi|Ti)"

OWN_PREFIX = "app.kubernetes.io/"
"""Labels that the selectors of the files themselves rest on."""


class Delivery(str, Enum):
    """Whom the sidecar itself tells of alerts."""

    SLACK = "slack"
    PAGERDUTY = "pagerduty"


def _refuse(text: str) -> PydanticCustomError:
    # The text goes in as a value: braces of the user's own must not be read as a template.
    return PydanticCustomError("unusable", "{text}", {"text": text})


def _name(text: str) -> str:
    """A name that everything made here can carry, a Service included: those begin with a letter."""
    longest = LONGEST_LABEL - len(SIDECAR)
    if len(text) > longest or not re.fullmatch(_LABEL, text) or not text[0].isalpha():
        raise _refuse(_no_name(text, longest, "begin with a letter and "))
    return text


def _namespace(text: str) -> str:
    if len(text) > LONGEST_LABEL or not re.fullmatch(_LABEL, text):
        raise _refuse(_no_name(text, LONGEST_LABEL, ""))
    return text


def _no_name(text: str, longest: int, first: str) -> str:
    near = re.sub("[^a-z0-9]+", "-", text.lower()).strip("-0123456789" if first else "-")
    rule = f"names {first}have lower-case letters, digits and '-', at most {longest} characters"
    return f"{rule}, such as {near}" if near and len(near) <= longest else rule


def _labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    for key, value in labels.items():
        name = key.rpartition("/")[2]
        if not re.fullmatch(_QUALIFIED, key, re.ASCII) or len(name) > LONGEST_LABEL:
            raise _refuse(f"{key!r} is no label's name; write one such as team or example.com/team")
        if not re.fullmatch(_VALUE, value, re.ASCII) or len(value) > LONGEST_LABEL:
            raise _refuse(
                f"{value!r} is no label's value ({key}); it has letters, digits, '-', '_' and '.', at most "
                f"{LONGEST_LABEL} of them"
            )
    return labels


def _added(labels: Mapping[str, str]) -> Mapping[str, str]:
    taken = [key for key in labels if key.startswith(OWN_PREFIX)]
    if taken:
        raise _refuse(f"{taken[0]!r} is set by gen-k8s; choose --name instead")
    return labels


def _image(text: str) -> str:
    if not re.fullmatch(_IMAGE, text, re.ASCII) or text.endswith(":latest"):
        raise _refuse("write an image with a tag or a digest that stays the same, such as registry.example/specwatch:1")
    return text


def _size(text: str) -> str:
    if not re.fullmatch(_SIZE, text, re.ASCII):
        raise _refuse("write a size such as 5Gi")
    return text


def _storage_class(text: str) -> str:
    if len(text) > LONGEST_OBJECT_NAME or not re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text):
        raise _refuse(
            "names of storage classes have lower-case letters, digits, '-' and '.'; see kubectl get storageclass"
        )
    return text


def _port(value: Any) -> Any:
    """A number is one, whether it was written as one or comes from the command line; YAML's yes and no are none."""
    if isinstance(value, bool):
        return str(value)
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _port_in_range(value: int | str) -> int | str:
    if isinstance(value, int):
        usable = 0 < value < 65536
    else:
        usable = bool(re.fullmatch(_LABEL, value)) and len(value) <= LONGEST_PORT_NAME and "--" not in value
    if not usable:
        raise _refuse(f"write a port's name (lower-case, at most {LONGEST_PORT_NAME} characters) or its number")
    return value


Namespace = Annotated[str, AfterValidator(_namespace)]
Labels = Annotated[dict[str, str], AfterValidator(_labels)]
Selector = Annotated[Labels, Field(min_length=1)]
"""Labels that choose pods; none would choose all of them."""


class KubernetesConfig(RulesConfig):
    """Choices for ``specwatch gen-k8s``: those of gen-alerts, and what Kubernetes needs besides."""

    name: Annotated[str, AfterValidator(_name)] = "specwatch"
    """Begins the names of everything."""
    namespace: Namespace = "specwatch"
    labels: Annotated[Labels, AfterValidator(_added)] = Field(default={})
    """Further labels of everything, such as those that the cluster's Prometheus chooses rules and monitors by."""
    image: Annotated[str, AfterValidator(_image)] = f"specwatch:{__version__}"
    target: tuple[str, ...] = ()
    """Servers that the sidecar watches, as it takes them itself; without any there is no sidecar."""
    sidecar_config: Path | None = None
    """The sidecar's own configuration file, for whatever else it is to be told."""
    deliver: tuple[Delivery, ...] = ()
    """Whom the sidecar tells of alerts; nobody where Alertmanager does."""
    sidecar_tokens: bool = False
    """Whether the sidecar asks for a token, in all that Prometheus and probes do not read."""
    storage: Annotated[str, AfterValidator(_size)] | None = None
    """Size of a claim for the sidecar's database; without one the database is in the pod, and goes with it."""
    storage_class: Annotated[str, AfterValidator(_storage_class)] | None = None
    """The claim's storage class; None is the cluster's own choice."""
    vllm_namespaces: tuple[Namespace, ...] = ()
    """Where the vLLM pods are; none: in the namespace of everything else."""
    vllm_pod_labels: Selector = Field(default={"app.kubernetes.io/name": "vllm"})
    """What the vLLM pods have in common."""
    vllm_port: Annotated[int | str, BeforeValidator(_port), AfterValidator(_port_in_range)] = "http"
    """The port that vLLM serves on: its name in the pods or, from version 0.79 of Prometheus' operator on, number."""
    monitoring_namespace: Namespace = "monitoring"
    """Where Prometheus and Alertmanager are."""
    prometheus_labels: Selector = Field(default={"app.kubernetes.io/name": "prometheus"})
    """The pods there that may read the sidecar."""
    scrape_protocols: bool = True
    """Whether the monitors ask for the text format; Prometheus' operator knows the field from version 0.72 on."""
    slack_url_file: Annotated[str, Field(min_length=1)] = f"/etc/alertmanager/secrets/{KEYS_OF_ALERTMANAGER}/slack-url"
    pagerduty_key_file: Annotated[str, Field(min_length=1)] = (
        f"/etc/alertmanager/secrets/{KEYS_OF_ALERTMANAGER}/pagerduty-key"
    )

    @model_validator(mode="after")
    def _has_a_sidecar_where_one_is_spoken_of(self) -> KubernetesConfig:
        if not self.target and (self.deliver or self.sidecar_config or self.sidecar_tokens or self.storage):
            raise _refuse("without a target there is no sidecar to configure: name the vLLM servers that it watches")
        return self

    @model_validator(mode="after")
    def _has_a_claim_where_one_is_spoken_of(self) -> KubernetesConfig:
        if self.storage_class and not self.storage:
            raise _refuse("a storage class is for a claim: say its size with --storage, such as 5Gi")
        return self

    @property
    def sidecar_name(self) -> str:
        """Name of the sidecar's objects."""
        return self.name + SIDECAR

    @property
    def keys_of_sidecar(self) -> str:
        """The Secret that people make for the sidecar where it delivers itself."""
        return f"{self.name}-keys"
