"""Where targets are found and how they are asked, in the words of Prometheus' own ``scrape_configs``.

Only the keys that matter to a reader of one family of pages are taken; any other is named as unknown. Secrets come from
files alone, so that the configuration may be read by more people than they.
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""Prometheus' rule, as it was before UTF-8 names; what it cannot say, no target needs."""

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_UNITS = (86_400.0, 3600.0, 60.0, 1.0, 0.001)


def duration(value: Any) -> Any:
    """Seconds from Prometheus' ``1m30s``; anything but text stays for the model to convert."""
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value)
    if not value or found is None:
        raise ValueError("Input should be a duration such as 30s, 5m or 1h30m")
    return sum(unit * int(digits) for unit, digits in zip(_UNITS, found.groups(), strict=True) if digits)


def _label_name(value: str) -> str:
    if not LABEL_NAME.fullmatch(value):
        raise ValueError("a label's name has letters, digits and underscores, and does not begin with a digit")
    return value


def _regex(value: str) -> str:
    try:
        re.compile(value, re.DOTALL)
    except re.error as problem:
        raise ValueError(f"not a regular expression: {problem}") from None
    return value


Seconds = Annotated[float, BeforeValidator(duration), Field(ge=1, le=86_400)]
LabelName = Annotated[str, AfterValidator(_label_name)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TlsConfig(_Section):
    """Whom to trust, and who we are."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False

    @model_validator(mode="after")
    def _both_halves(self) -> TlsConfig:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together")
        return self


class Authorization(_Section):
    """A token for the Authorization header."""

    type: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")] = "Bearer"
    credentials_file: Path


class BasicAuth(_Section):
    """Name and password."""

    username: Annotated[str, Field(pattern=r"^[^:\x00-\x1f]+$")]
    password_file: Path


class HttpClient(_Section):
    """How servers are asked."""

    authorization: Authorization | None = None
    basic_auth: BasicAuth | None = None
    tls_config: TlsConfig = TlsConfig()

    @model_validator(mode="after")
    def _one_of_them(self) -> HttpClient:
        if self.authorization and self.basic_auth:
            raise ValueError("authorization and basic_auth are both the Authorization header: choose one")
        return self


class Action(str, Enum):
    """What a relabelling rule does."""

    REPLACE = "replace"
    KEEP = "keep"
    DROP = "drop"
    HASHMOD = "hashmod"
    LABELMAP = "labelmap"
    LABELDROP = "labeldrop"
    LABELKEEP = "labelkeep"


class RelabelConfig(_Section):
    """One rule, with Prometheus' meaning and defaults. Regular expressions are Python's, and match the whole value."""

    source_labels: tuple[LabelName, ...] = ()
    separator: str = ";"
    regex: Annotated[str, AfterValidator(_regex)] = "(.*)"
    modulus: Annotated[int, Field(ge=1)] | None = None
    target_label: str | None = None
    replacement: str = "$1"
    action: Action = Action.REPLACE

    @model_validator(mode="after")
    def _what_the_action_needs(self) -> RelabelConfig:
        if self.action in (Action.REPLACE, Action.HASHMOD) and not self.target_label:
            raise ValueError(f"{self.action.value} needs a target_label")
        if self.action is Action.HASHMOD and self.modulus is None:
            raise ValueError("hashmod needs a modulus")
        return self


class StaticConfig(_Section):
    """Targets written down."""

    targets: tuple[str, ...]
    labels: dict[LabelName, str] = {}


class FileSdConfig(_Section):
    """Targets in JSON or YAML files."""

    files: Annotated[tuple[str, ...], Field(min_length=1)]
    refresh_interval: Seconds = 5.0
    """Between looks whether a file changed. Prometheus is told by the kernel, and looks every 5 m besides."""

    @model_validator(mode="after")
    def _known_kinds(self) -> FileSdConfig:
        for pattern in self.files:
            if not pattern.endswith((".json", ".yml", ".yaml")):
                raise ValueError(f"{pattern!r}: a file of targets is called *.json, *.yml or *.yaml")
        return self


class HttpSdConfig(HttpClient):
    """Targets that a server tells."""

    url: str
    refresh_interval: Seconds = 60.0

    @model_validator(mode="after")
    def _whole_url(self) -> HttpSdConfig:
        # Of the whole section and not of the field, whose message would repeat a password in it.
        if not re.fullmatch(r"https?://[^/@\s]+(/\S*)?", self.url):
            raise ValueError("url: write it as http://HOST/PATH; credentials do not belong into it")
        return self


class RecordType(str, Enum):
    """DNS records that name targets."""

    A = "A"
    AAAA = "AAAA"
    SRV = "SRV"


class DnsSdConfig(_Section):
    """Targets that DNS tells."""

    names: Annotated[tuple[str, ...], Field(min_length=1)]
    type: RecordType = RecordType.SRV
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    refresh_interval: Seconds = 30.0

    @model_validator(mode="after")
    def _port_of_addresses(self) -> DnsSdConfig:
        if self.type is not RecordType.SRV and self.port is None:
            raise ValueError(f"records of type {self.type.value} name no port: give one")
        return self


class ScrapeConfig(HttpClient):
    """A group of targets that are found and asked in one way."""

    job_name: Annotated[str, Field(min_length=1, max_length=200)]
    scheme: Annotated[str, Field(pattern="^https?$")] = "http"
    metrics_path: Annotated[str, Field(pattern="^/")] = "/metrics"
    params: dict[str, tuple[str, ...]] = {}
    static_configs: tuple[StaticConfig, ...] = ()
    file_sd_configs: tuple[FileSdConfig, ...] = ()
    http_sd_configs: tuple[HttpSdConfig, ...] = ()
    dns_sd_configs: tuple[DnsSdConfig, ...] = ()
    relabel_configs: tuple[RelabelConfig, ...] = ()


class PrometheusConfig(HttpClient):
    """How a Prometheus, or what answers like one, is asked, and how its series become servers."""

    server_labels: Annotated[tuple[LabelName, ...], Field(min_length=1)] = ("instance",)
    """What a server is called by, after relabelling; values are joined by a slash."""
    replica_labels: tuple[LabelName, ...] = ()
    """What tells apart several that scrape the same servers."""
    params: dict[str, tuple[str, ...]] = {}
    """Parameters of every question besides the question."""
    relabel_configs: tuple[RelabelConfig, ...] = ()
