"""What commands that read texts with local models share: options, and what does not fit and what it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from specwatch.errors import InputError
from specwatch.vllm.preflight.models import Model
from specwatch.vllm.preflight.shape import shape_of

if TYPE_CHECKING:
    from specwatch.measure.draft_evaluation import Encoded
    from specwatch.measure.local_models import Placed


Command = TypeVar("Command", bound=Callable[..., None])


def placing_options(command: Command) -> Command:
    """The options that say where models run and how prompts reach them."""
    for option in (
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
        click.option(
            "--chat-template/--no-chat-template", default=True, help="Prompts as a user's message.  [default: do]"
        ),
        click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16", "float16"]), default="auto"),
        click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps."),
    ):
        command = option(command)
    return command


def fitting(encoded: Sequence[Encoded], models: Sequence[Model], written: int) -> tuple[list[Encoded], list[Encoded]]:
    """Documents that fit into the models' contexts with ``written`` further tokens, and others.

    Says how many these are; InputError when none fits.
    """
    from specwatch.measure.draft_evaluation import split_by_length

    limit = min((length for model in models if (length := shape_of(model).longest_context)), default=None)
    fits, too_long = split_by_length(encoded, written, limit)
    if too_long:
        text = (
            f"{len(too_long)} of {len(encoded)} documents, {too_long[0].document.place} the first, are longer than the "
            f"{limit} tokens that the models were made for, with up to {written} to write"
        )
        if not fits:
            raise InputError(f"{text}: shorten them, or lower --max-tokens")
        click.echo(f"specwatch: left out: {text}", err=True)
    return fits, too_long


def say_memory(models: Sequence[Model], placed: Placed, encoded: Sequence[Encoded], batch: int, written: int) -> None:
    """Say what it takes; InputError, before anything is loaded, where less is free."""
    from specwatch.measure import local_models
    from specwatch.measure.draft_evaluation import longest
    from specwatch.measure.teacher_forcing import LOGITS_BYTES

    tokens = longest(encoded, written)
    needed = local_models.memory_needed(models, placed, batch, tokens, LOGITS_BYTES)
    local_models.refuse_too_large(needed, local_models.memory_free(placed.device), placed)
    if needed is not None:
        click.echo(
            f"about {needed / local_models.GIB:.1f} GiB on {placed.device}, in {placed.dtype}: texts of up to {tokens} "
            f"tokens, {batch} at a time",
            err=True,
        )
