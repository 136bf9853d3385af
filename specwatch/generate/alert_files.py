"""The files that ``specwatch gen-alerts`` writes."""

from __future__ import annotations

from specwatch.alerting.watchdogs import HEARTBEAT
from specwatch.generate import alertmanager, rule_tests, rule_tests_week, rules
from specwatch.generate.rules_config import RulesConfig
from specwatch.generate.yaml_text import choices, to_yaml

RULES = "specwatch.rules.yml"
TESTS = "specwatch.rules.test.yml"
WEEK_TESTS = "specwatch.rules.week.test.yml"
ALERTMANAGER = "alertmanager.yml"

_RULES_HEAD = """\
What specwatch records and alerts on, from the metrics of vLLM servers. Drift alone needs the sidecar.
"""

_TESTS_HEAD = f"""\
Tests of {RULES}: promtool test rules {TESTS}
"""

_WEEK_TESTS_HEAD = f"""\
Tests of what looks back a week in {RULES}: promtool test rules {WEEK_TESTS}
"""

_ALERTMANAGER_HEAD = """\
Who hears of specwatch's alerts. Valid for Alertmanager 0.25 and later; the texts are in {templates}.
Alertmanager reads its secrets from:
{secrets}
What is dead silences what it would say: a job without a server that is up, and a server that cannot be read. What is
true of a whole model silences the same of its servers, and a reason silences its symptoms.
Route {heartbeat} to whoever raises the alarm when it stops (--heartbeat-url).
"""


def alert_files(config: RulesConfig) -> dict[str, str]:
    """Name and text of every file."""
    return {
        RULES: to_yaml({"groups": rules.groups(config)}, _head(_RULES_HEAD, config)),
        TESTS: to_yaml(rule_tests.tests(config, RULES), _head(_TESTS_HEAD, config)),
        WEEK_TESTS: to_yaml(rule_tests_week.tests(config, RULES), _head(_WEEK_TESTS_HEAD, config)),
        ALERTMANAGER: to_yaml(alertmanager.configuration(config), _head(_alertmanager_head(config), config)),
        alertmanager.TEMPLATES: alertmanager.templates(),
    }


def _alertmanager_head(config: RulesConfig) -> str:
    secrets = "\n".join(f"  {path}: {content}" for path, content in alertmanager.secrets(config).items())
    return _ALERTMANAGER_HEAD.format(templates=alertmanager.TEMPLATES, secrets=secrets, heartbeat=HEARTBEAT.name)


def _head(text: str, config: RulesConfig) -> str:
    chosen = choices(config)
    again = "Generated: edit the options, not this file, and run `specwatch gen-alerts --output DIR` again."
    return "\n".join([text.rstrip(), again, *([f"Chosen: {chosen}"] if chosen else [])])
