"""The benchmark of reading a Prometheus, small: real processes, a few servers, a few seconds."""

from __future__ import annotations

import re

import pytest

from benchmarks import from_prometheus
from tests.support.services import prometheus_binary


@pytest.mark.services
@pytest.mark.timeout(300)
def test_what_a_few_servers_cost_is_told_beside_what_prometheus_scraped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(from_prometheus, "INTERVAL", 1.0)
    monkeypatch.setattr(from_prometheus, "WARM_SECONDS", 2.0)
    from_prometheus.main(["--servers", "3", "--seconds", "15", "--prometheus", str(prometheus_binary())])
    said = capsys.readouterr().out
    told = re.search(r"3 servers: (\S+) of (\S+) scrapes a second taken in; .* an answer: (\d+) series", said)
    assert told is not None
    assert all(float(figure) > 0 for figure in told.groups())
