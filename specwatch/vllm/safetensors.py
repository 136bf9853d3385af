"""Headers of safetensors files: which tensors they hold and whether the files are whole, without reading a weight.

The format: 8 bytes with the header's length, the header as JSON, then the tensors' bytes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specwatch.errors import InputError

HEADER_LIMIT = 100_000_000
"""Bytes; the format allows no longer header."""
ELEMENT_LIMIT = 2**60
"""Numbers in a tensor; the largest models have a millionth of it in all."""
INDEX = "model.safetensors.index.json"
"""Says which of several files holds which tensor, and how many bytes they are together."""
_LENGTH_BYTES = 8
_LFS_POINTER = b"version "
"""How the small text begins that Git LFS leaves in place of a file which was not fetched."""


class DamagedFile(InputError):
    """A file that is no whole safetensors file; the text names it and says what is wrong."""


@dataclass(frozen=True)
class Tensor:
    """One tensor, as a header describes it."""

    dtype: str
    """The format's own word: ``BF16``, ``F8_E4M3``, ``I32``, …"""
    shape: tuple[int, ...]
    size: int
    """Bytes in the file."""

    @property
    def elements(self) -> int:
        """Numbers in it, packed ones counted as they are stored."""
        return math.prod(self.shape)


def read_header(file: Path) -> dict[str, Tensor]:
    """The tensors of a file by name; DamagedFile where it is cut off or is something else, OSError as usual."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(_LENGTH_BYTES)
        if len(start) < _LENGTH_BYTES:
            raise DamagedFile(f"{file} has {size} bytes: too few for a safetensors file")
        if start == _LFS_POINTER:
            raise DamagedFile(f"{file} is a Git LFS pointer, not weights: run git lfs pull where it was cloned")
        (length,) = struct.unpack("<Q", start)
        if length > HEADER_LIMIT:
            raise DamagedFile(f"{file} is no safetensors file: it would begin with a header of {length} bytes")
        text = stream.read(length)
    if len(text) < length:
        raise DamagedFile(f"{file} is cut off inside its header, after {size} of at least {length + 8} bytes")
    tensors, end = _parse(file, text)
    whole = _LENGTH_BYTES + length + end
    if size < whole:
        raise DamagedFile(f"{file} is cut off: {size} of {whole} bytes are there")
    return tensors


def _parse(file: Path, text: bytes) -> tuple[dict[str, Tensor], int]:
    """Tensors, and where the last of them ends in the data."""
    try:
        header = json.loads(text)
        tensors = {name: _tensor(entry) for name, entry in header.items() if name != "__metadata__"}
        end = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
    except (ValueError, TypeError, AttributeError, KeyError, IndexError) as problem:
        raise DamagedFile(f"{file} is no safetensors file: its header cannot be read ({problem})") from None
    return tensors, int(end)


def _tensor(entry: Mapping[str, Any]) -> Tensor:
    begin, end = entry["data_offsets"]
    shape = tuple(int(size) for size in entry["shape"])
    if not 0 <= begin <= end or any(size < 0 for size in shape) or math.prod(shape) > ELEMENT_LIMIT:
        raise ValueError("offsets or sizes that cannot be")
    return Tensor(str(entry["dtype"]), shape, end - begin)
