"""Runs of a calibration that nobody measured, at known costs."""

from __future__ import annotations

from collections.abc import Callable

from specwatch.measure.calibration.blocks import Block, Design
from specwatch.measure.calibration.runs import Kept, Run
from specwatch.vllm.metrics import Counter

PLAIN_STEP = 0.010
"""Seconds of a plain step of a single request."""

Law = Callable[[Block], tuple[float, float]]
"""For a block with speculation, the seconds of a step and the tokens that it brings; without, the seconds and 1."""


def runs_of(design: Design, law: Law) -> dict[Block, Run]:
    """Every block of a design as that law has it."""
    return {block: _run(design, block, *law(block)) for block in design.blocks()}


def _run(design: Design, block: Block, step: float, length: float) -> Run:
    answers = design.size(block.cell.concurrency)
    decoded = design.max_tokens - 1
    steps = decoded / length
    counts = {
        Counter.GENERATION_TOKENS: float(answers * design.max_tokens),
        Counter.FIRST_TOKENS: float(answers),
        Counter.DECODE_STEPS: answers * steps,
        Counter.DECODE_STEP_SECONDS: answers * steps * step,
    }
    accepted: tuple[float, ...] = ()
    if block.k:
        counts[Counter.DRAFTS] = answers * steps
        counts[Counter.DRAFT_TOKENS] = answers * steps * block.k
        counts[Counter.ACCEPTED_TOKENS] = answers * steps * (length - 1)
        accepted = tuple(answers * steps * (length - 1) / block.k for _ in range(block.k))
    return Run(
        block=block,
        seconds=answers * steps * step / block.cell.concurrency,
        answers=tuple(Kept(design.max_tokens, step / length, "text") for _ in range(answers)),
        errors=0,
        timeouts=0,
        last_error=None,
        decode_seconds=answers * steps * step,
        decode_tokens=answers * decoded,
        gaps={},
        counts=counts,
        accepted_per_position=accepted,
    )
