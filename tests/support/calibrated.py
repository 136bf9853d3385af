"""A server to calibrate: it answers, streams and counts as vLLM does, with and without speculation, at known costs."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

STEP_SECONDS = 2.0**-12
"""A step's duration by the counters; nobody waits for it. A power of two: sums are exact in whatever order."""
ACCEPTED = {"home": 2, "away": 0}
"""Draft tokens that every step accepts, by the first word of the prompt."""


@dataclass
class Standing:
    """A server that stands in for vLLM; ``k`` 0: without speculation."""

    k: int = 0
    model: str = "T"
    release: str = "0.32.0"
    tokens: tuple[int, ...] = (1, 2, 3)
    page: str | None = None
    """Served in place of its own metrics."""
    status: int = 200
    foreign_tokens: int = 0
    """Generated for somebody else with each answer."""
    twist: str = ""
    """What the ends of its texts have that those of others have not."""
    key: str | None = None
    running: int = 0
    """Requests by its gauge, whoever sent them."""
    works: bool = False
    """Whether it makes tokens for somebody else between two looks at its page."""
    shortened: int | None = None
    """Tokens of its answers, whatever it is asked for."""
    fail_after: int | None = None
    """Answers after which it only fails."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)
    positions: list[float] = field(default_factory=list)

    def add(self, name: str, value: float) -> None:
        """Count."""
        self.counts[name] = self.counts.get(name, 0.0) + value

    async def metrics(self, _: web.Request) -> web.Response:
        """The page."""
        if self.page is not None:
            return web.Response(text=self.page)
        if self.works:
            self.add("generation_tokens_total", 5)
        labels = f'{{engine="0",model_name="{self.model}"}}'
        names = ["generation_tokens_total", "time_to_first_token_seconds_count", "request_generation_tokens_count"]
        names += ["inter_token_latency_seconds_count", "inter_token_latency_seconds_sum"]
        drafts = ["drafts", "draft_tokens", "accepted_tokens"] if self.k else []
        names += [f"spec_decode_num_{name}_total" for name in drafts]
        lines = [f"vllm:{name}{labels} {self.counts.get(name, 0.0)}" for name in names]
        lines.append(f"vllm:num_requests_running{labels} {self.running}")
        self.positions = self.positions or [0.0] * self.k
        for place, value in enumerate(self.positions):
            at = f'{{engine="0",model_name="{self.model}",position="{place}"}}'
            lines.append(f"vllm:spec_decode_num_accepted_tokens_per_pos_total{at} {value}")
        return web.Response(text="\n".join(lines) + "\n")

    async def models(self, request: web.Request) -> web.Response:
        """What it serves."""
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.Response(status=401)
        return web.json_response({"data": [{"id": "served", "root": self.model, "max_model_len": 1024}]})

    async def version(self, _: web.Request) -> web.Response:
        """Its release."""
        return web.json_response({"version": self.release})

    async def tokenize(self, _: web.Request) -> web.Response:
        """The same numbers for any text."""
        return web.json_response({"tokens": list(self.tokens)})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """An answer that depends on the prompt alone, a step at a time."""
        body = await request.json()
        self.asked.append(body)
        if self.status != 200 or (self.fail_after is not None and len(self.asked) > self.fail_after):
            return web.Response(status=500, text="out of luck")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        prompt, most = body["prompt"], self.shortened or body["max_tokens"]
        accepted = min(self.k, ACCEPTED.get(prompt.split()[0], 1))
        text = f"{zlib.crc32(prompt.encode()):08x}" * most
        text = text[: most - len(self.twist)] + self.twist
        sent, step, steps = 0, 1, 0
        while sent < most:
            part = text[sent : sent + step]
            await response.write(_event(choices=[{"index": 0, "text": part}]))
            sent += len(part)
            step = 1 + accepted
            if sent < most:
                steps += 1
                await asyncio.sleep(0)
        self._count(most, steps, accepted)
        await response.write(_event(choices=[], usage={"completion_tokens": most}))
        await response.write(b"data: [DONE]\n\n")
        return response

    def _count(self, tokens: int, steps: int, accepted: int) -> None:
        self.add("generation_tokens_total", tokens + self.foreign_tokens)
        self.add("time_to_first_token_seconds_count", 1)
        self.add("request_generation_tokens_count", 1)
        self.add("inter_token_latency_seconds_count", steps)
        # A drafting step takes a quarter longer for every draft token.
        self.add("inter_token_latency_seconds_sum", steps * STEP_SECONDS * (1 + 0.25 * self.k))
        if self.k:
            self.add("spec_decode_num_drafts_total", steps)
            self.add("spec_decode_num_draft_tokens_total", steps * self.k)
            self.add("spec_decode_num_accepted_tokens_total", steps * accepted)
            self.positions = self.positions or [0.0] * self.k
            for place in range(accepted):
                self.positions[place] += steps


def _event(**content: Any) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


@asynccontextmanager
async def served(standing: Standing) -> AsyncIterator[str]:
    """Serve it on loopback; gives its URL."""
    app = web.Application()
    app.router.add_get("/metrics", standing.metrics)
    app.router.add_get("/v1/models", standing.models)
    app.router.add_get("/version", standing.version)
    app.router.add_post("/tokenize", standing.tokenize)
    app.router.add_post("/v1/completions", standing.complete)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")
