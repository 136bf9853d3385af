"""Answers that are not sent twice: an ``ETag``, and 304 to whoever has what it names."""

from __future__ import annotations

from fastapi import HTTPException, Request, Response


def tag(request: Request, response: Response, version: str) -> None:
    """Mark the answer, or end with 304 where the asker has it. Weak: a later moment gives other last digits."""
    mark = f'W/"{version}"'
    response.headers["ETag"] = mark
    known = request.headers.get("if-none-match", "")
    if mark in (each.strip() for each in known.split(",")):
        raise HTTPException(304, headers={"ETag": mark})
