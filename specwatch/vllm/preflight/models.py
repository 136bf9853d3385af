"""Where a model's files are on this machine: a folder, or the Hugging Face cache. Nothing is downloaded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specwatch.errors import InputError

CONFIGURATION_LIMIT = 16_000_000
"""Bytes; the largest configurations have a few hundred thousand."""
_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ON = {"1", "ON", "YES", "TRUE"}
"""Values that switch a variable of Hugging Face on, in any case."""
_INSIDE = ("text_config", "llm_config", "language_config", "thinker_config", "transformer_layer_config")
"""Where configurations of models for several kinds of input, and of drafts, keep the language model's."""


class UnreadableModel(InputError):
    """A folder that is there and holds no model that can be read; the text names the place."""


class AbsentModel(InputError):
    """A model whose files are not on this machine; the text says where they were looked for."""


class RemoteModel(AbsentModel):
    """A model that vLLM would fetch."""


@dataclass(frozen=True)
class Model:
    """A model whose configuration is on this machine."""

    name: str
    """As it is called on the command line."""
    folder: Path
    config: Mapping[str, Any]
    own_folder: bool
    """Whether it was given as a folder, which must be whole; a cached repository may be partly fetched."""

    @property
    def text_config(self) -> Mapping[str, Any]:
        """The configuration of the language model inside, where there are several."""
        return language_model(self.config)


def language_model(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a configuration that describes the language model."""
    for key in _INSIDE:
        if isinstance(config.get(key), dict):
            return language_model(config[key])
    return config


def offline(environment: Mapping[str, str]) -> bool:
    """Whether Hugging Face's libraries are told to fetch nothing."""
    return any(environment.get(name, "").upper() in _ON for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def find(name: str, environment: Mapping[str, str], revision: str | None = None, cache: str | None = None) -> Model:
    """The model's folder and configuration; AbsentModel, RemoteModel or UnreadableModel where there is none.

    ``cache`` is vLLM's ``--download-dir``, which takes the place of the Hugging Face cache.
    """
    path = Path(name)
    if name and path.is_dir():
        return Model(name, path, _configuration(path), own_folder=True)
    if path.is_file() or "://" in name or environment.get("VLLM_USE_MODELSCOPE", "").upper() in _ON:
        raise RemoteModel(f"{name} is neither a folder nor a repository of Hugging Face")
    if not _REPOSITORY.fullmatch(name) or name.startswith("."):
        raise AbsentModel(f"there is no folder {name}")
    hub = Path(cache) if cache else hub_cache(environment)
    folder = _snapshot(hub, name, revision or "main")
    if folder is None or not (folder / "config.json").exists():
        place = f"{name} is no folder here and not in the cache {hub}"
        raise AbsentModel(f"{place}, and HF_HUB_OFFLINE is set") if offline(environment) else RemoteModel(place)
    return Model(name, folder, _configuration(folder), own_folder=False)


def hub_cache(environment: Mapping[str, str]) -> Path:
    """Where Hugging Face keeps repositories, by its own rules."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name]).expanduser()
    home = environment.get("HF_HOME")
    base = Path(home) if home else Path(environment.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return base.expanduser() / "hub"


def _snapshot(hub: Path, name: str, revision: str) -> Path | None:
    """The folder of one revision of a cached repository; a branch or tag is a file that holds the commit."""
    repository = hub / f"models--{name.replace('/', '--')}"
    commit = revision
    if not _COMMIT.fullmatch(revision):
        try:
            commit = (repository / "refs" / revision).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return None
    folder = repository / "snapshots" / commit
    return folder if _COMMIT.fullmatch(commit) and folder.is_dir() else None


def _configuration(folder: Path) -> Mapping[str, Any]:
    """The model's configuration; {} where it is in Mistral's own format or a GGUF file, which vLLM takes as well."""
    file = folder / "config.json"
    if not file.exists():
        return _without_configuration(folder)
    content = read_json(file)
    if not isinstance(content, dict):
        raise UnreadableModel(f"{file} holds no JSON object")
    return content


def _without_configuration(folder: Path) -> Mapping[str, Any]:
    if (folder / "adapter_config.json").exists():
        raise UnreadableModel(f"{folder} is a LoRA adapter, not a model: serve its base model with --lora-modules")
    if (folder / "params.json").exists() or any(folder.glob("*.gguf")):
        return {}
    inside = next((file.parent for file in sorted(folder.glob("*/config.json"))), None)
    hint = f"; {inside} looks like one" if inside else ""
    raise UnreadableModel(f"{folder} is no model: it has no config.json{hint}")


def read_json(file: Path, limit: int = CONFIGURATION_LIMIT) -> Any:
    """A JSON file of a model; UnreadableModel, naming the file, where it is too large or none."""
    try:
        if file.stat().st_size > limit:
            raise UnreadableModel(f"{file} has {file.stat().st_size} bytes, more than the {limit} that are read")
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as problem:
        raise UnreadableModel(f"{file} cannot be read: {problem}") from None
