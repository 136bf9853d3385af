"""Fetching a metrics page, and reading it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from specwatch.collect.credentials import Credentials
from specwatch.collect.http import Asker, Cause, Limits, ScrapeError, fetch, http_session
from specwatch.collect.targets import Target
from specwatch.vllm.metrics import PageError, PageReader, PageTooLarge, Snapshot, read_page

__all__ = ["TEXT_FORMAT", "Limits", "ScrapeError", "http_session", "scrape", "server_release"]

TEXT_FORMAT = "text/plain;version=0.0.4"
"""Asked for by name: exporters that are offered OpenMetrics may rename ``vllm:`` to ``vllm_``."""

SMALL_PAGE = 2**18
"""Bytes that are read at once, in about two milliseconds; a thread and back would cost the page of one engine another
0.05 ms to 0.35. A larger page goes: one at the limit takes seconds, and others are to be scraped meanwhile."""

RELEASE_BYTES = 4096
"""Most that is read of an answer about the release."""


async def scrape(
    session: Asker,
    target: Target,
    limits: Limits | None = None,
    credentials: Credentials | None = None,
    reader: PageReader | None = None,
) -> Snapshot:
    """Fetch and read one page; ScrapeError when that is not possible. A ``reader`` is quicker from its second on."""
    answer = await fetch(session, target.url, limits or Limits(), credentials, {"Accept": TEXT_FORMAT})
    try:
        page, read = answer.body.decode("utf-8"), reader.read if reader else read_page
        return read(page) if len(page) <= SMALL_PAGE else await asyncio.to_thread(read, page)
    except UnicodeDecodeError:
        raise ScrapeError("the page is not text", Cause.PAGE) from None
    except PageTooLarge as problem:
        raise ScrapeError(str(problem), Cause.SERIES) from None
    except PageError as problem:
        raise ScrapeError(str(problem), Cause.PAGE) from None


async def server_release(
    session: Asker,
    target: Target,
    seconds: float = 2.0,
    credentials: Credentials | None = None,
) -> str | None:
    """What the server's ``/version`` says, or None where it does not say, nor within ``seconds``."""
    try:
        answer = await fetch(session, f"{target.server}/version", Limits(seconds, RELEASE_BYTES), credentials)
        version: Any = json.loads(answer.body).get("version")
    except (ScrapeError, ValueError, AttributeError):
        return None
    return version if isinstance(version, str) and len(version) < 64 and version.isprintable() else None
