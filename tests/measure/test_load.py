"""The load generator against a small server that answers like vLLM."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specwatch.errors import InputError
from specwatch.measure import load
from specwatch.measure.load import Load, RequestSpeculation

SPECULATION = {
    "mean_acceptance_length": 3.5,
    "draft_acceptance_rate": 0.5,
    "acceptance_histogram": [0, 0, 1, 1, 0, 0],
    "num_spec_steps": 2,
    "num_accepted_draft_tokens": 5,
    "num_draft_tokens": 10,
    "num_spec_tokens": 5,
}


def completion(metrics: dict[str, Any] | None = None) -> dict[str, Any]:
    usage = {"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10}
    return {"choices": [{"index": 0, "text": "x" * 7}], "usage": usage, "metrics": metrics}


class StandIn:
    """Answers completions and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.under_way = 0
        self.most_under_way = 0
        self.answer: Callable[[dict[str, Any]], web.Response] = lambda _: web.json_response(completion())
        self.before_answering: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)

    async def complete(self, request: web.Request) -> web.Response:
        """Count the request, wait as told, answer as told."""
        body = await request.json()
        self.asked.append(body)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await self.before_answering()
        self.under_way -= 1
        return self.answer(body)

    def prompts(self) -> list[str]:
        """The prompts in the order they arrived."""
        return [body["prompt"] for body in self.asked]


@pytest.fixture
def stand_in() -> StandIn:
    return StandIn()


@pytest.fixture
async def url(stand_in: StandIn) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/completions", stand_in.complete)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


def of(url: str, prompts: list[str] | None = None, concurrency: int = 2) -> Load:
    return Load(url, "lab", prompts or ["a", "b", "c"], concurrency=concurrency, max_tokens=7)


async def test_a_number_of_requests_is_sent_and_counted(url: str, stand_in: StandIn):
    totals = await of(url).run(requests=10)
    assert len(stand_in.asked) == 10
    assert (totals.requests, totals.errors, totals.tokens) == (10, 0, 70)
    assert totals.tokens_per_second == pytest.approx(70 / totals.seconds)


async def test_requests_are_greedy_and_of_full_length_unless_told_otherwise(url: str, stand_in: StandIn):
    await of(url).run(requests=1)
    warm = Load(url, "lab", ["a"], concurrency=1, max_tokens=9, temperature=0.7, ignore_eos=False)
    await warm.run(requests=1)
    greedy, other = stand_in.asked
    assert greedy == {"model": "lab", "prompt": "a", "max_tokens": 7, "temperature": 0.0, "ignore_eos": True}
    assert (other["max_tokens"], other["temperature"], other["ignore_eos"]) == (9, 0.7, False)


async def test_as_many_requests_are_under_way_as_the_concurrency_says(url: str, stand_in: StandIn):
    all_there = asyncio.Event()

    async def wait_for_three() -> None:
        if stand_in.under_way == 3:
            all_there.set()
        await all_there.wait()

    stand_in.before_answering = wait_for_three
    await of(url, concurrency=3).run(requests=9)
    assert stand_in.most_under_way == 3


async def test_the_prompts_are_sent_in_turn_and_again(url: str, stand_in: StandIn):
    await of(url).run(requests=9)
    assert collections.Counter(stand_in.prompts()) == {"a": 3, "b": 3, "c": 3}


async def test_other_prompts_are_used_from_the_next_request_on(url: str, stand_in: StandIn):
    generator = of(url, concurrency=1)

    async def switch_after_the_third() -> None:
        if len(stand_in.asked) == 3:
            generator.use(["z"])

    stand_in.before_answering = switch_after_the_third
    await generator.run(requests=6)
    assert stand_in.prompts() == ["a", "b", "c", "z", "z", "z"]


async def test_a_load_ends_when_its_time_is_over(url: str):
    totals = await of(url).run(seconds=1.0)
    assert totals.requests > 0


async def test_whichever_bound_comes_first_ends_the_load(url: str):
    assert (await of(url).run(seconds=3600, requests=4)).requests == 4
    assert (await of(url).run(seconds=0, requests=4)).requests == 0


async def test_a_stopped_load_waits_for_what_is_under_way(url: str, stand_in: StandIn):
    generator = of(url, concurrency=2)

    async def stop_at_the_fifth() -> None:
        if len(stand_in.asked) == 5:
            generator.stop()

    stand_in.before_answering = stop_at_the_fifth
    totals = await generator.run(seconds=3600)
    assert totals.requests == len(stand_in.asked) >= 5
    assert totals.errors == 0


async def test_a_cancelled_load_breaks_off_at_once(url: str, stand_in: StandIn):
    stand_in.before_answering = asyncio.Event().wait  # type: ignore[assignment]
    task = asyncio.create_task(of(url).run(requests=2))
    while stand_in.under_way < 2:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_totals_can_be_read_while_the_load_runs(url: str, stand_in: StandIn):
    generator = of(url, concurrency=1)
    seen: list[int] = []

    async def look() -> None:
        seen.append(generator.totals.requests)

    stand_in.before_answering = look
    await generator.run(requests=3)
    assert seen == [0, 1, 2]


async def test_speculation_is_kept_for_each_request_where_the_server_tells_it(url: str, stand_in: StandIn):
    stand_in.answer = lambda _: web.json_response(completion({"speculative_decoding": SPECULATION}))
    generator = of(url)
    await generator.run(requests=2)
    expected = RequestSpeculation(
        num_spec_steps=2, num_draft_tokens=10, num_accepted_draft_tokens=5, acceptance_histogram=(0, 0, 1, 1, 0, 0)
    )
    assert [answer.speculation for answer in generator.answers] == [expected, expected]


@pytest.mark.parametrize("metrics", [None, {}, {"speculative_decoding": None, "mean_itl_ms": 2.5}])
async def test_a_server_that_tells_no_speculation_is_no_error(
    url: str, stand_in: StandIn, metrics: dict[str, Any] | None
):
    stand_in.answer = lambda _: web.json_response(completion(metrics))
    generator = of(url)
    totals = await generator.run(requests=1)
    assert totals.errors == 0
    assert [answer.speculation for answer in generator.answers] == [None]


@pytest.mark.parametrize(
    ("response", "named"),
    [
        (lambda: web.Response(status=404, text="no such model"), "HTTP 404: no such model"),
        (lambda: web.Response(text="<html>"), "not an OpenAI completion: <html>"),
        (lambda: web.json_response([]), "not an OpenAI completion"),
        (lambda: web.json_response({"usage": None}), "not an OpenAI completion"),
        (lambda: web.json_response(completion({"speculative_decoding": {}})), "not an OpenAI completion"),
        (lambda: web.json_response({**completion(), "metrics": [1]}), "not an OpenAI completion"),
        (lambda: web.Response(body=b"x" * 5000), "more than 4096 bytes"),
    ],
)
async def test_an_unusable_answer_is_an_error_that_says_why(
    url: str,
    stand_in: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    response: Callable[[], web.Response],
    named: str,
):
    monkeypatch.setattr(load, "ANSWER_BYTES", 4096)
    monkeypatch.setattr(load, "PAUSE_AFTER_ERROR_SECONDS", 0)
    stand_in.answer = lambda _: response()
    totals = await of(url).run(requests=3)
    assert (totals.requests, totals.errors, totals.tokens) == (0, 3, 0)
    assert totals.last_error is not None
    assert named in totals.last_error
    assert url in totals.last_error
    assert totals.tokens_per_second is None


async def test_a_server_that_went_away_gives_errors_and_an_end(unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(load, "PAUSE_AFTER_ERROR_SECONDS", 0)
    totals = await of(f"http://127.0.0.1:{unused_tcp_port}").run(requests=4)
    assert (totals.requests, totals.errors) == (0, 4)


async def test_a_server_that_never_answers_is_an_error(url: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(load, "REQUEST_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(load, "PAUSE_AFTER_ERROR_SECONDS", 0)
    stand_in.before_answering = asyncio.Event().wait  # type: ignore[assignment]
    totals = await of(url).run(requests=2)
    assert (totals.errors, totals.requests) == (2, 0)
    assert "Timeout" in (totals.last_error or "")


async def test_errors_and_answers_add_up_to_the_requests_asked_for(
    url: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(load, "PAUSE_AFTER_ERROR_SECONDS", 0)
    stand_in.answer = lambda body: web.json_response(completion(), status=500 if body["prompt"] == "b" else 200)
    totals = await of(url).run(requests=9)
    assert (totals.requests, totals.errors) == (6, 3)


async def test_a_second_run_counts_from_zero(url: str):
    generator = of(url)
    await generator.run(requests=3)
    assert (await generator.run(requests=2)).requests == 2
    assert len(generator.answers) == 2


async def test_a_load_without_an_end_is_refused(url: str):
    with pytest.raises(InputError, match="give seconds, requests, or both"):
        await of(url).run()


def test_a_load_without_prompts_or_concurrency_is_refused():
    with pytest.raises(InputError, match="at least one prompt"):
        Load("http://127.0.0.1:1", "lab", [], concurrency=1, max_tokens=7)
    with pytest.raises(InputError, match="concurrency is 0"):
        Load("http://127.0.0.1:1", "lab", ["a"], concurrency=0, max_tokens=7)
