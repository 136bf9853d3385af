"""The HTTP frontend of a simulated server: what the ``http_`` families of its page count."""

from __future__ import annotations

from dataclasses import dataclass, field

from specwatch.lab.metrics_page import Histogram, families, series_key

COMPLETIONS = ("/v1/completions", "POST")
MODELS = ("/v1/models", "GET")
HANDLERS = (MODELS, COMPLETIONS)
"""Handlers and methods on the captured page; /metrics, /health and /version are not counted there."""

# Ten requests on the captured page of 0.32, whose tokens are bytes: 1067 bytes in for 87 prompt tokens, 7205 out for
# 1453 generated ones.
REQUEST_BYTES = 98
RESPONSE_BYTES = 575


@dataclass
class _Handled:
    requests: int = 0
    request_bytes: Histogram = field(default_factory=Histogram)
    response_bytes: Histogram = field(default_factory=Histogram)
    seconds: Histogram = field(default_factory=Histogram)


class Frontend:
    """Counts of one server process, with the boundaries of ``page``."""

    CPU_SHARE = 0.05
    """Seconds of CPU a second: any small figure, since it only has to grow."""

    def __init__(self, page: str) -> None:
        bounds = {family.name: family.bounds for family in families(page)}
        coarse = bounds.get("http_request_duration_seconds", ())
        self._handled = {handler: _Handled(seconds=Histogram(coarse)) for handler in HANDLERS}
        self._all = Histogram(bounds.get("http_request_duration_highr_seconds", ()))

    def completed(self, prompt_tokens: int, output_tokens: int, seconds: float) -> None:
        """Count one completion."""
        self.answered(COMPLETIONS, REQUEST_BYTES + prompt_tokens, RESPONSE_BYTES + output_tokens, seconds)

    def answered(self, handler: tuple[str, str], request_bytes: int, response_bytes: int, seconds: float) -> None:
        """Count one answered request of a handler."""
        handled = self._handled[handler]
        handled.requests += 1
        handled.request_bytes.observe(request_bytes)
        handled.response_bytes.observe(response_bytes)
        handled.seconds.observe(seconds)
        self._all.observe(seconds)

    def scalars(self) -> dict[str, float]:
        """Values of the page's counters."""
        return {
            _key("http_requests_total", path, method, "2xx"): handled.requests
            for (path, method), handled in self._handled.items()
        }

    def histograms(self) -> dict[str, Histogram]:
        """Values of the page's histograms and summaries."""
        found = {"http_request_duration_highr_seconds": self._all}
        for (path, method), handled in self._handled.items():
            found[_key("http_request_size_bytes", path)] = handled.request_bytes
            found[_key("http_response_size_bytes", path)] = handled.response_bytes
            found[_key("http_request_duration_seconds", path, method)] = handled.seconds
        return found

    def absent(self) -> frozenset[str]:
        """Series of handlers that nobody called yet."""
        absent: set[str] = set()
        for (path, method), handled in self._handled.items():
            if not handled.requests:
                absent.add(_key("http_requests_total", path, method, "2xx"))
                absent.add(_key("http_request_size_bytes", path))
                absent.add(_key("http_response_size_bytes", path))
                absent.add(_key("http_request_duration_seconds", path, method))
        return frozenset(absent)


def _key(family: str, handler: str, method: str | None = None, status: str | None = None) -> str:
    labels = {"handler": handler, "method": method, "status": status}
    return series_key(family, {label: value for label, value in labels.items() if value is not None})
