"""Asking a server for text and for its scores: what is sent, what comes of it, and what is said when it cannot be."""

from __future__ import annotations

import pytest
from aiohttp import web

from benchmarks import verify_samplers
from specwatch.collect.targets import parse
from specwatch.errors import InputError
from specwatch.measure.losslessness import Limits, Verdict
from specwatch.measure.verify import Plan, built_in_prompts, rounds, verify
from specwatch.measure.verify_asking import NEUTRAL, Sampled, Server
from tests.support.http import answering, serving, text_page
from tests.support.scoring_server import MODEL, VOCABULARY, ScoringServer, scoring

KEY = "not-for-eyes"
PROMPTS = tuple(f"prompt {number}" for number in range(20))


def plan(**changes):
    return Plan(**({"prompts": PROMPTS, "temperatures": (0.0, 0.7, 1.0), "tokens": 1200} | changes))


async def verified(behaviour=None, server_options=None, **changes):
    """The report of a server that behaves so."""
    async with scoring(behaviour or ScoringServer()) as url, Server(parse(url), **(server_options or {})) as server:
        return await verify(server, plan(**changes))


async def refused(behaviour, **server_options):
    """The problem of a server that behaves so, whether it shows while connecting or later."""
    try:
        return (await verified(behaviour, server_options, tokens=100)).problem
    except InputError as problem:
        return str(problem)


async def test_a_lossless_server_is_sound_at_every_temperature():
    report = await verified()
    assert [result.verdict for result in report.results] == [Verdict.SOUND] * 3, report
    assert report.verdict is Verdict.SOUND
    assert (report.release, report.model, report.listed, report.whole) == ("0.32.0", MODEL, 20, False)
    assert [result.reading.tokens for result in report.results] == [1216 + 64, 1280, 1280]
    assert all(result.drafted.accepted > 0 and not result.shared for result in report.results)


async def test_a_distorted_server_is_told_and_no_more_tokens_are_asked_for_than_it_takes():
    report = await verified(ScoringServer(sampler=verify_samplers.garbage(1.0)))
    greedy, *sampled = report.results
    assert greedy.verdict is Verdict.SOUND
    assert [result.verdict for result in sampled] == [Verdict.DISTORTED] * 2
    assert [result.reading.tokens for result in sampled] == [256, 256]
    assert report.verdict is Verdict.DISTORTED


async def test_greedy_text_that_is_not_the_likeliest_is_distorted():
    report = await verified(ScoringServer(off_every=30), temperatures=(0.0,))
    assert report.verdict is Verdict.DISTORTED
    assert report.results[0].reading.off > 0


async def test_requests_say_every_sampling_setting_and_are_never_more_at_once_than_allowed():
    behaviour = ScoringServer()
    await verified(behaviour, temperatures=(0.7,), tokens=300, concurrency=3)
    writing = [body for body in behaviour.asked if "prompt_logprobs" not in body]
    scoring_bodies = [body for body in behaviour.asked if "prompt_logprobs" in body]
    for body in (*writing, *scoring_bodies):
        assert body["model"] == MODEL
        assert NEUTRAL.items() <= body.items()
    assert {(body["temperature"], body["max_tokens"], body["return_token_ids"]) for body in writing} == {
        (0.7, 64, True)
    }
    assert {(body["temperature"], body["max_tokens"]) for body in scoring_bodies} == {(0.0, 1)}
    assert behaviour.most_under_way <= 3


async def test_a_small_vocabulary_is_listed_whole_where_the_server_allows_that():
    report = await verified(ScoringServer(max_logprobs=VOCABULARY), temperatures=(1.0,), tokens=300)
    assert (report.listed, report.whole) == (VOCABULARY, True)
    assert report.results[0].reading.checks[0].truncation == 0


async def test_a_server_that_lists_few_is_asked_for_what_it_allows():
    report = await verified(ScoringServer(max_logprobs=5), temperatures=(1.0,), tokens=300)
    assert (report.listed, report.whole) == (5, False)


async def test_at_temperature_0_no_prompt_is_asked_twice():
    behaviour = ScoringServer()
    report = await verified(behaviour, temperatures=(0.0,), tokens=5000, prompts=PROMPTS[:6])
    asked = [body["prompt"] for body in behaviour.asked if "prompt_logprobs" not in body]
    assert sorted(asked) == sorted(PROMPTS[:6])
    assert report.results[0].reading.tokens == 6 * 64
    assert report.verdict is Verdict.SOUND


def test_a_model_that_answers_shortly_is_not_asked_for_ever():
    assert sum(map(len, rounds(plan(tokens=640), 1.0))) == 40


async def test_too_few_tokens_are_inconclusive():
    report = await verified(temperatures=(1.0,), tokens=128, concurrency=2)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.results[0].reading.more_tokens > 100
    assert report.problem is None


async def test_a_text_that_nothing_was_drafted_for_tests_nothing():
    report = await verified(ScoringServer(drafts=False), temperatures=(0.0,))
    assert report.results[0].untested
    assert report.verdict is Verdict.INCONCLUSIVE


async def test_a_server_without_speculation_is_sound_and_said_to_serve_without():
    report = await verified(ScoringServer(speculates=False), temperatures=(0.0, 1.0))
    assert [result.speculates for result in report.results] == [False, False]
    assert report.verdict is Verdict.SOUND


async def test_other_traffic_is_noticed():
    behaviour = ScoringServer()
    original = behaviour._sample

    def and_others(body):
        behaviour.generated += 50
        return original(body)

    behaviour._sample = and_others
    report = await verified(behaviour, temperatures=(0.0,))
    assert report.results[0].shared


async def test_a_server_that_dies_midway_leaves_what_was_found_until_then():
    report = await verified(ScoringServer(dies_after=60))
    assert "closed the connection" in report.problem
    first, second = report.results
    assert first.verdict is Verdict.SOUND
    assert 0 < second.reading.tokens < 1200
    assert report.verdict is Verdict.INCONCLUSIVE


async def test_distortion_that_was_found_before_a_server_died_stays_found():
    report = await verified(ScoringServer(dies_after=12, sampler=verify_samplers.garbage(1.0)), temperatures=(1.0, 0.7))
    assert report.problem
    assert report.verdict is Verdict.DISTORTED


async def test_each_reason_why_a_server_cannot_be_verified_is_named():
    assert "tells no token ids" in await refused(ScoringServer(token_ids=False))
    assert "answers without prompt_logprobs" in await refused(ScoringServer(scores=False))
    assert "max allowed: 0" in await refused(ScoringServer(max_logprobs=0))
    assert "no log-probabilities: is --logprobs-mode raw_logits?" in await refused(ScoringServer(raw_logits=True))
    assert "serves no model 'other': it has simulated" in await refused(ScoringServer(), model="other")
    assert "--token-file" in await refused(ScoringServer(api_key=KEY))
    assert await refused(ScoringServer(api_key=KEY), token=KEY) is None


async def connecting(url):
    with pytest.raises(InputError) as problem:
        async with Server(parse(url)):
            pass
    return str(problem.value)


async def test_what_is_no_vllm_server_is_named():
    assert "cannot be asked" in await connecting("http://127.0.0.1:9")
    async with serving({"/metrics": text_page("up 1\n")}) as url:
        assert "is no OpenAI-compatible server: HTTP 404" in await connecting(url)
    async with serving({"/v1/models": text_page("[]")}) as url:
        assert "lists no models" in await connecting(url)
    async with serving({"/v1/models": text_page('{"data": []}')}) as url:
        assert "serves no model" in await connecting(url)
    async with serving({"/v1/models": text_page("<html>")}) as url:
        assert "something that is no JSON" in await connecting(url)
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n") as url:
        assert "no JSON" in await connecting(url)


async def test_the_key_is_in_no_message():
    assert KEY not in await refused(ScoringServer(api_key="another"), token=KEY)


async def test_a_page_that_cannot_be_read_leaves_it_open_what_was_drafted():
    behaviour = ScoringServer()

    async def no_page(_):
        return web.Response(status=404)

    behaviour.metrics = no_page
    report = await verified(behaviour, temperatures=(0.0,))
    assert report.verdict is Verdict.SOUND
    assert (report.results[0].drafted, report.results[0].speculates) == (None, None)


def test_built_in_prompts_are_of_several_kinds_in_turn():
    prompts = built_in_prompts()
    assert len(set(prompts)) == len(prompts) > 30
    assert "def " in prompts[0] or "import" in prompts[0] or "class" in prompts[0]
    assert "{" in prompts[1] or "[" in prompts[1]


def test_temperatures_above_0_share_the_error_rate():
    assert Limits(error_rate=0.01, tests=2).bar == pytest.approx(Limits(error_rate=0.005).bar)


def place(*entries):
    """One place of prompt_logprobs."""
    return {str(token): {"logprob": logprob} for token, logprob in entries}


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([None], "scores 0 tokens of an answer of 1"),
        ([None, place((9, -1.0))], "in another form than vLLM's"),
        ([None, {"5": {"logprob": 10**400}}], "in another form than vLLM's"),
        ([None, {"5": "x"}], "in another form than vLLM's"),
        ([None, place((5, float("nan")))], "no numbers"),
        ([None, place((5, float("-inf")))], "no numbers"),
        ([None, place((5, -0.1), (6, -0.1))], "no log-probabilities"),
        ([None, 3], "without prompt_logprobs"),
    ],
)
async def test_scores_that_make_no_sense_are_named(places, said):
    async def models(_):
        return web.json_response({"data": [{"id": MODEL}]})

    async def score(_):
        return web.json_response({"choices": [{"prompt_logprobs": places}]})

    async with serving({"/v1/models": models}, posts={"/v1/completions": score}) as url, Server(parse(url)) as server:
        server.listed = 20
        with pytest.raises(InputError, match=said):
            await server.score(Sampled((1,), (5,)))


async def test_an_answer_that_is_longer_than_asked_for_is_cut():
    async def models(_):
        return web.json_response({"data": [{"id": MODEL}]})

    async def write(_):
        return web.json_response({"choices": [{"prompt_token_ids": [1], "token_ids": list(range(1000))}]})

    async with serving({"/v1/models": models}, posts={"/v1/completions": write}) as url, Server(parse(url)) as server:
        assert len((await server.sample("prompt", 0.0, 16)).answer) == 16
