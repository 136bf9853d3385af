"""The files that ``specwatch gen-alerts`` writes."""

from __future__ import annotations

from specwatch.generate import alertmanager, rule_tests, rules
from specwatch.generate.rules_config import RulesConfig
from specwatch.generate.yaml_text import choices, to_yaml

RULES = "specwatch.rules.yml"
TESTS = "specwatch.rules.test.yml"
ALERTMANAGER = "alertmanager.yml"

_RULES_HEAD = """\
What specwatch records and alerts on, from the metrics of vLLM servers. Drift alone needs the sidecar.
"""

_TESTS_HEAD = f"""\
Tests of {RULES}: promtool test rules {TESTS}
"""

_ALERTMANAGER_HEAD = """\
Who hears of specwatch's alerts. Valid for Alertmanager 0.25 and later; the texts are in {templates}.
Alertmanager reads its secrets from:
{secrets}
A target that is down silences what else fires on it, for that is old. Speculation that costs more than it gives
silences low acceptance on the same server, for that is the reason.
"""


def alert_files(config: RulesConfig) -> dict[str, str]:
    """Name and text of every file."""
    return {
        RULES: to_yaml({"groups": rules.groups(config)}, _head(_RULES_HEAD, config)),
        TESTS: to_yaml(rule_tests.tests(config, RULES), _head(_TESTS_HEAD, config)),
        ALERTMANAGER: to_yaml(alertmanager.configuration(config), _head(_alertmanager_head(config), config)),
        alertmanager.TEMPLATES: alertmanager.templates(),
    }


def _alertmanager_head(config: RulesConfig) -> str:
    secrets = "\n".join(f"  {path}: {content}" for path, content in alertmanager.secrets(config).items())
    return _ALERTMANAGER_HEAD.format(templates=alertmanager.TEMPLATES, secrets=secrets)


def _head(text: str, config: RulesConfig) -> str:
    chosen = choices(config)
    again = "Generated: edit the options, not this file, and run `specwatch gen-alerts --output DIR` again."
    return "\n".join([text.rstrip(), again, *([f"Chosen: {chosen}"] if chosen else [])])
