"""In place of scraping: one question an interval to a Prometheus, whose answer has the pages of all servers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from specwatch.collect.connections import connections
from specwatch.collect.discovery import Discovery, Source
from specwatch.collect.http import Asker, Cause, ScrapeError
from specwatch.collect.prometheus_fleet import Fleet, Moment, News
from specwatch.collect.prometheus_query import Engine
from specwatch.scrape_config import ScrapeConfig
from specwatch.sidecar.pauses import Pauses
from specwatch.sidecar.service import Service, report_change
from specwatch.sidecar.watch import TargetWatch
from specwatch.vllm.metrics import PageError

log = logging.getLogger(__name__)

KIND = "from_prometheus"
"""How the source is called among those of targets: its key in the configuration."""

SCRAPE_FAILED = "Prometheus could not scrape it (up is 0)"


@dataclass
class QueryTally:
    """Counts about questions to the engine."""

    queries: int = 0
    partial: int = 0
    seconds: float = 0.0
    """Time that the last one took, its answer read."""
    bytes: int = 0
    series: int = 0


class PrometheusReader:
    """Takes the place of a service's scrapes; what it finds are the targets."""

    def __init__(self, engine: Engine, discovery: Discovery) -> None:
        self._engine = engine
        self._discovery = discovery
        self._fleet = Fleet(engine.config, engine.url)
        self._source = Source(ScrapeConfig(job_name=engine.selector[:200]), KIND, KIND)
        discovery.push(self._source)
        self.tally = QueryTally()
        self.causes: Counter[Cause] = Counter()
        self._unanswered: str | None = None

    @property
    def error(self) -> str | None:
        """Why the last question brought nothing, or not all."""
        return self._source.error

    @property
    def last_success(self) -> float | None:
        """When a question was last answered, unix seconds."""
        return self._source.last_success

    async def run(self, service: Service) -> None:
        """Ask again and again; returns only by cancellation."""
        async with connections() as session:
            due = time.monotonic()
            while True:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await self.ask_once(session, service)
                # As with scrapes: whoever takes longer goes on at the next turn.
                due += service.settings.interval * max(1, round((time.monotonic() - due) / service.settings.interval))

    async def ask_once(self, session: Asker, service: Service) -> None:
        """One question, and what came of it for every server."""
        began = time.monotonic()
        self.tally.queries += 1
        try:
            news, lacking = await self._news(session, service)
            self.tally.seconds = time.monotonic() - began
            self._source.last_success = service.clock.now()
            self._say(self._lacking(lacking))
            await self._take(service, news)
        except ScrapeError as problem:
            self.causes[problem.cause] += 1
            self._say(str(problem))
            await self._nobody_known(service, str(problem))
        except Exception as problem:
            # One answer that trips over a defect of ours must not be the last that is read.
            self.causes[Cause.DEFECT] += 1
            defect = f"a defect of specwatch ({type(problem).__name__})"
            if self.error != defect:
                log.exception("%s: %s", self._engine.url, defect)
            self._source.error = defect

    async def _news(self, session: Asker, service: Service) -> tuple[News, tuple[str, ...]]:
        """What is new of every server, and why some of it may be missing."""
        now = service.clock.now()
        matrix = await self._engine.ask(session, self._fleet.reach(now), service.settings.limits)
        pauses, count = Pauses(), 0
        self._fleet.begin(now)
        for labels, samples in matrix:
            self._fleet.add(labels, samples)
            count += 1
            await pauses.after_a_step()
        self.tally.bytes, self.tally.series = matrix.size, count
        self.tally.partial += bool(matrix.warnings)
        return self._fleet.end(whole=not matrix.warnings), matrix.warnings

    def _lacking(self, warnings: tuple[str, ...]) -> str | None:
        if warnings:
            return f"{self._engine.url}: the answer may lack servers: {'; '.join(warnings[:3])}"
        if not self.tally.series:
            return (
                f"{self._engine.url}: it has no targets with {self._engine.selector}: is that what prometheus_selector "
                "should say, and are they vLLM's?"
            )
        return None

    def _say(self, error: str | None) -> None:
        """Keep what is wrong, and log it when it begins, changes or ends."""
        before, self._source.error = self._source.error, error
        if error and error != before:
            log.warning("%s", error)
        elif before and not error:
            log.info("%s: answers again", self._engine.url)

    async def _take(self, service: Service, news: News) -> None:
        """Let every server know what was scraped of it, and that nothing was."""
        self._source.told = news.told
        self._discovery.tell()
        pauses = Pauses()
        for moment in news.moments:
            if watch := service.watches.get(moment.server):
                await self._follow(service, watch, moment)
            await pauses.after_a_step()
        now = service.clock.now()
        for name, watch in list(service.watches.items()):
            if name in news.late:
                await self._miss(service, watch, news.late[name])
            service.tallies[name].ended_at = now
            await pauses.after_a_step()

    async def _follow(self, service: Service, watch: TargetWatch, moment: Moment) -> None:
        tally, before = service.tallies[watch.target.name], self._error_of(watch)
        try:
            page = moment.page
            if page is None:
                watch.failed(SCRAPE_FAILED)
            else:
                service.take(watch, moment.at, watch.reader.read(page))
        except PageError as problem:
            watch.failed(str(problem))
            service.causes[Cause.PAGE] += 1
        except Exception as problem:
            service.tripped(watch, before, problem)
        tally.scrapes += 1
        tally.failures += watch.error is not None
        report_change(watch, before)
        await service.tell(watch, moment.at)

    async def _miss(self, service: Service, watch: TargetWatch, last: float) -> None:
        before = self._error_of(watch)
        since = time.strftime("%H:%M:%S", time.gmtime(last))
        watch.unheard(f"{self._engine.url} has no sample of it since {since} UTC: is it still scraped?")
        report_change(watch, before)
        await service.tell(watch, service.clock.now())

    async def _nobody_known(self, service: Service, why: str) -> None:
        """Without an answer nobody knows how servers are, which is not to be taken for servers that are down."""
        pauses = Pauses()
        for name in self._fleet.late(service.clock.now()):
            if watch := service.watches.get(name):
                watch.unheard(why)
                self._unanswered = watch.error
                await service.tell(watch, service.clock.now())
            await pauses.after_a_step()

    def _error_of(self, watch: TargetWatch) -> str | None:
        """What the log said of a server last: of a question without an answer it says one thing, not one a server."""
        return None if watch.error == self._unanswered else watch.error

    def families(self, now: float) -> Iterator[Metric]:
        """Metrics about asking."""
        up = GaugeMetricFamily("specwatch_prometheus_up", "1 unless the last question got no answer, or not all of it.")
        up.add_metric([], float(self.error is None and self.last_success is not None))
        queries = CounterMetricFamily("specwatch_prometheus_queries", "Questions to Prometheus.")
        queries.add_metric([], self.tally.queries)
        failures = CounterMetricFamily(
            "specwatch_prometheus_query_failures", "Questions that got no answer, by why.", labels=["reason"]
        )
        for cause in Cause:
            failures.add_metric([cause.value], self.causes[cause])
        partial = CounterMetricFamily("specwatch_prometheus_partial_answers", "Answers that may lack servers.")
        partial.add_metric([], self.tally.partial)
        yield from (up, queries, failures, partial)
        for name, help_text, value in self._gauges(now):
            yield GaugeMetricFamily(f"specwatch_prometheus_{name}", help_text, value=value)

    def _gauges(self, now: float) -> Iterator[tuple[str, str, float]]:
        yield "query_seconds", "Time that the last question took, its answer read.", self.tally.seconds
        yield "answer_bytes", "Size of the last answer, unpacked.", float(self.tally.bytes)
        yield "answer_series", "Series of the last answer.", float(self.tally.series)
        if self.last_success is not None:
            yield "newest_sample_age_seconds", "Age of the newest sample of any server.", now - self._fleet.newest
