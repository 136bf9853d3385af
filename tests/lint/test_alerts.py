from __future__ import annotations

from pathlib import Path

import pytest

from specwatch.lint.checks import lint
from specwatch.lint.links import anchors
from specwatch.lint.reading import sources
from specwatch.vllm.features import NEWEST
from tests.support.lint import alert, codes, findings, rule

WAITING = "sum by (model_name) (vllm:num_requests_waiting) > 9"
ACCEPTANCE = (
    "sum by (instance) (rate(vllm:spec_decode_num_accepted_tokens_total[5m])) "
    "/ sum by (instance) (rate(vllm:spec_decode_num_draft_tokens_total[5m]))"
)
LENGTH = "rate(vllm:spec_decode_num_accepted_tokens_total[5m]) / rate(vllm:spec_decode_num_drafts_total[5m])"


def annotated(expression: str, text: str) -> str:
    return alert(expression, f"        annotations:\n          summary: '{text}'\n")


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("{{ $labels.model_name }}", ""),
        ("{{ $labels.instance }}", "instance"),
        ('{{ with $labels.pod }}on {{ . }}{{ end }} {{ index $labels "node" }}', "pod node"),
        ("{{ $value }} {{ $externalLabels.instance }} {{ .Labels.instance }}", ""),
        ("{{ $labels.model_name | reReplaceAll `{.*}` `` }} {{ printf `%q {{` $labels.job }}", "job"),
    ],
)
def test_labels_of_templates_are_those_that_the_result_has(text: str, lost: str):
    found = findings(annotated(WAITING, text))
    assert [finding.message.split(" ")[6] for finding in found] == lost.split()
    assert {finding.code.id for finding in found} <= {"SW201"}


def test_labels_are_followed_through_recording_rules_and_their_own_labels():
    recorded = (
        "groups: [{name: g, rules: [{record: a, expr: 'sum by (job) (vllm:num_requests_waiting)', labels: {team: x}}]}]"
    )
    assert codes(recorded, annotated("a > 3", "{{ $labels.job }} {{ $labels.team }}")) == []
    assert codes(recorded, annotated("a > 3", "{{ $labels.instance }}")) == ["SW201"]
    assert codes(annotated("a > 3 and vllm:num_requests_waiting", "{{ $labels.instance }}")) == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"{ACCEPTANCE} < 0.6", ["SW202"]),
        (f"0.6 > ({ACCEPTANCE})", ["SW202"]),
        (f"min({ACCEPTANCE}) < 0.6 and on () vector(1)", ["SW202"]),
        ("my:acceptance_rate:ratio < 0.4", ["SW202"]),
        (f"vllm:num_requests_waiting > 9 or {ACCEPTANCE} < 0.6", ["SW202"]),
        (f"100 * ({ACCEPTANCE}) < 60", []),
        (f"{LENGTH} < 2", []),
        ("rate(vllm:spec_decode_num_accepted_tokens_total[5m]) < 0.5", []),
        (
            "rate(vllm:spec_decode_num_draft_tokens_total[5m]) "
            "- rate(vllm:spec_decode_num_accepted_tokens_total[5m]) < 0.5",
            [],
        ),
    ],
)
def test_thresholds_that_are_blind_to_k(expression: str, expected: list[str]):
    assert codes(alert(expression)) == expected


def test_a_threshold_is_not_alone_beside_an_alert_that_knows_k():
    low = alert(f"{ACCEPTANCE} < 0.6")
    assert codes(low, alert(f"1 + {LENGTH} < 2")) == []
    assert codes(low, alert("instance:speedup:ratio < 1")) == []
    assert codes(low, rule(f"1 + {LENGTH}", "record: length"), alert("length < 2")) == []
    assert codes(low, alert("rate(vllm:spec_decode_num_drafts_total[5m]) == 0")) == ["SW202"]
    assert codes(low, rule(f"1 + {LENGTH}")) == ["SW202"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('count(up{job="vllm"} == 1) < 4', ["SW203"]),
        ('4 > count(up{job="vllm"} == 1)', ["SW203"]),
        ("count(vllm:num_requests_running) == 0", ["SW203"]),
        ("count by (model_name) (vllm:num_requests_running) <= 1", ["SW203"]),
        ('(count(up{job="vllm"} == 1) or vector(0)) < 4', []),
        ('count(up{job="vllm"} == 1) < 4 or absent(up{job="vllm"})', []),
        ('count(up{job="vllm"} == 1) < 4 or vllm:num_requests_waiting > 9', ["SW203"]),
        ("count(vllm:num_requests_running) > 40", []),
        ('count(up{job="node"} == 1) < 4', []),
    ],
)
def test_counts_that_fall_silent(expression: str, expected: list[str]):
    assert codes(alert(expression)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('up{job="vllm"} == 0', ["SW204"]),
        ('avg(up{job="vllm-prod"}) < 0.5', ["SW204"]),
        ('sum(up{job="vllm"}) < 3 or absent(up{job="vllm"})', []),
        ('up{job="node"} == 0', []),
    ],
)
def test_targets_that_may_vanish(expression: str, expected: list[str]):
    assert codes(alert(expression)) == expected


def test_targets_are_watched_where_another_rule_asks_whether_there_are_any():
    down = alert('up{job="vllm"} == 0')
    assert codes(down, alert('absent(up{job="vllm"})')) == []
    assert codes(down, alert("absent_over_time(vllm:num_requests_running[5m])")) == []
    assert codes(down, alert("absent(node_load1)")) == ["SW204"]


def test_a_job_of_another_name_is_known_by_its_group():
    group = (
        "groups: [{name: g, rules: ["
        "{alert: Down, expr: 'up{job=\"inference\"} == 0'}, {alert: Busy, expr: 'vllm:num_requests_waiting > 9'}]}]"
    )
    assert codes(group) == ["SW204"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("vllm:kv_cache_usage_perc > 95", ["SW206"]),
        ("avg(avg_over_time(vllm:kv_cache_usage_perc[5m])) > 90", ["SW206"]),
        (f"{ACCEPTANCE} < 60", ["SW206"]),
        ("vllm:kv_cache_usage_perc * 100 > 95", []),
        ("vllm:kv_cache_usage_perc > 0.95", []),
        ("sum(vllm:kv_cache_usage_perc) > 3", []),
        ("vllm:num_requests_waiting > 50", []),
    ],
)
def test_percentages(expression: str, expected: list[str]):
    assert codes(alert(expression)) == expected


def test_a_recorded_percentage_is_one():
    assert codes(rule("100 * vllm:kv_cache_usage_perc", "record: usage"), alert("usage > 95")) == []
    assert codes(rule("max(vllm:kv_cache_usage_perc)", "record: usage"), alert("usage > 95")) == ["SW206"]


PAGE = """# Runbooks

## Waiting requests: what to do

```sh
# not a heading
```

## Waiting requests: what to do
<a name="own"></a>
### [Linked](x.md) heading {#written}
"""


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("docs/page.md", ""),
        ("/docs/page.md#waiting-requests-what-to-do", ""),
        ("docs/page.md#waiting-requests-what-to-do-1", ""),
        ("docs/page.md#own", ""),
        ("docs/page.md#nowhere", "page.md has no heading for #nowhere"),
        ("docs/page.md#{{ $labels.model_name }}", ""),
        ("docs/other.md", "no such file"),
        ("#waiting", "no such file"),
        ("wiki.example.com/page", "lacks https://"),
        ("http://[page", "is no address: Invalid IPv6 URL"),
        ("https://wiki.example.com/page#anything", ""),
        ("https://github.com/o/r/blob/main/docs/page.md#not-a-heading", "no heading"),
        ("https://github.com/o/r/blob/main/docs/page.md#own", ""),
        ("https://gitlab.example.com/o/r/-/blob/v1/docs/page.md#nowhere", "no heading"),
        ("https://github.com/another/one/blob/main/docs/elsewhere.md#x", ""),
        ("{{ $labels.runbooks }}/page.md", ""),
        ("", ""),
    ],
)
def test_runbooks_are_looked_up_beside_the_rules(tmp_path: Path, address: str, problem: str):
    (tmp_path / ".git").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(PAGE)
    file = str(tmp_path / "rules" / "a.yml")
    text = alert("vllm:num_requests_waiting > 9", f"        annotations:\n          runbook_url: '{address}'\n")
    found = lint(sources(file, text), NEWEST)
    assert [finding.code.id for finding in found] == (["SW205"] if problem else [])
    assert all(problem in finding.message for finding in found)


def test_pages_above_the_repository_are_not_looked_at(tmp_path: Path):
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    text = alert("vllm:num_requests_waiting > 9", "        annotations:\n          runbook_url: page.md\n")
    assert lint(sources(str(tmp_path / "repository" / "a.yml"), text), NEWEST)


def test_anchors_are_made_as_code_hosts_make_them():
    assert anchors(PAGE) >= {
        "runbooks",
        "waiting-requests-what-to-do",
        "waiting-requests-what-to-do-1",
        "own",
        "written",
    }
    assert "not-a-heading" not in anchors(PAGE)


def test_an_inhibition_is_dead_where_one_side_never_has_the_label():
    def inhibition(source: str, target: str) -> str:
        entry = f"source_matchers: [alertname={source}], target_matchers: [alertname=~{target}], equal: [instance]"
        return f"{{route: {{}}, receivers: [], inhibit_rules: [{{{entry}}}]}}"

    kept = {"One": "instance", "Two": "instance, job", "All": "job"}
    alerts = [
        f"{{alert: {name}, expr: 'max by ({labels}) (vllm:num_requests_waiting) > 9'}}" for name, labels in kept.items()
    ]
    rules = f"groups: [{{name: g, rules: [{', '.join(alerts)}]}}]"
    assert codes(rules, inhibition("One", "Two")) == []
    assert codes(rules, inhibition("One", "Two|All")) == []
    assert codes(rules, inhibition("One", "All")) == ["SW201"]
    assert codes(rules, inhibition("All", "One|Two")) == ["SW201"]
    assert codes(rules, inhibition("One", "Elsewhere")) == []


def test_rules_that_read_themselves_and_each_other_without_end_are_judged():
    circle = rule("b", "record: a"), rule("a / a", "record: b")
    both = annotated("avg(a) > 0.5 and vllm:num_requests_running", "{{ $labels.x }}")
    assert codes(*circle, both) == ["SW103", "SW201"]
    chain = "\n".join(f"  - {{record: r{n}, expr: 'sum by (job) (r{n + 1})'}}" for n in range(2000))
    rules = f"groups:\n- name: g\n  rules:\n{chain}\n  - {{record: r2000, expr: vllm:num_requests_running}}\n"
    assert codes(rules, annotated("r0 > 1", "{{ $labels.job }}")) == []
