"""Another configuration while the sidecar serves, and targets that come and go in real processes."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.http import serving, text_page
from tests.support.pages import page_text
from tests.support.sidecars import Running, sidecar

PAGE = text_page(page_text("vllm-0.32.0-v1-draft_model-es"))
HERE = ("--listen", "127.0.0.1:0", "--interval", "0.2")


async def targets(it: Running) -> dict[str, Any]:
    status, body = await it.get("/api/v1/targets")
    assert status == 200, body
    answer: dict[str, Any] = json.loads(body)
    return answer


async def until(it: Running, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The targets, once they are as expected."""
    for _ in range(500):
        answer = await targets(it)
        if condition(answer):
            return answer
        await asyncio.sleep(0.05)
    raise AssertionError(f"still {answer}")


def names(answer: dict[str, Any]) -> list[str]:
    return [target["name"] for target in answer["targets"]]


async def reload(it: Running) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.post(f"{it.url}/api/v1/reload") as answer:
        return answer.status, await answer.json()


async def test_targets_follow_a_file_and_say_where_they_were_found(tmp_path: Path):
    listed, config = tmp_path / "listed.json", tmp_path / "sidecar.yml"
    async with serving({"/metrics": PAGE}) as url:
        address = url.removeprefix("http://")
        listed.write_text(json.dumps([{"targets": [address], "labels": {"zone": "a", "instance": "first"}}]))
        source = {"files": [str(listed)], "refresh_interval": 1}
        config.write_text(json.dumps({"scrape_configs": [{"job_name": "fleet", "file_sd_configs": [source]}]}))
        async with sidecar(*HERE, "--config", str(config)) as it:
            found = await until(it, lambda now: now["targets"] and now["targets"][0]["up"])
            entry = found["targets"][0]
            assert (entry["name"], entry["labels"]) == ("first", {"zone": "a", "instance": "first", "job": "fleet"})
            assert (entry["found_in"], entry["job"], entry["dialect"]) == (str(listed), "fleet", "v1")
            listed.write_text("[{")
            broken = await until(it, lambda now: now["sources"][0]["error"])
            assert names(broken) == ["first"]
            assert "listed.json, line 1: not valid JSON" in broken["sources"][0]["error"]
            assert (
                'specwatch_discovery_failing{job="fleet",source="file_sd_configs"} 1.0' in (await it.get("/metrics"))[1]
            )
            listed.write_text(json.dumps([{"targets": [address, "no address"]}]))
            moved = await until(it, lambda now: names(now) == [address])
            assert moved["dropped"]["invalid"] == 1
            assert await it.end() == 0
    assert it.said.count("not valid JSON") == 1


async def test_a_changed_configuration_is_taken_up_and_what_needs_a_restart_is_named(tmp_path: Path):
    config = tmp_path / "sidecar.yml"
    async with serving({"/metrics": PAGE}) as url:
        config.write_text(f"target: [a={url}]\n")
        async with sidecar(*HERE, "--config", str(config)) as it:
            before = await until(it, lambda now: now["targets"][0]["up"])
            config.write_text(f"target: [a={url}, b={url}]\ntimeout: 3\ndraft_cost: 0.2\n")
            status, said = await reload(it)
            assert (status, said["changed"], said["needs_restart"]) == (200, ["target", "timeout"], ["draft_cost"])
            after = await until(it, lambda now: len(now["targets"]) == 2 and now["targets"][1]["up"])
            assert names(after) == ["a", "b"]
            assert after["targets"][0]["last_scrape"] >= before["targets"][0]["last_scrape"]
            assert (await reload(it))[1]["changed"] == []
            assert "specwatch_config_last_reload_successful 1.0" in (await it.get("/metrics"))[1]


async def test_a_bad_configuration_changes_nothing_and_says_why(tmp_path: Path):
    config = tmp_path / "sidecar.yml"
    config.write_text("target: [a=http://127.0.0.1:1]\n")
    async with sidecar(*HERE, "--config", str(config)) as it:
        config.write_text("target: [b=http://127.0.0.1:1]\nintervall: 5\n")
        status, said = await reload(it)
        assert (status, names(await targets(it))) == (409, ["a"])
        assert "intervall in" in said["detail"]
        assert "did you mean interval?" in said["detail"]
        assert "specwatch_config_last_reload_successful 0.0" in (await it.get("/metrics"))[1]
        assert await it.end() == 0
    assert "what was before stands" in it.said


async def test_a_hangup_reloads_and_does_not_end_it(tmp_path: Path):
    config = tmp_path / "sidecar.yml"
    config.write_text("target: [a=http://127.0.0.1:1]\n")
    async with sidecar(*HERE, "--config", str(config)) as it:
        await targets(it)
        config.write_text("target: [b=http://127.0.0.1:1]\n")
        it.process.send_signal(signal.SIGHUP)
        await until(it, lambda now: names(now) == ["b"])
        config.write_text("target: {")
        it.process.send_signal(signal.SIGHUP)
        config.write_text("target: [c=http://127.0.0.1:1]\n")
        it.process.send_signal(signal.SIGHUP)
        await until(it, lambda now: names(now) == ["c"])
        assert await it.end() == 0
