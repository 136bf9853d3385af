"""``specwatch bench-hf``: what speculation is worth in Hugging Face's generate, without a server."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from specwatch.cli import local_texts
from specwatch.errors import InputError, SpecwatchError


@click.command("bench-hf")
@click.option("--target", required=True, metavar="MODEL", help="A folder, or a repository of Hugging Face.")
@click.option("--draft", metavar="MODEL", help="The assistant model.")
@click.option("--ngram/--no-ngram", default=True, help="Also prompt lookup, which needs no draft.  [default: do]")
@click.option("--domain", "domains", multiple=True, required=True, metavar="NAME[=FILE.jsonl]", help="Repeatable.")
@click.option("--limit", type=click.IntRange(1), help="Prompts of each domain.  [default: all]")
@click.option("--k", type=click.IntRange(1, 64), default=5, show_default=True, help="Draft tokens a step.")
@click.option("--max-tokens", type=click.IntRange(1), default=128, show_default=True)
@click.option("--temperature", type=click.FloatRange(0, 100), default=0.0, show_default=True)
@click.option("--repetitions", type=click.IntRange(1), default=3, show_default=True)
@click.option("--warm-up", type=click.IntRange(0), default=2, show_default=True, help="Uncounted ones of each arm.")
@local_texts.placing_options
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Figures, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(domains: Sequence[str], limit: int | None, output: Path | None, as_json: bool, **options: Any) -> None:
    """Generate with transformers, plain and speculating, on the same prompts, and compare.

    Arms: plain, assisted (--draft), n-gram. They take turns on every prompt; tokens are those that came out; at
    temperature 0 every text must be the plain one. Files hold {"prompt": …} or {"messages": […]} a line; code, json and
    prose-es are built in. Transformers verifies one sequence at a time: what a server gains under load is another
    question (specwatch calibrate).
    """
    from specwatch.measure import documents, local_models

    local_models.need_torch()
    from specwatch.measure.draft_evaluation import encode
    from specwatch.measure.hf_benchmark import Plan

    found = [dataclasses.replace(one, completion=None) for one in documents.read(domains, limit)]
    names = [options["target"], *([options["draft"]] if options["draft"] else [])]
    models = [local_models.locate(name) for name in names]
    for draft in models[1:]:
        local_models.refuse_other_tokenizer(models[0], draft)
    if output and not output.parent.is_dir():
        raise InputError(f"--output {output}: there is no folder {output.parent}")
    placed = local_models.place(options["device"], options["dtype"])
    kept = {field.name for field in dataclasses.fields(Plan)}
    plan = Plan(**{name: value for name, value in options.items() if name in kept})
    encoded = encode(local_models.tokenizer(models[0]), found, options["chat_template"])
    fits, left_out = local_texts.fitting(encoded, models, plan.max_tokens + plan.k)
    local_texts.say_memory(models, placed, fits, 1, plan.max_tokens + plan.k)
    about = {"target": options["target"], "draft": options["draft"], "device": placed.device, "dtype": placed.dtype}
    about["left_out"] = [one.document.place for one in left_out]
    _measure(models, placed, fits, plan, about, output, as_json)


def _measure(
    models: Sequence[Any],
    placed: Any,
    encoded: Sequence[Any],
    plan: Any,
    about: dict[str, Any],
    output: Path | None,
    as_json: bool,
) -> None:
    """Measure with a bar on a terminal; what was measured before a failure is shown before it is told."""
    import transformers
    from rich.console import Console
    from rich.progress import Progress

    from specwatch.measure.hf_benchmark import measure
    from specwatch.measure.hf_report import report
    from specwatch.measure.local_models import load

    done = []
    console = Console(stderr=True)
    about["transformers"] = transformers.__version__
    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("loading")
            target, *drafts = (load(model, placed) for model in models)
            arms = 1 + len(drafts) + plan.ngram
            bar.update(task, description="generating", total=arms * len(encoded) * plan.repetitions)
            for generation in measure(target, drafts[0] if drafts else None, encoded, plan):
                done.append(generation)
                bar.advance(task)
    except (SpecwatchError, KeyboardInterrupt):
        if done:
            _tell(report(done, plan, **about, partial=True), output, as_json)
        raise
    _tell(report(done, plan, **about), output, as_json)


def _tell(content: dict[str, Any], output: Path | None, as_json: bool) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    if output:
        output.write_text(f"{text}\n", encoding="utf-8")
    click.echo(text) if as_json else _show(content)


def _show(content: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("domain", no_wrap=True)
    table.add_column("arm", no_wrap=True)
    for heading in ("tokens", "tokens/s", "speedup", "95 %", "acceptance", "equal"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, domain in content["domains"].items():
        for arm, entry in domain["arms"].items():
            first = arm == next(iter(domain["arms"]))
            table.add_row(
                name if first else "", arm, str(entry["tokens"]), f"{entry['tokens_per_second']:.1f}", *_gain(entry)
            )
    Console(highlight=False, markup=False).print(table)
    if "partial" in content:
        click.echo("Broken off: these are the figures up to then.")
    click.echo(
        f"transformers {content['transformers']} on {content['device']} in {content['dtype']}, K = "
        f"{content['num_assistant_tokens']}, one sequence at a time."
    )
    if any(_differs(entry) for domain in content["domains"].values() for entry in domain["arms"].values()):
        click.echo(
            "Some texts differ from the plain ones: in 16 bits rounding can turn a near tie; with --dtype float32 they "
            "must agree."
        )


def _gain(entry: dict[str, Any]) -> tuple[str, ...]:
    """What an arm gained; nothing for the plain one."""
    if "speedup" not in entry:
        return ("", "", "", "")
    rate, equal = entry["acceptance_rate"], entry["equal_to_plain"]
    return (
        f"{entry['speedup']:.2f}",
        "{:.2f}–{:.2f}".format(*entry["speedup_interval"]),
        "unknown" if rate is None else f"{rate:.3f}",
        "–" if equal is None else f"{equal:.0%}",
    )


def _differs(entry: dict[str, Any]) -> bool:
    return entry.get("equal_to_plain") is not None and entry["equal_to_plain"] < 1
