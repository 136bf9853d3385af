"""``specwatch roofline``: how fast a model can decode at most on a GPU, and what speculation can be worth there."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from specwatch.errors import InputError
from specwatch.signals import gpus, model_cost, roofline
from specwatch.signals.gpus import Gpu
from specwatch.signals.model_cost import ModelCost
from specwatch.signals.roofline import Hardware
from specwatch.vllm.preflight.gpu import memory_size
from specwatch.vllm.preflight.models import AbsentModel, Model, find, read_json

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Shown unless told otherwise: powers of two up to what most servers run at a time."""
_COUNT = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([MBT]?)", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1.0, "M": 1e6, "B": 1e9, "T": 1e12}


def _count(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """A number of parameters: 70B, 137M, 7e9."""
    if value is None:
        return None
    found = _COUNT.fullmatch(value.strip())
    number = float(found[1]) * _UNITS[found[2].upper()] if found else 0.0
    if not 0 < number < 1e15:
        raise click.BadParameter(f"{value!r} is no number of parameters: 70B, 137M or 7e9 are")
    return number


_POSITIVE = click.FloatRange(0, min_open=True)


@click.command("roofline")
@click.argument("model", required=False)
@click.option("--gpu", "gpu_name", metavar="NAME", help="From the table of --list-gpus, such as 'H100 SXM'.")
@click.option("--list-gpus", is_flag=True, help="Print the table with its sources, and nothing else.")
@click.option("--bandwidth", type=_POSITIVE, metavar="GB/S", help="Memory bandwidth, in place of the table's.")
@click.option("--flops", type=_POSITIVE, metavar="TFLOPS", help="Dense arithmetic, in place of the table's.")
@click.option("--memory", metavar="SIZE", help="Memory of one GPU, such as 80GB, in place of the table's.")
@click.option("--parameters", callback=_count, metavar="COUNT", help="Instead of MODEL: how many, such as 70B.")
@click.option(
    "--active-parameters", callback=_count, metavar="COUNT", help="With --parameters: those that one token meets."
)
@click.option("--draft", metavar="MODEL", help="A draft model: tells c.")
@click.option("--draft-parameters", callback=_count, metavar="COUNT", help="Instead of --draft: how many.")
@click.option("--k", type=click.IntRange(1, 64), default=5, show_default=True, help="Draft tokens a step.")
@click.option("--context", type=click.IntRange(0), default=0, show_default=True, help="Tokens of each sequence so far.")
@click.option("--batch", "batches", type=click.IntRange(1, roofline.LARGEST_BATCH), multiple=True, metavar="N")
@click.option("--tensor-parallel", "-tp", type=click.IntRange(1, 1024), default=1, show_default=True, metavar="N")
@click.option("--weight-bits", type=click.FloatRange(1, 32), help="Of a quantised weight, in place of the model's own.")
@click.option("--compute-bits", type=click.Choice(["8", "16"]), help="Of what is multiplied.  [default: the model's]")
@click.option("--kv-cache-bits", type=click.FloatRange(1, 32), default=16, show_default=True)
@click.option("--measured-tpot", type=_POSITIVE, metavar="SECONDS", help="Says how far from the bound you are.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(list_gpus: bool, as_json: bool, **options: Any) -> None:
    """How fast MODEL can decode at most on a GPU, and from which batch verifying drafts is no longer free.

    MODEL is a folder, a config.json, or a repository in the Hugging Face cache; only its configuration is read. A step
    takes at least the time to read its weights and KV cache, or to compute. v is a verifying step ÷ a plain one,
    c a step of the draft ÷ a plain one of the target; acceptance must exceed the break-even for speculation to pay.

    Example: specwatch roofline --parameters 70B --gpu 'A100 SXM 80GB'
    """
    if list_gpus:
        _list(as_json)
        return
    hardware = Hardware(_gpu(options), options["tensor_parallel"])
    target = _model(options, options["model"], options["parameters"], options["active_parameters"], "MODEL")
    draft = None
    if options["draft"] or options["draft_parameters"]:
        draft = _model(options, options["draft"], options["draft_parameters"], None, "--draft")
    content = report(target, draft, hardware, options["k"], options["context"], options["batches"] or BATCHES)
    if options["measured_tpot"]:
        content["measured"] = _measured(options["measured_tpot"], target, hardware, content)
    click.echo(json.dumps(content, indent=2, ensure_ascii=False)) if as_json else _show(content)


def report(
    target: ModelCost, draft: ModelCost | None, hardware: Hardware, k: int, context: int, batches: tuple[int, ...]
) -> dict[str, Any]:
    """All figures as plain data: seconds, bytes, tokens per second."""
    taken = draft.size if draft else 0.0
    return {
        "model": target.name,
        "parameters": target.parameters,
        "active_parameters": target.active_parameters,
        "weight_bytes": target.size,
        "gpu": hardware.gpu.name,
        "source": hardware.gpu.source,
        "tensor_parallel_size": hardware.tensor_parallel,
        "fits": target.size + taken <= hardware.memory,
        "most_sequences": roofline.most_sequences(target, hardware, context, taken),
        "context": context,
        "num_speculative_tokens": k,
        "draft": draft.name if draft else None,
        "compute_bound_from": roofline.compute_bound_from(target, hardware, context),
        "verifying_compute_bound_from": roofline.compute_bound_from(target, hardware, context, k + 1),
        "batches": [_row(target, draft, hardware, k, context, batch) for batch in sorted(set(batches))],
    }


def _row(
    target: ModelCost, draft: ModelCost | None, hardware: Hardware, k: int, context: int, batch: int
) -> dict[str, Any]:
    plain = roofline.step(target, hardware, batch, context)
    v = roofline.verifying_cost(target, hardware, k, batch, context)
    c = roofline.draft_cost(target, draft, hardware, batch, context) if draft else None
    return {
        "batch": batch,
        "step_seconds": plain.seconds,
        "tokens_per_second": batch / plain.seconds,
        "bound_by": "compute" if plain.compute_bound else "memory",
        "v": v,
        "c": c,
        "break_even_acceptance": roofline.break_even_acceptance(k, v, c or 0.0),
        "most_speedup": (1 + k) / (v + k * (c or 0.0)),
    }


def _measured(tpot: float, target: ModelCost, hardware: Hardware, content: dict[str, Any]) -> dict[str, Any]:
    """A measured time per output token against the bound at the smallest batch that is shown."""
    batch = content["batches"][0]["batch"]
    bound = roofline.step(target, hardware, batch, content["context"])
    return {"batch": batch, "tpot_seconds": tpot, "share_of_bound": roofline.share_of_bound(tpot, bound)}


def _gpu(options: dict[str, Any]) -> Gpu:
    bandwidth, flops, memory = options["bandwidth"], options["flops"], options["memory"]
    if options["gpu_name"]:
        gpu = gpus.find(options["gpu_name"])
    elif bandwidth and flops:
        gpu = Gpu("your GPU", float("inf"), 0.0, 0.0, None, "given")
    else:
        raise InputError("which GPU? give --gpu (--list-gpus shows the table), or --bandwidth and --flops")
    changed: dict[str, Any] = {}
    if bandwidth:
        changed["bandwidth"] = bandwidth * 1e9
    if flops:
        changed |= {"flops_16": flops * 1e12, "flops_8": None}
    if memory:
        changed["memory"] = float(memory_size(memory))
    source = f"{gpu.source}; {', '.join(sorted(changed))} given" if changed and options["gpu_name"] else gpu.source
    return replace(gpu, **changed, source=source)


def _model(
    options: dict[str, Any], name: str | None, parameters: float | None, active: float | None, option: str
) -> ModelCost:
    if (name is None) == (parameters is None):
        counted = "--draft-parameters" if option == "--draft" else "--parameters"
        raise InputError(f"give either {option} or {counted}")
    bits = float(options["compute_bits"]) if options["compute_bits"] else None
    if name is None:
        known = model_cost.from_numbers(parameters or 0.0, active, options["weight_bits"] or 16.0)
        return replace(known, compute_bits=bits or known.compute_bits)
    if active is not None:
        raise InputError("--active-parameters goes with --parameters: a configuration says itself what is active")
    return model_cost.from_configuration(_found(name), options["weight_bits"], options["kv_cache_bits"], bits)


def _found(name: str) -> Model:
    """The model of a folder, of a ``config.json``, or in the Hugging Face cache."""
    path = Path(name)
    if path.is_file():
        content = read_json(path)
        if not isinstance(content, dict):
            raise InputError(f"{path} holds no JSON object")
        return Model(name, path.parent, content, own_folder=True)
    try:
        return find(name, os.environ)
    except AbsentModel as problem:
        raise InputError(f"{problem}; fetch it (hf download {name} config.json), or give --parameters") from None


def _list(as_json: bool) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    if as_json:
        click.echo(json.dumps([vars(gpu) for gpu in gpus.GPUS], indent=2))
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("GPU", no_wrap=True)
    for heading in ("GB", "GB/s", "TFLOP/s 16 bit", "8 bit"):
        table.add_column(heading, justify="right")
    table.add_column("source", overflow="fold")
    for gpu in gpus.GPUS:
        eight = f"{gpu.flops_8 / 1e12:.0f}" if gpu.flops_8 else "–"
        table.add_row(
            gpu.name,
            f"{gpu.memory / 1e9:.0f}",
            f"{gpu.bandwidth / 1e9:.0f}",
            f"{gpu.flops_16 / 1e12:.0f}",
            eight,
            gpu.source,
        )
    Console(highlight=False, markup=False).print(table)


def _show(content: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    for line in _headlines(content):
        console.print(line)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    headings = (
        "batch",
        "step\nat least",
        "tokens/s\nat most",
        "waits\nfor",
        f"v at\nK = {content['num_speculative_tokens']}",
    )
    for heading in (*headings, "c", "break-\neven", "speedup\nat most"):
        table.add_column(heading, justify="right")
    for row in content["batches"]:
        c = "–" if row["c"] is None else f"{row['c']:.3f}"
        even = row["break_even_acceptance"]
        table.add_row(
            str(row["batch"]),
            f"{row['step_seconds'] * 1e3:.4g} ms",
            f"{row['tokens_per_second']:.4g}",
            row["bound_by"],
            f"{row['v']:.2f}",
            c,
            f"{even:.0%}" if even < 1 else "never",
            f"{row['most_speedup']:.2f}",
        )
    Console(highlight=False, markup=False).print(table)
    click.echo("Step and tokens/s are bounds; break-even is an acceptance rate; at best all drafts are accepted.")
    if content["draft"] is None:
        click.echo("Without a draft c is left out, as for n-gram: give --draft or --draft-parameters.")


def _headlines(content: dict[str, Any]) -> list[str]:
    first = content["batches"][0]
    gpus_used = content["tensor_parallel_size"]
    gpu = f"{gpus_used} × {content['gpu']}" if gpus_used > 1 else content["gpu"]
    lines = [
        f"{content['model']} ({content['weight_bytes'] / 1e9:.1f} GB) on {gpu}, context {content['context']}",
        f"At batch {first['batch']} a token takes at least {first['step_seconds'] * 1e3:.3g} ms: "
        f"{1 / first['step_seconds']:.3g} tokens/s for each sequence at most.",
    ]
    if not content["fits"]:
        lines.append("The weights do not fit into the memory: more GPUs (--tensor-parallel), or fewer --weight-bits.")
    elif content["most_sequences"] is not None:
        lines.append(f"At most {content['most_sequences']} such sequences fit beside the weights.")
    plain, verifying = content["compute_bound_from"], content["verifying_compute_bound_from"]
    k = content["num_speculative_tokens"]
    lines.append(
        f"Arithmetic is the limit {_from(plain)} for plain steps, {_from(verifying)} when verifying {k} draft tokens: "
        "from there on they are no longer free."
    )
    if "measured" in content:
        share = content["measured"]["share_of_bound"]
        told = (
            f"{share:.2f} times as fast as plain decoding can be, as only speculation is"
            if share > 1
            else (f"{share:.0%} of the bound")
        )
        lines.append(f"Measured {content['measured']['tpot_seconds'] * 1e3:.4g} ms a token: {told}.")
    lines.append(f"GPU: {content['source']}.")
    return lines


def _from(batch: int | None) -> str:
    return "at no batch" if batch is None else f"from batch {batch} on"
