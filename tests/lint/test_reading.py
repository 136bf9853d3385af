from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from specwatch.errors import InputError
from specwatch.lint.reading import LARGEST_FILE, content, sources
from specwatch.lint.sources import Kind
from tests.support.lint import alert, codes, findings, rule

WRONG = rule("rate(vllm:num_preemptions[5m])")
GROUPS = WRONG.removeprefix("groups:\n")


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


def dashboard(**parts: object) -> str:
    return json.dumps({"panels": [{"title": "P", "targets": [{"expr": "vllm:gpu_cache_usage_perc"}]}], **parts})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (WRONG, 5),
        (f"---\n# two documents\n{WRONG}---\nkind: Deployment\n", 7),
        (f"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nspec:\n{indented(WRONG, 2)}", 8),
        (
            f"kind: List\nitems:\n- kind: PrometheusRule\n  spec:\n{indented(WRONG, 4)}",
            9,
        ),
        (json.dumps({"groups": [{"rules": [{"record": "a", "expr": "rate(vllm:num_preemptions[5m])"}]}]}, indent=1), 7),
        (f"kind: ConfigMap\ndata:\n  note: x\n  rules.yml: |\n{indented(WRONG, 4)}", 9),
        (f"kind: ConfigMap\ndata:\n  rules.yml: {json.dumps(WRONG)}\n", 3),
        (f"namespace: mimir\n{WRONG}", 6),
    ],
    ids=["plain", "two documents", "PrometheusRule", "List", "JSON", "ConfigMap", "ConfigMap on one line", "Mimir"],
)
def test_rules_are_recognised_by_what_they_hold_and_found_at_their_line(text: str, line: int):
    found = findings(text)
    assert [(finding.code.id, finding.line) for finding in found] == [("SW004", line)]


@pytest.mark.parametrize(
    "text",
    [
        dashboard(),
        json.dumps({"dashboard": json.loads(dashboard()), "meta": {}}),
        json.dumps({"rows": [{"panels": json.loads(dashboard())["panels"]}]}),
        json.dumps(
            {
                "apiVersion": "dashboard.grafana.app/v2",
                "kind": "Dashboard",
                "spec": {"elements": json.loads(dashboard())},
            }
        ),
        "kind: ConfigMap\ndata:\n  a.json: |\n    " + dashboard() + "\n",
        "panels: [{title: P, targets: [{expr: 'vllm:gpu_cache_usage_perc'}]}]",
    ],
    ids=["file", "API", "rows", "version 2", "ConfigMap", "YAML"],
)
def test_dashboards_of_every_form_are_read(text: str):
    assert codes(text) == ["SW001"]


def test_grafanas_own_alerts_are_read():
    data = [{"refId": "A", "model": {"expr": "vllm:gpu_cache_usage_perc > 0.9"}}]
    text = json.dumps({"apiVersion": 1, "groups": [{"name": "g", "rules": [{"title": "T", "data": data}]}]})
    assert [(f.code.id, f.path) for f in findings(text)] == [("SW001", "group g / T / A")]


@pytest.mark.parametrize(
    "text",
    [
        "rule_files: [a.yml]\ntests: []\n",
        "scrape_configs: []\n",
        "apiVersion: 1\nproviders: []\n",
        '{{/* texts */}}\n{{ define "a" }}vllm:gpu_cache_usage_perc{{ end }}',
    ],
)
def test_what_belongs_to_them_is_known_and_passed_over(text: str):
    assert [source.kinds for source in sources("a", text)] == [{Kind.NOT_CHECKED}]
    assert codes(text) == []


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "a: b\n", "[]", "{}", "1", "groups: 3", "kind: ConfigMap\ndata: {a.yml: '['}\n"]
)
def test_what_is_something_else_holds_nothing(text: str):
    assert sources("a", text) == []


def test_templates_with_braces_in_quotes_are_texts_like_others():
    summary = "{{ $labels.instance }}: {{ if gt $value 1.0 }}{{ $value }}{{ end }}"
    more = f'        annotations:\n          summary: "{summary}"\n'
    assert codes(alert("vllm:num_requests_waiting > 9", more)) == []


def test_a_helm_template_is_refused_with_what_to_lint_instead():
    with pytest.raises(InputError, match=r"a.yml: .*lint what `helm template` prints"):
        sources("a.yml", "groups:\n{{- if .Values.rules }}\n  - name: {{ .Values.name }}\n{{- end }}\n")


def test_a_configmap_is_not_mended_since_its_lines_are_not_the_files():
    found = findings(f"kind: ConfigMap\ndata:\n  rules.yml: |\n{indented(WRONG, 4)}")
    assert found[0].path.startswith("rules.yml / group g")
    assert found[0].fixes == ()


def test_files_that_are_none_are_refused_in_one_line_each(tmp_path: Path):
    binary, huge, pipe = tmp_path / "binary.yml", tmp_path / "huge.yml", tmp_path / "pipe.yml"
    binary.write_bytes(b"\x7fELF\xff\xfe")
    with huge.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    os.mkfifo(pipe)
    for path, problem in (
        (binary, "not a text file"),
        (huge, "larger than 8 MiB"),
        (pipe, "not a file"),
        (tmp_path / "missing.yml", "no such file"),
        (tmp_path, "not a file"),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}: {problem}") as refusal:
            content(path)
        assert "\n" not in str(refusal.value)
