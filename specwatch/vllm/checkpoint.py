"""What a model's folder says about it, from its configuration and the headers of its weights alone."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HEADER_LIMIT = 100_000_000
"""Bytes; the safetensors format allows no longer header."""


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
        return sum(_weights(file) for file in files) if files else None
    except (OSError, ValueError, TypeError, AttributeError, KeyError, struct.error):
        return None


def _weights(file: Path) -> int:
    """Elements of all tensors that a safetensors header lists: 8 bytes of length, then JSON."""
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        if length > HEADER_LIMIT:
            raise ValueError(f"{file}: header of {length} bytes")
        text = stream.read(length)
    if len(text) < length:
        raise ValueError(f"{file}: cut off in its header")
    header = json.loads(text)
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
