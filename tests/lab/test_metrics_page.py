from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from specwatch.lab.scenario import Domain
from specwatch.lab.simulated_frontend import MODELS
from specwatch.lab.simulator import EPOCH, SimulatedServer
from tests.lab.pages import blocks, captured, outline, samples, total, without

V0 = "0.8.5.post2"
LAB = "./lab_target"
TO_THE_LIMIT = Domain("lab", acceptance=0.9, prompt_tokens=9, output_tokens=math.inf, max_tokens=150)
"""Like the captured requests: each runs into its limit."""


def captured_server(**arguments: object) -> SimulatedServer:
    """A server in the place of the captured one, after some traffic and one look at /v1/models."""
    server = SimulatedServer("lab", model_name=LAB, traffic=TO_THE_LIMIT, running=2, **arguments)
    server.frontend.answered(MODELS, 0, 458, 0.0016)
    server.advance(30)
    return server


def test_a_page_of_0_32_with_a_draft_model_is_line_by_line_the_captured_one_but_for_the_numbers():
    assert outline(captured_server().page()) == outline(captured("vllm-0.32.0-v1-draft_model-json"))


def test_a_page_of_0_32_before_traffic_is_the_captured_one_but_for_the_numbers():
    server = SimulatedServer("lab", model_name=LAB, running=0)
    assert outline(server.page()) == outline(captured("vllm-0.32.0-v1-draft_model-before"))


def test_a_page_of_0_32_without_speculation_is_the_captured_one_but_for_the_numbers():
    # the captured server without a draft model had a larger cache, and says so in the labels of this family
    family = "vllm:cache_config_info"
    page = without(captured_server(k=None).page(), family)
    assert outline(page) == outline(without(captured("vllm-0.32.0-v1-off"), family))
    assert "spec_decode" not in page


@pytest.mark.parametrize("name", ["draft_model", "draft_model-json3", "draft_model-es2"])
def test_a_page_of_v0_has_the_families_and_series_of_the_captured_one(name: str):
    page = captured_server(release=V0).page()
    assert set(blocks(page)) == set(blocks(captured(f"vllm-0.8.5.post2-v0-{name}")))


def test_a_page_of_v0_without_speculation_has_the_families_and_series_of_the_captured_one():
    family = "vllm:cache_config_info"
    page = without(captured_server(release=V0, k=None).page(), family)
    assert set(blocks(page)) == set(blocks(without(captured("vllm-0.8.5.post2-v0-off"), family)))


def test_a_fresh_page_of_v0_holds_the_cache_configuration_alone():
    server = SimulatedServer("lab", release=V0, model_name=LAB, running=0)
    server.advance(60)
    assert server.page() == captured("vllm-0.8.5.post2-v0-draft_model-before")


def test_constants_of_the_captured_page_keep_their_values():
    mine, real = samples(captured_server().page()), samples(captured("vllm-0.32.0-v1-draft_model-json"))
    names = ("python_", "process_max_fds", "vllm:engine_sleep_state", "vllm:cache_config_info", "vllm:estimated_")
    constants = {key: value for key, value in real.items() if key[0].startswith(names) and "_created" not in key[0]}
    assert len(constants) > 15
    assert {key: mine[key] for key in constants} == constants


def test_positions_follow_k():
    page = SimulatedServer("s", k=3).page()
    positions = {
        dict(labels)["position"]
        for name, labels in samples(page)
        if name == "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    }
    assert positions == {"0", "1", "2"}


def test_a_hostile_model_name_arrives_escaped():
    name = 'a "quoted" \\ name\nin two lines, 100 %s'
    server = SimulatedServer("s", model_name=name)
    assert total(server.page(), "vllm:num_requests_running", model_name=name) == 0


def test_without_log_stats_no_family_of_vllm_is_left():
    server = SimulatedServer("s", log_stats=False)
    server.advance(10)
    assert "vllm:" not in server.page()
    assert total(server.page(), "process_start_time_seconds") == EPOCH


@pytest.mark.vllm
def test_two_engines_are_laid_out_as_vllm_s_own_logger_does(tmp_path: Path):
    script = Path(__file__).with_name("two_engine_page.py")
    written = tmp_path / "page.txt"
    subprocess.run([sys.executable, str(script), str(written), "3", LAB], check=True, capture_output=True, timeout=110)
    page = SimulatedServer("s", model_name=LAB, engines=2, k=3).page()
    mine = [line for line in outline(page) if line.startswith("vllm:") and "cache_config_info" not in line]
    assert mine == [line for line in outline(written.read_text()) if line.startswith("vllm:")]
