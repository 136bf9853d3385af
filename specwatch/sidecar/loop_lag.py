"""Whether the loop that everything runs in stood still: scrapes, alerts and answers are all late by as much."""

from __future__ import annotations

import asyncio
import logging
import os
import time

from prometheus_client.core import HistogramMetricFamily

from specwatch.vllm.systemd import notify

log = logging.getLogger(__name__)

BEAT_SECONDS = 0.5
"""Between two looks: a stall of a second is met by one at least, and two wake-ups a second cost nothing."""

STALL_SECONDS = 1.0
"""A lag worth a line: targets are scraped every few seconds, and page and alerts are that much behind."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds, seconds: those that Prometheus' clients use for durations."""

WATCHDOG = "WATCHDOG_USEC"
"""systemd's variable: a unit with ``WatchdogSec`` is restarted when it falls silent."""


class LoopLag:
    """How late the loop was, as a histogram since the start."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    async def keep(self) -> None:
        """Look again and again; returns only by cancellation."""
        while True:
            due = time.monotonic() + BEAT_SECONDS
            await asyncio.sleep(BEAT_SECONDS)
            self.observe(max(0.0, time.monotonic() - due))
            if WATCHDOG in os.environ:
                notify("WATCHDOG=1")

    def observe(self, seconds: float) -> None:
        """Take in a lag, and say so in the log where it was long."""
        place = sum(seconds > bound for bound in BUCKETS)
        self._counts[place] += 1
        self._sum += seconds
        if seconds >= STALL_SECONDS:
            log.warning("stood still for %.1f s: scrapes, alerts and answers were late by as much", seconds)

    def family(self) -> HistogramMetricFamily:
        """The histogram for ``/metrics``."""
        bounds = [*map(str, BUCKETS), "+Inf"]
        buckets = [(bound, float(sum(self._counts[: index + 1]))) for index, bound in enumerate(bounds)]
        help_text = "How late the sidecar's own loop was at a look each half second."
        return HistogramMetricFamily("specwatch_loop_lag_seconds", help_text, buckets=buckets, sum_value=self._sum)
