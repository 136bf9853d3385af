"""Receivers from secret files: what is refused, what is warned of, and that no secret shows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from specwatch.alerting import pagerduty
from specwatch.alerting.receivers import Receiver, pagerduty_receiver, receivers, slack_receiver
from specwatch.config import SidecarConfig
from specwatch.errors import InputError
from tests.support.notifications import notification

HOOK = "https://hooks.slack.com/services/T0/B0/VerySecretToken"
KEY = "0123456789abcdefVERYSECRET012345"


def secret_file(folder: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


def body(receiver: Receiver) -> Mapping[str, Any]:
    """What is posted about a notification."""
    (post,) = receiver.posts(notification(), None)
    return post.body


def test_a_webhook_is_read_from_its_file_without_the_newline(tmp_path: Path):
    receiver = slack_receiver(secret_file(tmp_path, HOOK + "\n"))

    assert receiver.url.reveal() == HOOK
    assert receiver.name == "slack"


def test_a_routing_key_goes_into_every_event(tmp_path: Path):
    receiver = pagerduty_receiver(secret_file(tmp_path, f" {KEY}\r\n"))

    assert body(receiver)["routing_key"] == KEY
    assert receiver.url.reveal() == pagerduty.EVENTS_URL


def test_only_receivers_with_a_file_are_built(tmp_path: Path):
    hook = secret_file(tmp_path, HOOK)

    assert receivers(SidecarConfig()) == ()
    assert [receiver.name for receiver in receivers(SidecarConfig(slack_webhook_file=hook))] == ["slack"]


def test_both_receivers_are_built_and_pagerduty_may_be_elsewhere(tmp_path: Path):
    (tmp_path / "slack").write_text(HOOK)
    (tmp_path / "pagerduty").write_text(KEY)

    found = receivers(
        SidecarConfig(
            slack_webhook_file=tmp_path / "slack",
            pagerduty_routing_key_file=tmp_path / "pagerduty",
            pagerduty_url="http://127.0.0.1:9/v2/enqueue",
        )
    )

    assert [receiver.name for receiver in found] == ["slack", "pagerduty"]
    assert [receiver.is_local for receiver in found] == [False, True]


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(InputError, match=f"--slack-webhook-file {tmp_path}/missing: no such file"):
        slack_receiver(tmp_path / "missing")


def test_a_folder_is_no_secret(tmp_path: Path):
    with pytest.raises(InputError, match="directory"):
        pagerduty_receiver(tmp_path)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file_is_named(tmp_path: Path, text: str):
    with pytest.raises(InputError, match=r"--pagerduty-routing-key-file .*secret: the file is empty"):
        pagerduty_receiver(secret_file(tmp_path, text))


def test_a_file_that_is_not_text_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="no text"):
        slack_receiver(secret_file(tmp_path, b"\xff\xfe\x00"))


@pytest.mark.parametrize("key", [KEY[:-1], KEY + "0", KEY[:-1] + "-", KEY[:-1] + "é"])
def test_a_routing_key_of_the_wrong_shape_is_refused_without_showing_it(tmp_path: Path, key: str):
    with pytest.raises(InputError, match=f"secret: .*32.*has {len(key)} characters") as refused:
        pagerduty_receiver(secret_file(tmp_path, key))

    assert "VERYSECRET" not in str(refused.value)


@pytest.mark.parametrize(
    "hook",
    [
        "VerySecretToken",
        "ftp://hooks.slack.com/VerySecretToken",
        "https://",
        "https://[VerySecretToken",
        "https://hooks.slack.com:port/VerySecretToken",
        "https://hooks.slack.com/Very SecretToken",
    ],
)
def test_a_webhook_of_the_wrong_shape_is_refused_without_showing_it(tmp_path: Path, hook: str):
    with pytest.raises(InputError, match="secret: expected the address of a Slack webhook") as refused:
        slack_receiver(secret_file(tmp_path, hook))

    assert "Token" not in str(refused.value)


@pytest.mark.parametrize("text", [f"{HOOK}\n{HOOK}", HOOK * 100])
def test_more_than_one_line_is_no_secret(tmp_path: Path, text: str):
    with pytest.raises(InputError, match="secret: a single line") as refused:
        slack_receiver(secret_file(tmp_path, text))

    assert "Token" not in str(refused.value)


def test_a_url_for_pagerduty_that_is_none_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="PagerDuty URL"):
        pagerduty_receiver(secret_file(tmp_path, KEY), "events.eu.pagerduty.com")


def test_a_secret_that_everybody_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = secret_file(tmp_path, HOOK, mode=0o644)

    slack_receiver(path)

    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"chmod 600 {path}" in caplog.text


def test_a_private_secret_is_not_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    slack_receiver(secret_file(tmp_path, HOOK, mode=0o640))

    assert caplog.records == []


def test_a_secret_that_would_leave_the_machine_unencrypted_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    slack_receiver(secret_file(tmp_path, HOOK.replace("https", "http")))

    assert "unencrypted" in caplog.text
    assert "Token" not in caplog.text


def test_receivers_do_not_show_their_secrets(tmp_path: Path):
    hook = slack_receiver(secret_file(tmp_path, HOOK))
    shown = [repr(hook), str(hook), f"{hook.url}", repr(hook.secrets)]
    key = pagerduty_receiver(secret_file(tmp_path, KEY))
    shown += [repr(key), str(key), f"{key.secrets}"]

    assert not [text for text in shown if "VerySecret" in text or "VERYSECRET" in text]


def test_an_answer_that_repeats_a_secret_is_redacted(tmp_path: Path):
    hook = slack_receiver(secret_file(tmp_path, HOOK))
    key = pagerduty_receiver(secret_file(tmp_path, KEY))

    assert hook.redact(f"no {HOOK}, /services/T0/B0/VerySecretToken") == "no ***, ***"
    assert key.redact(f"unknown key {KEY}") == "unknown key ***"
