"""Does a GPU decode as the roofline says? Layers of real size with random weights, through transformers.

    python -m benchmarks.roofline_gpu --gpu 'H200 SXM' --layers 8

A few layers of Llama 3.1 8B stand for all: weights, KV cache and arithmetic grow with their number alike. For each
batch it times plain steps and steps that verify K draft tokens, after a context that is in the cache, and prints them
beside the bound: the share of the bound, and v measured and expected.

No figures from a GPU are kept here yet: nobody has run it on one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specwatch.signals import gpus, roofline
from specwatch.signals.gpus import Gpu
from specwatch.signals.model_cost import ModelCost, from_configuration
from specwatch.signals.roofline import Hardware
from specwatch.vllm.preflight.models import Model

LLAMA_8B: dict[str, Any] = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}
"""The layers' published shape."""
WARM_UP = 5
STEPS = 20
"""Timed ones, of which the median counts."""


@dataclass(frozen=True)
class Row:
    """One batch size."""

    batch: int
    plain: float
    """Seconds, measured."""
    verifying: float
    bound: float
    expected_v: float

    @property
    def share_of_bound(self) -> float:
        """How near the plain step is to the bound."""
        return self.bound / self.plain

    def __str__(self) -> str:
        v = self.verifying / self.plain
        times = f"{self.plain * 1e3:8.3f} {self.bound * 1e3:8.3f} {self.share_of_bound:6.0%}"
        return f"{self.batch:>5}  {times}  {v:10.2f} {self.expected_v:10.2f}"


def build(shape: dict[str, Any], layers: int, device: str, dtype: str) -> tuple[Any, ModelCost]:
    """A model with random weights, and what the roofline knows of it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**shape, num_hidden_layers=layers)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with torch.device(device):
            model = LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(usual)
    described = Model(f"{layers} layers", Path(), shape | {"model_type": "llama", "num_hidden_layers": layers}, True)
    return model, from_configuration(described, weight_bits=32 if dtype == "float32" else None)


def measure(
    model: Any, cost: ModelCost, gpu: Gpu, batches: list[int], k: int, context: int, steps: int = STEPS
) -> Iterator[Row]:
    """Time each batch."""
    hardware = Hardware(gpu)
    for batch in batches:
        yield Row(
            batch=batch,
            plain=_step_seconds(model, batch, context, 1, steps),
            verifying=_step_seconds(model, batch, context, k + 1, steps),
            bound=roofline.step(cost, hardware, batch, context).seconds,
            expected_v=roofline.verifying_cost(cost, hardware, k, batch, context),
        )


def _step_seconds(model: Any, batch: int, context: int, tokens: int, steps: int) -> float:
    """Median time of a step; the cache is cut back after each."""
    device = model.device
    ids = torch.randint(model.config.vocab_size, (batch, tokens), device=device)
    with torch.inference_mode():
        prompt = torch.randint(model.config.vocab_size, (batch, context), device=device)
        cache = model(input_ids=prompt, use_cache=True, logits_to_keep=1).past_key_values
        seconds = []
        for _ in range(WARM_UP + steps):
            _wait(device)
            begun = time.perf_counter()
            model(input_ids=ids, past_key_values=cache, use_cache=True)
            _wait(device)
            seconds.append(time.perf_counter() - begun)
            cache.crop(-tokens)
    return statistics.median(seconds[WARM_UP:])


def _wait(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", required=True, help="as in specwatch roofline --list-gpus")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32, 64, 128, 256])
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--k", type=int, default=5)
    options = parser.parse_args()
    model, cost = build(LLAMA_8B, options.layers, "cuda", "bfloat16")
    print(f"{torch.cuda.get_device_name()}: {options.layers} layers, context {options.context}, K {options.k}")
    print("batch   step ms bound ms  share  v measured v expected")
    for row in measure(model, cost, gpus.find(options.gpu), options.batch, options.k, options.context):
        print(row)


if __name__ == "__main__":
    main()
