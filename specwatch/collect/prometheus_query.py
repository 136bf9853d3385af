"""Asking a Prometheus, or what answers like one, for vLLM's counters as they were scraped.

The question is an instant query for a range of raw samples, ``{__name__=~"…", job="vllm"}[60s]``: the answer has every
sample with the time of its scrape, where an instant vector would have the time of the question. One question serves the
whole fleet. Mimir, Thanos and VictoriaMetrics answer it the same way.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from urllib.parse import urlencode

from specwatch.collect.credentials import Credentials
from specwatch.collect.http import Answer, Asker, Cause, Limits, ScrapeError, fetch
from specwatch.collect.prometheus_answer import Matrix
from specwatch.config import SidecarConfig
from specwatch.errors import InputError
from specwatch.scrape_config import PrometheusConfig
from specwatch.vllm.metrics import WANTED
from specwatch.vllm.requests_seen import REQUEST_SERIES

UP = "up"
"""Prometheus' own series of every target: 1 where its scrape worked."""

RENAMED = "vllm_num_requests_running"
"""Asked for so that a pipeline which turns vLLM's colons into underscores is told from a fleet that is not there."""

FAMILIES = (UP, RENAMED, *sorted(WANTED | REQUEST_SERIES))
"""What is asked for: what a scraped page is read for, and how the scrape went."""

TENANT_HEADER = "X-Scope-OrgID"
"""Mimir's and Cortex' header; several tenants stand in it with ``|`` between them."""

ANSWER_BYTES = 128 * 2**20
"""Of an answer, unpacked: five times what a thousand servers take with four samples of each of their 60 series."""

LONGEST_QUOTE = 200
"""Characters of an engine's own words that an error repeats."""

_MATCHER = r"""[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
_SELECTOR = re.compile(rf"\s*{_MATCHER}(?:\s*,\s*{_MATCHER})*\s*,?\s*")
_URL = re.compile(r"https?://[^/@?#\s]+(/[^?#\s]*)?")
_OURS = ("query", "time", "timeout")

_REMEDIES = {
    400: "is prometheus_selector as PromQL has it?",
    401: "it does not know who asks: see prometheus.authorization, prometheus.basic_auth, for Mimir prometheus_tenant",
    403: "who asks may not: see prometheus.authorization, prometheus.basic_auth and prometheus_tenant",
    404: "there is no such API below this URL: Mimir's ends in /prometheus, a VictoriaMetrics cluster's in "
    "/select/0/prometheus",
    413: "narrow prometheus_selector, and run a sidecar for each part",
    422: "if that is too much, narrow prometheus_selector and run a sidecar for each part, or raise its limits",
    429: "raise interval, or its limits",
}
"""What to do about a status."""


@dataclass(frozen=True)
class Engine:
    """Where counters are asked for, and how."""

    url: str
    """Without the path of the API."""
    selector: str
    tenant: str | None
    config: PrometheusConfig
    credentials: Credentials

    async def ask(self, session: Asker, seconds: float, limits: Limits) -> Matrix:
        """Every wanted series with its samples of the last ``seconds``; ScrapeError with a remedy where there is none.

        What is wrong inside of the answer shows as it is read.
        """
        parameters = {"query": self.query(seconds), "timeout": f"{math.ceil(limits.seconds)}s"}
        url = f"{self.url}/api/v1/query?{urlencode({**self.config.params, **parameters}, doseq=True)}"
        headers = {"Accept": "application/json", **({TENANT_HEADER: self.tenant} if self.tenant else {})}
        try:
            answer = await fetch(session, url, limits, self.credentials, headers, also=range(400, 600))
        except ScrapeError as problem:
            raise ScrapeError(f"{self.url}: {str(problem).replace(url, self.url)}", problem.cause) from None
        if answer.status != 200:
            raise ScrapeError(f"{self.url}: {_refusal(answer)}", Cause.STATUS)
        return Matrix(answer.body, self.url)

    def query(self, seconds: float) -> str:
        """The question in PromQL."""
        return f'{{__name__=~"{"|".join(FAMILIES)}",{self.selector}}}[{math.ceil(seconds)}s]'


def from_config(config: SidecarConfig) -> Engine | None:
    """Where to ask, None where servers are scraped; InputError for what does not go together or cannot be used."""
    if config.from_prometheus is None:
        for key in ("prometheus", "prometheus_selector", "prometheus_tenant"):
            if key in config.model_fields_set:
                raise InputError(f"{key}: says how from_prometheus is asked, which is missing")
        return None
    if config.target or config.scrape_configs:
        both = "target" if config.target else "scrape_configs"
        raise InputError(f"from_prometheus: takes the place of {both}: run one sidecar for each")
    if config.verify_every:
        raise InputError("verify_every: asks servers themselves, which are not known with from_prometheus")
    if not _URL.fullmatch(config.from_prometheus):
        raise InputError("from_prometheus: write it as http://HOST/PATH; credentials do not belong into it")
    how = config.prometheus
    if mine := [name for name in how.params if name in _OURS]:
        raise InputError(f"prometheus.params: {mine[0]} is what the sidecar itself sets")
    selector, tenant = _selector(config.prometheus_selector), _tenant(config.prometheus_tenant)
    credentials = Credentials(how)
    try:
        credentials.terms()
    except InputError as problem:
        raise InputError(f"prometheus: {problem}") from None
    return Engine(config.from_prometheus.rstrip("/"), selector, tenant, how, credentials)


def _selector(text: str) -> str:
    if not _SELECTOR.fullmatch(text):
        raise InputError(
            f"prometheus_selector {text[:60]!r}: write it as PromQL's matchers without braces, such as "
            'job="vllm",cluster="eu"'
        )
    if re.search(r"(?:^|,)\s*__name__\s*[=!]", text):
        raise InputError("prometheus_selector: matches labels of targets; which series are read is not for it to say")
    return text.strip().rstrip(",").strip()


def _tenant(text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"[\x21-\x7e]{1,512}", text):
        raise InputError("prometheus_tenant: 1 to 512 printable characters without spaces; several tenants as a|b")
    return text


def _refusal(answer: Answer) -> str:
    """What an engine that refuses says, and what can be done."""
    remedy = _REMEDIES.get(answer.status, "")
    said = _said(answer.body)
    return f"it answers HTTP {answer.status}" + (f" ({said})" if said else "") + (f"; {remedy}" if remedy else "")


def _said(body: bytes) -> str:
    """Its own words: the error of Prometheus' API, or a line of text; no page of HTML."""
    text = body[: 2**16].decode("utf-8", "replace")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = text
    words = told.get("error") if isinstance(told, dict) else told
    line = " ".join(words.split()) if isinstance(words, str) and not words.lstrip().startswith("<") else ""
    return line if len(line) <= LONGEST_QUOTE else f"{line[: LONGEST_QUOTE - 1]}…"
