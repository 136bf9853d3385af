"""What is asked of a server and what comes of it, whatever carries the question."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Cause(str, Enum):
    """Why nothing came of a question."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    STATUS = "status"
    SIZE = "size"
    SERIES = "series"
    PAGE = "page"
    CREDENTIALS = "credentials"
    DEFECT = "defect"


class ScrapeError(Exception):
    """A page that could not be had or read; the text says why in words for a person."""

    def __init__(self, text: str, cause: Cause = Cause.CONNECTION) -> None:
        super().__init__(text)
        self.cause = cause


@dataclass(frozen=True)
class Limits:
    """What a target may cost."""

    seconds: float = 5.0
    """From connecting to the last byte."""
    bytes: int = 16 * 2**20
    """Of the decompressed page. A page of vLLM is about 54 kB an engine."""


PATIENT = Limits(seconds=30.0)
"""Where a person waits for the answer, or a measurement would be lost without it: a server whose cores are all taken
may need longer for its page than a scrape among hundreds may last."""


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    body: bytes
    media_type: str
    status: int = 200


def refused(url: str, status: int) -> ScrapeError:
    """What is said of an answer with another status than is wanted."""
    return ScrapeError(f"the server answers {url} with HTTP {status}", Cause.STATUS)
