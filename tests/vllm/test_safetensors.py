"""Headers of safetensors files, whole and damaged."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from specwatch.vllm.safetensors import DamagedFile, read_header
from tests.support.checkpoints import safetensors


def test_a_header_tells_kind_shape_and_bytes_of_every_tensor(tmp_path: Path):
    file = tmp_path / "model.safetensors"
    safetensors(file, {"embed": [32, 4], "norm": [4], "scale": []})
    header = read_header(file)
    assert {name: (tensor.dtype, tensor.elements, tensor.size) for name, tensor in header.items()} == {
        "embed": ("BF16", 128, 256),
        "norm": ("BF16", 4, 8),
        "scale": ("BF16", 1, 2),
    }


@pytest.mark.vllm
def test_a_file_that_the_safetensors_package_wrote_is_read_as_the_package_reads_it(tmp_path: Path):
    import numpy
    from safetensors import numpy as package

    content = {"a": numpy.zeros((3, 5), numpy.float32), "b": numpy.zeros((7,), numpy.int8)}
    package.save_file(content, tmp_path / "model.safetensors")
    header = read_header(tmp_path / "model.safetensors")
    assert {name: (tensor.shape, tensor.size) for name, tensor in header.items()} == {
        name: (array.shape, array.nbytes) for name, array in content.items()
    }


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "too few"),
        (b"\x05", "too few"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "Git LFS pointer"),
        (struct.pack("<Q", 1 << 60), "no safetensors file"),
        (struct.pack("<Q", 9) + b"{}", "cut off inside its header"),
        (struct.pack("<Q", 2) + b"[]", "header cannot be read"),
        (struct.pack("<Q", 2) + b"{,", "header cannot be read"),
        (struct.pack("<Q", 8) + b'{"a": 1}', "header cannot be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_and_where(tmp_path: Path, content, complaint):
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    with pytest.raises(DamagedFile, match=complaint) as raised:
        read_header(file)
    assert str(file) in str(raised.value)


@pytest.mark.vllm
@pytest.mark.parametrize("left", [1, 40, -1])
def test_what_is_cut_off_here_is_cut_off_for_the_library_that_loads_it(tmp_path: Path, left):
    from safetensors import SafetensorError, safe_open

    file = tmp_path / "model.safetensors"
    safetensors(file, {"embed": [32, 4]})
    with safe_open(file, "np"):
        assert read_header(file)
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(DamagedFile):
        read_header(file)
    with pytest.raises(SafetensorError):
        safe_open(file, "np").keys()


def test_a_download_that_stopped_is_found_by_its_size(tmp_path: Path):
    file = tmp_path / "model.safetensors"
    safetensors(file, {"embed": [32, 4]})
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(DamagedFile, match=f"cut off: {len(whole) - 1} of {len(whole)} bytes"):
        read_header(file)


def test_a_tensor_of_impossible_size_is_no_tensor(tmp_path: Path):
    header = json.dumps({"a": {"dtype": "BF16", "shape": [-1], "data_offsets": [8, 2]}}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(DamagedFile, match="cannot be read"):
        read_header(file)
