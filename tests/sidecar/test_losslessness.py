"""Checks of losslessness at a low rate: pooled until they conclude, bounded, and never two at once."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from benchmarks import verify_samplers
from specwatch.collect.asking import PATIENT
from specwatch.collect.credentials import Credentials
from specwatch.collect.discovery import Discovery, Wanted
from specwatch.collect.scraper import http_session
from specwatch.collect.targets import parse
from specwatch.config import SidecarConfig, load
from specwatch.errors import InputError
from specwatch.scrape_config import HttpClient
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.exporter import render
from specwatch.sidecar.losslessness import CheckSettings, LosslessnessChecks, families, from_config
from specwatch.sidecar.service import Service, ServiceSettings
from tests.support.scoring_server import ScoringServer, scoring

PEMS = Path(__file__).parents[1] / "fixtures" / "tls"

PROMPTS = tuple(f"prompt {number}" for number in range(10))


def checks(url, **changes):
    target = parse(f"gpu-a={url}")
    settings = CheckSettings(**({"every": 3600.0, "prompts": PROMPTS} | changes))
    return LosslessnessChecks(settings, now=lambda: 1000.0), target


def exported(watched):
    """Values of every series, by name and labels."""

    class Page(Collector):
        def collect(self):
            return families(watched)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Page())
    page = generate_latest(registry).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


async def test_nothing_is_known_before_the_first_verdict():
    watched, _ = checks("http://127.0.0.1:9")
    assert watched.distorted("gpu-a") is None
    assert watched.distorted("unknown") is None


async def test_checks_are_pooled_until_they_conclude_sound():
    async with scoring(ScoringServer()) as url:
        watched, target = checks(url)
        await watched.check(target)
        state = watched.states["gpu-a"].temperatures
        assert watched.distorted("gpu-a") is False
        # At 0 a hundred tokens are enough, at 1 it takes several checks of 256.
        assert (state[0.0].tokens, state[0.0].verdict_at) == (128, 1000.0)
        assert (state[1.0].tokens, state[1.0].verdict) == (256, None)
        for _ in range(5):
            await watched.check(target)
    assert state[1.0].verdict.value == "sound"
    assert state[1.0].tokens <= 6 * 256


async def test_distortion_is_known_after_one_check_and_forgotten_when_the_text_is_sound_again():
    behaviour = ScoringServer(sampler=verify_samplers.garbage(1.0))
    async with scoring(behaviour) as url:
        watched, target = checks(url)
        await watched.check(target)
        assert watched.distorted("gpu-a") is True
        behaviour.sampler = verify_samplers.lossless
        await watched.check(target)
        assert watched.distorted("gpu-a") is False


async def test_a_check_asks_one_thing_at_a_time_and_for_no_more_tokens_than_allowed():
    behaviour = ScoringServer()
    async with scoring(behaviour) as url:
        watched, target = checks(url, tokens=128)
        await watched.check(target)
    texts = [body for body in behaviour.asked if "prompt_logprobs" not in body]
    assert sum(body["max_tokens"] for body in texts) <= 2 * 128
    assert behaviour.most_under_way == 1


async def test_a_model_with_short_answers_is_not_asked_for_ever():
    behaviour = ScoringServer(answer_tokens=2)
    async with scoring(behaviour) as url:
        watched, target = checks(url)
        await watched.check(target)
    assert len([body for body in behaviour.asked if "prompt_logprobs" not in body]) == 8


async def test_text_that_nothing_was_drafted_for_gives_no_verdict():
    async with scoring(ScoringServer(drafts=False)) as url:
        watched, target = checks(url, temperatures=(0.0,))
        await watched.check(target)
    assert watched.distorted("gpu-a") is None
    assert exported(watched)["specwatch_losslessness_verdicts_total", "gpu-a", "0", "inconclusive"] == 1


async def test_a_server_that_cannot_be_asked_is_counted_and_logged_once(caplog):
    watched, target = checks("http://127.0.0.1:9")
    await watched.check(target)
    await watched.check(target)
    page = exported(watched)
    assert page["specwatch_losslessness_checks_total", "gpu-a"] == 2
    assert page["specwatch_losslessness_check_failures_total", "gpu-a"] == 2
    assert len([record for record in caplog.records if "losslessness not checked" in record.message]) == 1
    assert watched.distorted("gpu-a") is None


async def test_what_the_checks_did_is_exported():
    async with scoring(ScoringServer(sampler=verify_samplers.garbage(1.0))) as url:
        watched, target = checks(url)
        await watched.check(target)
    page = exported(watched)
    assert page["specwatch_losslessness_verdicts_total", "gpu-a", "1", "distorted"] == 1
    assert page["specwatch_losslessness_verdicts_total", "gpu-a", "0", "sound"] == 1
    assert page["specwatch_losslessness_tokens_total", "gpu-a", "0"] == 128
    assert page["specwatch_losslessness_verdict_timestamp_seconds", "gpu-a", "1"] == 1000.0
    assert page["specwatch_losslessness_evidence_ratio", "gpu-a", "1"] == 0.0


async def test_checks_go_on_until_they_are_cancelled():
    async with scoring(ScoringServer()) as url:
        watched, target = checks(url, every=0.01, temperatures=(0.0,), tokens=64)
        task = asyncio.create_task(watched.keep_checking(target))
        while "gpu-a" not in watched.states or watched.states["gpu-a"].checks < 3:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert watched.states["gpu-a"].failures == 0


async def test_the_sidecar_pages_for_text_that_is_distorted_and_exports_that_it_is():
    async with scoring(ScoringServer(sampler=verify_samplers.garbage(1.0))) as url, http_session() as session:
        watched, target = checks(url)
        book = AlertBook()
        service = Service([target], settings=ServiceSettings(limits=PATIENT), listener=book.judge, losslessness=watched)
        await service.scrape_once(session, service.watches["gpu-a"])
        assert "specwatch_losslessness_distorted{" not in render(service, book).decode()
        await watched.check(target)
        await service.scrape_once(session, service.watches["gpu-a"])
    (alert,) = [entry for entry in book.view().alerts if entry.name == "SpeculationDistortsOutput"]
    assert (alert.state, alert.severity, alert.target) == ("firing", "page", "gpu-a")
    page = render(service, book).decode()
    assert 'specwatch_losslessness_distorted{model_name="simulated",target="gpu-a"} 1.0' in page
    assert 'specwatch_losslessness_checks_total{target="gpu-a"} 1.0' in page


async def test_a_service_with_checks_makes_them():
    async with scoring(ScoringServer()) as url:
        watched, target = checks(url, every=0.01, temperatures=(0.0,), tokens=64)
        task = asyncio.create_task(Service([target], losslessness=watched).run())
        while "gpu-a" not in watched.states or watched.states["gpu-a"].checks < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def behind_tls() -> ssl.SSLContext:
    """Encryption of a server that wants to know its clients."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=PEMS / "authority.pem")
    context.load_cert_chain(PEMS / "server.pem", PEMS / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_a_server_is_asked_for_text_as_it_is_scraped(tmp_path):
    (tmp_path / "key").write_text("opensesame")
    behaviour = ScoringServer(api_key="opensesame")
    async with scoring(behaviour, encryption=behind_tls()) as url:
        job = {
            "job_name": "vllm",
            "scheme": "https",
            "static_configs": [{"targets": [url.removeprefix("https://")]}],
            "authorization": {"credentials_file": str(tmp_path / "key")},
            "tls_config": {
                "ca_file": str(PEMS / "authority.pem"),
                "cert_file": str(PEMS / "client.pem"),
                "key_file": str(PEMS / "client.key"),
            },
        }
        discovery = Discovery(Wanted.of(load(SidecarConfig, None, {"scrape_configs": [job]})))
        (target,) = discovery.targets()
        watched, _ = checks(url, every=0.01, temperatures=(0.0,), tokens=64)
        service = Service([target], losslessness=watched, discovery=discovery)
        task = asyncio.create_task(service.run())
        while target.name not in watched.states or watched.states[target.name].checks < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert watched.states[target.name].failures == 0
        assert watched.states[target.name].temperatures[0.0].tokens > 0


async def test_a_key_of_its_own_takes_the_place_of_what_the_page_is_scraped_with(tmp_path):
    (tmp_path / "password").write_text("for the page")
    basic = {"username": "prometheus", "password_file": str(tmp_path / "password")}
    scraped = Credentials(HttpClient.model_validate({"basic_auth": basic}))
    async with scoring(ScoringServer(api_key="opensesame")) as url:
        watched, target = checks(url, api_key="opensesame")
        await watched.check(target, scraped)
        assert watched.states["gpu-a"].problem is None
        without, _ = checks(url)
        await without.check(target, scraped)
        assert "name that with --verify-token-file" in (without.states["gpu-a"].problem or "")


async def test_a_server_that_is_not_trusted_is_not_asked():
    async with scoring(ScoringServer(), encryption=behind_tls()) as url:
        watched, target = checks(url)
        await watched.check(target)
    assert "certificate does not hold" in (watched.states["gpu-a"].problem or "")


def configured(**flags):
    return from_config(load(SidecarConfig, None, flags))


def test_checks_are_off_unless_they_are_asked_for(tmp_path):
    assert configured() is None
    (tmp_path / "prompts.jsonl").write_text('"one"\n')
    (tmp_path / "key").write_text("opensesame")
    told = {"verify_prompts": tmp_path / "prompts.jsonl", "verify_token_file": tmp_path / "key"}
    settings = configured(verify_every="2h", verify_temperature=(0.5, 0.5), **told)._settings
    assert (settings.every, settings.prompts, settings.temperatures) == (7200.0, ("one",), (0.5,))
    assert settings.api_key == "opensesame"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"verify_every": "1s"}, "greater than or equal to 60"),
        ({"verify_every": "often"}, "verify_every"),
        ({"verify_every": "xh"}, "a duration such as 10m, 1h or 2d"),
        ({"verify_every": "1h", "verify_temperature": (0.001,)}, "a temperature is 0, or from 0.01"),
        ({"verify_every": "1h", "verify_prompts": "nowhere.jsonl"}, "verify_prompts nowhere.jsonl: no such file"),
        ({"verify_every": "1h", "verify_token_file": "nowhere"}, "verify_token_file nowhere: no such file"),
    ],
)
def test_what_cannot_be_used_is_named(flags, said):
    with pytest.raises(InputError, match=said):
        configured(**flags)
