from __future__ import annotations

import asyncio
import gzip
import socket
from urllib.parse import urlsplit

import aiohttp
import pytest

from specwatch.errors import InputError
from specwatch.lab.fleet import Fleet
from specwatch.lab.scenario import Failure, Phase
from specwatch.lab.simulator import SimulatedServer, demo_fleet
from tests.lab.pages import total

DRAFTS = "vllm:spec_decode_num_drafts_total"


async def get(url: str, **options: object) -> str:
    async with aiohttp.ClientSession() as session, session.get(url, **options) as response:
        response.raise_for_status()
        return await response.text()


async def test_every_server_has_an_address_of_its_own_on_the_loopback():
    servers = [SimulatedServer(f"s{index}", model_name=f"model-{index}") for index in range(3)]
    async with Fleet(servers, speed=0) as fleet:
        assert len(set(fleet.urls)) == 3
        for index, url in enumerate(fleet.urls):
            assert url.startswith("http://127.0.0.1:")
            assert total(await get(f"{url}/metrics"), DRAFTS, model_name=f"model-{index}") == 0


async def test_servers_can_share_a_port_and_be_told_apart_by_path():
    servers = [SimulatedServer(name, model_name=name) for name in ("one", "two")]
    async with Fleet(servers, speed=0, one_port=True) as fleet:
        assert [urlsplit(url).path for url in fleet.urls] == ["/one", "/two"]
        assert len({urlsplit(url).port for url in fleet.urls}) == 1
        assert total(await get(f"{fleet.urls[1]}/metrics"), DRAFTS, model_name="two") == 0
        with pytest.raises(aiohttp.ClientResponseError, match="404"):
            await get(f"{fleet.urls[1]}-and-a-half/metrics")


async def test_servers_answer_what_vllm_answers():
    async with Fleet([SimulatedServer("s", model_name="m")], speed=0) as fleet, aiohttp.ClientSession() as session:
        url = fleet.urls[0]
        async with session.get(f"{url}/metrics", headers={"Accept": "application/openmetrics-text"}) as response:
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        async with session.get(f"{url}/health") as response:
            assert (response.status, await response.read()) == (200, b"")
        async with session.get(f"{url}/version") as response:
            assert await response.json() == {"version": "0.32.0"}
        async with session.get(f"{url}/v1/models") as response:
            assert (await response.json())["data"][0]["id"] == "m"
        page = await get(f"{url}/metrics")
        assert total(page, "http_requests_total", handler="/v1/models") == 1


async def test_a_page_is_compressed_only_for_those_who_ask():
    async with Fleet([SimulatedServer("s")], speed=0) as fleet, aiohttp.ClientSession(auto_decompress=False) as session:
        url = f"{fleet.urls[0]}/metrics"
        async with session.get(url, headers={"Accept-Encoding": "gzip"}) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            small = await response.read()
        async with session.get(url, headers={"Accept-Encoding": "identity"}) as response:
            assert "Content-Encoding" not in response.headers
            assert gzip.decompress(small) == await response.read()


async def test_stepped_time_moves_only_when_told():
    async with Fleet([SimulatedServer("s")], speed=0) as fleet:
        url = f"{fleet.urls[0]}/metrics"
        assert total(await get(url), DRAFTS) == 0
        fleet.advance(30)
        page = await get(url)
        assert total(page, DRAFTS) == fleet.servers[0].truth().drafts > 0
        assert await get(url) == page


async def test_accelerated_time_passes_by_the_factor():
    servers = [SimulatedServer("s", running=0)]
    async with Fleet(servers, speed=1000) as fleet:
        begin = asyncio.get_running_loop().time()
        before = fleet.elapsed
        await asyncio.sleep(0.05)
        after = fleet.elapsed
        real = asyncio.get_running_loop().time() - begin
        # the sleep lasts at least 0.05 s (less the clock's resolution), and no longer than the two readings around it
        assert 49.9 <= after - before <= 1000 * real + 0.1
        await get(f"{fleet.urls[0]}/metrics")
        assert servers[0].now >= after


async def test_phases_are_entered_by_all_servers_at_the_present():
    async with Fleet(demo_fleet(drifting=1), speed=0) as fleet:
        fleet.advance(10)
        fleet.enter("foreign")
        assert [server.phase.name for server in fleet.servers] == ["foreign"] * 3
        fleet.apply(Phase(running=0))
        fleet.advance(60)
        assert total(await get(f"{fleet.urls[0]}/metrics"), "vllm:num_requests_running") == 0


def failing(failure: Failure) -> SimulatedServer:
    server = SimulatedServer("s")
    server.advance(5)
    server.failure = failure
    return server


async def test_a_server_error_is_a_500():
    async with Fleet([failing(Failure.SERVER_ERROR)], speed=0) as fleet:
        with pytest.raises(aiohttp.ClientResponseError, match="500"):
            await get(f"{fleet.urls[0]}/metrics")


async def test_a_server_that_hangs_accepts_and_never_answers_and_does_not_keep_the_fleet_open():
    async with Fleet([failing(Failure.HANG)], speed=0) as fleet:
        address = urlsplit(fleet.urls[0])
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await writer.drain()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.2)
    writer.close()


async def test_a_truncated_page_is_half_of_the_page():
    server = failing(Failure.TRUNCATED)
    async with Fleet([server], speed=0) as fleet:
        page = await get(f"{fleet.urls[0]}/metrics")
    whole = server.page()
    assert whole.startswith(page)
    assert 0.4 < len(page) / len(whole) < 0.6


async def test_a_page_that_is_cut_off_breaks_the_transfer():
    async with Fleet([failing(Failure.CUT_OFF)], speed=0) as fleet:
        with pytest.raises(aiohttp.ClientPayloadError):
            await get(f"{fleet.urls[0]}/metrics")


async def test_garbage_is_a_page_that_holds_no_metric():
    async with Fleet([failing(Failure.GARBAGE)], speed=0) as fleet:
        assert (await get(f"{fleet.urls[0]}/metrics")).startswith("<!doctype html>")


async def test_a_server_that_is_down_drops_connections_on_every_path():
    async with Fleet([failing(Failure.DOWN)], speed=0) as fleet:
        for path in ("/metrics", "/health"):
            with pytest.raises(aiohttp.ClientError):
                await get(fleet.urls[0] + path)


async def test_failures_end_with_their_phase_and_leave_the_other_servers_alone():
    script = [Phase(10), Phase(10, failure=Failure.SERVER_ERROR), Phase(failure=Failure.NONE)]
    async with Fleet([SimulatedServer("s", script=script), SimulatedServer("t")], speed=0) as fleet:
        statuses = []
        for _ in range(3):
            async with aiohttp.ClientSession() as session:
                for url in fleet.urls:
                    async with session.get(f"{url}/metrics") as response:
                        statuses.append(response.status)
            fleet.advance(10)
    assert statuses == [200, 200, 500, 200, 200, 200]


async def test_closing_the_fleet_frees_its_ports():
    async with Fleet([SimulatedServer("s")]) as fleet:
        port = urlsplit(fleet.urls[0]).port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.parametrize("names", [["same", "same"], ["a/b"], [""], [".."]])
def test_names_that_cannot_be_told_apart_or_be_a_path_are_refused(names: list[str]):
    with pytest.raises(InputError, match=r"named 'same'|a name holds"):
        Fleet([SimulatedServer(name) for name in names])
