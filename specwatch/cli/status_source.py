"""Where the terminal's figures come from: a sidecar, or servers that are scraped from here."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import click

from specwatch.cli import sidecar_client
from specwatch.cli.sidecar_client import Alert, NoSidecar, SidecarClient, sidecar
from specwatch.cli.sidecar_options import NOBODY, Identity, identity_options
from specwatch.collect.targets import Target, parse_all
from specwatch.errors import InputError
from specwatch.sidecar.service import Service, ServiceSettings
from specwatch.sidecar.views import TargetView
from specwatch.sidecar.watch import WatchSettings

SCRAPE_EVERY = 2.0
"""Seconds between scrapes from here: figures stand after two of them, and a page costs a server milliseconds."""

FIRST_SCRAPES = 2
"""A rate takes two."""

WITHOUT_ONE = "without a sidecar, --target http://HOST:PORT scrapes servers from here"

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Look:
    """Everything as it stood at one moment."""

    at: float
    """Unix seconds, by the clock of whoever watches."""
    targets: tuple[TargetView, ...]
    alerts: tuple[Alert, ...] | None
    """None where they are not known."""
    without_alerts: str = "alerts are not known: the sidecar did not answer what is firing"
    """Why they are not."""


class Source(Protocol):
    """Something that knows how servers stand."""

    name: str
    """Who it is, for people."""

    async def look(self) -> Look:
        """How they stand now; NoSidecar where that cannot be had."""


@dataclass(frozen=True)
class Asked:
    """Where to look, as the command line says."""

    url: str | None
    targets: tuple[str, ...]
    identity: Identity = NOBODY

    @classmethod
    def of(cls, url: str | None, targets: Sequence[str], identity: Identity) -> Asked:
        """InputError where the words contradict each other."""
        of_a_sidecar = [*([] if url is None else [url]), *identity.options]
        if targets and of_a_sidecar:
            raise InputError(
                f"{of_a_sidecar[0]} and --target: ask a sidecar or scrape servers from here, not both at once"
            )
        return cls(url, tuple(targets), identity)

    @asynccontextmanager
    async def source(self, watch: WatchSettings | None = None) -> AsyncIterator[Source]:
        """The source, open; ``watch`` says over which windows servers are watched from here."""
        if self.targets:
            async with _scraping(parse_all(self.targets), watch or WatchSettings()) as scrapes:
                yield scrapes
        else:
            address = sidecar_client.ADDRESS if self.url is None else self.url
            async with sidecar(address, self.identity) as client:
                yield FromSidecar(client)


def source_options(command: Command) -> Command:
    """URL, ``--target`` and who asks, for a command that takes what is ``asked``."""

    @functools.wraps(command)
    def asking(*args: Any, url: str | None, target: tuple[str, ...], identity: Identity, **options: Any) -> Any:
        return command(*args, asked=Asked.of(url, target, identity), **options)

    with_options: Any = identity_options(asking)
    for option in (
        click.option("--target", multiple=True, metavar="[NAME=]URL", help="vLLM server to scrape instead; repeat."),
        click.argument("url", required=False),
    ):
        with_options = option(with_options)
    return with_options  # type: ignore[no-any-return]


class FromSidecar:
    """What a sidecar says."""

    def __init__(self, client: SidecarClient) -> None:
        self._client = client
        self.name = urlsplit(client.address)._replace(scheme="").geturl().lstrip("/")

    async def look(self) -> Look:
        """Ask for signals and alerts together."""
        signals, alerts = await asyncio.gather(self._client.signals(), self._alerts())
        return Look(signals.at, signals.targets, alerts)

    async def _alerts(self) -> tuple[Alert, ...] | None:
        """Alerts, or None: figures are shown without them, and that they are missing is said."""
        try:
            return await self._client.alerts()
        except NoSidecar:
            return None


class FromScrapes:
    """What scrapes from here show."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.name = "scraped from here"

    async def look(self) -> Look:
        """What is known so far."""
        return Look(self._service.clock.now(), tuple(self._service.views()), None, "no alerts: a sidecar judges them")

    async def wait(self, seconds: float) -> None:
        """Scrape for so long, and until every server was asked twice, however slow it is."""
        await asyncio.sleep(seconds)
        while any(tally.scrapes < FIRST_SCRAPES for tally in self._service.tallies.values()):
            await asyncio.sleep(SCRAPE_EVERY / 10)


@asynccontextmanager
async def _scraping(targets: Sequence[Target], watch: WatchSettings) -> AsyncIterator[FromScrapes]:
    service = Service(targets, watch=watch, settings=ServiceSettings(interval=SCRAPE_EVERY))
    scraping = asyncio.create_task(service.run())
    try:
        yield FromScrapes(service)
    finally:
        scraping.cancel()
        with suppress(asyncio.CancelledError):
            await scraping
