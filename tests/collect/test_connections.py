"""Connections that stay open, on real sockets, and answers in whatever pieces they arrive."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.collect.connections import IDLE_SECONDS, Connections, Ended, connections, place
from specwatch.collect.http import Limits, ScrapeError, fetch
from specwatch.collect.raw_answer import LONGEST_HEAD, NotHttp, RawAnswer, TooLarge

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\n\r\nhello"
EARLY = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + HELLO


class Server:
    """Says one thing after the other, and counts connections and questions."""

    def __init__(self, answers: Sequence[bytes | None]) -> None:
        self.answers = list(answers)
        """None: the connection is closed in place of an answer."""
        self.connections = 0
        self.questions: list[bytes] = []
        self.open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        self.open.add(writer)
        try:
            while question := await reader.readuntil(b"\r\n\r\n"):
                self.questions.append(question)
                answer = self.answers.pop(0)
                if answer is None:
                    return
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self.open.discard(writer)
            writer.close()


@asynccontextmanager
async def serving(*answers: bytes | None) -> AsyncIterator[tuple[Server, str]]:
    told = Server(answers)
    listener = await asyncio.start_server(told.serve, "127.0.0.1", 0)
    try:
        yield told, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/metrics"
    finally:
        listener.close()


async def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.01)


async def body(held: Connections, url: str) -> bytes:
    return (await fetch(held, url, Limits(seconds=30))).body


async def test_one_connection_carries_all_questions():
    async with serving(HELLO, CHUNKED, HELLO) as (server, url), connections() as held:
        assert [await body(held, url) for _ in range(3)] == [b"hello"] * 3
    assert server.connections == 1
    assert server.questions[0].startswith(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:")


async def test_questions_at_once_have_a_connection_each():
    async with serving(HELLO, HELLO, HELLO) as (server, url), connections() as held:
        assert await asyncio.gather(*(body(held, url) for _ in range(3))) == [b"hello"] * 3
    assert server.connections == 3


async def test_a_connection_that_was_given_up_meanwhile_is_made_anew():
    async with serving(HELLO, None, HELLO) as (server, url), connections() as held:
        assert [await body(held, url) for _ in range(2)] == [b"hello"] * 2
    assert (server.connections, len(server.questions)) == (2, 3)


async def test_a_new_connection_that_is_given_up_is_no_answer():
    async with serving(None, HELLO) as (server, url), connections() as held:
        with pytest.raises(ScrapeError, match="closed the connection without an answer"):
            await body(held, url)
    assert len(server.questions) == 1


@pytest.mark.parametrize("answer", [HELLO + b"more", HELLO.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")])
async def test_a_connection_that_cannot_be_asked_again_is_not(answer: bytes):
    async with serving(answer, HELLO) as (server, url), connections() as held:
        assert [await body(held, url) for _ in range(2)] == [b"hello"] * 2
    assert server.connections == 2


async def test_what_nobody_asked_for_ends_a_connection():
    async with serving(HELLO, HELLO) as (server, url), connections() as held:
        await body(held, url)
        (writer,) = server.open
        writer.write(HELLO)
        await until(lambda: not server.open)
        assert await body(held, url) == b"hello"
    assert server.connections == 2


async def test_a_connection_that_is_idle_for_long_is_closed():
    async with serving(HELLO) as (server, url), connections() as held:
        await body(held, url)
        held._sweep(time.monotonic() + IDLE_SECONDS)
        assert held._idle == {}
        await until(lambda: not server.open)


async def test_a_question_that_is_given_up_takes_its_connection_along():
    async with serving(HELLO[:-1]) as (server, url), connections() as held:
        asking = asyncio.create_task(body(held, url))
        await until(lambda: bool(server.questions))
        asking.cancel()
        await until(lambda: not server.open)
        assert held._idle == {}


async def test_the_next_address_of_a_name_is_tried(monkeypatch):
    async with serving(HELLO) as (_, url), connections() as held:
        port = place(url).port
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in ("127.9.9.9", "127.0.0.1")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert await body(held, f"http://replicas.example:{port}/") == b"hello"


async def test_no_header_can_carry_another_one():
    async with serving(HELLO) as (server, url), connections() as held:
        with pytest.raises(ScrapeError, match="ValueError"):
            await fetch(held, url, Limits(), headers={"X": "a\r\nY: b"})
    assert server.questions == []


@pytest.mark.parametrize(
    ("url", "first"),
    [
        ("http://h", "GET / HTTP/1.1\r\nHost: h\r\n"),
        ("http://h:8000/a b?c=ü&d=%20", "GET /a%20b?c=%C3%BC&d=%20 HTTP/1.1\r\nHost: h:8000\r\n"),
        ("https://[::1]:9/x", "GET /x HTTP/1.1\r\nHost: [::1]:9\r\n"),
    ],
)
def test_what_is_asked_for(url: str, first: str):
    assert place(url).question.startswith(first)


@pytest.mark.parametrize("url", ["ftp://h/", "http://", "h:8000"])
def test_a_url_that_leads_to_no_server(url: str):
    with pytest.raises(ValueError, match="no server's URL"):
        place(url)


@given(st.sampled_from([HELLO, CHUNKED, UNTIL_CLOSED, EARLY]), st.lists(st.integers(1, 40)))
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(whole: bytes, sizes: list[int]):
    answer, at = RawAnswer(100), 0
    for size in [*sizes, len(whole)]:
        if not answer.complete and at < len(whole):
            answer.feed(whole[at : at + size])
            at += size
    answer.end()
    assert (answer.complete, answer.status, answer.body) == (True, 200, b"hello")
    assert answer.reusable is (whole is not UNTIL_CLOSED)


@given(st.lists(st.binary(max_size=30) | st.sampled_from([HELLO[:20], CHUNKED[:47], b"\r\n", b"\r\n\r\n", b"5"])))
def test_of_any_bytes_there_is_an_answer_or_none(pieces: list[bytes]):
    answer = RawAnswer(100)
    try:
        for piece in pieces:
            if not answer.complete:
                answer.feed(piece)
        answer.end()
    except (NotHttp, TooLarge):
        return
    assert len(answer.body) <= 100


@pytest.mark.parametrize(
    "head",
    [
        b"SSH-2.0\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"5" * 300,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * LONGEST_HEAD,
    ],
)
def test_what_is_no_answer_is_none(head: bytes):
    with pytest.raises(NotHttp):
        RawAnswer(100).feed(head)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"#" * 101,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + b"#" * 101,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"a\r\n##########\r\n" * 11,
    ],
)
def test_more_than_is_wanted_is_not_taken(answer: bytes):
    with pytest.raises(TooLarge):
        RawAnswer(100).feed(answer)


def test_a_body_that_is_cut_off_is_not_complete():
    for whole in (HELLO, CHUNKED):
        answer = RawAnswer(100)
        answer.feed(whole[:-1])
        answer.end()
        assert not answer.complete
    assert Ended(begun=True).begun
