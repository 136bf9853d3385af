"""One engine of a simulated server, step by step as vLLM's scheduler counts: no clock, no I/O.

A step takes every running request one step further: a new one reads its prompt and gives its first token, the others
verify a draft and give 1 + accepted tokens. Everything on the page is counted here, so its figures agree by nature.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from specwatch.lab.metrics_page import Histogram, Values, families
from specwatch.lab.scenario import Domain, Traffic
from specwatch.lab.truth import Tally

FRONTEND_SECONDS = 0.004
"""What the HTTP frontend adds to a request's latency and first token: 38 and 39 ms in ten requests on the captured
page of 0.32 (e2e less inference, first token less prefill)."""

PROMPT_LIMIT = 512
"""Longest prompt: half of the captured servers' context of 1024, so that an answer fits behind it."""

Schedule = Sequence[tuple[int, int, int]]
"""vLLM's num_speculative_tokens_per_batch_size: (first batch size, last batch size, K), both ends included."""


HISTOGRAMS = {
    "vllm:request_prompt_tokens": "prompt_tokens",
    "vllm:request_prefill_kv_computed_tokens": "computed_tokens",
    "vllm:request_generation_tokens": "generation_tokens",
    "vllm:request_max_num_generation_tokens": "longest_generation",
    "vllm:request_params_max_tokens": "max_tokens",
    "vllm:request_params_n": "choices",
    "vllm:request_num_preemptions": "preemptions",
    "vllm:iteration_tokens_total": "iteration_tokens",
    "vllm:time_to_first_token_seconds": "first_token",
    "vllm:inter_token_latency_seconds": "inter_token",
    # V0's name for the latency of a step: per step, not per token, whatever it says
    "vllm:time_per_output_token_seconds": "inter_token",
    "vllm:request_time_per_output_token_seconds": "per_output_token",
    "vllm:e2e_request_latency_seconds": "end_to_end",
    "vllm:request_queue_time_seconds": "queue",
    "vllm:request_inference_time_seconds": "inference",
    "vllm:request_prefill_time_seconds": "prefill",
    "vllm:request_decode_time_seconds": "decode",
}
"""What an engine keeps a histogram of, by the family that shows it; a release shows some of them."""


@dataclass(frozen=True)
class StepCost:
    """Seconds of a step, by the roofline: reading the weights or computing the tokens, whichever takes longer.

    Defaults are a 70 B model in 16 bit on four A100 80 GB: 140 GB / (4 x 2039 GB/s) to read the weights once, and
    2 x 70e9 FLOP a token / (4 x 312 TFLOP/s, half of it reached). ``draft_ratio`` is c, the time of one draft token
    over the time of a plain step (0.02 to 0.11 in Leviathan et al. 2023, appendix A.3).
    """

    weights_seconds: float = 0.0172
    token_seconds: float = 0.00022
    draft_ratio: float = 0.05

    def step_seconds(self, decoding: int, k: int, prompt_tokens: int = 0) -> float:
        """One engine step: ``decoding`` requests with ``k`` draft tokens each, and prompts read beside them."""
        target = max(self.weights_seconds, self.token_seconds * (decoding * (k + 1) + prompt_tokens))
        if not decoding:
            return target
        return target + k * self.draft_ratio * max(self.weights_seconds, self.token_seconds * decoding)

    def speedup(self, acceptance_length: float, batch_size: int, k: int) -> float:
        """True speedup: tokens a second with K drafts and that acceptance length, over without, at one batch size."""
        return acceptance_length * self.step_seconds(batch_size, 0) / self.step_seconds(batch_size, k)


@dataclass(frozen=True)
class Load:
    """What an engine is asked to do: a closed loop of ``running`` requests, with ``waiting`` more in line."""

    traffic: Traffic
    running: int
    waiting: int = 0
    drafting: bool = True


@dataclass
class _Request:
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    survival: list[float]
    queue_seconds: float
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    generated: int = 0


@dataclass
class Engine:
    """A vLLM engine core. What it counts is here; how a release shows it, in ``simulated_dialects``.

    ``k`` is 0 without speculation. ``time`` is where the last finished step ended, in simulated seconds. ``finished``
    hears of every finished request: prompt tokens, generated tokens, seconds in all. ``reading`` are requests whose
    prompt the next step reads, ``decoding`` those that gave their first token.
    """

    page: ClassVar[str]
    multiprocess: ClassVar[bool] = False

    source: random.Random
    cost: StepCost
    k: int
    schedule: Schedule
    time: float
    finished: Callable[[int, int, float], None]
    reading: list[_Request] = field(default_factory=list)
    decoding: list[_Request] = field(default_factory=list)
    queue: deque[float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.tally = Tally.empty(self.k)
        self.histograms = {quantity: Histogram() for quantity in HISTOGRAMS.values()}
        for family in families(self.page):
            if family.name in HISTOGRAMS:
                self.histograms[HISTOGRAMS[family.name]] = Histogram(family.bounds)

    def values(self, now: float) -> Values:
        """Numbers of this engine's families at the unix time ``now``."""
        raise NotImplementedError

    def absent(self) -> frozenset[str]:
        """Families and series that this engine did not bring onto the page yet."""
        return frozenset()

    def shown_histograms(self) -> dict[str, Histogram]:
        """Histograms by family."""
        return {family: self.histograms[quantity] for family, quantity in HISTOGRAMS.items()}

    @property
    def batch_size(self) -> int:
        """Requests that run."""
        return len(self.reading) + len(self.decoding)

    @property
    def tokens_in_cache(self) -> int:
        """Tokens whose keys and values the running requests hold."""
        return sum(request.prompt_tokens + request.generated for request in (*self.reading, *self.decoding))

    def run_until(self, stop: float, load: Load) -> None:
        """Finish every step that ends by ``stop``; a step in progress ends in a later call."""
        while True:
            self._admit(load)
            batch_size = self.batch_size
            if not batch_size:
                self.time = stop
                return
            k = scheduled_k(self.schedule, batch_size, self.k) if load.drafting else 0
            prompt_tokens = sum(request.prompt_tokens for request in self.reading)
            seconds = self.cost.step_seconds(len(self.decoding), k, prompt_tokens)
            if self.time + seconds > stop:
                return
            self.time += seconds
            self._complete(seconds, k, prompt_tokens)
            self._after_step()

    def _after_step(self) -> None:
        """For engines that keep books of their own."""

    def _admit(self, load: Load) -> None:
        while self.batch_size < load.running:
            arrived = self.queue.popleft() if self.queue else self.time
            self.reading.append(self._new_request(load.traffic, self.time - arrived))
        while len(self.queue) < load.waiting:
            self.queue.append(self.time)
        while len(self.queue) > load.waiting:
            self.queue.pop()

    def _new_request(self, traffic: Traffic, queue_seconds: float) -> _Request:
        domain = _pick(traffic, self.source)
        survival = domain.survival(self.k, self.source)
        survival.reverse()  # ascending, so that one draw finds its place by bisection
        return _Request(
            prompt_tokens=self._length(domain.prompt_tokens, PROMPT_LIMIT),
            output_tokens=self._length(domain.output_tokens, domain.max_tokens),
            max_tokens=domain.max_tokens,
            survival=survival,
            queue_seconds=queue_seconds,
        )

    def _length(self, mean: float, limit: int) -> int:
        drawn = self.source.expovariate(1 / mean) if mean < limit else limit
        return max(1, min(round(drawn), limit))

    def _complete(self, seconds: float, k: int, prompt_tokens: int) -> None:
        """Count one finished step of every running request."""
        decoded, started = len(self.decoding), len(self.reading)
        generated = self._decode(seconds, k) + started
        for request in self.reading:
            request.generated = 1
            request.prefill_seconds = seconds
            self._first_token(request)
        self.tally.step(seconds, decoded, k, generated, prompt_tokens, started)
        self.histograms["inter_token"].observe(seconds, decoded)
        shown = self._tokens_shown(generated, decoded + started)
        self.histograms["iteration_tokens"].observe(prompt_tokens + shown)
        self._retire()

    def _decode(self, seconds: float, k: int) -> int:
        """Tokens generated by the decoding requests in one step with ``k`` draft tokens each."""
        draw = self.source.random
        accepted_in_draft = self.tally.accepted_in_draft
        generated = 0
        for request in self.decoding:
            request.decode_seconds += seconds
            new = 1
            if k:
                accepted = min(self.k - bisect_right(request.survival, draw()), k)
                accepted_in_draft[accepted] += 1
                new += accepted
            # accepted tokens past the request's end are counted as accepted and thrown away, as vLLM does
            new = min(new, request.output_tokens - request.generated)
            request.generated += new
            generated += new
        return generated

    def _retire(self) -> None:
        """Let finished requests go, and the others decode from now on."""
        finished = [request for request in self.decoding if request.generated == request.output_tokens]
        finished += [request for request in self.reading if request.generated == request.output_tokens]
        if finished or self.reading:
            running = self.decoding + self.reading
            self.decoding = [request for request in running if request.generated < request.output_tokens]
            self.reading = []
        for request in finished:
            self._finish(request)

    def _tokens_shown(self, generated: int, batch_size: int) -> int:
        """Generated tokens of one step as the page counts them."""
        return generated

    def _first_token(self, request: _Request) -> None:
        seconds = request.queue_seconds + request.prefill_seconds + FRONTEND_SECONDS
        self.histograms["first_token"].observe(seconds)

    def _finish(self, request: _Request) -> None:
        decode, prefill, queue = request.decode_seconds, request.prefill_seconds, request.queue_seconds
        observations = {
            "prompt_tokens": request.prompt_tokens,
            "computed_tokens": request.prompt_tokens,
            "generation_tokens": request.output_tokens,
            "longest_generation": request.output_tokens,
            "max_tokens": request.max_tokens,
            "choices": 1,
            "preemptions": 0,
            "end_to_end": queue + prefill + decode + FRONTEND_SECONDS,
            "queue": queue,
            "inference": prefill + decode,
            "prefill": prefill,
            "decode": decode,
            "per_output_token": decode / max(request.output_tokens - 1, 1),
        }
        for name, value in observations.items():
            self.histograms[name].observe(value)
        self.finished(request.prompt_tokens, request.output_tokens, observations["end_to_end"])
        self.tally.finish("length" if request.output_tokens == request.max_tokens else "stop")


def scheduled_k(schedule: Schedule, batch_size: int, k: int) -> int:
    """K at a batch size: gaps and the tail carry the K of the range before, and K is never above the configured."""
    current = k
    for first, _, scheduled in schedule:
        if batch_size < first:
            break
        current = min(scheduled, k)
    return current


def _pick(traffic: Traffic, source: random.Random) -> Domain:
    if isinstance(traffic, Domain):
        return traffic
    return source.choices(list(traffic), list(traffic.values()))[0]
