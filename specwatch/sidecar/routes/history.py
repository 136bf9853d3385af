"""``/api/v1/history``: one target over time. ``/api/v1/changes``: when acceptance left its normal, and where."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query

from specwatch.sidecar.changes import Changes
from specwatch.sidecar.history import FINEST_STEP, MOST_POINTS, POINTS, WINDOW, History, TargetHistory
from specwatch.sidecar.references import Scope
from specwatch.sidecar.service import Clock
from specwatch.sidecar.views import AcceptanceChange

Seconds = Annotated[float | None, Query(ge=0, le=1e11, allow_inf_nan=False)]
Step = Annotated[float | None, Query(ge=FINEST_STEP, le=1e11, allow_inf_nan=False)]


def router(clock: Clock, history: History, changes: Changes) -> APIRouter:
    """Reading the past."""
    routes = APIRouter(prefix="/api/v1")

    @routes.get("/history")
    async def read_history(target: str, start: Seconds = None, end: Seconds = None, step: Step = None) -> TargetHistory:
        """One target's figures from ``start`` to ``end`` (Unix seconds; the last hour), one point a ``step`` (seconds).

        Signals are pooled over the step, or over the headline window where that is longer. Each scrape is known for
        three hours, minutes for three days, ten minutes for five weeks; what is gone answers for its past.
        """
        first, last = _range(clock, start, end)
        each = max(FINEST_STEP, (last - first) / POINTS) if step is None else step
        if (last - first) / each > MOST_POINTS:
            raise HTTPException(422, detail=f"more than {MOST_POINTS} points: ask for a longer step or a shorter range")
        told = await history.tell(target, first, last, each)
        if told is None:
            raise HTTPException(404, detail="no target of that name")
        return replace(told, changes=await changes.tell(first, last, Scope.SERVER, target))

    @routes.get("/changes")
    async def read_changes(start: Seconds = None, end: Seconds = None) -> list[AcceptanceChange]:
        """Of every server, every model and the fleet, from ``start`` to ``end`` (Unix seconds; the last hour)."""
        return await changes.tell(*_range(clock, start, end))

    return routes


def _range(clock: Clock, start: float | None, end: float | None) -> tuple[float, float]:
    last = clock.now() if end is None else end
    first = last - WINDOW if start is None else start
    if first >= last:
        raise HTTPException(422, detail="start is not before end")
    return first, last
