"""Targets that come and go: from files, servers and DNS, on real files and sockets."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from specwatch.collect.discovery import Discovery, Drop, Wanted
from specwatch.collect.file_sd import FileSource
from specwatch.collect.groups import DiscoveryError
from specwatch.collect.http import http_session
from specwatch.collect.targets import Target, parse
from specwatch.config import SidecarConfig, load
from specwatch.errors import InputError
from specwatch.scrape_config import FileSdConfig
from tests.support.http import serving


def wanted(*jobs: dict[str, Any], **more: Any) -> Wanted:
    """What a configuration with these scrape configurations wants."""
    configs = [{"job_name": f"job-{number}", **job} for number, job in enumerate(jobs)]
    return Wanted.of(load(SidecarConfig, None, {"scrape_configs": configs, **more}))


@dataclass
class Followed:
    """What a discovery last told."""

    targets: Sequence[Target] = ()

    @property
    def names(self) -> list[str]:
        """Of the targets."""
        return [target.name for target in self.targets]


async def until(condition: Callable[[], object]) -> None:
    """Return when the condition holds."""

    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(wait(), 60.0)


@asynccontextmanager
async def running(discovery: Discovery) -> AsyncIterator[Followed]:
    followed = Followed()
    task = asyncio.create_task(discovery.run(lambda targets: setattr(followed, "targets", targets)))
    try:
        yield followed
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def listing(*addresses: str, **labels: str) -> str:
    return json.dumps([{"targets": addresses, "labels": labels}])


def from_files(*patterns: Path) -> dict[str, Any]:
    return {"file_sd_configs": [{"files": [str(pattern) for pattern in patterns], "refresh_interval": 1}]}


async def test_files_that_match_are_read_and_read_again_when_they_change(tmp_path):
    (tmp_path / "a.json").write_text(listing("gpu-1:8000", zone="a"))
    (tmp_path / "b.json").write_text(listing("gpu-2:8000"))
    (tmp_path / "c.txt").write_text("not a list")
    async with running(Discovery(wanted(from_files(tmp_path / "*.json")))) as told:
        await until(lambda: told.names == ["gpu-1:8000", "gpu-2:8000"])
        first = told.targets[0]
        assert (first.labels["zone"], first.found_in, first.job) == ("a", str(tmp_path / "a.json"), "job-0")
        (tmp_path / "b.json").unlink()
        (tmp_path / "a.json").write_text(listing("gpu-1:8000", "gpu-3:8000"))
        await until(lambda: told.names == ["gpu-1:8000", "gpu-3:8000"])


async def test_a_yaml_file_keeps_labels_as_they_are_written(tmp_path):
    (tmp_path / "a.yml").write_text("- targets: [gpu-1:8000]\n  labels: {port: 8000, spec: yes, release: 0.10}\n")
    async with running(Discovery(wanted(from_files(tmp_path / "a.yml")))) as told:
        await until(lambda: told.targets)
    assert told.targets[0].labels == {
        "instance": "gpu-1:8000",
        "job": "job-0",
        "port": "8000",
        "release": "0.10",
        "spec": "yes",
    }


async def test_a_broken_file_keeps_what_it_said_and_says_so_once(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(listing("gpu-1:8000"))
    bad.write_text(listing("gpu-2:8000"))
    discovery = Discovery(wanted(from_files(tmp_path / "*.json")))
    async with running(discovery) as told:
        await until(lambda: len(told.targets) == 2)
        bad.write_text('[{"targets": ["gpu-2:80')
        await until(lambda: discovery.sources[0].error)
        good.write_text(listing("gpu-1:8000", "gpu-3:8000"))
        await until(lambda: len(told.targets) == 3)
        assert set(told.names) == {"gpu-1:8000", "gpu-2:8000", "gpu-3:8000"}
        bad.write_text(listing("gpu-4:8000"))
        await until(lambda: "gpu-4:8000" in told.names)
        assert discovery.sources[0].error is None
    said = [record.getMessage() for record in caplog.records if "bad.json" in record.getMessage()]
    assert len(said) == 1
    assert "bad.json, line 1: not valid JSON; what it said before stands" in said[0]


BROKEN = {
    "no list": "{}",
    "no list of addresses": '[{"targets": "gpu-1:8000"}]',
    "another key": '[{"target": ["gpu-1:8000"]}]',
    "an impossible label": '[{"targets": [], "labels": {"a-b": "c"}}]',
    "a label without end": json.dumps([{"targets": [], "labels": {"a": "x" * 2000}}]),
    "too deep": "[" * 100_000,
    "no text": "\xff\xff",
    "more addresses than any fleet has": json.dumps([{"targets": ["a"] * 100_001}]),
}


ONLY_IN_JSON = {
    "an address that is no text": '[{"targets": [8000]}]',
    "a label that is no text": '[{"targets": [], "labels": {"a": 1}}]',
    "nothing": "",
}
"""YAML takes any scalar for the text that it is, and an empty file for an empty list."""

EVERY_BROKEN = {
    **{f"{name}, in JSON": ("json", text) for name, text in {**BROKEN, **ONLY_IN_JSON}.items()},
    **{f"{name}, in YAML": ("yml", text) for name, text in BROKEN.items()},
}


@pytest.mark.parametrize(("ending", "broken"), EVERY_BROKEN.values(), ids=EVERY_BROKEN)
async def test_a_file_that_cannot_be_used_is_named_and_leaves_what_was_known(tmp_path, broken, ending):
    bad = tmp_path / f"bad.{ending}"
    bad.write_text("[]")
    (tmp_path / f"good.{ending}").write_text(listing("gpu-1:8000"))
    source = FileSource(FileSdConfig(files=(str(tmp_path / f"*.{ending}"),)))
    async with http_session() as session:
        before = await source.read(session)
        bad.write_text(broken, encoding="latin-1")
        with pytest.raises(DiscoveryError, match=f"bad.{ending}") as caught:
            await source.read(session)
    assert caught.value.groups == before
    assert len(str(caught.value)) < len(str(bad)) + 200


async def test_a_server_tells_targets_and_is_asked_as_prometheus_asks(tmp_path):
    (tmp_path / "token").write_text("opensesame\n")
    seen: dict[str, str] = {}

    async def tell(request: web.Request) -> web.Response:
        seen.update(request.headers)
        return web.json_response([{"targets": ["gpu-1:8000"], "labels": {"zone": "a"}}])

    async with serving({"/sd": tell}) as url:
        source = {"url": f"{url}/sd", "authorization": {"credentials_file": str(tmp_path / "token")}}
        async with running(Discovery(wanted({"http_sd_configs": [source]}))) as told:
            await until(lambda: told.targets)
    assert told.targets[0].labels["zone"] == "a"
    assert seen["X-Prometheus-Refresh-Interval-Seconds"] == "60"
    assert seen["Authorization"] == "Bearer opensesame"


async def test_a_server_that_fails_keeps_what_it_said_and_an_empty_list_is_a_list():
    answers = iter(
        [
            web.json_response([{"targets": ["gpu-1:8000"]}]),
            web.Response(status=500),
            web.Response(text="[]"),
            web.json_response([]),
        ]
    )

    async def tell(_: web.Request) -> web.Response:
        return next(answers, web.json_response([]))

    async with serving({"/sd": tell}) as url:
        source = {"url": f"{url}/sd", "refresh_interval": 1}
        discovery = Discovery(wanted({"http_sd_configs": [source]}))
        async with running(discovery) as told:
            await until(lambda: told.names == ["gpu-1:8000"])
            for expected in ("HTTP 500", "not application/json"):
                await until(lambda text=expected: text in (discovery.sources[0].error or ""))
                assert told.names == ["gpu-1:8000"]
            await until(lambda: told.names == [])
    assert discovery.sources[0].error is None


async def test_dns_tells_the_addresses_of_a_name_and_none_of_a_name_that_does_not_exist():
    sources = [
        {"names": ["localhost"], "type": "A", "port": 8000},
        {"names": ["no-such-host.invalid"], "type": "A", "port": 8000},
    ]
    discovery = Discovery(wanted({"dns_sd_configs": sources}))
    async with running(discovery) as told:
        await until(lambda: "127.0.0.1:8000" in told.names)
        await until(lambda: all(source.last_success or source.error for source in discovery.sources))
    assert told.names == ["127.0.0.1:8000"]


def test_targets_named_by_hand_come_first_and_a_name_is_taken_once():
    jobs = [{"static_configs": [{"targets": ["gpu-1:8000", "gpu-2:8000"]}]} for _ in range(2)]
    discovery = Discovery(wanted(*jobs, target=["gpu-2:8000"]))
    assert [target.found_in for target in discovery.targets()] == ["--target", "static_configs of job-0"]
    assert discovery.dropped == {Drop.DUPLICATE: 3}


def test_what_is_left_out_is_counted_by_why():
    rule = {"source_labels": ["__address__"], "regex": "cpu-.*", "action": "drop"}
    addresses = ["cpu-1:8000", "http://no", *(f"gpu-{number}:8000" for number in range(100))]
    discovery = Discovery(wanted({"static_configs": [{"targets": addresses}], "relabel_configs": [rule]}, shard="1/4"))
    kept = discovery.targets()
    assert discovery.dropped == {Drop.RELABEL: 1, Drop.INVALID: 1, Drop.SHARD: 100 - len(kept)}
    assert discovery.invalid is not None
    assert "'http://no'" in discovery.invalid


def test_more_targets_than_one_sidecar_watches_are_left_out_and_counted():
    plan = Wanted(
        (parse("by-hand:1"),), wanted({"static_configs": [{"targets": ["a:1", "b:1", "c:1"]}]}).scrape_configs, most=2
    )
    discovery = Discovery(plan)
    assert [target.name for target in discovery.targets()] == ["by-hand:1", "a:1"]
    assert discovery.dropped == {Drop.LIMIT: 2}


async def test_another_configuration_keeps_what_has_not_changed(tmp_path):
    (tmp_path / "a.json").write_text(listing("gpu-1:8000"))
    files = from_files(tmp_path / "a.json")
    discovery = Discovery(wanted(files))
    async with running(discovery) as told:
        await until(lambda: told.targets)
        source = discovery.sources[0]
        rule = {"target_label": "team", "replacement": "serving"}
        discovery.configure(wanted({**files, "relabel_configs": [rule]}, {"static_configs": [{"targets": ["b:1"]}]}))
        assert discovery.sources[0] is source
        assert (told.names, told.targets[0].labels["team"]) == (["gpu-1:8000", "b:1"], "serving")
        discovery.configure(wanted({"static_configs": [{"targets": ["c:1"]}]}))
        assert told.names == ["c:1"]


def test_a_configuration_that_cannot_be_used_changes_nothing(tmp_path):
    discovery = Discovery(wanted({"static_configs": [{"targets": ["a:1"]}]}))
    broken = {"static_configs": [{"targets": ["b:1"]}], "tls_config": {"ca_file": str(tmp_path / "absent.pem")}}
    with pytest.raises(InputError, match=r"job 'job-0': ca_file .*absent.pem.*no such file"):
        discovery.configure(wanted(broken))
    assert [target.name for target in discovery.targets()] == ["a:1"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "no target"),
        ({"scrape_configs": [{"job_name": "a"}, {"job_name": "a"}]}, "two jobs are called 'a'"),
        ({"scrape_configs": [{"job_name": "a"}], "shard": "6/5"}, "NUMBER/OF"),
    ],
)
def test_what_can_never_find_a_server_is_refused(config: dict[str, Any], said: str):
    with pytest.raises(InputError, match=said):
        Wanted.of(load(SidecarConfig, None, config))


@pytest.mark.parametrize(
    ("job", "place"),
    [
        ({"scrape_interval": "5s"}, "scrape_configs.0.scrape_interval: unknown"),
        ({"metrics_path": "metrics"}, "scrape_configs.0.metrics_path"),
        ({"file_sd_configs": [{"files": ["a.txt"]}]}, "scrape_configs.0.file_sd_configs.0"),
        ({"http_sd_configs": [{"url": "http://me:pw@a/"}]}, "scrape_configs.0.http_sd_configs.0: url: write"),
        ({"dns_sd_configs": [{"names": ["a"], "type": "A"}]}, "name no port"),
        ({"static_configs": [{"targets": [], "labels": {"a-b": ""}}]}, "scrape_configs.0.static_configs.0.labels"),
        ({"authorization": {"credentials": "secret"}}, "authorization.credentials_file: Field required"),
        ({"tls_config": {"cert_file": "a.pem"}}, "cert_file and key_file go together"),
        ({"file_sd_configs": [{"files": ["a.json"], "refresh_interval": "soon"}]}, "such as 30s, 5m or 1h30m"),
    ],
)
def test_a_bad_entry_is_named_with_its_place(job: dict[str, Any], place: str):
    with pytest.raises(InputError) as caught:
        load(SidecarConfig, None, {"scrape_configs": [{"job_name": "a", **job}]})
    assert place in str(caught.value)
    assert "pw@" not in str(caught.value)
    assert "did you mean" not in str(caught.value)


async def test_more_files_than_are_read_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr("specwatch.collect.file_sd.MOST_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.json").write_text(listing(f"gpu-{number}:8000"))
    source = FileSource(FileSdConfig(files=(str(tmp_path / "*.json"),)))
    async with http_session() as session:
        with pytest.raises(DiscoveryError, match="more than 2 files match") as caught:
            await source.read(session)
    assert caught.value.groups is not None
    assert len(caught.value.groups) == 2


async def test_a_key_in_the_query_of_a_url_is_not_told():
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=403)

    async with serving({"/sd": refuse}) as url:
        discovery = Discovery(wanted({"http_sd_configs": [{"url": f"{url}/sd?key=opensesame"}]}))
        async with running(discovery):
            await until(lambda: discovery.sources[0].error)
    assert "HTTP 403" in (discovery.sources[0].error or "")
    assert "opensesame" not in (discovery.sources[0].error or "")
