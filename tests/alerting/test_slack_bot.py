"""A bot at Slack's Web API, over real sockets to the sink: an incident is a message and its thread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from specwatch.alerting import slack_bot
from specwatch.alerting.delivery import Delivery, Health
from specwatch.alerting.notification import Notification
from specwatch.alerting.receivers import Receiver, slack_bot_receiver
from specwatch.errors import InputError
from specwatch.lab.sink import Sink
from specwatch.lab.sink_slack_api import CHANNEL
from specwatch.lab.sink_text import slack_text
from tests.support.notifications import AT, absurd, notification, server_news, with_any_name

TOKEN = "xoxb-1-VerySecretToken"  # noqa: S105


@pytest_asyncio.fixture
async def sink() -> AsyncIterator[Sink]:
    async with Sink() as open_sink:
        yield open_sink


def bot(sink: Sink, folder: Path, channel: str = CHANNEL, token: str = TOKEN) -> Receiver:
    path = folder / "token"
    path.write_text(token + "\n")
    path.chmod(0o600)
    return slack_bot_receiver(path, channel, sink.slack_api_url)


async def no_pause(seconds: float) -> None:
    """Wait for nothing."""


async def tell(receiver: Receiver, *messages: Notification, **settings: Any) -> Delivery:
    async with Delivery([receiver], sleep=no_pause, **({"timeout": 60, "drain_seconds": 60} | settings)) as delivery:
        for message in messages:
            await delivery.send(delivery.address(message, AT))
    return delivery


def shown(sink: Sink) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages of the channel, and those of threads."""
    messages = list(sink.channel.messages.values())
    return [one for one in messages if "thread_ts" not in one], [one for one in messages if "thread_ts" in one]


async def test_an_incident_is_one_message_that_is_kept_up_to_date_and_its_thread(sink, tmp_path):
    began = notification(diagnosis="The traffic changed.")
    grew = notification(others=(server_news("gpu-4"),), diagnosis="The traffic changed twice.")
    over = notification(firing=False, description="The condition no longer holds.", at=AT + 600)

    delivery = await tell(bot(sink, tmp_path), began, grew, over)

    ((head,), replies) = shown(sink)
    assert [slack_text(reply).title for reply in replies] == [
        "🟠 Firing: Draft acceptance is low on gpu-3, and on 1 more",
        "🟢 Resolved: Draft acceptance is low on gpu-3",
    ]
    assert {reply["thread_ts"] for reply in replies} == {head["ts"]}
    assert slack_text(head).title == "🟢 Resolved: Draft acceptance is low on gpu-3"
    assert "The traffic changed twice." in str(head)
    assert delivery.statuses()[0].sent == 3
    assert delivery.threads() == {}
    assert sink.refused == []


async def test_another_incident_is_another_thread(sink, tmp_path):
    await tell(bot(sink, tmp_path), notification(), notification(target="gpu-9"), notification(firing=False))
    heads, replies = shown(sink)
    assert [slack_text(head).title for head in heads] == [
        "🟢 Resolved: Draft acceptance is low on gpu-3",
        "🟠 Firing: Draft acceptance is low on gpu-9",
    ]
    assert [reply["thread_ts"] for reply in replies] == [heads[0]["ts"]]


async def test_an_incident_that_fires_again_after_its_end_is_a_new_message(sink, tmp_path):
    await tell(bot(sink, tmp_path), notification(), notification(firing=False), notification())
    heads, _ = shown(sink)
    assert len(heads) == 2


async def test_the_channel_may_be_a_name_although_an_update_needs_its_id(sink, tmp_path):
    await tell(bot(sink, tmp_path, channel="#specwatch"), notification(), notification(firing=False))
    ((_,), (reply,)) = shown(sink)
    assert reply["channel"] == CHANNEL
    assert sink.refused == []


async def test_a_head_that_can_no_longer_be_edited_does_not_keep_the_news_back(sink, tmp_path):
    receiver = bot(sink, tmp_path)
    async with Delivery([receiver], sleep=no_pause, timeout=60, drain_seconds=60) as delivery:
        await delivery.send(delivery.address(notification(), AT))
        while delivery.waiting():
            await asyncio.sleep(0.001)
        sink.channel.is_closed = True
        await delivery.send(delivery.address(notification(firing=False), AT))
    ((head,), (reply,)) = shown(sink)
    assert ("Firing" in slack_text(head).title, "Resolved" in slack_text(reply).title) == (True, True)
    assert delivery.statuses()[0].sent == 2


async def test_a_failure_between_update_and_reply_is_made_good_and_the_reply_comes_once(sink, tmp_path):
    receiver = bot(sink, tmp_path)
    async with Delivery([receiver], sleep=no_pause, timeout=60, drain_seconds=60) as delivery:
        await delivery.send(delivery.address(notification(), AT))
        while delivery.waiting():
            await asyncio.sleep(0.001)
        posts = receiver.posts
        calls: list[int] = []

        def fail_the_reply_once(message: Notification, thread: str | None) -> Any:
            calls.append(1)
            update, reply = posts(message, thread)
            yield update
            if len(calls) == 1:
                sink.fail_next(1, 503)
            yield reply

        object.__setattr__(receiver, "posts", fail_the_reply_once)
        await delivery.send(delivery.address(notification(firing=False), AT))
    ((_,), replies) = shown(sink)
    assert (len(calls), len(replies)) == (2, 1)


@pytest.mark.parametrize("error", ["ratelimited", "internal_error", "service_unavailable"])
def test_what_slack_asks_to_repeat_is_repeated(error):
    assert not slack_bot.is_final(slack_bot.error_of(200, json.dumps({"ok": False, "error": error})) or "")


@pytest.mark.parametrize(
    "body", ["", "ok", "[]", "null", "<html>", '{"ok": true}', '{"ok": true, "channel": 1, "ts": 2}']
)
def test_an_answer_that_is_not_slacks_takes_nothing_and_ends_nothing(body):
    error = slack_bot.error_of(200, body)
    assert error == ""
    assert not slack_bot.is_final(error)


async def test_a_refusal_for_good_is_a_dead_letter_that_says_why(sink, tmp_path):
    delivery = await tell(bot(sink, tmp_path, channel="C0ELSEWHERE"), notification())
    (status,) = delivery.statuses()
    assert (status.failed, status.health) == (1, Health.LOSING)
    assert "channel_not_found" in status.dead_letters[0].reason


async def test_an_end_that_is_refused_for_good_leaves_no_thread_behind(sink, tmp_path):
    receiver = bot(sink, tmp_path)
    async with Delivery([receiver], sleep=no_pause, timeout=60, drain_seconds=60) as delivery:
        await delivery.send(delivery.address(notification(), AT))
        while delivery.waiting():
            await asyncio.sleep(0.001)
        assert len(delivery.threads()) == 1
        sink.fail_next(1, 403)
        await delivery.send(delivery.address(notification(firing=False), AT))
    assert delivery.statuses()[0].failed == 1
    assert delivery.threads() == {}


async def test_a_rate_limit_is_waited_for(sink, tmp_path):
    sink.fail_next(1, 429, retry_after=30)
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async with Delivery([bot(sink, tmp_path)], sleep=pause, timeout=60, drain_seconds=60) as delivery:
        await delivery.send(delivery.address(notification(), AT))
    assert pauses == [30.0]
    assert len(sink.channel.messages) == 1


@with_any_name
async def test_no_name_breaks_head_or_thread(sink, tmp_path, name):
    await tell(bot(sink, tmp_path), absurd(name), absurd(name, firing=False))
    assert sink.refused == []
    assert len(sink.channel.messages) == 2


async def test_a_large_answer_of_slack_is_read_to_its_end(sink, tmp_path):
    others = tuple(server_news("日" * 90 + str(number)) for number in range(99))
    await tell(bot(sink, tmp_path), notification(others=others, diagnosis="日" * 3000, description="日" * 3000))
    assert len(sink.channel.messages) == 1


@pytest.mark.parametrize("token", ["xoxp-1-VerySecretToken", "VerySecretToken", "xoxb-Very SecretToken", "xoxb-é"])
def test_a_token_that_is_no_bots_is_refused_without_showing_it(tmp_path, token):
    path = tmp_path / "token"
    path.write_text(token)
    with pytest.raises(InputError, match="xoxb-") as refused:
        slack_bot_receiver(path, CHANNEL)
    assert "Secret" not in str(refused.value)


@pytest.mark.parametrize("channel", [None, "", "  "])
def test_a_bot_needs_a_channel(tmp_path, channel):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    with pytest.raises(InputError, match="--slack-channel"):
        slack_bot_receiver(path, channel)


async def test_the_token_shows_nowhere(sink, tmp_path, caplog):
    sink.fail_next(1, 400)
    receiver = bot(sink, tmp_path)
    delivery = await tell(receiver, notification())
    assert "VerySecret" not in caplog.text + repr(receiver) + repr(delivery.statuses())
    assert receiver.redact(f"no {TOKEN}") == "no ***"
