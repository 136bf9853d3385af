"""SRV records, from a name server on loopback."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from specwatch.collect.dns_sd import DnsSource
from specwatch.collect.groups import DiscoveryError, TargetGroup
from specwatch.collect.http import http_session
from specwatch.errors import InputError
from specwatch.scrape_config import DnsSdConfig

dns = pytest.importorskip("dns", reason="SRV records need dnspython, which comes with the extra test")

NAME = "_metrics._tcp.vllm.default.svc."
ANSWERS = {NAME: ["0 50 8000 vllm-0.vllm.default.svc.", "0 50 8001 vllm-1.vllm.default.svc."]}


class NameServer(asyncio.DatagramProtocol):
    """Knows ANSWERS, and that nothing else exists. ``silent`` keeps even that to itself."""

    def __init__(self, silent: bool) -> None:
        self.silent = silent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where answers go."""
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer a question."""
        import dns.message
        import dns.rcode
        import dns.rrset

        question = dns.message.from_wire(data)
        name = question.question[0].name.to_text()
        answer = dns.message.make_response(question)
        if name in ANSWERS:
            answer.answer.append(dns.rrset.from_text_list(name, 5, "IN", "SRV", ANSWERS[name]))
        else:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        if not self.silent:
            self.transport.sendto(answer.to_wire(), addr)


@asynccontextmanager
async def name_server(monkeypatch, silent: bool = False) -> AsyncIterator[None]:
    import dns.asyncresolver

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: NameServer(silent), ("127.0.0.1", 0))
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = ["127.0.0.1"]
    resolver.port = transport.get_extra_info("sockname")[1]
    monkeypatch.setattr(dns.asyncresolver, "default_resolver", resolver)
    try:
        yield
    finally:
        transport.close()


async def read(*names: str) -> list[TargetGroup]:
    async with http_session() as session:
        return await DnsSource(DnsSdConfig(names=names)).read(session)


async def test_every_record_is_a_target_with_its_own_port(monkeypatch):
    async with name_server(monkeypatch):
        groups = await read(NAME)
    assert sorted(group.targets for group in groups) == [
        ("vllm-0.vllm.default.svc:8000",),
        ("vllm-1.vllm.default.svc:8001",),
    ]
    assert groups[0].labels["__meta_dns_name"] == NAME
    assert {group.labels["__meta_dns_srv_record_port"] for group in groups} == {"8000", "8001"}


async def test_a_service_that_does_not_exist_has_no_targets(monkeypatch):
    async with name_server(monkeypatch):
        assert await read("_metrics._tcp.nothing.default.svc.") == []


async def test_a_name_server_that_is_silent_is_no_answer(monkeypatch):
    monkeypatch.setattr("specwatch.collect.dns_sd.SECONDS", 0.5)
    async with name_server(monkeypatch, silent=True):
        with pytest.raises(DiscoveryError, match="no answer from DNS"):
            await read(NAME)


def test_without_the_package_srv_records_are_refused_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dns.asyncresolver", None)
    with pytest.raises(InputError, match="pip install dnspython"):
        DnsSource(DnsSdConfig(names=(NAME,)))
