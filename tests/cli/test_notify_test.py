"""``specwatch notify-test`` as people run it, against the sink and against nobody."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specwatch.alerting.trial import TEST
from specwatch.cli import notify_test
from specwatch.errors import InputError, SpecwatchError
from specwatch.lab.sink import Service, Sink
from specwatch.lab.sink_slack_api import CHANNEL
from specwatch.lab.sink_text import slack_text
from tests.alerting.test_alertmanager import quiet_configuration, shown
from tests.support.alertmanager import alertmanager

TOKEN = "xoxb-1-VerySecretToken"  # noqa: S105


def configured(folder: Path, sink: Sink) -> Path:
    """A sidecar's file with every receiver."""
    secrets = {"hook": sink.slack_url, "bot": TOKEN, "key": "0123456789abcdefVERYSECRET012345"}
    for name, secret in secrets.items():
        (folder / name).write_text(secret)
        (folder / name).chmod(0o600)
    path = folder / "sidecar.yml"
    path.write_text(
        f"target: [http://127.0.0.1:9/metrics]\nslack_webhook_file: {folder / 'hook'}\n"
        f"slack_bot_token_file: {folder / 'bot'}\nslack_channel: {CHANNEL}\nslack_api_url: {sink.slack_api_url}\n"
        f"pagerduty_routing_key_file: {folder / 'key'}\npagerduty_url: {sink.pagerduty_url}\n"
        f"webhook_url: {sink.webhook_url}\n"
    )
    return path


async def tried(*words: str | Path) -> Result:
    """The command, run to its end beside the servers of the test."""
    arguments = [str(word) for word in words]
    return await asyncio.to_thread(lambda: CliRunner().invoke(notify_test.command, arguments))


async def test_every_receiver_gets_a_message_that_says_it_is_a_test_and_its_end(tmp_path):
    async with Sink() as sink:
        result = await tried("--config", configured(tmp_path, sink))
    assert result.output == "slack: taken\nslack-bot: taken\npagerduty: taken\nwebhook: taken\n"
    assert result.exit_code == 0
    assert [message.text.title for message in sink.slack] == [
        f"🟠 Firing: {TEST.summary}",
        f"🟢 Resolved: {TEST.summary}",
    ]
    head, reply = sink.channel.messages.values()
    assert reply["thread_ts"] == head["ts"]
    assert "TEST" in slack_text(head).title
    events = [message.payload for message in sink.pagerduty]
    assert [event["event_action"] for event in events] == ["trigger", "resolve"]
    assert events[0]["dedup_key"] == events[1]["dedup_key"]
    assert events[0]["payload"]["severity"] == "warning"
    assert [message.payload["status"] for message in sink.webhooks] == ["firing", "resolved"]
    assert sink.refused == []


async def test_it_says_who_did_not_take_it_and_why_without_a_secret(tmp_path):
    async with Sink() as sink:
        sink.fail_next(1, 403, service=Service.PAGERDUTY)
        sink.fail_next(1, 503, service=Service.WEBHOOK)
        result = await tried("--config", configured(tmp_path, sink), "--slack-channel", "C0ELSEWHERE")
    slack, bot, pagerduty, webhook = result.output.splitlines()
    assert slack == "slack: taken"
    assert bot.startswith('slack-bot: HTTP 200 {"ok": false, "error": "channel_not_found"}')
    assert (pagerduty, webhook) == ("pagerduty: HTTP 403 told to fail", "webhook: HTTP 503 told to fail")
    assert isinstance(result.exception, SpecwatchError)
    assert str(result.exception) == "3 of 4 receivers did not take the test"
    assert "secret" not in result.output.lower()


async def test_an_end_that_is_not_taken_is_told_apart(tmp_path):
    async with Sink() as sink:
        path = configured(tmp_path, sink)
        sink._on_received = lambda received: sink.fail_next(1, 500, service=received.service)
        result = await tried("--config", path)
    assert "pagerduty: it began, and could not be ended: HTTP 500 told to fail" in result.output


async def test_nobody_there_is_said_and_not_waited_for(tmp_path):
    async with Sink() as sink:
        path = configured(tmp_path, sink)
    result = await tried("--config", path)
    assert result.output.count("no connection: Connection refused") == 4


def test_without_a_receiver_there_is_nothing_to_try():
    result = CliRunner().invoke(notify_test.command, [])
    assert isinstance(result.exception, InputError)
    assert "--slack-webhook-file" in str(result.exception)


def test_receivers_may_come_from_the_sidecars_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECWATCH_SIDECAR_SLACK_WEBHOOK_FILE", str(tmp_path / "missing"))
    result = CliRunner().invoke(notify_test.command, [])
    assert isinstance(result.exception, InputError)
    assert "missing: no such file" in str(result.exception)


@pytest.mark.services
async def test_an_alertmanager_has_the_test_as_an_alert(tmp_path):
    async with alertmanager(tmp_path, quiet_configuration(tmp_path)) as url:
        result = await tried("--alertmanager", url)
        (alert,) = (await shown(url)).values()
    assert result.output == f"alertmanager {url.removeprefix('http://')}: taken\n"
    assert alert["labels"]["alertname"] == "SpecwatchTest"
    assert alert["annotations"]["summary"].startswith("TEST")
