"""A sidecar that scrapes nothing, against an engine whose answers are at hand."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from specwatch.collect.connections import connections
from specwatch.collect.discovery import Discovery, Wanted
from specwatch.collect.http import Asker, Limits
from specwatch.collect.prometheus_query import from_config
from specwatch.collect.shards import Shard
from specwatch.config import SidecarConfig, load
from specwatch.sidecar import scrape_families
from specwatch.sidecar.from_prometheus import PrometheusReader
from specwatch.sidecar.reload import service_settings
from specwatch.sidecar.routes.health import readiness
from specwatch.sidecar.service import Clock, Service, ServiceSettings
from specwatch.sidecar.verdict import Verdict, verdict_of
from specwatch.sidecar.watch import TargetWatch
from tests.support.engines import LABELS, V1, V1_BEFORE, StandIn, scraped, ups
from tests.support.http import serving
from tests.support.sidecars import sidecar

NOW = 1_700_000_000.0
OTHER = {**LABELS, "instance": "gpu-2:8000"}


class SetClock(Clock):
    """Shows what ``at`` says."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.at


@dataclass
class Asking:
    """A service that reads an engine, asked by hand."""

    service: Service
    reader: PrometheusReader
    there: StandIn
    clock: SetClock
    session: Asker
    judged: list[tuple[str, float, bool | None]]
    """What the listener was told: target, time, and whether it is up."""

    async def ask(self, at: float = NOW) -> None:
        """Ask at that moment."""
        self.clock.at = self.there.now = at
        await self.reader.ask_once(self.session, self.service)

    def watch(self, name: str = "gpu-1:8000") -> TargetWatch:
        """What is known of a server."""
        return self.service.watches[name]

    def metrics(self) -> dict[str, float]:
        """Those about asking, without labels."""
        return {
            sample.name: sample.value
            for family in scrape_families.families(self.service)
            for sample in family.samples
            if sample.name.startswith("specwatch_prometheus") and not sample.labels
        }


@asynccontextmanager
async def asking(*series: Any, shard: Shard | None = None, **options: Any) -> AsyncIterator[Asking]:
    there, clock = StandIn(series), SetClock()
    judged: list[tuple[str, float, bool | None]] = []

    async def listener(watch: TargetWatch, now: float, findings: Callable[[], object]) -> None:
        judged.append((watch.target.name, now, watch.up))

    async with serving({"/api/v1/query": there.answer}) as url, connections() as session:
        engine = from_config(load(SidecarConfig, None, {"from_prometheus": url, **options}))
        assert engine is not None
        discovery = Discovery(Wanted(shard=shard or Shard()))
        reader = PrometheusReader(engine, discovery)
        settings = ServiceSettings(15.0, Limits(5.0, 2**24))
        service = Service((), None, settings, listener, clock, discovery=discovery, reader=reader)
        discovery._follow = service.follow
        yield Asking(service, reader, there, clock, session, judged)


async def test_servers_are_found_and_known_as_if_they_were_scraped():
    async with asking(*scraped({NOW - 35: V1_BEFORE, NOW - 5: V1})) as it:
        await it.ask()
        watch = it.watch()
        assert (watch.up, watch.last_scrape, watch.model_name) == (True, NOW - 5, "./lab_target")
        assert watch.headline_values(NOW)["acceptance_rate"] == pytest.approx(
            _scraped_values(NOW)["acceptance_rate"], abs=0.0
        )
        assert watch.target.labels == LABELS
        assert it.judged == [("gpu-1:8000", NOW - 35, True), ("gpu-1:8000", NOW - 5, True)]
        assert it.service.tallies["gpu-1:8000"].scrapes == 2


def _scraped_values(now: float) -> Any:
    """What a watch says that was given the same pages at the same times."""
    from specwatch.collect.targets import parse

    watch = TargetWatch(parse("http://gpu-1:8000"))
    for at, page in ((now - 35, V1_BEFORE), (now - 5, V1)):
        watch.observe(at, watch.reader.read(page))
    return watch.headline_values(now)


async def test_a_server_that_could_not_be_scraped_is_down_and_comes_back(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    async with asking(*scraped({NOW - 20: V1}, up=False), ups({NOW - 20: 1, NOW - 5: 0})) as it:
        await it.ask()
        assert (it.watch().up, it.watch().error) == (False, "Prometheus could not scrape it (up is 0)")
        assert it.service.tallies["gpu-1:8000"].failures == 1
        it.there.series = scraped({NOW + 10: V1})
        await it.ask(NOW + 15)
        assert it.watch().up
    said = [record.getMessage() for record in caplog.records if "gpu-1" in record.getMessage()]
    assert len(said) == 2
    assert "could not scrape it" in said[0]
    assert "answers again" in said[1]


async def test_an_engine_that_is_gone_leaves_servers_unknown_with_the_reason_and_none_down(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO)
    pages = scraped({NOW - 20: V1, NOW - 5: V1}) + scraped({NOW - 20: V1, NOW - 5: V1}, OTHER)
    async with asking(*pages) as it:
        await it.ask()
        it.there.failure = web.Response(status=503, body=b'{"error":"starting"}')
        await it.ask(NOW + 15)
        assert [watch.up for watch in it.service.watches.values()] == [True, True]
        assert readiness(it.service).ready
        await it.ask(NOW + 75)
        for watch in it.service.watches.values():
            assert watch.up is None
            assert watch.error is not None
            assert "it answers HTTP 503 (starting)" in watch.error
            (finding,) = watch.findings(NOW + 75)
            assert (finding.code, finding.level.value) == ("no-news", "notice")
            assert verdict_of(watch.view(NOW + 75)) is Verdict.NO_NEWS
        assert it.judged[-1] == ("gpu-2:8000", NOW + 75, None)
        ready = readiness(it.service)
        assert (ready.ready, ready.missing) == (False, 2)
        assert "Prometheus gives no answer: http" in ready.why
        assert it.metrics()["specwatch_prometheus_up"] == 0
        it.there.failure = None
        it.there.series = scraped({NOW + 10 + turn * 15: V1 for turn in range(5)})
        await it.ask(NOW + 76)
        # What was scraped meanwhile is made up for.
        assert (it.watch().up, it.service.tallies["gpu-1:8000"].scrapes) == (True, 7)
        assert readiness(it.service).ready
        assert it.metrics()["specwatch_prometheus_up"] == 1
    said = [record.getMessage() for record in caplog.records if record.name.endswith("from_prometheus")]
    assert [line.partition(": ")[2][:23] for line in said] == ["it answers HTTP 503 (st", "answers again"]


async def test_it_is_not_ready_before_the_first_answer():
    async with asking() as it:
        assert readiness(it.service).why == "Prometheus gives no answer: none so far"
        it.there.failure = web.Response(status=401, body=b"no org id")
        await it.ask()
        assert "prometheus_tenant" in readiness(it.service).why


async def test_a_selector_that_matches_nothing_is_named():
    async with asking(prometheus_selector='job="vlm"') as it:
        await it.ask()
        assert it.reader.error is not None
        assert 'it has no targets with job="vlm": is that what prometheus_selector should say' in it.reader.error


async def test_an_answer_that_may_lack_servers_is_used_and_told():
    async with asking(*scraped({NOW - 5: V1})) as it:
        it.there.warnings = ("store gone",)
        await it.ask()
        assert it.watch().up
        assert it.reader.error is not None
        assert it.reader.error.endswith("the answer may lack servers: store gone")
        assert it.metrics()["specwatch_prometheus_partial_answers_total"] == 1


async def test_a_server_without_news_is_unknown_and_then_no_target():
    pages = scraped({NOW - 20: V1, NOW - 5: V1})
    async with asking(*pages, *scraped({NOW - 20 + 15 * turn: V1 for turn in range(30)}, OTHER)) as it:
        await it.ask()
        await it.ask(NOW + 60)
        assert it.watch().up is None
        assert (
            it.watch().error == f"{it.reader._engine.url} has no sample of it since 22:13:15 UTC: is it still scraped?"
        )
        assert it.watch("gpu-2:8000").up
        await it.ask(NOW + 320)
        assert list(it.service.watches) == ["gpu-2:8000"]


async def test_only_a_part_of_the_servers_is_watched_where_several_sidecars_share_them():
    names = [f"gpu-{number}:8000" for number in range(6)]
    series = [one for name in names for one in scraped({NOW - 5: V1}, {**LABELS, "instance": name})]
    found: list[str] = []
    for part in (1, 2):
        async with asking(*series, shard=Shard(part, 2)) as it:
            await it.ask()
            found += it.service.watches
    assert sorted(found) == names


async def test_it_tells_of_its_questions():
    async with asking(*scraped({NOW - 5: V1})) as it:
        await it.ask()
        told = it.metrics()
        assert told["specwatch_prometheus_queries_total"] == 1
        assert told["specwatch_prometheus_answer_series"] > 40
        assert told["specwatch_prometheus_newest_sample_age_seconds"] == 5.0
        (source,) = it.service.discovery.sources if it.service.discovery else []
        assert (source.kind, source.config.job_name, source.found) == ("from_prometheus", 'job="vllm"', 1)


async def test_a_page_that_cannot_be_read_spoils_no_other_server():
    bad = [
        ({**labels, "position": labels["position"] * 9} if "position" in labels else labels, samples)
        for labels, samples in scraped({NOW - 5: V1})
    ]
    async with asking(*bad, *scraped({NOW - 5: V1}, OTHER)) as it:
        await it.ask()
        assert (it.watch().up, it.watch("gpu-2:8000").up) == (False, True)
        assert "draft position" in (it.watch().error or "")


async def test_whether_servers_are_scraped_is_not_changed_by_a_reload(tmp_path: Path):
    config = tmp_path / "sidecar.yml"
    config.write_text("from_prometheus: http://127.0.0.1:1\n")
    async with sidecar("--listen", "127.0.0.1:0", "--config", str(config)) as it:

        async def reloaded(text: str) -> tuple[int, Any]:
            config.write_text(text)
            async with aiohttp.ClientSession() as session, session.post(f"{it.url}/api/v1/reload") as answer:
                return answer.status, await answer.json()

        code, said = await reloaded("target: [a:1]\n")
        assert (code, "changed by a restart alone" in said["detail"]) == (409, True)
        code, said = await reloaded("from_prometheus: http://127.0.0.1:1\nprometheus_selector: x\n")
        assert (code, "prometheus_selector 'x'" in said["detail"]) == (409, True)
        code, said = await reloaded("from_prometheus: http://127.0.0.1:1\ninterval: 20\nprometheus_tenant: a\n")
        assert (code, said["changed"], said["needs_restart"]) == (200, ["interval"], ["prometheus_tenant"])
        assert await it.end() == 0


def test_it_asks_every_quarter_minute_unless_told_otherwise():
    there = {"from_prometheus": "http://prometheus:9090"}
    settings = service_settings(load(SidecarConfig, None, there))
    assert (settings.interval, settings.limits.seconds) == (15.0, 15.0)
    settings = service_settings(load(SidecarConfig, None, {**there, "interval": 5.0, "timeout": 3.0}))
    assert (settings.interval, settings.limits.seconds) == (5.0, 3.0)
