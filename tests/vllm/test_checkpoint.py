"""Weights counted from the headers of safetensors files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from specwatch.vllm.checkpoint import configuration, parameters
from tests.support.checkpoints import safetensors


def test_weights_of_all_files_are_counted(tmp_path: Path):
    safetensors(tmp_path / "model-00001-of-00002.safetensors", {"embed": [32, 4], "norm": [4]})
    safetensors(tmp_path / "model-00002-of-00002.safetensors", {"head": [4, 32], "scale": []})
    assert parameters(str(tmp_path)) == 128 + 4 + 128 + 1


@pytest.mark.parametrize(
    "content", [b"", b"\x05", struct.pack("<Q", 1 << 60), struct.pack("<Q", 9) + b"{}", struct.pack("<Q", 2) + b"[]"]
)
def test_a_damaged_file_counts_as_unknown(tmp_path: Path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    assert parameters(str(tmp_path)) is None


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.2-1B-Instruct", "/no/such/folder"])
def test_what_is_no_folder_is_unknown(model):
    assert parameters(model) is None
    assert configuration(model) == {}


@pytest.mark.parametrize(
    ("text", "found"), [('{"model_type": "llama"}', {"model_type": "llama"}), ("[1]", {}), ("{", {})]
)
def test_a_configuration_is_an_object_or_empty(tmp_path: Path, text, found):
    (tmp_path / "config.json").write_text(text)
    assert configuration(str(tmp_path)) == found
