"""``/api/v1/silences``: alerts that somebody knows of, and wants no message about for a while."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, HTTPException, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from specwatch.alerting.silences import (
    ANY,
    BY_LENGTH,
    COMMENT_LENGTH,
    LONGEST_SILENCE,
    MOST_SILENCES,
    PATTERN_LENGTH,
    Silence,
    TooManySilences,
    new_id,
)
from specwatch.alerting.text import clean
from specwatch.sidecar.alerts import AlertBook

Pattern = Annotated[str, Field(min_length=1, max_length=PATTERN_LENGTH)]


class NewSilence(BaseModel):
    """What to keep silent, until when, and who says so why. In patterns ``*`` stands for any characters."""

    model_config = ConfigDict(extra="forbid")

    alert: Pattern = ANY
    target: Pattern = ANY
    model: Pattern = ANY
    ends_at: Annotated[float, Field(allow_inf_nan=False, description="Unix seconds")]
    by: Annotated[str, Field(max_length=BY_LENGTH), AfterValidator(clean)] = ""
    comment: Annotated[str, Field(max_length=COMMENT_LENGTH), AfterValidator(clean)] = ""


def router(alerts: AlertBook) -> APIRouter:
    """Reading, making and ending silences."""
    routes = APIRouter(prefix="/api/v1/silences")

    @routes.get("")
    async def read_silences() -> list[Silence]:
        """Silences in force, those that end first in front."""
        return alerts.silences()

    @routes.post("", status_code=HTTPStatus.CREATED)
    async def make_silence(asked: NewSilence) -> Silence:
        """Send nothing about matching alerts until a time; they go on being judged and shown."""
        left = asked.ends_at - alerts.now()
        if not 0 < left <= LONGEST_SILENCE:
            days = LONGEST_SILENCE / 86_400
            raise HTTPException(422, detail=f"ends_at: expected Unix seconds, from now to {days:.0f} days ahead")
        silence = Silence(id=new_id(), **asked.model_dump())
        try:
            await alerts.silence(silence)
        except TooManySilences:
            raise HTTPException(409, detail=f"{MOST_SILENCES} silences are in force: end one, or use *") from None
        return silence

    @routes.delete("/{id}", status_code=HTTPStatus.NO_CONTENT)
    async def end_silence(id: str) -> Response:
        """End a silence now: what it kept silent and still fires is told."""
        if not await alerts.end_silence(id):
            raise HTTPException(404, detail="no silence of that id is in force")
        return Response(status_code=HTTPStatus.NO_CONTENT)

    return routes
