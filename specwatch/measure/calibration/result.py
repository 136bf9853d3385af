"""A calibration that has ended: everything that is concluded from its runs, and the file that says so."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from specwatch import __version__
from specwatch.measure.calibration.advice import (
    Advice,
    Crossover,
    Pooled,
    StepCost,
    advice,
    cost_points,
    crossovers,
    pooled,
    step_costs,
)
from specwatch.measure.calibration.blocks import Block, Design
from specwatch.measure.calibration.cells import Measured, measured_cells
from specwatch.measure.calibration.runs import Run
from specwatch.measure.calibration.stats import Estimate
from specwatch.signals.cost import CostPoint
from specwatch.vllm.calibration import FORMAT


@dataclass(frozen=True)
class Subject:
    """What was measured, as far as it is known."""

    target: str
    method: str | None
    draft: str | None
    vllm: str | None
    gpu: str | None


@dataclass(frozen=True)
class Result:
    """A calibration's conclusions."""

    subject: Subject
    design: Design
    shares: Mapping[str, float]
    """By domain, its share of the tokens that the recommendation is for."""
    created: float
    """Unix time."""
    cells: tuple[Measured, ...]
    pools: tuple[Pooled, ...]
    crossovers: tuple[Crossover, ...]
    costs: tuple[CostPoint, ...]
    step_costs: tuple[StepCost, ...]
    advice: Advice | None
    """None where there are too few tokens to conclude anything."""

    @property
    def short(self) -> list[Measured]:
        """Cells with too few tokens."""
        return [cell for cell in self.cells if not cell.enough]


def concluded(
    subject: Subject, design: Design, shares: Mapping[str, float], runs: Mapping[Block, Run], created: float
) -> Result:
    """What the runs of a whole design say."""
    cells = measured_cells(design, runs)
    pools = pooled(design, runs, shares)
    points = cost_points(design, runs)
    return Result(
        subject=subject,
        design=design,
        shares=shares,
        created=created,
        cells=tuple(cells),
        pools=tuple(pools),
        crossovers=tuple(crossovers(design, cells)),
        costs=tuple(points),
        step_costs=tuple(step_costs(design, points)),
        advice=advice(design, pools) if all(cell.enough for cell in cells) else None,
    )


def document(result: Result) -> dict[str, Any]:
    """The calibration as docs/calibration-format.md describes it: what is not known is absent."""
    design, subject = result.design, result.subject
    content = {
        "format": FORMAT,
        "created": datetime.fromtimestamp(result.created, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "specwatch": __version__,
        "target": subject.target,
        "method": subject.method,
        "draft": subject.draft,
        "vllm": subject.vllm,
        "gpu": subject.gpu,
        "design": design.description() | {"concurrency": list(design.ladder)},
        "shares": dict(result.shares),
        "cells": [_cell(cell) for cell in result.cells],
        "pooled": [
            {"num_speculative_tokens": each.k, "concurrency": each.concurrency, **_estimate(each.speedup)}
            for each in result.pools
        ],
        "costs": [
            {
                "num_speculative_tokens": point.num_speculative_tokens,
                "concurrency": _rounded(point.concurrency),
                "step_seconds": _rounded(point.step_seconds),
                "plain_step_seconds": _rounded(point.plain_step_seconds),
            }
            for point in result.costs
        ],
        "step_costs": [
            {"concurrency": cost.concurrency, "draft_cost": _rounded(cost.draft), "verify_cost": _rounded(cost.verify)}
            for cost in result.step_costs
        ],
        "crossovers": [
            {"num_speculative_tokens": each.k, "domain": each.domain, "concurrency": each.concurrency}
            for each in result.crossovers
        ],
    }
    if result.advice is not None:
        content["recommended"] = {
            "num_speculative_tokens": result.advice.num_speculative_tokens,
            "schedule": [list(entry) for entry in result.advice.schedule],
        }
    return {key: value for key, value in content.items() if value is not None}


def _cell(measured: Measured) -> dict[str, Any]:
    cell, texts = measured.cell, measured.texts
    content = {
        "domain": cell.domain,
        "temperature": cell.temperature,
        "num_speculative_tokens": measured.k,
        "concurrency": cell.concurrency,
        **_estimate(measured.speedup),
        "repetitions": measured.repetitions,
        "answers": measured.answers,
        "tokens": measured.tokens,
        "baseline_tokens": measured.baseline_tokens,
        "errors": measured.errors,
        "timeouts": measured.timeouts,
        "acceptance_by_position": [_rounded(share) for share in measured.acceptance_by_position] or None,
        "acceptance_length": _known(measured.acceptance_length),
        "mean_k": _known(measured.mean_k),
        "tpot": {"mean": _rounded(measured.mean_tpot)} | _percentiles(measured.tpot),
        "baseline_tpot": {"mean": _rounded(measured.baseline_mean_tpot)} | _percentiles(measured.baseline_tpot),
        "itl": _percentiles(measured.itl),
        "baseline_itl": _percentiles(measured.baseline_itl),
        "tokens_per_second": _rounded(measured.tokens_per_second),
        "baseline_tokens_per_second": _rounded(measured.baseline_tokens_per_second),
        "equal_texts": _rounded(texts.equal / texts.compared) if texts and texts.compared else None,
        "texts_part_after": texts.parted_after if texts else None,
    }
    return {key: value for key, value in content.items() if value is not None}


def _estimate(estimate: Estimate) -> dict[str, Any]:
    found: dict[str, Any] = {"speedup": _rounded(estimate.value)}
    if estimate.low is not None and estimate.high is not None:
        found["speedup_interval"] = [_rounded(estimate.low), _rounded(estimate.high)]
    return found


def _percentiles(values: Mapping[float, float]) -> dict[str, float]:
    return {f"p{100 * share:g}": _rounded(value) for share, value in values.items()}


def _known(value: float | None) -> float | None:
    return None if value is None else _rounded(value)


def _rounded(value: float) -> float:
    """Five significant digits: more than any clock or sample here gives."""
    return float(f"{value:.5g}")


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise


def as_text(result: Result) -> str:
    """The calibration's file."""
    return json.dumps(document(result), indent=2, ensure_ascii=False) + "\n"
