"""A simulated fleet as a real Prometheus holds it: scraped in stepped time, with the truth of every moment at hand."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from specwatch.generate.promql import Level
from specwatch.generate.recording_rules import recording
from specwatch.generate.rules_config import RulesConfig
from specwatch.lab.scenario import FOREIGN, HOME
from specwatch.lab.simulator import SimulatedServer
from specwatch.lab.truth import Truth
from specwatch.signals.catalogue import signal
from specwatch.vllm.metrics import Snapshot, read_page
from tests.support.prometheus import Prometheus, prometheus
from tests.support.services import promtool
from tools.prometheus_blocks import Scrape, lines, write_blocks

SCRAPE = 15
"""Seconds between scrapes: what Prometheus' documentation and Helm charts suggest."""

NOW = 1_700_006_400.0
"""The moment that is looked at: a whole minute, and a scrape's."""

DAY = 86_400.0
TODAY, YESTERDAY = 600.0, 360.0
"""Seconds that were scraped until now, and until a day ago."""

LARGE, SMALL = "meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen3-8B"
V0_K = 5


@dataclass(frozen=True)
class Member:
    """A server, the labels of its target, and when it could not be reached, in seconds before now."""

    server: SimulatedServer
    job: str
    away: tuple[float, float] | None = None
    had_yesterday: bool = False

    @property
    def instance(self) -> str:
        """As Prometheus calls it."""
        return f"{self.server.name}:8000"


@dataclass(frozen=True)
class Moment:
    """What a scrape saw and what was true, by engine."""

    page: Snapshot
    truth: tuple[Truth, ...]
    samples: Mapping[str, list[float]]
    """What else the page shows, by name, an entry an engine."""
    finished: Mapping[str, list[float]]
    """Requests that ended, by reason, an entry an engine."""


@dataclass
class Recorded:
    """The scrapes, and what was true at each of them."""

    members: Sequence[Member]
    moments: dict[str, dict[float, Moment]] = field(default_factory=dict)
    """By instance and unix time."""


def members() -> list[Member]:
    """V1 and V0, mixed K, two models, two engines; without speculation, idle, not drafting, changed, gone."""

    def server(name: str, model: str, until: float = NOW, **options: object) -> SimulatedServer:
        return SimulatedServer(name, model_name=model, epoch=until - TODAY, **options)  # type: ignore[arg-type]

    return [
        Member(server("two", LARGE, k=5, engines=2, traffic=HOME, running=4, seed=1), "vllm", had_yesterday=True),
        Member(server("three", LARGE, k=3, traffic=FOREIGN, running=3, waiting=2, seed=2), "vllm", had_yesterday=True),
        Member(server("plain", LARGE, k=None, running=2, seed=3), "vllm"),
        Member(server("old", SMALL, release="0.8.5.post2", k=V0_K, running=2, seed=4), "vllm-small"),
        Member(server("idle", SMALL, k=5, running=0, seed=5), "vllm-small"),
        Member(server("small", SMALL, k=2, traffic=HOME, running=2, seed=6), "vllm-small"),
        Member(server("resting", SMALL, k=4, running=2, seed=7), "vllm-small"),
        Member(server("moved", SMALL, k=5, running=2, seed=8), "vllm-moved", away=(480.0, 120.0)),
        Member(server("gone", SMALL, k=5, running=2, seed=9), "vllm-moved", away=(420.0, -1.0)),
    ]


def record() -> tuple[Recorded, list[str]]:
    """The fleet's scrapes as OpenMetrics lines, and what was true."""
    recorded = Recorded(members())
    text: list[str] = []
    for member in recorded.members:
        moments = recorded.moments.setdefault(member.instance, {})
        member.server.drafting = member.server.name != "resting"
        if member.had_yesterday:
            text += lines(_scrapes(_yesterdays(member), NOW - DAY, YESTERDAY, moments))
        text += lines(_scrapes(member, NOW, TODAY, moments))
    return recorded, text


def _yesterdays(member: Member) -> Member:
    """The same target a day ago, when another process was behind it and the traffic was other."""
    now = member.server
    engines = len(now.truth_by_engine())
    then = SimulatedServer(
        now.name,
        model_name=now.model_name,
        k=now.k,
        engines=engines,
        traffic=FOREIGN if now.traffic is HOME else HOME,
        running=now.running,
        seed=99,
        epoch=NOW - DAY - YESTERDAY,
    )
    return Member(then, member.job)


def _scrapes(member: Member, until: float, seconds: float, moments: dict[float, Moment]) -> Iterator[Scrape]:
    server, labels = member.server, {"job": member.job, "instance": member.instance}
    returned = False
    for step in range(1, int(seconds / SCRAPE) + 1):
        at = until - seconds + step * SCRAPE
        left = until - at
        away = member.away is not None and member.away[1] <= left <= member.away[0]
        if away:
            yield Scrape(at, labels, "up 0\n")
            continue
        if member.away and left < member.away[1] and not returned:
            server.redeploy(k=3)
            returned = True
        server.advance(SCRAPE)
        page = server.page()
        moments[at] = _moment(page, server)
        yield Scrape(at, labels, page + "up 1\n")


SHOWN = {
    "vllm:kv_cache_usage_perc": "cache",
    "vllm:gpu_cache_usage_perc": "cache",
    "vllm:request_prompt_tokens_sum": "prompt tokens",
    "vllm:request_prompt_tokens_count": "prompts",
    "vllm:request_generation_tokens_sum": "answer tokens",
    "vllm:request_generation_tokens_count": "answers",
}
"""Samples that are told beside what ``read_page`` reads, whatever the release calls them."""


def _moment(page: str, server: SimulatedServer) -> Moment:
    samples: dict[str, list[float]] = {}
    finished: dict[str, list[float]] = {}
    for line in page.splitlines():
        name, value = line.partition("{")[0], line.rpartition(" ")[2]
        if name in SHOWN:
            samples.setdefault(SHOWN[name], []).append(float(value))
        elif name == "vllm:request_success_total":
            reason = line.partition('finished_reason="')[2].partition('"')[0]
            finished.setdefault(reason, []).append(float(value))
    return Moment(read_page(page), server.truth_by_engine(), samples, finished)


@asynccontextmanager
async def recorded_fleet(
    folder: Path, text: Sequence[str], further: Sequence[str] = (), binary: Path | None = None
) -> AsyncIterator[Prometheus]:
    """Prometheus with these samples, and with what the recording rules make of them for the V0 server."""
    data = folder / "data"
    write_blocks(promtool(), data, [*text, *further])
    rules = folder / "v0.rules.json"
    rules.write_text(json.dumps({"groups": [{"name": "v0", "rules": _v0_rules()}]}))
    ages = ["--storage.tsdb.retention.time=100y"]
    async with prometheus(folder, {}, flags=ages, binary=binary) as server:
        start, end = f"{NOW - TODAY:.0f}", f"{NOW:.0f}"
        command = [str(promtool()), "tsdb", "create-blocks-from", "rules", f"--start={start}", f"--end={end}"]
        command += ["--eval-interval=30s", f"--url={server.url}", f"--output-dir={data}", str(rules)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    async with prometheus(folder, {}, flags=ages, binary=binary) as server:
        yield server


def _v0_rules() -> list[dict[str, str]]:
    """The rules that tell a V0 server's acceptance, at its job and K."""
    names = recording(RulesConfig(vllm_job="vllm-small", v0_num_speculative_tokens=V0_K))
    return [
        {"record": names.signal(chosen), "expr": names.signal_expression(chosen, Level.INSTANCE)}
        for chosen in (signal("acceptance_rate"), signal("acceptance_length"))
    ]
