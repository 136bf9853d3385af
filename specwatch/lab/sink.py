"""A server on this machine that stands in for Slack's webhooks and Web API, PagerDuty's Events API v2 and any webhook.

It takes what the companies take, refuses what they refuse (``sink_limits``), with their status codes and bodies,
keeps what it took, and fails when it is told to. Alertmanager may post to it as well as specwatch.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from types import TracebackType
from typing import Any

from aiohttp import web

from specwatch.lab.sink_limits import pagerduty_errors, slack_refusal
from specwatch.lab.sink_slack_api import SlackChannel
from specwatch.lab.sink_text import MessageText, pagerduty_text, slack_text

SLACK_PATH = "/services/T00000000/B00000000/SinkSinkSinkSinkSinkSink"
"""Path of a webhook as Slack makes them: workspace, app, secret."""

SLACK_API_PATH = "/api"

PAGERDUTY_PATH = "/v2/enqueue"

WEBHOOK_PATH = "/hook"

LARGEST_REQUEST = 2**20
"""Bytes; beyond PagerDuty's 512 kB, so that the refusal is PagerDuty's and not the server's."""


class Service(str, Enum):
    """Whom a request was meant for."""

    SLACK = "slack"
    PAGERDUTY = "pagerduty"
    WEBHOOK = "webhook"


@dataclass(frozen=True)
class Received:
    """A message that was taken, with the Unix time of its arrival."""

    at: float
    service: Service
    payload: dict[str, Any]

    @property
    def text(self) -> MessageText:
        """The message as a person reads it."""
        return pagerduty_text(self.payload) if self.service is Service.PAGERDUTY else slack_text(self.payload)


@dataclass(frozen=True)
class Refused:
    """A request that was not taken."""

    at: float
    service: Service
    status: int
    reason: str


@dataclass
class _Failure:
    remaining: int
    status: int
    retry_after: str | None
    service: Service | None


class Sink:
    """All services on one port of 127.0.0.1; use it with ``async with``.

    ``keep`` bounds how many messages of a service and refusals are remembered: the oldest go first.
    ``on_received`` is called with every message that is taken.
    """

    def __init__(
        self, port: int = 0, *, keep: int = 1000, on_received: Callable[[Received], None] | None = None
    ) -> None:
        """Port 0 takes a free one."""
        self.slack: list[Received] = []
        self.pagerduty: list[Received] = []
        self.webhooks: list[Received] = []
        self.channel = SlackChannel()
        """What was posted through Slack's Web API."""
        self.refused: list[Refused] = []
        self.outage: int | None = None
        """Status with which everything is refused while it is set."""
        self._port = port
        self._keep = keep
        self._on_received = on_received
        self._failures: list[_Failure] = []
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it listens, while it is open."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def slack_url(self) -> str:
        """Address of a Slack webhook."""
        return self.url + SLACK_PATH

    @property
    def pagerduty_url(self) -> str:
        """Address that takes PagerDuty's events."""
        return self.url + PAGERDUTY_PATH

    @property
    def slack_api_url(self) -> str:
        """Address of Slack's Web API."""
        return self.url + SLACK_API_PATH

    @property
    def webhook_url(self) -> str:
        """Address that takes any JSON."""
        return self.url + WEBHOOK_PATH

    def fail_next(
        self, count: int, status: int, *, retry_after: str | int | None = None, service: Service | None = None
    ) -> None:
        """Answer the next ``count`` requests, to one service or to any, with this status instead of reading them."""
        header = None if retry_after is None else str(retry_after)
        self._failures.append(_Failure(count, status, header, service))

    async def __aenter__(self) -> Sink:
        """Start listening."""
        app = web.Application(client_max_size=LARGEST_REQUEST)
        app.router.add_post("/services/{workspace}/{app}/{secret}", self._take_slack)
        app.router.add_post(SLACK_API_PATH + "/{method:chat\\.(postMessage|update)}", self._take_call)
        app.router.add_post(PAGERDUTY_PATH, self._take_pagerduty)
        app.router.add_post(WEBHOOK_PATH, self._take_webhook)
        app.router.add_post("/{path:.*}", _answer_no_service)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening; what was received stays."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _take_slack(self, request: web.Request) -> web.Response:
        failure = self._told_to_fail(Service.SLACK)
        if failure is not None:
            return failure
        message = _parse(await request.read())
        refusal = slack_refusal(message)
        if refusal is not None:
            return self._refuse(Service.SLACK, HTTPStatus.BAD_REQUEST, refusal, web.Response(status=400, text=refusal))
        self._take(self.slack, Service.SLACK, message)
        return web.Response(text="ok")

    async def _take_call(self, request: web.Request) -> web.Response:
        failure = self._told_to_fail(Service.SLACK)
        if failure is not None:
            return failure
        arguments = _parse(await request.read())
        answer = self.channel.call(request.match_info["method"], request.headers.get("Authorization", ""), arguments)
        if not answer["ok"]:
            return self._refuse(Service.SLACK, HTTPStatus.OK, answer["error"], web.json_response(answer))
        return web.json_response(answer)

    async def _take_webhook(self, request: web.Request) -> web.Response:
        failure = self._told_to_fail(Service.WEBHOOK)
        if failure is not None:
            return failure
        message = _parse(await request.read())
        if not isinstance(message, dict):
            return self._refuse(Service.WEBHOOK, HTTPStatus.BAD_REQUEST, "no JSON", web.Response(status=400))
        self._take(self.webhooks, Service.WEBHOOK, message)
        return web.Response(text="thanks")

    async def _take_pagerduty(self, request: web.Request) -> web.Response:
        failure = self._told_to_fail(Service.PAGERDUTY)
        if failure is not None:
            return failure
        body = await request.read()
        event = _parse(body)
        errors = pagerduty_errors(event, len(body))
        if errors:
            answer = {"status": "invalid event", "message": "Event object is invalid", "errors": errors}
            response = web.json_response(answer, status=HTTPStatus.BAD_REQUEST)
            return self._refuse(Service.PAGERDUTY, HTTPStatus.BAD_REQUEST, "; ".join(errors), response)
        self._take(self.pagerduty, Service.PAGERDUTY, event)
        key = event.get("dedup_key") or uuid.uuid4().hex
        answer = {"status": "success", "message": "Event processed", "dedup_key": key}
        return web.json_response(answer, status=HTTPStatus.ACCEPTED)

    def _take(self, kept: list[Received], service: Service, payload: dict[str, Any]) -> None:
        received = Received(time.time(), service, payload)
        kept.append(received)
        del kept[: -self._keep]
        if self._on_received is not None:
            self._on_received(received)

    def _refuse(self, service: Service, status: int, reason: str, response: web.Response) -> web.Response:
        self.refused.append(Refused(time.time(), service, status, reason))
        del self.refused[: -self._keep]
        return response

    def _told_to_fail(self, service: Service) -> web.Response | None:
        if self.outage is not None:
            return self._refuse(service, self.outage, "outage", web.Response(status=self.outage, text="outage"))
        for failure in self._failures:
            if failure.service in (None, service):
                failure.remaining -= 1
                self._failures = [entry for entry in self._failures if entry.remaining > 0]
                headers = {} if failure.retry_after is None else {"Retry-After": failure.retry_after}
                response = web.Response(status=failure.status, text="told to fail", headers=headers)
                return self._refuse(service, failure.status, "told to fail", response)
        return None


async def _answer_no_service(request: web.Request) -> web.Response:
    """What Slack says to the address of a webhook that does not exist."""
    return web.Response(status=HTTPStatus.NOT_FOUND, text="no_service")


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
