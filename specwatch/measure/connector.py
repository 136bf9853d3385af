"""Connections to a server that is asked to generate."""

from __future__ import annotations

import aiohttp

IDLE_SECONDS = 2.0
"""How long a connection is kept for the next request. vLLM's API server closes idle ones after 5 s
(``VLLM_HTTP_TIMEOUT_KEEP_ALIVE``), and a request that meets the closing fails: it is not one to send twice unasked."""


def connector(most: int = 0) -> aiohttp.TCPConnector:
    """At most so many at a time, 0 for any number; those that fell idle are closed before the server does it."""
    return aiohttp.TCPConnector(limit=most, keepalive_timeout=IDLE_SECONDS)
