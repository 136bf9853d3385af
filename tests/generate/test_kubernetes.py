from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from specwatch import __version__
from specwatch.collect.targets import parse
from specwatch.config import SidecarConfig, load
from specwatch.errors import InputError
from specwatch.generate import alert_files
from specwatch.generate.alertmanager import configuration, secrets, templates
from specwatch.generate.dashboards import dashboard_files
from specwatch.generate.kubernetes import kubernetes_files
from specwatch.generate.kubernetes_config import KubernetesConfig
from specwatch.generate.kubernetes_sidecar import named
from specwatch.generate.rules_config import RulesConfig
from specwatch.sidecar.access import OPEN_PATHS
from tests.support.programs import run
from tests.support.services import promtool

POD = "http://llama-0.llama.inference.svc:8000"
PLAIN = KubernetesConfig(target=(POD,))
LOW = "SpeculativeAcceptanceRateLow"

LARGEST_CONFIG_MAP = 2**20
"""Bytes; etcd takes no more (Kubernetes' documentation of ConfigMaps)."""
LARGEST_ANNOTATIONS = 256 * 2**10
"""Bytes of all annotations of an object: kubectl apply keeps a copy of the whole object in one."""


def read(config: KubernetesConfig, path: str) -> dict[str, Any]:
    """A file as its readers find it."""
    document: dict[str, Any] = yaml.safe_load(kubernetes_files(config)[path])
    return document


def objects(config: KubernetesConfig) -> dict[str, dict[str, Any]]:
    """Every object by its file, the kustomizations left out."""
    documents = {path: yaml.safe_load(text) for path, text in kubernetes_files(config).items()}
    return {path: document for path, document in documents.items() if document["kind"] != "Kustomization"}


def pod(config: KubernetesConfig) -> dict[str, Any]:
    found: dict[str, Any] = read(config, "deployment.yaml")["spec"]["template"]["spec"]
    return found


def sidecar_entries(config: KubernetesConfig) -> dict[str, Any]:
    entries: dict[str, Any] = yaml.safe_load(read(config, "configmap.yaml")["data"]["sidecar.yaml"])
    return entries


def relabelings(config: KubernetesConfig) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(config, "podmonitor.yaml")["spec"]["podMetricsEndpoints"][0]["relabelings"]
    return found


def problem(**entries: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        KubernetesConfig(**entries)
    return str(caught.value)


def test_the_kustomization_lists_every_object_beside_it():
    files = kubernetes_files(PLAIN)
    for folder in ("", "alertmanager/"):
        beside = [path for path in files if path.rpartition("/")[0] + "/" == (folder or "/")]
        listed = yaml.safe_load(files[f"{folder}kustomization.yaml"])["resources"]
        assert sorted(f"{folder}{name}" for name in [*listed, "kustomization.yaml"]) == sorted(beside)


def test_generating_again_gives_the_same_bytes():
    assert kubernetes_files(PLAIN) == kubernetes_files(KubernetesConfig(target=(POD,)))


def test_every_object_has_a_namespace_and_the_labels_that_were_chosen():
    config = KubernetesConfig(target=(POD,), name="spec", namespace="llm", labels={"release": "stack"})
    for path, document in objects(config).items():
        metadata = document["metadata"]
        assert metadata["namespace"] == ("monitoring" if path.startswith("alertmanager/") else "llm")
        assert metadata["name"].startswith("spec")
        assert metadata["labels"]["release"] == "stack"
        assert metadata["labels"]["app.kubernetes.io/instance"] == "spec"
        assert metadata["labels"]["app.kubernetes.io/version"] == __version__


def test_two_installations_in_one_namespace_share_no_name_and_no_pod():
    one, other = (objects(KubernetesConfig(target=(POD,), name=name)) for name in ("one", "other"))
    for path in one:
        assert one[path]["metadata"]["name"] != other[path]["metadata"]["name"]
    for path in ("service.yaml", "networkpolicy.yaml", "servicemonitor.yaml", "deployment.yaml"):
        assert one[path]["spec"] != other[path]["spec"]


def test_the_rules_are_the_groups_of_the_plain_file():
    plain = alert_files.alert_files(RulesConfig(thresholds={LOW: 0.4}, vllm_job="llm"))[alert_files.RULES]
    config = KubernetesConfig(thresholds={LOW: 0.4}, vllm_job="llm")
    assert read(config, "prometheusrule.yaml")["spec"] == yaml.safe_load(plain)


@pytest.mark.services
def test_promtool_accepts_the_rules_inside_the_object(tmp_path: Path):
    rules = tmp_path / "rules.yml"
    rules.write_text(yaml.safe_dump(read(PLAIN, "prometheusrule.yaml")["spec"]))
    plain = tmp_path / "plain.yml"
    plain.write_text(alert_files.alert_files(RulesConfig())[alert_files.RULES])
    said = [run([promtool(), "check", "rules", file]).stdout.replace(str(file), "") for file in (rules, plain)]
    assert re.search(r"SUCCESS: \d+ rules found", said[0])
    assert said[0] == said[1]


def test_vllm_pods_become_targets_of_the_job_that_the_rules_read():
    config = KubernetesConfig(vllm_job="llm$1", target_labels={"cluster": "a", "namespace": "inference"})
    fixed = {entry["targetLabel"]: entry["replacement"] for entry in relabelings(config) if "replacement" in entry}
    # A lone $ would name a group; the namespace comes with every target.
    assert fixed == {"job": "llm$$1", "cluster": "a"}


def test_the_sidecar_calls_a_pod_as_prometheus_does():
    instance = next(entry for entry in relabelings(PLAIN) if entry["targetLabel"] == "instance")
    of_pod = {"__meta_kubernetes_pod_name": "llama-0", "__meta_kubernetes_namespace": "inference"}
    name = instance["separator"].join(of_pod[label] for label in instance["sourceLabels"])
    assert parse(sidecar_entries(PLAIN)["target"][0]).name == name == "llama-0.inference"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("http://llama-0.llama.inference.svc.cluster.local:8000/metrics", "llama-0.inference"),
        ("llama-0.llama.inference.svc:8000", "llama-0.inference"),
        ("own=http://llama-0.llama.inference.svc:8000", "own"),
        ("http://llama.inference.svc:8000", "llama.inference.svc:8000"),
        ("http://10.0.0.7:8000", "10.0.0.7:8000"),
    ],
)
def test_only_a_pods_own_name_is_taken_for_one(target: str, name: str):
    parsed = parse(named(target))
    assert (parsed.name, parsed.url) == (name, parse(target).url)


def test_pods_are_chosen_by_namespace_labels_and_port():
    chosen = KubernetesConfig(vllm_namespaces=("a", "b"), vllm_pod_labels={"app": "llm"}, vllm_port="8000")
    spec = read(chosen, "podmonitor.yaml")["spec"]
    assert spec["namespaceSelector"] == {"matchNames": ["a", "b"]}
    assert spec["selector"] == {"matchLabels": {"app": "llm"}}
    assert spec["podMetricsEndpoints"][0]["portNumber"] == 8000
    assert "port" not in spec["podMetricsEndpoints"][0]
    assert read(PLAIN, "podmonitor.yaml")["spec"]["podMetricsEndpoints"][0]["port"] == "http"
    assert "namespaceSelector" not in read(PLAIN, "podmonitor.yaml")["spec"]


def test_the_text_format_is_asked_for_unless_the_operator_is_too_old():
    old = KubernetesConfig(target=(POD,), scrape_protocols=False)
    for path in ("podmonitor.yaml", "servicemonitor.yaml"):
        assert read(PLAIN, path)["spec"]["scrapeProtocols"] == ["PrometheusText0.0.4"]
        assert "scrapeProtocols" not in read(old, path)["spec"]


def test_servers_are_scraped_as_often_as_rules_are_evaluated():
    config = KubernetesConfig(target=(POD,), interval=15, rate_window=300)
    for path, key in (("podmonitor.yaml", "podMetricsEndpoints"), ("servicemonitor.yaml", "endpoints")):
        assert read(config, path)["spec"][key][0]["interval"] == "15s"
    assert read(config, "prometheusrule.yaml")["spec"]["groups"][0]["interval"] == "15s"


def test_dashboards_are_those_of_gen_dashboards_under_the_label_that_grafana_looks_for():
    found = {}
    for path, document in objects(PLAIN).items():
        if path.startswith("dashboard-"):
            assert document["metadata"]["labels"]["grafana_dashboard"] == "1"
            assert document["metadata"]["annotations"]["grafana_folder"] == "specwatch"
            found.update(document["data"])
    assert found == {path: text for path, text in dashboard_files().items() if path.endswith(".json")}


def test_a_draft_cost_reaches_rules_dashboards_and_sidecar():
    config = KubernetesConfig(target=(POD,), draft_cost=0.2)
    assert sidecar_entries(config)["draft_cost"] == 0.2
    assert read(config, "prometheusrule.yaml") != read(PLAIN, "prometheusrule.yaml")
    assert read(config, "dashboard-server.yaml") != read(PLAIN, "dashboard-server.yaml")


def test_every_object_fits_into_the_cluster_and_into_kubectls_own_copy_of_it():
    for path, text in kubernetes_files(PLAIN).items():
        assert len(text.encode()) < min(LARGEST_CONFIG_MAP, LARGEST_ANNOTATIONS), path


def test_texts_of_several_lines_can_be_read_and_reviewed():
    files = kubernetes_files(PLAIN)
    for path, key in {
        "configmap.yaml": "sidecar.yaml",
        "dashboard-fleet.yaml": "specwatch-fleet.json",
        "alertmanager/secret.yaml": "alertmanager.yaml",
    }.items():
        assert f"\n  {key}: |\n" in files[path]
    assert "\n  specwatch.tmpl: |" in files["alertmanager/secret.yaml"]


def test_the_sidecar_runs_without_any_right():
    spec = pod(PLAIN)
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")] == ["state"]
    assert read(PLAIN, "serviceaccount.yaml")["automountServiceAccountToken"] is False


def test_the_sidecar_is_bounded_and_probed_where_it_answers():
    (container,) = pod(PLAIN)["containers"]
    assert set(container["resources"]) == {"requests", "limits"}
    assert all(set(amounts) == {"cpu", "memory"} for amounts in container["resources"].values())
    (port,) = container["ports"]
    for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        assert container[probe]["httpGet"] == {"path": path, "port": port["name"]}
    assert sidecar_entries(PLAIN)["listen"] == f"0.0.0.0:{port['containerPort']}"


def test_no_two_sidecars_run_at_a_time():
    spec = read(PLAIN, "deployment.yaml")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_selectors_find_the_pod_and_its_service():
    carried = read(PLAIN, "deployment.yaml")["spec"]["template"]["metadata"]["labels"].items()
    chosen_by = [
        read(PLAIN, "deployment.yaml")["spec"]["selector"]["matchLabels"],
        read(PLAIN, "service.yaml")["spec"]["selector"],
        read(PLAIN, "networkpolicy.yaml")["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector.items() <= carried for selector in chosen_by)
    of_service = read(PLAIN, "service.yaml")["metadata"]["labels"].items()
    assert read(PLAIN, "servicemonitor.yaml")["spec"]["selector"]["matchLabels"].items() <= of_service
    assert pod(PLAIN)["serviceAccountName"] == read(PLAIN, "serviceaccount.yaml")["metadata"]["name"]
    assert pod(PLAIN)["volumes"][0]["configMap"]["name"] == read(PLAIN, "configmap.yaml")["metadata"]["name"]


def test_only_prometheus_gets_through_to_the_sidecar():
    config = KubernetesConfig(target=(POD,), monitoring_namespace="obs", prometheus_labels={"app": "prom"})
    spec = read(config, "networkpolicy.yaml")["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    (rule,) = spec["ingress"]
    assert rule["from"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "obs"}},
            "podSelector": {"matchLabels": {"app": "prom"}},
        }
    ]
    assert rule["ports"] == [{"protocol": "TCP", "port": "http"}]


def test_the_sidecar_can_use_what_it_is_told(tmp_path: Path):
    own = tmp_path / "own.yaml"
    own.write_text("num_speculative_tokens: 5\ninterval: 10\nlisten: 127.0.0.1:1\n")
    config = KubernetesConfig(target=(POD,), sidecar_config=own, deliver=("slack",), runbook_base="https://r.example/")
    file = tmp_path / "sidecar.yaml"
    file.write_text(read(config, "configmap.yaml")["data"]["sidecar.yaml"])
    told = load(SidecarConfig, file, {})
    assert told.num_speculative_tokens == 5
    assert told.interval == 10
    assert (told.listen, told.insecure) == ("0.0.0.0:9108", True)
    assert told.runbooks_url == "https://r.example"


def test_why_it_listens_beyond_loopback_is_said_where_it_is():
    assert "hence insecure" in read(PLAIN, "configmap.yaml")["data"]["sidecar.yaml"]


def test_a_changed_configuration_starts_a_new_pod():
    other = KubernetesConfig(target=("http://other-0.other.inference.svc:8000",))
    annotations = [
        read(config, "deployment.yaml")["spec"]["template"]["metadata"]["annotations"] for config in (PLAIN, other)
    ]
    assert annotations[0] != annotations[1]


def test_secrets_are_files_that_only_the_sidecars_group_reads():
    config = KubernetesConfig(target=(POD,), deliver=("slack", "pagerduty"))
    spec = pod(config)
    secret = next(volume["secret"] for volume in spec["volumes"] if volume["name"] == "secrets")
    mount = next(mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "secrets")
    assert secret["secretName"] == "specwatch-keys"
    assert secret["defaultMode"] == 0o440
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
    told = sidecar_entries(config)
    files = [f"{mount['mountPath']}/{item['path']}" for item in secret["items"]]
    assert files == [told["slack_webhook_file"], told["pagerduty_routing_key_file"]]
    assert [variable["name"] for variable in spec["containers"][0]["env"]] == ["SQLITE_TMPDIR"]


def test_without_delivery_there_is_no_secret():
    assert [volume["name"] for volume in pod(PLAIN)["volumes"]] == ["config", "state"]
    assert not [key for key in sidecar_entries(PLAIN) if key.endswith("_file")]


def test_what_the_sidecar_knows_outlives_its_container(tmp_path: Path):
    volume = next(volume for volume in pod(PLAIN)["volumes"] if volume["name"] == "state")
    # A container that is started anew in its pod finds what the one before wrote; the pod takes it along.
    assert volume["emptyDir"] == {"sizeLimit": "5Gi"}
    (container,) = pod(PLAIN)["containers"]
    mount = next(mount for mount in container["volumeMounts"] if mount["name"] == "state")
    database = sidecar_entries(PLAIN)["database"]
    assert Path(database).parent == Path(mount["mountPath"])
    # The root is read-only, and SQLite has to sort somewhere.
    assert container["env"] == [{"name": "SQLITE_TMPDIR", "value": mount["mountPath"]}]
    assert "persistentvolumeclaim.yaml" not in kubernetes_files(PLAIN)


def test_a_claim_keeps_it_beyond_the_pod():
    config = KubernetesConfig(target=(POD,), storage="3Gi", storage_class="fast.ssd")
    claim = read(config, "persistentvolumeclaim.yaml")
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast.ssd",
        "resources": {"requests": {"storage": "3Gi"}},
    }
    volume = next(volume for volume in pod(config)["volumes"] if volume["name"] == "state")
    assert volume == {"name": "state", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
    assert (
        "storageClassName"
        not in read(KubernetesConfig(target=(POD,), storage="3Gi"), "persistentvolumeclaim.yaml")["spec"]
    )


def test_tokens_are_mounted_from_the_secret_and_only_metrics_and_health_are_open():
    config = KubernetesConfig(target=(POD,), sidecar_tokens=True, deliver=("slack",))
    entries = sidecar_entries(config)
    keys = ["slack-webhook", "read-tokens", "admin-tokens"]
    assert [entries[name] for name in ("slack_webhook_file", "read_token_file", "admin_token_file")] == [
        f"/etc/specwatch/secrets/{key}" for key in keys
    ]
    assert entries["open_metrics"] is True
    assert "insecure" not in entries
    secrets_volume = pod(config)["volumes"][-1]
    assert [item["key"] for item in secrets_volume["secret"]["items"]] == keys
    (container,) = pod(config)["containers"]
    probed = {container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")}
    assert probed | {read(config, "servicemonitor.yaml")["spec"]["endpoints"][0].get("path", "/metrics")} == OPEN_PATHS
    assert "hence insecure" not in read(config, "configmap.yaml")["data"]["sidecar.yaml"]


def test_tokens_of_this_machine_are_none_of_the_containers(tmp_path):
    (tmp_path / "sidecar.yaml").write_text("read_token_file: /here/read-tokens\n")
    config = KubernetesConfig(target=(POD,), sidecar_config=tmp_path / "sidecar.yaml")
    with pytest.raises(InputError, match=r"read_token_file in .*--sidecar-tokens, which mounts it"):
        kubernetes_files(config)


def test_tokens_of_no_sidecar_are_a_mistake():
    assert "without a target there is no sidecar" in problem(sidecar_tokens=True)


def test_without_a_target_there_is_no_sidecar_and_all_else_is_there():
    without, with_one = kubernetes_files(KubernetesConfig()), kubernetes_files(PLAIN)
    kinds = {yaml.safe_load(with_one[path])["kind"] for path in set(with_one) - set(without)}
    assert kinds == {"Deployment", "Service", "ServiceAccount", "ServiceMonitor", "NetworkPolicy"} | {"ConfigMap"}
    assert {"prometheusrule.yaml", "podmonitor.yaml", "dashboard-server.yaml"} <= set(without)


def test_alertmanager_gets_its_whole_configuration_and_finds_the_texts_where_the_operator_puts_them():
    data = read(PLAIN, "alertmanager/secret.yaml")["stringData"]
    written = yaml.safe_load(data["alertmanager.yaml"])
    assert written == {**configuration(PLAIN), "templates": ["/etc/alertmanager/config/specwatch.tmpl"]}
    assert data["specwatch.tmpl"] == templates()
    assert set(data) == {"alertmanager.yaml", "specwatch.tmpl"}


def test_alertmanager_reads_its_secrets_where_the_operator_mounts_the_secret_that_the_file_names():
    text = kubernetes_files(PLAIN)["alertmanager/secret.yaml"]
    assert "#   secrets: [specwatch-alertmanager-keys]" in text
    for path in secrets(PLAIN):
        assert path.startswith("/etc/alertmanager/secrets/specwatch-alertmanager-keys/")
        assert f"#   {path}: " in text


@pytest.mark.parametrize(
    ("entries", "meant"),
    [
        ({"name": "My_Stack"}, "my-stack"),
        ({"name": "7specwatch"}, "such as specwatch"),
        ({"name": "a" * 56}, "at most 55 characters"),
        ({"namespace": "team.llm"}, "such as team-llm"),
        ({"namespace": "-"}, "lower-case letters"),
        ({"vllm_namespaces": ("LLM",)}, "such as llm"),
        ({"monitoring_namespace": "a b"}, "such as a-b"),
        ({"labels": {"app.kubernetes.io/name": "x"}}, "choose --name"),
        ({"labels": {"a b": "x"}}, "example.com/team"),
        ({"labels": {"team": "a b"}}, "'a b' is no label's value (team)"),
        ({"labels": {"team": "a" * 64}}, "at most 63"),
        ({"labels": {"{team}": "x"}}, "'{team}' is no label's name"),
        ({"vllm_pod_labels": {}}, "at least 1 item"),
        ({"prometheus_labels": {}}, "at least 1 item"),
        ({"image": "specwatch"}, "a tag or a digest"),
        ({"image": "registry.example:5000/specwatch"}, "a tag or a digest"),
        ({"image": "specwatch:latest"}, "stays the same"),
        ({"image": "specwatch:1\nevil: true"}, "a tag or a digest"),
        ({"vllm_port": 70000}, "or its number"),
        ({"vllm_port": 0}, "or its number"),
        ({"vllm_port": True}, "or its number"),
        ({"vllm_port": "a-name-that-is-too-long"}, "at most 15"),
        ({"thresholds": {LOW: 60}}, "write 0.6 for 60 %"),
        ({"deliver": ("slack",)}, "name the vLLM servers"),
        ({"target": (POD,), "storage": "5GB"}, "a size such as 5Gi"),
        ({"target": (POD,), "storage": "0Gi"}, "a size such as 5Gi"),
        ({"target": (POD,), "storage_class": "fast"}, "say its size with --storage"),
        ({"target": (POD,), "storage": "5Gi", "storage_class": "Fast SSD"}, "kubectl get storageclass"),
        ({"storage": "5Gi"}, "name the vLLM servers"),
        ({"target": (POD,), "deliver": ("mail",)}, "'slack' or 'pagerduty'"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_with_what_was_meant(entries: dict[str, Any], meant: str):
    assert meant in problem(**entries)


@pytest.mark.parametrize("image", ["specwatch:1.0", "r.example:5000/a/b:v1", f"r.example/a@sha256:{'0' * 64}"])
def test_an_image_that_stays_the_same_is_taken(image: str):
    assert pod(KubernetesConfig(target=(POD,), image=image))["containers"][0]["image"] == image


@pytest.mark.parametrize(
    ("targets", "meant"),
    [
        (("http://localhost:8000",), "the sidecar itself"),
        (("http://127.0.0.1:8000",), "http://vllm-0.vllm.NAMESPACE.svc:8000"),
        (("http://a:99999",), "1 to 65535"),
        ((POD, POD), "two targets are called"),
    ],
)
def test_a_target_that_the_sidecar_could_not_watch_is_refused(targets: tuple[str, ...], meant: str):
    with pytest.raises(InputError, match=re.escape(meant)):
        kubernetes_files(KubernetesConfig(target=targets))


@pytest.mark.parametrize(
    ("entry", "remedy"),
    [
        ("slack_webhook_file: /s", "--deliver slack"),
        ("launch_record: /r", "num_speculative_tokens"),
        ("database: /d", "--storage"),
    ],
)
def test_files_of_this_machine_are_not_put_into_the_container(entry: str, remedy: str, tmp_path: Path):
    own = tmp_path / "own.yaml"
    own.write_text(entry)
    with pytest.raises(InputError, match=remedy):
        kubernetes_files(KubernetesConfig(target=(POD,), sidecar_config=own))


def test_an_unknown_entry_of_the_sidecars_file_is_refused_with_the_nearest(tmp_path: Path):
    own = tmp_path / "own.yaml"
    own.write_text("intervall: 5")
    with pytest.raises(InputError, match="did you mean interval"):
        kubernetes_files(KubernetesConfig(target=(POD,), sidecar_config=own))
