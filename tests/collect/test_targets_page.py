"""What docs/targets.md says is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specwatch.collect import discovery, groups, prometheus_fleet, prometheus_query
from specwatch.collect.http import Cause, Limits
from specwatch.config import SidecarConfig, load
from specwatch.scrape_config import Action, DnsSdConfig, FileSdConfig, HttpClient, HttpSdConfig, PrometheusConfig
from specwatch.sidecar.reload import ASKED_SECONDS, RELOADED
from specwatch.sidecar.service import GONE_SECONDS
from specwatch.vllm.metrics import MAX_ENGINES, MAX_LINES

PAGE = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()
CONFIGURATIONS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_a_configuration_that_is_shown_can_be_used(tmp_path: Path, text: str):
    file = tmp_path / "sidecar.yml"
    file.write_text(text)
    config = load(SidecarConfig, file, {})
    assert len(config.scrape_configs) == (0 if config.from_prometheus else 2)


@pytest.mark.parametrize(
    "said",
    [
        f"{discovery.MOST_TARGETS:,}",
        f"{groups.MOST_ADDRESSES:,} addresses",
        f"{groups.LONGEST_LIST // 2**20} MiB",
        f"{groups.MOST_LABELS}, of {groups.LONGEST_LABEL:,} characters",
        f"{Limits().seconds:g} s",
        f"{Limits().bytes // 2**20} MiB",
        f"{MAX_LINES:,}; {MAX_ENGINES:,} engines",
        f"every {FileSdConfig(files=('a.json',)).refresh_interval:g} s (`refresh_interval`)",
        f"every {HttpSdConfig(url='http://a/').refresh_interval:g} s",
        f"every {DnsSdConfig(names=('a',)).refresh_interval:g} s",
        f"One question an interval ({ASKED_SECONDS:g} s unless given",
        f"{prometheus_query.ANSWER_BYTES // 2**20} MiB",
        f"the other after {prometheus_fleet.FAILOVER:g} s of",
        f"should not differ by more than {prometheus_fleet.SLACK:g} s",
        *(f"| `{key}` |" for key in sorted(PrometheusConfig.model_fields.keys() - HttpClient.model_fields.keys())),
        *(f"`{action.value}`" for action in Action),
        *(f"`{key}`" for key in RELOADED),
        *(f'reason="{cause.value}"' for cause in (Cause.TIMEOUT, Cause.SIZE, Cause.SERIES)),
    ],
)
def test_limits_intervals_and_names_on_the_page_are_those_of_the_code(said: str):
    assert said in PAGE


def test_a_quarter_of_an_hour_is_what_is_said():
    assert GONE_SECONDS == 15 * 60
    assert "a quarter of an hour" in PAGE
