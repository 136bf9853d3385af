from __future__ import annotations

import asyncio
import gzip
import socket
import threading
import tracemalloc
from typing import Any

import pytest
from aiohttp import web

from specwatch.collect.connections import connections
from specwatch.collect.http import Cause
from specwatch.collect.scraper import SMALL_PAGE, Limits, ScrapeError, http_session, scrape, server_release
from specwatch.collect.targets import parse
from specwatch.vllm.metrics import MAX_LINES, Dialect, Snapshot, read_page
from tests.support.http import answering, serving, text_page
from tests.support.pages import page_text

PAGE = page_text("vllm-0.32.0-v1-draft_model-es")


@pytest.fixture(autouse=True, params=[http_session, connections], ids=["aiohttp", "connections"])
def _either_carries_the_questions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "http_session", request.param)


async def fetched(url: str, **limits: float) -> Snapshot:
    async with http_session() as session:
        return await scrape(session, parse(url), Limits(**({"seconds": 60.0} | limits)))


async def refusal(url: str, **limits: float) -> str:
    with pytest.raises(ScrapeError) as caught:
        await fetched(url, **limits)
    return str(caught.value)


async def test_a_page_is_fetched_and_read():
    async with serving({"/metrics": text_page(PAGE)}) as url:
        assert (await fetched(url)).dialect is Dialect.V1


async def test_text_format_is_asked_for_by_name():
    seen = {}

    async def handler(request: web.Request) -> web.Response:
        seen.update(request.headers)
        return web.Response(text=PAGE)

    async with serving({"/metrics": handler}) as url:
        await fetched(url)
    assert seen["Accept"] == "text/plain;version=0.0.4"


async def test_an_unreachable_target():
    assert await refusal("http://127.0.0.1:1") == "no connection: connection refused"


async def test_a_host_that_does_not_exist():
    assert await refusal("http://no-such-host.invalid:8000") == "no connection: the host name is not known"


async def test_a_target_that_speaks_no_tls():
    async with serving({"/metrics": text_page(PAGE)}) as url:
        assert "TLS handshake failed" in await refusal(url.replace("http:", "https:"))


async def test_an_error_status():
    async def broken(_: web.Request) -> web.Response:
        return web.Response(status=503)

    async with serving({"/metrics": broken}) as url:
        assert "HTTP 503" in await refusal(url)


async def test_a_redirect_is_not_followed():
    async def elsewhere(_: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/metrics")

    async with serving({"/metrics": elsewhere}) as url:
        assert "HTTP 302" in await refusal(url)


async def test_a_page_that_is_no_metrics_page():
    async with serving({"/metrics": text_page("<html><body>Hello</body></html>\n")}) as url:
        assert (await fetched(url)).dialect is Dialect.NOT_VLLM


async def test_a_binary_page():
    async with answering(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n\xff\xfe\x00") as url:
        assert await refusal(url) == "the page is not text"


async def test_half_a_page_by_length():
    body = PAGE.encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with answering(head + body[:1000]) as url:
        assert "in the middle of the page" in await refusal(url)


async def test_half_a_page_without_a_length():
    async with answering(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + PAGE.encode()[:1000]) as url:
        assert "cut off" in await refusal(url)


async def test_a_target_that_accepts_and_never_answers():
    async with answering(b"", close=False) as url:
        assert await refusal(url, seconds=0.2) == "no complete answer within 0.2 s"


async def test_a_target_that_hangs_up():
    async with answering(b"") as url:
        assert await refusal(url) == "the server closed the connection without an answer"


async def test_a_target_that_speaks_something_else():
    async with answering(b"SSH-2.0-OpenSSH_9.2\r\n") as url:
        assert await refusal(url) == "the answer is not HTTP as we speak it"


async def test_a_target_that_drips():
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"#")
            await asyncio.sleep(0.05)

    async with serving({"/metrics": drip}) as url:
        assert "no complete answer" in await refusal(url, seconds=0.3)


async def test_a_page_of_two_hundred_megabytes_is_given_up_at_the_limit():
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(200):
            await response.write(b"#" * 2**20)
            sent += 1
        return response

    async with serving({"/metrics": endless}) as url:
        assert "larger than 16 MiB" in await refusal(url)
    assert sent < 60


async def test_a_compressed_page_is_measured_unpacked():
    bomb = gzip.compress(b"#" * (64 * 2**20))

    async def compressed(_: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    async with serving({"/metrics": compressed}) as url:
        assert "larger than 16 MiB" in await refusal(url)


async def test_what_a_small_packet_unpacks_to_is_never_held():
    bomb = gzip.compress(b"#" * (64 * 2**20))

    async def compressed(_: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    async with serving({"/metrics": compressed}) as url:
        tracemalloc.start()
        try:
            assert "larger than 1 MiB" in await refusal(url, bytes=2**20)
            assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
        finally:
            tracemalloc.stop()


async def packed(body: bytes, encoding: str) -> str:
    """What is said of a page packed like that."""

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Encoding": encoding})

    async with serving({"/metrics": handler}) as url:
        return await refusal(url)


async def test_a_page_packed_in_gzip_is_read():
    async def handler(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "gzip"
        return web.Response(body=gzip.compress(PAGE.encode()), headers={"Content-Encoding": "gzip"})

    async with serving({"/metrics": handler}) as url:
        assert (await fetched(url)).dialect is Dialect.V1


async def test_a_page_that_is_badly_packed_is_refused():
    assert "is not" in await packed(b"no gzip at all", "gzip")
    assert "cut off" in await packed(gzip.compress(PAGE.encode())[:-20], "gzip")
    assert "another way" in await packed(b"x", "zstd")


async def test_names_that_nobody_resolves_hold_up_nothing_else(monkeypatch):
    real, dns_is_back = socket.getaddrinfo, threading.Event()

    def hang(host: str, *words: Any, **more: Any) -> Any:
        if host.endswith(".invalid"):
            dns_is_back.wait(30)
        return real(host, *words, **more)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        async with serving({"/metrics": text_page(PAGE)}) as url, http_session() as session:
            gone = [
                asyncio.create_task(scrape(session, parse(f"http://gpu-{number}.invalid:8000"), Limits(seconds=20)))
                for number in range(100)
            ]
            await asyncio.sleep(0.1)
            assert (await scrape(session, parse(url))).dialect is Dialect.V1
            assert await asyncio.to_thread(lambda: "another thread") == "another thread"
            assert not any(task.done() for task in gone)
            for task in gone:
                task.cancel()
            await asyncio.gather(*gone, return_exceptions=True)
    finally:
        dns_is_back.set()


async def test_a_page_that_takes_long_to_read_holds_up_nothing_else(monkeypatch):
    reading, others_went_on = threading.Event(), threading.Event()

    def read_slowly(text: str) -> Snapshot:
        reading.set()
        assert others_went_on.wait(30)
        return read_page(text)

    monkeypatch.setattr("specwatch.collect.scraper.read_page", read_slowly)
    async with serving({"/metrics": text_page(PAGE + "# a comment\n" * SMALL_PAGE)}) as url:
        slow = asyncio.create_task(fetched(url))
        while not slow.done():
            await asyncio.sleep(0.01)
            if reading.is_set():
                others_went_on.set()
        assert slow.result().dialect is Dialect.V1


SERIES = "".join(f'vllm:num_requests_running{{engine="{number}"}} 1\n' for number in range(MAX_LINES + 1))


@pytest.mark.parametrize(
    ("page", "limits", "cause"),
    [(SERIES, Limits(seconds=60), Cause.SERIES), (PAGE, Limits(bytes=1000), Cause.SIZE), ("x{", Limits(), Cause.PAGE)],
    ids=["a hundred thousand series", "too large", "no page"],
)
async def test_why_a_page_is_refused_can_be_counted(page: str, limits: Limits, cause: Cause):
    async with serving({"/metrics": text_page(page)}) as url, http_session() as session:
        with pytest.raises(ScrapeError) as caught:
            await scrape(session, parse(url), limits)
    assert caught.value.cause is cause


async def test_the_release_is_what_the_server_says():
    async def version(_: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async with serving({"/metrics": text_page(PAGE), "/version": version}) as url, http_session() as session:
        assert await server_release(session, parse(url)) == "0.32.0"


@pytest.mark.parametrize("answer", ["[]", '"x"', '{"version": 7}', "not json", '{"version": "a\\nb"}'])
async def test_a_strange_answer_about_the_release_is_no_release(answer: str):
    async with serving({"/version": text_page(answer)}) as url, http_session() as session:
        assert await server_release(session, parse(url)) is None
