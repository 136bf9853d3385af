"""What a model's folder says about it, from its configuration and the headers of its weights alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specwatch.vllm.safetensors import DamagedFile, read_header


def configuration(model: str) -> Mapping[str, Any]:
    """The ``config.json`` of a local model folder; empty for a repository's name or an unreadable file."""
    try:
        content = json.loads(Path(model, "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def parameters(model: str) -> int | None:
    """Number of weights in a local folder's safetensors files; None where there are none or one is damaged.

    Weights that were packed by quantisation count as they are stored.
    """
    files = sorted(Path(model).glob("*.safetensors"))
    try:
        return sum(tensor.elements for file in files for tensor in read_header(file).values()) if files else None
    except (OSError, DamagedFile):
        return None
