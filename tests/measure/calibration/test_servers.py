"""What a calibration reads of its servers."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from specwatch.collect.asking import Limits
from specwatch.collect.scraper import http_session
from specwatch.measure.calibration.servers import count
from specwatch.vllm.metrics import Counter
from tests.support.http import serving, text_page
from tests.support.pages import page_text

PAGE = page_text("vllm-0.32.0-v1-draft_model-json")


@pytest.mark.slow
async def test_a_page_that_takes_longer_than_a_scrape_among_many_may_does_not_end_a_measurement():
    async def slowly(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(Limits().seconds + 1)
        return await text_page(PAGE)(request)

    async with serving({"/metrics": slowly}) as url, http_session() as session:
        counts = await count(session, url)
    assert counts.counters[Counter.DRAFTS] > 0
