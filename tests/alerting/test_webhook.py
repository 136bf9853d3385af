"""Messages in the form of Alertmanager's webhooks."""

from __future__ import annotations

import json
from dataclasses import replace

from specwatch.alerting import webhook
from specwatch.alerting.delivery import Delivery
from specwatch.alerting.receivers import webhook_receiver
from specwatch.lab.sink import Sink
from tests.support.notifications import AT, COURSE, FELL, absurd, notification, server_news, with_any_name

SAMPLE = {
    "version": "",
    "groupKey": "",
    "truncatedAlerts": 0,
    "status": "",
    "receiver": "",
    "groupLabels": {},
    "commonLabels": {},
    "commonAnnotations": {},
    "externalURL": "",
    "alerts": [
        {
            "status": "",
            "labels": {},
            "annotations": {},
            "startsAt": "",
            "endsAt": "",
            "generatorURL": "",
            "fingerprint": "",
        }
    ],
}
"""Keys and types as Alertmanager documents them."""


def test_a_message_has_the_keys_and_types_of_alertmanagers_own():
    body = webhook.payload(notification())
    assert {key: type(value) for key, value in body.items()} == {key: type(value) for key, value in SAMPLE.items()}
    (alert,) = body["alerts"]
    assert {key: type(value) for key, value in alert.items()} == {
        key: type(value) for key, value in SAMPLE["alerts"][0].items()
    }


def test_it_says_what_fires_where_since_when_and_what_is_over():
    body = webhook.payload(notification(others=(server_news("gpu-4", firing=False),), left_out=7, diagnosis="Why."))
    assert (body["version"], body["status"], body["truncatedAlerts"]) == ("4", "firing", 7)
    assert body["commonLabels"] == {
        "alertname": "SpeculativeAcceptanceRateLow",
        "severity": "ticket",
        "model_name": "llama",
    }
    first, second = body["alerts"]
    assert (first["labels"]["instance"], first["status"], first["endsAt"]) == ("gpu-3", "firing", webhook.NEVER)
    assert first["startsAt"] == "2025-11-29T16:16:40+00:00"
    assert (first["annotations"]["diagnosis"], first["annotations"]["value"]) == ("Why.", "50%")
    assert first["annotations"]["runbook_url"].endswith("/SpeculativeAcceptanceRateLow.md")
    assert (second["status"], second["endsAt"]) == ("resolved", "2025-11-29T16:21:40+00:00")
    assert first["fingerprint"] != second["fingerprint"]


def test_the_end_of_an_incident_is_resolved_and_has_the_same_key_and_fingerprint():
    began, over = webhook.payload(notification()), webhook.payload(notification(firing=False))
    assert (began["status"], over["status"]) == ("firing", "resolved")
    assert began["groupKey"] == over["groupKey"]
    assert began["alerts"][0]["fingerprint"] == over["alerts"][0]["fingerprint"]


@with_any_name
def test_no_name_makes_a_message_that_cannot_be_read_or_is_too_large(name: str):
    others = tuple(server_news(name + str(number)) for number in range(99))
    text = json.dumps(webhook.payload(replace(absurd(name), others=others)), ensure_ascii=False).encode()
    assert json.loads(text)["alerts"]
    assert len(text) < 2**21


async def test_it_is_posted_with_the_token(tmp_path):
    (tmp_path / "token").write_text("VerySecretToken\n")
    (tmp_path / "token").chmod(0o600)
    async with Sink() as sink:
        receiver = webhook_receiver(sink.webhook_url, tmp_path / "token")
        async with Delivery([receiver]) as delivery:
            await delivery.send(delivery.address(notification(), AT))
        (received,) = sink.webhooks
    assert received.payload == webhook.payload(notification())
    assert receiver.headers["Authorization"].reveal() == "Bearer VerySecretToken"
    assert "VerySecret" not in repr(receiver)
    assert receiver.redact("VerySecretToken") == "***"


def test_the_last_hours_stand_with_the_server_that_they_are_of():
    body = webhook.payload(notification(others=(server_news("gpu-4"),), course=COURSE))
    told = [alert["annotations"].get("lately") for alert in body["alerts"]]
    assert told == [f"Acceptance rate, 3 h by 5 min: {FELL}", None]
