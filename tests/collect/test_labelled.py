"""Targets from addresses and labels, as Prometheus makes them."""

from __future__ import annotations

from typing import Any

import pytest

from specwatch.collect.groups import TargetGroup
from specwatch.collect.labelled import NoTarget, labelled_target
from specwatch.collect.targets import Target
from specwatch.scrape_config import ScrapeConfig


def made(address: str = "gpu-1:8000", labels: dict[str, str] | None = None, **config: Any) -> Target | None:
    job = ScrapeConfig.model_validate({"job_name": "vllm", **config})
    return labelled_target(address, TargetGroup((address,), labels or {}, "a list"), job)


def test_an_address_is_enough():
    labels = {"instance": "gpu-1:8000", "job": "vllm"}
    assert made() == Target("gpu-1:8000", "http://gpu-1:8000/metrics", labels, "vllm", "a list")


def test_scheme_path_and_parameters_are_the_jobs():
    target = made(scheme="https", metrics_path="/m", params={"a": ["1", "2"], "b": ["x y"]})
    assert target is not None
    assert target.url == "https://gpu-1:8000/m?a=1&a=2&b=x+y"


def test_labels_of_the_group_win_over_the_job_and_rules_over_both():
    labels = {"__scheme__": "https", "__metrics_path__": "/group", "__param_a": "group", "job": "other"}
    rule = {"target_label": "__metrics_path__", "replacement": "/rule"}
    target = made(labels=labels, params={"a": ["job", "second"]}, relabel_configs=[rule])
    assert target is not None
    assert target.url == "https://gpu-1:8000/rule?a=group&a=second"
    assert (target.labels["job"], target.job) == ("other", "vllm")


def test_the_label_instance_is_the_name_and_private_labels_are_gone():
    labels = {"__meta_pod": "llama-0", "zone": "a"}
    target = made(labels=labels, relabel_configs=[{"source_labels": ["__meta_pod"], "target_label": "instance"}])
    assert target is not None
    assert target.name == "llama-0"
    assert target.labels == {"instance": "llama-0", "job": "vllm", "zone": "a"}


def test_a_rule_may_drop_a_target():
    rule = {"source_labels": ["zone"], "regex": "a", "action": "keep"}
    assert made(labels={"zone": "b"}, relabel_configs=[rule]) is None


@pytest.mark.parametrize(
    "address",
    ["", "http://gpu-1", "gpu-1/metrics", "me:secret@gpu-1:80", "gpu-1:port", "gpu-1:70000", "a b", "a\n:1", "[::1"],
)
def test_an_address_that_is_no_host_and_port_is_no_target(address: str):
    with pytest.raises(NoTarget):
        made(address, {"instance": "named"})


@pytest.mark.parametrize(
    "labels",
    [
        {"__scheme__": "file"},
        {"__metrics_path__": "metrics"},
        {"__metrics_path__": "/metrics?x=1"},
        {"instance": "a\x1b[31m"},
        {"instance": "x" * 201},
        {f"label_{number}": "x" for number in range(70)},
    ],
)
def test_labels_that_nobody_could_use_are_no_target(labels: dict[str, str]):
    with pytest.raises(NoTarget):
        made(labels=labels)


def test_an_address_of_ip_version_6():
    target = made("[2001:db8::1]:8000")
    assert target is not None
    assert target.url == "http://[2001:db8::1]:8000/metrics"
