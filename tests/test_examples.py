"""What people copy from examples/: generated where it can be, and in keeping with the rest where it cannot."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from specwatch import __version__
from specwatch.cli import specwatch
from specwatch.cli.sidecar import command as sidecar
from specwatch.collect.targets import parse
from specwatch.config import load
from specwatch.generate import alertmanager
from specwatch.generate.dashboards import dashboard_files
from specwatch.generate.files import differing
from specwatch.generate.kubernetes import kubernetes_files
from specwatch.generate.kubernetes_config import KubernetesConfig
from specwatch.generate.kubernetes_sidecar import USER
from specwatch.generate.rules_config import RulesConfig
from specwatch.vllm.arguments import read
from specwatch.vllm.releases import Release
from specwatch.vllm.translation import translate
from tests.support.programs import ROOT, finish, run
from tests.support.services import promtool

KUBERNETES = ROOT / "examples" / "kubernetes"
FOLDER = ROOT / "examples" / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROMETHEUS: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()

KEYS = {"build", "cap_drop", "command", "deploy", "entrypoint", "environment", "healthcheck", "image"} | {
    "mem_limit",
    "ports",
    "read_only",
    "restart",
    "secrets",
    "security_opt",
    "shm_size",
    "volumes",
}
"""Those of a service that are used here, as the Compose Specification writes them."""

each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def mounts(service: str) -> dict[str, Path]:
    """Files and folders of the repository by where the service finds them."""
    parts = [text.split(":") for text in SERVICES[service].get("volumes", [])]
    return {inside: (FOLDER / outside).resolve() for outside, inside, *_ in parts if outside.startswith(".")}


def options(service: str) -> dict[str, str]:
    """Options of the form --name=value."""
    pairs = [word.partition("=") for word in SERVICES[service]["command"]]
    return {name: value for name, equals, value in pairs if equals}


def test_the_kubernetes_base_is_what_the_code_generates():
    files = kubernetes_files(load(KubernetesConfig, ROOT / "examples" / "gen-k8s.yaml", {}))
    assert differing(KUBERNETES, files) == []
    found = [str(path.relative_to(KUBERNETES)) for path in KUBERNETES.rglob("*") if path.is_file()]
    assert sorted(found) == sorted(files)


def test_the_configuration_says_how_the_base_is_made_and_make_does_it():
    command = "gen-k8s --config examples/gen-k8s.yaml --output examples/kubernetes"
    assert command in (ROOT / "examples" / "gen-k8s.yaml").read_text()
    assert command in (ROOT / "Makefile").read_text()


def test_the_compose_file_is_one_that_compose_takes():
    assert set(COMPOSE) == {"name", "services", "secrets", "volumes"}
    for service in SERVICES.values():
        assert set(service) <= KEYS
    if shutil.which("docker") and finish(["docker", "compose", "version"]).returncode == 0:
        run(["docker", "compose", "--file", FOLDER / "compose.yaml", "config", "--quiet"])


@each_service
def test_every_port_is_on_loopback(service: dict[str, Any]):
    assert service["ports"]
    for port in service["ports"]:
        assert re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port)


@each_service
def test_every_image_is_pinned(service: dict[str, Any]):
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"])


@each_service
def test_no_service_gains_rights(service: dict[str, Any]):
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service
    # vLLM's image runs as root, which may not write what others own without it.
    assert service["cap_drop"] == ["ALL"] if not service["image"].startswith("vllm/") else "cap_drop" not in service


@pytest.mark.parametrize("service", SERVICES)
def test_every_file_that_is_mounted_exists_and_is_read_only(service: str):
    for path in mounts(service).values():
        assert path.exists(), path
    for text in SERVICES[service].get("volumes", []):
        name = text.split(":")[0]
        assert text.endswith(":ro") if name.startswith(".") else name in COMPOSE["volumes"]


def test_secrets_are_files_that_git_never_sees_and_the_head_tells_how_to_make():
    head = (FOLDER / "compose.yaml").read_text().partition("name:")[0]
    for secret in COMPOSE["secrets"].values():
        folder, _, name = secret["file"].removeprefix("./").rpartition("/")
        assert f"> {folder}/{name}\n" in head
        assert f"examples/compose/{folder}/" in (ROOT / ".gitignore").read_text().splitlines()
    for service in SERVICES.values():
        secretive = [key for key in service.get("environment", {}) if re.search("PASSWORD|KEY|TOKEN|SECRET", key)]
        assert all(key.endswith("__FILE") for key in secretive)


def test_alertmanager_finds_every_file_that_its_configuration_names():
    inside = mounts("alertmanager")
    assert options("alertmanager")["--config.file"] in inside
    assert f"/etc/alertmanager/{alertmanager.TEMPLATES}" in inside
    targets = {entry["target"] for entry in SERVICES["alertmanager"]["secrets"]}
    assert targets == set(alertmanager.secrets(RulesConfig()))


def test_prometheus_scrapes_under_the_jobs_that_the_rules_read():
    targets = {entry["job_name"]: entry["static_configs"][0]["targets"] for entry in PROMETHEUS["scrape_configs"]}
    config = RulesConfig()
    assert targets == {config.vllm_job: ["vllm:8000"], config.specwatch_job: ["sidecar:9108"]}
    pushed = PROMETHEUS["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    for address in [*pushed, *(address for group in targets.values() for address in group)]:
        service, _, port = address.partition(":")
        assert f"127.0.0.1:{port}:{port}" in SERVICES[service]["ports"]


@pytest.mark.services
def test_promtool_accepts_prometheus_configuration(tmp_path: Path):
    inside = mounts("prometheus")
    assert inside[options("prometheus")["--config.file"]] == FOLDER / "prometheus.yml"
    # Prometheus before 2.49 does not know it; the image is newer.
    of_any_release = {key: value for key, value in PROMETHEUS["global"].items() if key != "scrape_protocols"}
    assert PROMETHEUS["global"]["scrape_protocols"] == ["PrometheusText0.0.4"]
    (tmp_path / "rules").mkdir()
    for path in inside.values():
        shutil.copy(path, tmp_path / "rules" if path.name.endswith(".rules.yml") else tmp_path)
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump({**PROMETHEUS, "global": of_any_release}))
    said = run([promtool(), "check", "config", tmp_path / "prometheus.yml"]).stdout
    assert "1 rule files found" in said
    assert re.search(r"SUCCESS: \d+ rules found", said)


def test_grafana_finds_the_dashboards_where_its_provisioning_looks():
    inside = mounts("grafana")
    provider = yaml.safe_load(inside["/etc/grafana/provisioning/dashboards/specwatch.yml"].read_text())["providers"][0]
    assert inside[provider["options"]["path"]] == ROOT / "dashboards"
    for file in dashboard_files():
        assert (inside[provider["options"]["path"]] / file).is_file()
    source = yaml.safe_load(inside["/etc/grafana/provisioning/datasources/specwatch.yml"].read_text())["datasources"][0]
    assert (source["type"], source["url"], source["isDefault"]) == ("prometheus", "http://prometheus:9090", True)
    assert source["jsonData"]["timeInterval"] == PROMETHEUS["global"]["scrape_interval"]


def test_vllms_flags_are_those_of_its_release():
    release = Release.parse(SERVICES["vllm"]["image"].rpartition(":")[2])
    model, *flags = SERVICES["vllm"]["command"]
    line = ["--model", model, *flags]
    translated = translate(read(line), release)
    assert not translated.notes
    assert translated.speculation is not None
    assert shlex.join(translated.arguments) == shlex.join(line)


def test_the_sidecar_takes_its_flags_and_calls_vllm_as_prometheus_does():
    command, *flags = SERVICES["sidecar"]["command"]
    assert command == "sidecar"
    given = sidecar.make_context("sidecar", list(flags)).params
    assert [parse(target).name for target in given["target"]] == ["vllm:8000"]
    assert given["listen"].startswith("0.0.0.0:")
    assert not given["insecure"]
    assert given["open_metrics"]
    assert [str(given["admin_token_file"])] == [f"/run/secrets/{name}" for name in SERVICES["sidecar"]["secrets"]]
    assert SERVICES["sidecar"]["image"] == f"specwatch:{__version__}"
    assert (FOLDER / SERVICES["sidecar"]["build"] / "Dockerfile").resolve() == ROOT / "Dockerfile"


def test_the_image_runs_as_the_user_that_kubernetes_is_told():
    assert re.findall(r"^USER (.*)$", DOCKERFILE, flags=re.MULTILINE) == [f"{USER}:{USER}"]
    assert f"docker build --tag specwatch:{__version__} ." in DOCKERFILE
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE)
    assert len(set(bases)) == 1
    assert re.fullmatch(r"python:3\.\d+-slim", bases[0])


def copied() -> list[str]:
    """What the Dockerfile takes from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, flags=re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def test_only_what_is_copied_is_sent_to_the_builder():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert sorted(line[1:] for line in lines if line.startswith("!")) == sorted(copied())


def test_the_command_in_the_page_on_kubernetes_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    command = re.search(r"^specwatch (gen-k8s (?:.*\\\n)*.*)$", page, flags=re.MULTILINE)
    assert command
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(specwatch, shlex.split(command[1].replace("\\\n", " "))).exit_code == 0
    assert (tmp_path / "kubernetes" / "deployment.yaml").is_file()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_copied_is_enough_to_install_it(tmp_path: Path):
    import sys

    for source in copied():
        path = ROOT / source
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / source)
    run([sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", tmp_path])
    assert next((tmp_path / "dist").glob("specwatch-*.whl")).stat().st_size > 0
