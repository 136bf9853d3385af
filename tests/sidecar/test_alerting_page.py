"""What docs/alerting.md says is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from specwatch.alerting import alertmanager, incidents, silences
from specwatch.alerting.delivery import DEAD_LETTERS, GIVE_UP_SECONDS, Delivery, Retries
from specwatch.alerting.evaluation import CLEAR_SECONDS, NO_DATA_SECONDS
from specwatch.alerting.notification import MOST_SERVERS
from specwatch.alerting.posting import LONGEST_RETRY_AFTER
from specwatch.cli.receiver_options import OPTIONS
from specwatch.config import SidecarConfig, load
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.exporter import render
from specwatch.sidecar.guard import LARGEST_BODY
from specwatch.sidecar.service import Service

PAGE = (Path(__file__).parents[2] / "docs" / "alerting.md").read_text()
ONE_LINE = " ".join(PAGE.split())
CONFIGURATIONS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_sidecars_configuration_can_be_used(tmp_path: Path):
    file = tmp_path / "sidecar.yml"
    file.write_text(CONFIGURATIONS[0])
    assert len(load(SidecarConfig, file, {}).alertmanager) == 2


def test_alertmanagers_configuration_names_the_route_that_there_is():
    (hook,) = yaml.safe_load(CONFIGURATIONS[1])["receivers"][0]["webhook_configs"]
    path = hook["url"].partition(":9108")[2]
    assert list(create_app(Service(), AlertBook()).openapi()["paths"][path]) == ["post"]
    assert hook["max_alerts"] == MOST_SERVERS


@pytest.mark.parametrize(
    "said",
    [
        f"was false for {CLEAR_SECONDS:g} s",
        f"for {NO_DATA_SECONDS / 60:g} minutes: then",
        f"The first waits {incidents.GROUP_WAIT:g} s",
        f"waits {incidents.GROUP_INTERVAL / 60:g} minutes",
        f"up to {MOST_SERVERS} servers",
        f"{silences.MOST_SILENCES} silences may be in force, each for up to {silences.LONGEST_SILENCE / 86400:g} days",
        f"with an end {alertmanager.VALID_SECONDS / 60:g} minutes ahead, "
        f"and for {alertmanager.OVER_SECONDS / 60:g} minutes as over",
        f"up to {Retries().longest / 60:g} minutes, or as long as `Retry-After` asks, an hour at most. After a day",
        f"the last {DEAD_LETTERS} of each receiver",
        f"A body has {LARGEST_BODY // 2**20} MiB at most",
    ],
)
def test_a_figure_is_the_codes(said: str):
    assert said in ONE_LINE


def test_an_hour_and_a_day_are_the_codes():
    assert (LONGEST_RETRY_AFTER, GIVE_UP_SECONDS, alertmanager.RESEND_SECONDS) == (3600, 86_400, 60)
    assert Delivery.__init__.__kwdefaults__["queue_size"] == 1000


def test_every_receivers_option_is_named():
    names = re.findall(r"`(--[a-z-]+)`", PAGE)
    options = {name for option in OPTIONS for name in option(lambda: None).__click_params__[0].opts}
    about_tests_and_links = {"--slack-api-url", "--pagerduty-url", "--public-url", "--runbooks-url"}
    assert options - set(names) == about_tests_and_links


def test_every_metric_that_is_named_is_exported():
    exported = render(Service(), AlertBook()).decode()
    for name in re.findall(r"^\| `(specwatch_\w+)", PAGE, re.MULTILINE):
        assert f"# TYPE {name} " in exported, name
