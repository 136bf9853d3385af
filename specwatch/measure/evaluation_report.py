"""What an evaluation's documents add up to: acceptance, length and speedup of every domain and K, with intervals."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specwatch import __version__
from specwatch.measure.acceptance_walk import walk
from specwatch.measure.draft_evaluation import Evaluated, Settings
from specwatch.signals.fingerprint import FORMAT
from specwatch.signals.speedup import DraftCost

RESAMPLES = 1000
"""Of the documents: the ends of a 95 % interval are then good to a twentieth of its width or so."""
CONFIDENCE = (0.025, 0.975)


def report(results: Sequence[Evaluated], settings: Settings, cost: DraftCost) -> dict[str, Any]:
    """All figures as plain data: also the fingerprints that a sidecar reads."""
    names = list(dict.fromkeys(result.domain for result in results))
    return {
        "format": FORMAT,
        "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "specwatch": __version__,
        "target": settings.target,
        "draft": settings.draft,
        "temperature": settings.temperature,
        "draft_sample_method": settings.draft_sample_method,
        "num_speculative_tokens": settings.k,
        "draft_cost": cost.c,
        "verifying_cost": cost.v,
        "draft_cost_source": cost.source,
        "domains": {
            name: _domain([result for result in results if result.domain == name], settings, cost) for name in names
        },
    }


def _domain(results: Sequence[Evaluated], settings: Settings, cost: DraftCost) -> dict[str, Any]:
    by_k = [_for_k(results, k, cost, settings.seed) for k in range(1, settings.k + 1)]
    known = [entry for entry in by_k if entry is not None]
    best = max(known, key=lambda entry: float(entry["speedup"]), default=None)
    pays = best is not None and best["speedup"] > 1.0
    return {
        "documents": len(results),
        "tokens": sum(result.text.counted for result in results),
        "own_text": all(result.own for result in results),
        "best_num_speculative_tokens": best["num_speculative_tokens"] if best and pays else 0,
        "by_k": known,
    }


def _for_k(results: Sequence[Evaluated], k: int, cost: DraftCost, seed: int) -> dict[str, Any] | None:
    """One K; None where no document is long enough to say anything of its last position."""
    counts = [walk(result.text, k) for result in results]
    drafts = torch.tensor([count.drafts for count in counts], dtype=torch.float64)
    accepted = torch.tensor([count.accepted for count in counts], dtype=torch.float64)
    if not bool((drafts.sum(dim=0) > 0).all()):
        return None
    picked = _resamples(len(results), seed)
    once = torch.ones(1, len(results), dtype=torch.float64)
    rates, spread = _rates(once, drafts, accepted), _rates(picked, drafts, accepted)
    figures = {
        "acceptance_rate": (rates.mean(dim=1), spread.mean(dim=1)),
        "acceptance_length": (1 + rates.sum(dim=1), 1 + spread.sum(dim=1)),
        "speedup": (_speedup(rates, k, cost), _speedup(spread, k, cost)),
    }
    entry: dict[str, Any] = {
        "num_speculative_tokens": k,
        "acceptance_by_position": [_rounded(rate) for rate in rates[0].tolist()],
        "acceptance_by_position_interval": [_interval(column) for column in spread.T],
    }
    for name, (value, resampled) in figures.items():
        entry |= {name: _rounded(value.item()), f"{name}_interval": _interval(resampled)}
    return entry


def _speedup(rates: Tensor, k: int, cost: DraftCost) -> Tensor:
    """The expected one of drafted steps: (1 + Σ rates) / (v + k·c)."""
    return (1 + rates.sum(dim=1)) / (cost.v + k * cost.c)


def _rates(weights: Tensor, drafts: Tensor, accepted: Tensor) -> Tensor:
    """Pooled acceptance by position, for each way of weighting documents."""
    return ((weights @ accepted) / (weights @ drafts).clamp(min=1e-12)).clamp(max=1.0)


def _resamples(documents: int, seed: int) -> Tensor:
    """How often each document is drawn, RESAMPLES times; documents, because tokens of one are alike."""
    source = torch.Generator().manual_seed(seed)
    drawn = torch.randint(documents, (RESAMPLES, documents), generator=source)
    counts = torch.zeros(RESAMPLES, documents, dtype=torch.float64)
    return counts.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float64))


def _interval(values: Tensor) -> list[float]:
    ends = torch.quantile(values.contiguous(), torch.tensor(CONFIDENCE, dtype=values.dtype))
    return [_rounded(end) for end in ends.tolist()]


def _rounded(value: float) -> float:
    return round(value, 5)
