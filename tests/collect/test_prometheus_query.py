from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from specwatch.collect import prometheus_query
from specwatch.collect.http import Cause, Limits, ScrapeError, http_session
from specwatch.collect.prometheus_query import FAMILIES, Engine
from specwatch.config import SidecarConfig, load
from specwatch.errors import InputError
from tests.support.engines import V1, StandIn, engine, prometheus_says, scraped
from tests.support.http import answering, serving
from tests.support.pages import FIXTURES

HERE = "http://prometheus:9090"
PEMS = FIXTURES / "tls"


async def ask(asked: Engine, **limits: Any) -> int:
    """How many series it has."""
    async with http_session() as session:
        return len(list(await asked.ask(session, 60.0, Limits(**({"seconds": 60.0} | limits)))))


async def refusal(asked: Engine, **limits: Any) -> ScrapeError:
    with pytest.raises(ScrapeError) as caught:
        await ask(asked, **limits)
    return caught.value


def unusable(**options: Any) -> str:
    with pytest.raises(InputError) as caught:
        prometheus_query.from_config(load(SidecarConfig, None, options))
    return str(caught.value)


def test_one_question_asks_for_all_wanted_families_of_the_whole_fleet():
    query = engine(HERE, prometheus_selector='job="vllm", zone=~"eu-.+"').query(74.2)
    assert query == f'{{__name__=~"{"|".join(FAMILIES)}",job="vllm", zone=~"eu-.+"}}[75s]'
    # Names that only one release or engine has, and the names that came in their place.
    for name in (
        "vllm:inter_token_latency_seconds_count",
        "vllm:time_per_output_token_seconds_count",
        "vllm:spec_decode_efficiency",
        "vllm:gpu_prefix_cache_hits_total",
        "process_start_time_seconds",
        "up",
    ):
        assert name in FAMILIES


def test_no_family_has_a_sign_that_means_more_in_a_pattern():
    assert all(re.fullmatch(r"[a-z0-9_:]+", family) for family in FAMILIES)


async def test_the_question_is_sent_with_tenant_token_and_parameters(tmp_path: Path):
    (tmp_path / "token").write_text("s3cret\n")
    there = StandIn()
    async with serving({"/prometheus/api/v1/query": there.answer}) as url:
        section = {
            "authorization": {"credentials_file": str(tmp_path / "token")},
            "params": {"dedup": ["true"], "storeMatch[]": ["a", "b"]},
        }
        await ask(engine(f"{url}/prometheus/", prometheus_tenant="a|b", prometheus=section), seconds=7.5)
    (asked,) = there.asked
    assert asked.headers["X-Scope-OrgID"] == "a|b"
    assert asked.headers["Authorization"] == "Bearer s3cret"
    assert asked.query["timeout"] == "8s"
    assert (asked.query["dedup"], asked.query.getall("storeMatch[]")) == ("true", ["a", "b"])


async def test_a_password_is_sent_as_basic_authentication(tmp_path: Path):
    (tmp_path / "password").write_text("s3cret")
    there = StandIn()
    async with serving({"/api/v1/query": there.answer}) as url:
        basic = {"username": "me", "password_file": str(tmp_path / "password")}
        await ask(engine(url, prometheus={"basic_auth": basic}))
    assert there.asked[0].headers["Authorization"] == "Basic bWU6czNjcmV0"


async def test_an_engine_behind_tls_is_asked_by_who_trusts_its_authority():
    encryption = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    encryption.load_cert_chain(PEMS / "server.pem", PEMS / "server.key")
    there = StandIn(scraped({0.0: V1}))
    async with serving({"/api/v1/query": there.answer}, encryption=encryption) as url:
        trusting = {"tls_config": {"ca_file": str(PEMS / "authority.pem")}}
        assert await ask(engine(url, prometheus=trusting)) > 40
        assert "certificate does not hold" in str(await refusal(engine(url)))


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (
            400,
            '{"status":"error","errorType":"bad_data","error":"1:9: parse error"}',
            "parse error); is prometheus_",
        ),
        (401, "no org id\n", "(no org id); it does not know who asks"),
        (403, "", "403; who asks may not"),
        (404, "<html><body>Not found</body></html>", "404; there is no such API below this URL: Mimir's ends in"),
        (422, '{"error":"the query exceeded the limit (err-mimir-max-series-per-query)"}', "err-mimir-max-series-per"),
        (429, '{"error":"too many outstanding requests"}', "raise interval, or its limits"),
        (
            503,
            '{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}',
            "timed out",
        ),
        (502, "x" * 5000, "x…)"),
        (500, '{"error":7}', "it answers HTTP 500"),
    ],
)
async def test_an_engine_that_refuses_is_quoted_and_the_remedy_named(status: int, body: str, said: str):
    there = StandIn()
    there.failure = web.Response(body=body.encode(), status=status)
    async with serving({"/api/v1/query": there.answer}) as url:
        problem = await refusal(engine(url))
    assert (str(problem).startswith(f"{url}: it answers HTTP {status}"), problem.cause) == (True, Cause.STATUS)
    assert said in str(problem)
    assert len(str(problem)) < 500


async def test_a_redirect_is_not_followed_and_the_question_not_repeated():
    async def away(_: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/login")

    async with serving({"/api/v1/query": away}) as url:
        assert str(await refusal(engine(url))) == f"{url}: the server answers {url} with HTTP 302"


async def test_an_engine_that_is_not_there_hangs_or_says_too_much():
    assert (await refusal(engine("http://127.0.0.1:1"))).cause is Cause.CONNECTION
    async with answering(b"", close=False) as url:
        assert (await refusal(engine(url), seconds=0.3)).cause is Cause.TIMEOUT

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=prometheus_says(scraped({1.0: V1})))

    async with serving({"/api/v1/query": answer}) as url:
        assert (await refusal(engine(url), bytes=1000)).cause is Cause.SIZE
        assert await ask(engine(url)) > 40


def test_without_it_servers_are_scraped():
    assert prometheus_query.from_config(load(SidecarConfig, None, {"target": ["http://gpu-1:8000"]})) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": ["http://gpu-1:8000"]}, "from_prometheus: takes the place of target: run one sidecar for each"),
        ({"scrape_configs": [{"job_name": "vllm"}]}, "from_prometheus: takes the place of scrape_configs"),
        ({"verify_every": "1h"}, "verify_every: asks servers themselves"),
        ({"from_prometheus": "http://me:s3cret@prometheus"}, "from_prometheus: write it as http://HOST/PATH"),
        ({"from_prometheus": "prometheus:9090"}, "from_prometheus: write it as http://HOST/PATH"),
        ({"from_prometheus": "http://prometheus/?key=s3cret"}, "from_prometheus: write it as http://HOST/PATH"),
        ({"prometheus_selector": ""}, "prometheus_selector '': write it as PromQL's matchers"),
        ({"prometheus_selector": '{job="vllm"}'}, "without braces"),
        ({"prometheus_selector": "vllm"}, "without braces"),
        ({"prometheus_selector": 'job="vllm"}[1d] or up{a="b"'}, "without braces"),
        ({"prometheus_selector": '__name__=~".*"'}, "prometheus_selector: matches labels of targets"),
        ({"prometheus_selector": 'job="vllm",__name__!=""'}, "prometheus_selector: matches labels of targets"),
        ({"prometheus_tenant": "a\r\nX-Other: b"}, "prometheus_tenant: 1 to 512 printable characters"),
        ({"prometheus": {"params": {"query": ["up"]}}}, "prometheus.params: query is what the sidecar itself sets"),
        (
            {"prometheus": {"authorization": {"credentials_file": "/no/such/file"}}},
            "prometheus: credentials_file /no/such/file: no such file or directory",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_its_remedy(options: dict[str, Any], said: str):
    told = unusable(**{"from_prometheus": HERE, **options})
    assert said in told
    assert "s3cret" not in told


@pytest.mark.parametrize("key", ["prometheus_selector", "prometheus_tenant", "prometheus"])
def test_how_to_ask_needs_whom_to_ask(key: str):
    value = {} if key == "prometheus" else 'job="a"'
    assert unusable(target=["http://gpu-1:8000"], **{key: value}).startswith(
        f"{key}: says how from_prometheus is asked"
    )


@pytest.mark.parametrize(
    "selector", ['job="vllm"', "job='vllm'", 'job = "a\\"b{}" , zone!~"x|y",', 'a="",b!="1"', ' job=~"v.*" ']
)
def test_selectors_as_promql_has_them(selector: str):
    assert "{__name__=~" in engine(HERE, prometheus_selector=selector).query(60)
