"""Model files small enough to make in a test."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path


def safetensors(file: Path, shapes: dict[str, list[int]]) -> None:
    """Write a safetensors file of 16-bit zeros: length of the header, header, data."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
