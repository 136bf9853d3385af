"""Targets that a server tells, as Prometheus' ``http_sd_configs``: always the whole list, as JSON."""

from __future__ import annotations

import json

from specwatch.collect.credentials import Credentials
from specwatch.collect.groups import LONGEST_LIST, DiscoveryError, TargetGroup, read_groups
from specwatch.collect.http import Asker, Limits, ScrapeError, fetch
from specwatch.scrape_config import HttpSdConfig

LIMITS = Limits(seconds=30.0, bytes=LONGEST_LIST)
"""Half a default refresh interval: whoever makes the list may have to ask others first."""


class HttpSource:
    """Groups of one URL."""

    def __init__(self, config: HttpSdConfig) -> None:
        self._config = config
        self._shown = config.url.partition("?")[0]
        """What is told of the URL: a query may hold a key."""
        self._credentials = Credentials(config)

    async def read(self, session: Asker) -> list[TargetGroup]:
        """The groups now; DiscoveryError for anything but status 200, this media type, and a list of groups."""
        url = self._config.url
        headers = {
            "Accept": "application/json",
            "X-Prometheus-Refresh-Interval-Seconds": f"{self._config.refresh_interval:g}",
        }
        try:
            answer = await fetch(session, url, LIMITS, self._credentials, headers)
        except ScrapeError as problem:
            raise DiscoveryError(f"{self._shown}: {str(problem).replace(url, self._shown)}") from None
        if answer.media_type != "application/json":
            raise DiscoveryError(f"{self._shown}: the answer is {answer.media_type}, not application/json")
        try:
            content = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise DiscoveryError(f"{self._shown}: not valid JSON") from None
        return read_groups(content, self._shown, {"__meta_url": url})
