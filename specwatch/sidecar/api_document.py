"""What the API's own document says of every route: who may ask, and how it is said that something cannot be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI


@dataclass(frozen=True)
class Mistake:
    """What of a request cannot be used."""

    loc: list[str]
    """Where it is: ``query`` or ``body``, and the names below that."""
    msg: str


@dataclass(frozen=True)
class Problem:
    """Why there is no other answer."""

    detail: str | list[Mistake]


_WORDS: Mapping[str, Any] = {"content": {"text/plain": {"schema": {"type": "string"}}}}

RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request cannot be read."},
    401: {"description": "A token is asked for.", **_WORDS},
    403: {"description": "Not with this token, or not from this page.", **_WORDS},
    404: {"model": Problem, "description": "There is none of that name."},
    409: {"model": Problem, "description": "Not as things stand."},
    413: {"model": Problem, "description": "The request is too large.", **_WORDS},
    422: {"model": Problem, "description": "Something in the request cannot be used."},
}
"""What any route may answer instead."""


def describe_access(app: FastAPI, open_paths: frozenset[str]) -> None:
    """Have the document say that all but these paths take a token."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        document = plain()
        document.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        for path in open_paths & document["paths"].keys():
            for operation in document["paths"][path].values():
                operation["security"] = []
        return document

    app.openapi = openapi  # type: ignore[method-assign]
