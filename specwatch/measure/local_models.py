"""Models and tokenizers of Hugging Face on this machine: found, judged before loading, loaded, freed of surprises."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specwatch.errors import InputError, SpecwatchError
from specwatch.vllm.checkpoint import parameters
from specwatch.vllm.features import NEWEST
from specwatch.vllm.preflight import vocabulary
from specwatch.vllm.preflight.models import AbsentModel, Model, RemoteModel, find, offline
from specwatch.vllm.preflight.planned_start import PlannedStart
from specwatch.vllm.preflight.shape import dense_parameters, shape_of
from specwatch.vllm.preflight.weights import weights
from specwatch.vllm.speculation import Speculation

GIB = 2**30
DTYPES = ("auto", "float32", "bfloat16", "float16")
_VALUE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_DOWNLOADED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.tiktoken")
"""What of a repository is fetched: no weights in formats that run code when they are read."""


def need_torch() -> None:
    """SpecwatchError that says what to install, where torch or transformers is missing."""
    for module in ("torch", "transformers"):
        try:
            importlib.import_module(module)
        except ImportError:
            raise SpecwatchError(f"{module} is not installed: pip install 'specwatch[torch]'") from None


def locate(name: str) -> Model:
    """A model's folder, fetched first when it is a repository that is not here; InputError where it cannot be had."""
    try:
        return find(name, os.environ)
    except RemoteModel as absent:
        if offline(os.environ) or "://" in name or Path(name).is_file():
            raise InputError(str(absent)) from None
    except AbsentModel as absent:
        raise InputError(f"{absent}; fetch it where there is a network: hf download {name}") from None
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(name, allow_patterns=list(_DOWNLOADED))
    except (OSError, ValueError) as problem:  # what the hub's own errors derive from
        raise InputError(f"{name} is not on this machine and cannot be fetched: {_first_line(problem)}") from None
    return find(name, os.environ)


def refuse_other_tokenizer(target: Model, draft: Model) -> None:
    """InputError with the differences, where the two do not have the same tokens under the same numbers."""
    plan = PlannedStart(NEWEST, target.name, speculation=Speculation("draft_model", draft.name, 1))
    refused = [finding for finding in vocabulary.check(plan, target, target, draft) if finding.refuses]
    if refused:
        raise InputError(" ".join(str(finding) for finding in refused))


@dataclass(frozen=True)
class Placed:
    """Where models run, and in which numbers."""

    device: str
    dtype: str

    @property
    def value_bytes(self) -> int:
        """Bytes of a number."""
        return _VALUE_BYTES[self.dtype]


def place(device: str, dtype: str) -> Placed:
    """Resolve ``auto``: a GPU where there is one, and bfloat16 on it; InputError where the device is not there."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ValueError) as problem:
        raise InputError(f"--device {device} cannot be used: {_first_line(problem)}") from None
    if dtype == "auto":
        dtype = "float32" if device == "cpu" else "bfloat16"
    return Placed(device, dtype)


def memory_needed(models: Sequence[Model], placed: Placed, batch: int, tokens: int, working: int) -> int | None:
    """Bytes for weights, KV caches of ``batch`` texts of ``tokens``, and ``working`` ones; None where unknown."""
    total = float(working)
    for model in models:
        count = parameters(str(model.folder)) or dense_parameters(model)
        if count is None:
            return None
        cache = shape_of(model).cache_bytes_per_token(1, placed.value_bytes)
        total += count * placed.value_bytes + (cache or 0.0) * batch * tokens
    return int(total)


def memory_free(device: str) -> int | None:
    """Bytes that can still be taken on a device; None where that is not known."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return int(found) * 1024 if found else None


def refuse_too_large(needed: int | None, free: int | None, placed: Placed) -> None:
    """InputError with the remedies, where it is known before loading that memory will not do."""
    if needed is not None and free is not None and needed > free:
        raise InputError(
            f"about {needed / GIB:.1f} GiB are needed on {placed.device} and {free / GIB:.1f} GiB are free: {REMEDIES}"
        )


REMEDIES = "lower --batch-size or --max-tokens, take --dtype bfloat16, or another --device"


def load(model: Model, placed: Placed) -> Any:
    """A causal language model, ready to be read; InputError naming the model where its files are damaged."""
    import torch
    import transformers

    _quiet()
    weights(model)  # reads the headers: names a truncated file better than the loader does
    key = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
    try:
        loaded, information = transformers.AutoModelForCausalLM.from_pretrained(
            str(model.folder), local_files_only=True, output_loading_info=True, **{key: getattr(torch, placed.dtype)}
        )
    except MemoryError:
        raise SpecwatchError(f"{model.name}: out of memory while loading: {REMEDIES}") from None
    except Exception as problem:  # every family and file format raises errors of its own
        raise InputError(f"{model.name} cannot be loaded from {model.folder}: {_first_line(problem)}") from None
    missing = sorted(information["missing_keys"])
    if missing:
        raise InputError(f"{model.name}: {model.folder} lacks weights, {missing[0]} and {len(missing) - 1} more")
    with remedied("loading"):
        return loaded.to(placed.device).eval()


def tokenizer(model: Model) -> Any:
    """A model's tokenizer; InputError where it cannot be read."""
    import transformers

    _quiet()
    try:
        return transformers.AutoTokenizer.from_pretrained(str(model.folder), local_files_only=True)
    except Exception as problem:  # as above
        raise InputError(f"{model.name}: no tokenizer can be read in {model.folder}: {_first_line(problem)}") from None


def _quiet() -> None:
    """Keep transformers' own remarks and bars off the terminal: what matters is said in specwatch's words."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def end_tokens(model: Any) -> frozenset[int]:
    """Numbers of the tokens that end a sequence, by generation_config.json or else config.json."""
    said = getattr(model, "generation_config", None)
    value = getattr(said, "eos_token_id", None)
    value = model.config.eos_token_id if value is None else value
    return frozenset() if value is None else frozenset(value if isinstance(value, list | tuple) else [value])


@contextmanager
def remedied(doing: str, kept: str = "") -> Iterator[None]:
    """Turn running out of memory into one message with the remedies; ``kept`` says what is not lost."""
    try:
        yield
    except (MemoryError, RuntimeError) as problem:
        if not _is_out_of_memory(problem):
            raise
        raise SpecwatchError(f"out of memory while {doing}: {REMEDIES}{kept}") from None


def _is_out_of_memory(problem: Exception) -> bool:
    """GPUs have an error class of their own; the CPU has words only."""
    words = str(problem).lower()
    return isinstance(problem, MemoryError) or "out of memory" in words or "allocate memory" in words


def _first_line(problem: BaseException) -> str:
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)[:300]
