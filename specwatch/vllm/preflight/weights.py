"""How many bytes a model's weights take when loaded, from an index, headers or the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from specwatch.vllm.preflight.models import Model, UnreadableModel, read_json
from specwatch.vllm.preflight.shape import dense_parameters
from specwatch.vllm.safetensors import INDEX, Tensor, read_header

_LARGEST = 2**60
"""Bytes, a million times the largest models; more is damage."""
_CUT_TO_16_BITS = ("F64", "F32")
"""Kinds of numbers that vLLM loads with 16 bits unless told otherwise."""
_EIGHT_BITS = ("fp8", "int8", "experts_int8", "ptpc_fp8", "fp8_per_tensor", "fp8_per_block")
"""Values of --quantization that make 8-bit weights of any checkpoint while loading."""
_FOUR_BITS = ("bitsandbytes",)
_UNQUANTISED = ("embed", "lm_head", "norm")
"""Parts of the names of tensors that such quantisation leaves alone."""


class MissingFiles(UnreadableModel):
    """Weights that an index lists and the folder lacks."""


@dataclass(frozen=True)
class Weights:
    """The weights of a model."""

    size: int
    """Bytes when loaded, over all GPUs."""
    exact: bool
    """Whether every tensor was seen, in the files' headers."""
    source: str
    """What the size was read from, in a few words."""


def weights(model: Model, quantization: str | None = None, value_bytes: int = 2) -> Weights | None:
    """A model's weights; None where nothing tells. DamagedFile or MissingFiles where the folder is broken.

    ``quantization`` is vLLM's flag: on a checkpoint that is not quantised it halves or quarters while loading.
    ``value_bytes`` is what ``--dtype`` makes of numbers with more than 16 bits.
    """
    on_the_fly = None if model.config.get("quantization_config") else quantization
    files, promised = _files(model)
    if files:
        tensors = (item for file in files for item in read_header(file).items())
        return Weights(_loaded(tensors, on_the_fly, value_bytes), exact=True, source="the weights' headers")
    if promised:
        return Weights(promised, exact=False, source=INDEX)
    pickled = sum(file.stat().st_size for file in model.folder.glob("pytorch_model*.bin"))
    if pickled:
        return Weights(pickled, exact=False, source="the size of pytorch_model*.bin")
    return _estimated(model, on_the_fly, value_bytes)


def _estimated(model: Model, quantization: str | None, value_bytes: int) -> Weights | None:
    """What the configuration alone tells."""
    count = dense_parameters(model)
    if count is None or model.config.get("quantization_config"):
        return None
    return Weights(int(count * _element_bytes(quantization, value_bytes)), exact=False, source="config.json alone")


def _files(model: Model) -> tuple[list[Path], int]:
    """The safetensors files that vLLM loads, or else the bytes that an index promises."""
    index = model.folder / INDEX
    if not index.exists():
        # Some repositories bring one consolidated copy of all the others, in Mistral's own format.
        files = sorted(model.folder.glob("*.safetensors"))
        usual = [file for file in files if not file.name.startswith("consolidated")]
        return usual or files, 0
    content = read_json(index)
    names = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise UnreadableModel(f"{index} lists no files: its weight_map is no mapping of names")
    wanted = sorted({Path(name).name for name in names.values()})
    missing = [name for name in wanted if not (model.folder / name).exists()]
    if missing and model.own_folder:
        raise MissingFiles(f"{model.folder} lacks {len(missing)} of the {len(wanted)} files in {INDEX}: {missing[0]} …")
    return ([], _total(content)) if missing else ([model.folder / name for name in wanted], 0)


def _total(index: Mapping[str, object]) -> int:
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(total) if isinstance(total, int | float) and 0 < total < _LARGEST else 0


def _loaded(tensors: Iterable[tuple[str, Tensor]], quantization: str | None, value_bytes: int) -> int:
    return sum(int(_tensor_bytes(name, tensor, quantization, value_bytes)) for name, tensor in tensors)


def _tensor_bytes(name: str, tensor: Tensor, quantization: str | None, value_bytes: int) -> float:
    matrix = len(tensor.shape) > 1 and not any(part in name for part in _UNQUANTISED)
    if matrix and quantization and tensor.dtype in (*_CUT_TO_16_BITS, "F16", "BF16"):
        return tensor.elements * _element_bytes(quantization, value_bytes)
    return tensor.elements * value_bytes if tensor.dtype in _CUT_TO_16_BITS else tensor.size


def _element_bytes(quantization: str | None, value_bytes: int) -> float:
    if quantization in _FOUR_BITS:
        return 0.5
    return 1 if quantization in _EIGHT_BITS else value_bytes
