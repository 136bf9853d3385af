"""File, environment and flags into one validated configuration; every bad entry is named at once."""

from __future__ import annotations

import difflib
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from specwatch.errors import InputError
from specwatch.scrape_config import PrometheusConfig, ScrapeConfig

LARGEST_FILE = 2**20
"""Bytes of a configuration file: a thousand targets take a tenth of it."""


def seconds(value: Any) -> Any:
    """Seconds from ``90s``, ``10m``, ``1h`` or ``2d``; anything else stays for the model to convert."""
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}.get(value[-1:]) if isinstance(value, str) else None
    try:
        return float(value[:-1]) * unit if unit else value
    except ValueError:
        raise ValueError("Input should be a duration such as 10m, 1h or 2d") from None


def temperature(value: float) -> float:
    """A sampling temperature that vLLM takes as it is."""
    if value != 0 and not 0.01 <= value <= 2:
        raise ValueError("a temperature is 0, or from 0.01 (vLLM raises smaller ones to that) to 2")
    return value


class SidecarConfig(BaseModel):
    """What ``specwatch sidecar`` needs. Keys of the file are the flags with underscores."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: tuple[str, ...] = ()
    scrape_configs: tuple[ScrapeConfig, ...] = ()
    from_prometheus: str | None = None
    prometheus_selector: str = 'job="vllm"'
    prometheus_tenant: str | None = None
    prometheus: PrometheusConfig = PrometheusConfig()
    shard: str = "1/1"
    listen: str = "127.0.0.1:9108"
    insecure: bool = False
    interval: Annotated[float, Field(ge=0.2, le=3600)] = 5.0
    timeout: Annotated[float, Field(gt=0, le=600)] = 5.0
    launch_record: Path | None = None
    database: Path | None = None
    calibration: Path | None = None
    fingerprints: Path | None = None
    gpu: str | None = None
    model: str | None = None
    gpus: Annotated[int, Field(ge=1, le=4096)] = 1
    verify_every: Annotated[float, BeforeValidator(seconds), Field(ge=60, le=30 * 86_400)] | None = None
    verify_temperature: tuple[Annotated[float, AfterValidator(temperature)], ...] = (0.0, 1.0)
    verify_tokens: Annotated[int, Field(ge=64, le=10_000)] = 256
    verify_prompts: Path | None = None
    verify_token_file: Path | None = None
    num_speculative_tokens: Annotated[int, Field(ge=1, le=64)] | None = None
    draft_cost: Annotated[float, Field(ge=0, le=10)] | None = None
    slack_webhook_file: Path | None = None
    slack_bot_token_file: Path | None = None
    slack_channel: str | None = None
    slack_api_url: str | None = None
    pagerduty_routing_key_file: Path | None = None
    pagerduty_url: str | None = None
    webhook_url: str | None = None
    webhook_token_file: Path | None = None
    alertmanager: tuple[str, ...] = ()
    alertmanager_token_file: Path | None = None
    relay_only: bool = False
    public_url: str | None = None
    runbooks_url: str | None = None
    time_scale: Annotated[float, Field(gt=0, le=1)] = 1.0
    read_token_file: Path | None = None
    admin_token_file: Path | None = None
    open_metrics: bool = False
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    client_ca_file: Path | None = None
    log_format: Literal["text", "json"] = "text"


Config = TypeVar("Config", bound=BaseModel)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``: ``localhost``, or an address such as 127.0.0.1 or ::1."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def split_address(address: str) -> tuple[str, int]:
    """Host and port of HOST:PORT; InputError for anything else."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"--listen {address!r}: write it as HOST:PORT, for instance 127.0.0.1:9108")
    return host.strip("[]"), int(port)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; InputError names the file and the line for anything else."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise InputError(f"{path}: larger than {LARGEST_FILE // 1024} KiB; this is no configuration file")
        content = yaml.safe_load(raw.decode("utf-8"))
    except OSError as problem:
        raise InputError(f"{path}: {(problem.strerror or str(problem)).lower()}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8") from None
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{path}{where}: not valid YAML: {_yaml_problem(problem)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected keys and values, found a {type(content).__name__}")
    return {str(key): value for key, value in content.items()}


def _yaml_problem(problem: Exception) -> str:
    """What is wrong, in one line."""
    if isinstance(problem, yaml.reader.ReaderError):
        return f"it holds the character U+{problem.character:04X}, which YAML does not allow"
    if isinstance(problem, RecursionError):
        return "it is nested too deeply"
    return getattr(problem, "problem", None) or str(problem)


def load(model: type[Config], file: Path | None, flags: Mapping[str, Any], variables: str = "") -> Config:
    """Merge a file with environment variables and flags, and validate.

    Flags win over variables, both over the file; None, empty tuples and empty variables count as not given.
    ``variables`` is what the variables' names begin with, the key in upper case follows; "" reads none. InputError
    lists every bad entry, each with its key, the file or variable where it stands there and, for an unknown key, the
    nearest known one.
    """
    in_file = read_yaml(file) if file else {}
    in_variables = _from_environment(model, variables) if variables else {}
    given = {key: value for key, value in flags.items() if value is not None and value != ()}
    try:
        return model.model_validate({**in_file, **in_variables, **given})
    except ValidationError as problem:
        places = {key: f"{key} in {file}" for key in in_file}
        places |= {key: f"{variables}{key.upper()}" for key in in_variables}
        places |= {key: key for key in given}
        lines = [describe(error, model, places) for error in problem.errors()]
        many = "1 entry" if len(lines) == 1 else f"{len(lines)} entries"
        raise InputError("\n  ".join([f"{many} of the configuration cannot be used:", *lines])) from None


def _from_environment(model: type[BaseModel], prefix: str) -> dict[str, Any]:
    texts = {key: os.environ.get(prefix + key.upper(), "") for key in model.model_fields}
    return {key: _structured(text) for key, text in texts.items() if text}


def _structured(text: str) -> Any:
    """A variable's lists and mappings, written as in YAML; anything else stays text for the model to convert."""
    if text.lstrip()[0:1] not in ("[", "{"):
        return text
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def describe(error: Any, model: type[BaseModel], places: Mapping[str, str]) -> str:
    """One of pydantic's errors in a line, behind the key or what ``places`` says of where it stands."""
    path = ".".join(str(part) for part in error["loc"])
    if not path:
        return str(error["msg"])
    key = str(error["loc"][0])
    where = places.get(key, key).replace(key, path, 1)
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path, model.model_fields, n=1) if len(error["loc"]) == 1 else []
        hint = f"; did you mean {near[0]}?" if near else ""
        elsewhere = getattr(model, "elsewhere", "")  # what a model says of keys that belong to another place
        return f"{where}: unknown{hint}" + (f" ({elsewhere})" if elsewhere else "")
    # YAML has lists, whatever Python makes of them.
    message = "Input should be a list" if error["type"] == "tuple_type" else error["msg"]
    message = message.removeprefix("Value error, ")
    got = error["input"]
    return f"{where}: {message}" + (f", got {str(got)[:60]!r}" if isinstance(got, str | int | float) else "")
