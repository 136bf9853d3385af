"""A server that samples and scores as vLLM does, on the benchmark's simulated model; it may distort, or refuse."""

from __future__ import annotations

import asyncio
import random
import ssl
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from benchmarks import verify_samplers
from benchmarks.verify_samplers import Sampler
from specwatch.measure.losslessness import Scored
from tests.support.http import serving

VOCABULARY = 300
CONTEXTS = 64
MODEL = "simulated"


@dataclass
class ScoringServer:
    """What it is asked and how it behaves; change it while it runs."""

    sampler: Sampler = verify_samplers.lossless
    off_every: int = 0
    """At temperature 0 every so many tokens another one than the likeliest."""
    max_logprobs: int = 20
    speculates: bool = True
    drafts: bool = True
    """Whether it drafts for the text that is asked for, where it speculates."""
    token_ids: bool = True
    scores: bool = True
    raw_logits: bool = False
    api_key: str | None = None
    dies_after: int | None = None
    """Completions, after which it closes connections without an answer."""
    answer_tokens: int | None = None
    """Most it ever writes, whatever is asked for."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the completions."""
    under_way: int = 0
    most_under_way: int = 0
    generated: int = 0
    source: random.Random = field(default_factory=lambda: random.Random(7))

    async def models(self, request: web.Request) -> web.StreamResponse:
        """What is served."""
        if self.api_key and request.headers.get("Authorization") != f"Bearer {self.api_key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        return web.json_response({"data": [{"id": MODEL, "max_model_len": 1024}]})

    async def metrics(self, _: web.Request) -> web.StreamResponse:
        """What was written, and drafted for it."""
        own = f'{{engine="0",model_name="{MODEL}"}}'
        series = {"generation_tokens_total": self.generated}
        if self.speculates:
            steps = self.generated if self.drafts else 0
            series |= {f"spec_decode_num_{name}_total": steps for name in ("drafts", "draft_tokens", "accepted_tokens")}
        lines = "".join(f"vllm:{name}{own} {value}\n" for name, value in series.items())
        return web.Response(text=f"# TYPE vllm:generation_tokens_total counter\n{lines}")

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """A text, or the scores of one."""
        body = await request.json()
        self.asked.append(body)
        if self.dies_after is not None and len(self.asked) > self.dies_after:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if body.get("prompt_logprobs") is not None:
            return self._score(body)
        return self._sample(body)

    def _sample(self, body: dict[str, Any]) -> web.StreamResponse:
        prompt = list(body["prompt"].encode())
        answer: list[int] = []
        for _ in range(min(body["max_tokens"], self.answer_tokens or 10**6)):
            answer.append(self._next(body["temperature"], prompt + answer))
        self.generated += len(answer)
        ids = {"token_ids": answer, "prompt_token_ids": prompt} if self.token_ids else {}
        return web.json_response({"choices": [{"index": 0, "text": "", **ids}]})

    def _next(self, temperature: float, text: list[int]) -> int:
        if temperature == 0:
            return int(bool(self.off_every) and len(text) % self.off_every == 0) * 9
        model = verify_samplers.model(temperature, vocabulary=VOCABULARY, contexts=CONTEXTS)
        return self.sampler(model, _place(text), self.source)

    def _score(self, body: dict[str, Any]) -> web.StreamResponse:
        if not self.scores:
            return web.json_response({"choices": [{"index": 0, "text": ""}]})
        count = body["prompt_logprobs"]
        wanted = VOCABULARY if count == -1 else count
        if wanted > self.max_logprobs:
            text = f"Requested prompt logprobs of {wanted}, which is greater than max allowed: {self.max_logprobs}"
            return web.json_response({"error": {"message": text}}, status=400)
        ids = body["prompt"]
        places: list[dict[str, Any] | None] = [None]
        model = verify_samplers.model(1.0, vocabulary=VOCABULARY, contexts=CONTEXTS)
        for end in range(1, len(ids)):
            place = _place(ids[:end])
            places.append(self._entry(model.scored(place, min(ids[end], VOCABULARY - 1), wanted), ids[end]))
        return web.json_response({"choices": [{"index": 0, "text": "", "prompt_logprobs": places}]})

    def _entry(self, scored: Scored, token: int) -> dict[str, Any]:
        raised = 30.0 if self.raw_logits else 0.0
        likeliest = {str(rank): {"logprob": value + raised, "rank": rank + 1} for rank, value in enumerate(scored.top)}
        return {str(token): {"logprob": scored.logprob + raised, "rank": 1}, **likeliest}


def _place(text: list[int]) -> int:
    return (31 * len(text) + text[-1]) % CONTEXTS


async def _version(_: web.Request) -> web.StreamResponse:
    return web.json_response({"version": "0.32.0"})


def scoring(server: ScoringServer, encryption: ssl.SSLContext | None = None) -> AbstractAsyncContextManager[str]:
    """Serve on a free port; gives the URL."""
    reading = {"/version": _version, "/v1/models": server.models, "/metrics": server.metrics}
    return serving(reading, posts={"/v1/completions": server.completions}, largest_body=2**24, encryption=encryption)
