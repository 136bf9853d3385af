"""What drift has learned: over restarts, frozen, learned anew; over the API, on disk and from the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from specwatch.cli.references import command
from specwatch.collect.targets import Target
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.references import References, Scope
from specwatch.sidecar.service import Service
from specwatch.sidecar.store import references as stored
from specwatch.sidecar.store.database import Database
from specwatch.sidecar.watch import WatchSettings
from specwatch.signals.drift import DriftSettings
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter
from tools.rehearsal import serving


def service_of(*names: str) -> Service:
    targets = [Target(name, "http://127.0.0.1:1/metrics") for name in names]
    return Service(targets, watch=WatchSettings(drift=DriftSettings()))


def learned(service: Service, model: str = "llama") -> Service:
    """The service after two hours of steady traffic on all its targets."""
    counts = {Counter.DRAFTS: 300.0, Counter.DRAFT_TOKENS: 1500.0}
    for i in range(480):
        for name, watch in service.watches.items():
            accepted = 900.0 + (i * 37 % 61) - 30
            step = Increments(15.0, {**counts, Counter.ACCEPTED_TOKENS: accepted})
            watch.drift.update(15.0 * i, 15.0, 300.0, 1500.0, accepted, regime=watch.regime)
            service.pools.take(name, model, 15.0 * i, step, watch.regime)
    return service


def normal(service: Service, name: str) -> float | None:
    return service.watches[name].drift.reading().reference


@asynccontextmanager
async def kept(path: Path, service: Service) -> AsyncIterator[References]:
    """A service's references with a database, given what was known of them."""
    database = Database(path)
    references = References(service, database)
    try:
        await references.take_up()
        yield references
    finally:
        database.close()


def nothing_more(service: Service, model: str) -> None:
    """A scrape of the first target in which nothing happened: its model is known from then on."""
    step = Increments(15.0, {Counter.DRAFTS: 0.0, Counter.DRAFT_TOKENS: 0.0, Counter.ACCEPTED_TOKENS: 0.0})
    name, watch = next(iter(service.watches.items()))
    service.pools.take(name, model, 8000.0, step, watch.regime)


async def test_what_was_learned_outlives_a_restart(tmp_path):
    before, after = service_of("a", "b", "half \ud800"), service_of("a", "half \ud800", "new")
    async with kept(tmp_path / "specwatch.db", before) as references:
        learned(before)
        await references.take_up()
        await references.save()
    async with kept(tmp_path / "specwatch.db", after) as references:
        assert normal(after, "a") == normal(before, "a") is not None
        assert normal(after, "half \ud800") == normal(before, "half \ud800") is not None
        assert normal(after, "new") is None
        assert after.pools.fleet.detector.reading() == before.pools.fleet.detector.reading()
        nothing_more(after, "llama")
        await references.take_up()
        assert after.pools.readings()["llama"].reference == before.pools.readings()["llama"].reference


async def test_a_target_that_returns_long_after_finds_its_normal_and_nothing_is_written_over_it_before(tmp_path):
    service = service_of("a", "b")
    async with kept(tmp_path / "specwatch.db", service) as references:
        learned(service)
        await references.save()
        known = normal(service, "b")
        del service.watches["b"]
        await references.save()
        service.follow([Target(name, "http://127.0.0.1:1/metrics") for name in ("a", "b")])
        assert normal(service, "b") is None
        await references.save()
        await references.take_up()
        assert normal(service, "b") == known is not None


@pytest.mark.parametrize("state", ["", "{", "[1]", "5", '{"x": []}', '{"version": 99}', "[" * 100_000])
async def test_a_state_that_cannot_be_used_is_named_in_the_log_and_learned_again(tmp_path, caplog, state):
    service = service_of("a")
    async with kept(tmp_path / "specwatch.db", service_of()) as references:
        await references._database.write(partial(stored.save, states={("server", "a"): state}, now=0.0))
    async with kept(tmp_path / "specwatch.db", service) as references:
        assert normal(service, "a") is None
        assert "the normal of server 'a' cannot be used" in caplog.text
        learned(service)
        await references.save()
    after = service_of("a")
    async with kept(tmp_path / "specwatch.db", after):
        assert normal(after, "a") == normal(service, "a") is not None


async def test_of_more_references_than_are_kept_the_latest_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "MOST", 3)
    async with kept(tmp_path / "specwatch.db", service_of()) as references:
        for number in range(6):
            await references._database.write(
                partial(stored.save, states={("server", f"pod-{number}"): "{}"}, now=float(number))
            )
        every = [("server", f"pod-{number}") for number in range(6)]
        found = await references._database.read(partial(stored.load, keys=every))
    assert [name for _, name in found] == ["pod-2", "pod-3", "pod-4", "pod-5"]


async def test_a_frozen_normal_has_a_name_and_relearning_forgets_it():
    service = learned(service_of("a"))
    references = References(service)
    frozen = await references.freeze(Scope.SERVER, "a", "weekday")
    assert frozen is not None
    assert (frozen.frozen, frozen.reference_name) == (True, "weekday")
    fresh = await references.relearn(Scope.SERVER, "a")
    assert fresh is not None
    assert (fresh.reference, fresh.frozen, fresh.reference_name) == (None, False, None)
    assert await references.relearn(Scope.MODEL, "unheard-of") is None


@asynccontextmanager
async def asked(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(service, AlertBook())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:9108/api/v1") as client:
        yield client


async def test_the_api_lists_freezes_and_relearns():
    async with asked(learned(service_of("a"))) as client:
        entries = (await client.get("/references")).json()
        assert [(entry["scope"], entry["name"]) for entry in entries] == [
            ("server", "a"),
            ("model", "llama"),
            ("fleet", ""),
        ]
        frozen = (
            await client.post("/references/freeze", json={"scope": "model", "name": "llama", "reference": "May"})
        ).json()
        assert frozen["drift"]["reference_name"] == "May"
        fresh = (await client.post("/references/relearn", json={"scope": "fleet"})).json()
        assert fresh["drift"]["reference"] is None


async def test_the_api_says_what_it_cannot_do():
    async with asked(service_of("a")) as client:
        unknown = await client.post("/references/relearn", json={"scope": "server", "name": "b"})
        early = await client.post("/references/freeze", json={"scope": "server", "name": "a", "reference": "x"})
        wrong = await client.post("/references/freeze", json={"scope": "planet"})
    assert [answer.status_code for answer in (unknown, early, wrong)] == [404, 409, 422]
    assert "no server of that name" in unknown.text


async def test_the_page_of_another_site_changes_nothing():
    async with asked(learned(service_of("a"))) as client:
        foreign = await client.post(
            "/references/relearn", json={"scope": "server", "name": "a"}, headers={"Origin": "https://evil.example"}
        )
        own = await client.post(
            "/references/relearn", json={"scope": "server", "name": "a"}, headers={"Origin": "http://127.0.0.1:9108"}
        )
    assert (foreign.status_code, own.status_code) == (403, 200)


async def test_the_command_line_does_the_same():
    async with serving(create_app(learned(service_of("a")), AlertBook())) as url:

        def run(*words: str) -> tuple[int, str]:
            result = CliRunner().invoke(command, ["--sidecar", url, *words])
            return result.exit_code, result.output + str(result.exception or "")

        listed = await asyncio.to_thread(run, "list")
        frozen = await asyncio.to_thread(run, "freeze", "server", "a", "--as", "weekday")
        again = await asyncio.to_thread(run, "relearn", "server", "a")
        unknown = await asyncio.to_thread(run, "relearn", "server", "z")
    assert listed[0] == 0
    assert "60.0%" in listed[1]
    assert "weekday" in frozen[1]
    assert "learned anew" in again[1]
    assert "no server of that name" in unknown[1]


def test_where_no_sidecar_answers_it_says_so():
    result = CliRunner().invoke(command, ["--sidecar", "http://127.0.0.1:1", "list"])
    assert "no sidecar answers there" in str(result.exception)
