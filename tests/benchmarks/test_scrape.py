"""The load benchmark, small: real processes, a few servers, a few seconds."""

from __future__ import annotations

import re

import pytest

from benchmarks.scrape import main
from tests.support.services import prometheus_binary


@pytest.mark.services
def test_a_few_servers_are_scraped_and_what_that_costs_beside_prometheus_is_told(capsys):
    main(["--servers", "3", "--minutes", "0.1", "--read-every", "2", "--prometheus", str(prometheus_binary())])
    said = capsys.readouterr().out
    assert "3 servers for" in said
    assert " 0 failed, " in said
    for reader in ("specwatch", "Prometheus"):
        told = re.search(rf"{reader} +(\S+) ms of processor a scrape, .* (\S+) scrapes a second", said)
        assert told is not None
        # Of the processor's time so few scrapes may take less than one tick.
        assert float(told[2]) > 0
