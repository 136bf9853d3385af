"""Targets that DNS tells, as Prometheus' ``dns_sd_configs``: one for every address of a headless service."""

from __future__ import annotations

import asyncio
import socket

from specwatch.collect.groups import DiscoveryError, TargetGroup
from specwatch.collect.http import Asker
from specwatch.errors import InputError
from specwatch.scrape_config import DnsSdConfig, RecordType
from specwatch.waiting import within

SECONDS = 10.0
"""Longest a question may take; resolvers ask twice within that."""

_FAMILIES = {RecordType.A: socket.AF_INET, RecordType.AAAA: socket.AF_INET6}
_NOTHING = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
"""What the system says of a name that has no address: an answer, unlike a resolver that cannot be reached."""


class DnsSource:
    """Groups of some names, one group a name. Addresses are asked of the system, SRV records of its name servers."""

    def __init__(self, config: DnsSdConfig) -> None:
        self._config = config
        if config.type is RecordType.SRV:
            require_dnspython()

    async def read(self, _: Asker) -> list[TargetGroup]:
        """The groups now, none for a name that does not exist; DiscoveryError where nobody answers."""
        ask = _services if self._config.type is RecordType.SRV else self._addresses
        try:
            told = await within(SECONDS, asyncio.gather(*map(ask, self._config.names)))
        except asyncio.TimeoutError:
            names = ", ".join(self._config.names)
            raise DiscoveryError(f"{names}: no answer from DNS within {SECONDS:g} s") from None
        return [group for groups in told for group in groups]

    async def _addresses(self, name: str) -> list[TargetGroup]:
        family, port = _FAMILIES[self._config.type], self._config.port
        try:
            found = await asyncio.get_running_loop().getaddrinfo(name, port, family=family, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as problem:
            if getattr(problem, "errno", None) in _NOTHING:
                return []
            raise DiscoveryError(f"{name}: {str(getattr(problem, 'strerror', None) or problem).lower()}") from None
        addresses = sorted({str(place[4][0]) for place in found})
        targets = [f"[{address}]:{port}" if ":" in address else f"{address}:{port}" for address in addresses]
        return [TargetGroup(tuple(targets), {"__meta_dns_name": name}, f"DNS {name}")]


async def _services(name: str) -> list[TargetGroup]:
    import dns.asyncresolver
    import dns.exception
    import dns.resolver

    try:
        answer = await dns.asyncresolver.resolve(name, "SRV", search=True, lifetime=SECONDS)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except dns.exception.DNSException as problem:
        raise DiscoveryError(f"{name}: no answer from DNS ({type(problem).__name__})") from None
    return [_service(name, str(record.target), record.port) for record in answer]


def _service(name: str, host: str, port: int) -> TargetGroup:
    meta = {
        "__meta_dns_name": name,
        "__meta_dns_srv_record_target": host,
        "__meta_dns_srv_record_port": str(port),
    }
    return TargetGroup((f"{host.rstrip('.')}:{port}",), meta, f"DNS SRV {name}")


def require_dnspython() -> None:
    """InputError where SRV records cannot be asked for. vLLM brings the module along; a plain install does not."""
    try:
        import dns.asyncresolver  # noqa: F401
    except ImportError:
        raise InputError(
            "dns_sd_configs: SRV records need the package dnspython: pip install dnspython, or give type: A and a port"
        ) from None
