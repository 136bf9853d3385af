"""How many bits a model's weights take, by what its configuration says of quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from specwatch.errors import InputError

UNQUANTISED_BITS = 16.0
"""vLLM loads weights of more than 16 bits with 16 unless told otherwise."""
_SCALE_BITS = 16.0
"""Of the scale that a group of quantised weights shares."""


@dataclass(frozen=True)
class Quantisation:
    """Bits of weights, and what they are multiplied in."""

    bits: float = UNQUANTISED_BITS
    """Of a weight of MLPs and experts, its part of the group's scale included."""
    attention_bits: float = UNQUANTISED_BITS
    compute_bits: float = 16.0
    """Of the activations: 16 where only weights are quantised."""


def quantisation(config: Mapping[str, Any], name: str, weight_bits: float | None = None) -> Quantisation:
    """What a configuration says; InputError where it names a way that is not known here.

    Embeddings, output, norms and routers stay at 16 bits with all of these. ``weight_bits`` overrules it.
    """
    if weight_bits is not None:
        return Quantisation(weight_bits, weight_bits)
    said = config.get("quantization_config")
    if not isinstance(said, dict):
        return Quantisation()
    method = str(said.get("quant_method", "")).lower()
    if method in ("fp8", "fbgemm_fp8"):
        return Quantisation(8.0, 8.0, 8.0)
    if method == "mxfp4":  # experts only; 32 numbers share a scale of 8 bits (OCP Microscaling Formats 1.0)
        return Quantisation(bits=4.25)
    if method == "bitsandbytes":  # one scale of 32 bits for 64 numbers
        bits = 4.5 if said.get("load_in_4bit", said.get("_load_in_4bit")) else 8.0
        return Quantisation(bits, bits)
    found = _grouped(said, method) or _modelopt(said, method) or _compressed(said, method)
    if found is None:
        raise InputError(
            f"{name}: quantised by {method or 'an unnamed method'}, which is not known: give --weight-bits"
        )
    return found


def _grouped(said: Mapping[str, Any], method: str) -> Quantisation | None:
    """GPTQ and its kin: each group of weights has a scale and a zero point of as many bits as a weight."""
    bits, group = said.get("bits", said.get("w_bit")), said.get("group_size", said.get("q_group_size", 128))
    if method not in ("gptq", "awq", "auto-round", "gptq_marlin", "awq_marlin") or not _positive(bits):
        return None
    extra = (_SCALE_BITS + float(bits)) / float(group) if _positive(group) else 0.0
    return Quantisation(float(bits) + extra, float(bits) + extra)


def _modelopt(said: Mapping[str, Any], method: str) -> Quantisation | None:
    """NVIDIA's ModelOpt; NVFP4 has an 8-bit scale for 16 numbers, and is multiplied at the rate of 8 bits or better."""
    kind = str(said.get("quant_algo", "")).upper()
    if not method.startswith("modelopt") or kind not in ("FP8", "NVFP4"):
        return None
    return Quantisation(8.0, 8.0, 8.0) if kind == "FP8" else Quantisation(4.5, 4.5, 8.0)


def _compressed(said: Mapping[str, Any], method: str) -> Quantisation | None:
    """The format compressed-tensors: its first group of layers stands for all."""
    groups = said.get("config_groups")
    if method != "compressed-tensors" or not isinstance(groups, dict) or not groups:
        return None
    first = next(iter(groups.values()))
    weights = first.get("weights") if isinstance(first, dict) else None
    bits = weights.get("num_bits") if isinstance(weights, dict) else None
    if not isinstance(weights, dict) or not _positive(bits):
        return None
    group, activations = weights.get("group_size"), first.get("input_activations")
    all_in = float(bits) + (_SCALE_BITS / float(group) if _positive(group) else 0.0)
    multiplied = activations.get("num_bits", 16) if isinstance(activations, dict) else 16
    return Quantisation(all_in, all_in, float(multiplied) if _positive(multiplied) else 16.0)


def _positive(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**20
