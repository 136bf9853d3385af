"""Model files small enough to make in a test."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

SIZES = {"F32": 4, "I32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "U8": 1}
"""Bytes of one number of each kind."""


def safetensors(file: Path, shapes: dict[str, list[int]], dtype: str = "BF16") -> None:
    """Write a safetensors file of zeros: length of the header, header, data."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + SIZES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
