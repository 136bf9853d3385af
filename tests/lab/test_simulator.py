from __future__ import annotations

import itertools
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specwatch.errors import InputError
from specwatch.lab.scenario import FOREIGN, HOME, Domain, Phase, Traffic
from specwatch.lab.simulated_engine import StepCost, scheduled_k
from specwatch.lab.simulator import EPOCH, SimulatedServer, demo_fleet
from specwatch.lab.truth import Truth
from tests.lab.pages import samples, total

V0 = "0.8.5.post2"

# figures that hold together

acceptances = st.floats(0, 1) | st.lists(st.floats(0, 1), min_size=1, max_size=9).map(tuple)
domains = st.builds(
    Domain,
    name=st.just("any"),
    acceptance=acceptances,
    concentration=st.sampled_from([0.5, 5, 20, math.inf]),
    prompt_tokens=st.integers(1, 300),
    output_tokens=st.integers(1, 200) | st.just(math.inf),
    max_tokens=st.integers(1, 300),
)
servers = st.fixed_dictionaries(
    {
        "traffic": domains | st.dictionaries(domains, st.floats(0.1, 1), min_size=1, max_size=3),
        "k": st.integers(1, 8),
        "running": st.integers(0, 12),
        "waiting": st.integers(0, 5),
        "engines": st.integers(1, 3),
        "seed": st.integers(0, 1000),
    }
)


@given(arguments=servers, seconds=st.floats(0, 20))
@settings(max_examples=40)
def test_what_vllm_s_page_says_twice_is_the_same(arguments: dict[str, object], seconds: float):
    server = SimulatedServer("s", **arguments)
    server.advance(seconds)
    page = server.page()
    for engine in range(len(server.truth_by_engine())):
        label = {"engine": str(engine)}

        def value(name: str, label: dict[str, str] = label, **more: str) -> float:
            return total(page, f"vllm:{name}", **label, **more)

        drafts = value("spec_decode_num_drafts_total")
        accepted = value("spec_decode_num_accepted_tokens_total")
        positions = [
            value("spec_decode_num_accepted_tokens_per_pos_total", position=str(position))
            for position in range(server.k)
        ]
        assert positions == sorted(positions, reverse=True)
        assert positions[0] <= drafts
        assert accepted == sum(positions)
        assert value("spec_decode_num_draft_tokens_total") == server.k * drafts
        steps, first = value("inter_token_latency_seconds_count"), value("time_to_first_token_seconds_count")
        generated = value("generation_tokens_total")
        assert drafts == steps
        thrown_away = accepted + steps + first - generated
        finished = value("request_generation_tokens_count")
        assert 0 <= thrown_away <= server.k * finished
        assert value("iteration_tokens_total_sum") == generated + value("prompt_tokens_total")
        # the others of the running requests are reading their prompt
        assert 0 <= first - finished <= value("num_requests_running")
        assert finished == value("request_success_total") == value("e2e_request_latency_seconds_count")
        assert value("request_generation_tokens_sum") <= generated
        assert value("request_decode_time_seconds_sum") <= value("inter_token_latency_seconds_sum") + 1e-6
        inference = value("request_prefill_time_seconds_sum") + value("request_decode_time_seconds_sum")
        assert value("request_inference_time_seconds_sum") == pytest.approx(inference)
        assert value("num_requests_waiting") == value("num_requests_waiting_by_reason", reason="capacity")


@given(arguments=servers, seconds=st.floats(0, 20), release=st.sampled_from(["0.32.0", V0]))
@settings(max_examples=20)
def test_buckets_rise_to_the_count(arguments: dict[str, object], seconds: float, release: str):
    server = SimulatedServer("s", **{**arguments, "engines": 1}, release=release)
    server.advance(seconds)
    page = samples(server.page())
    series: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[float, float]]] = {}
    for (name, labels), value in page.items():
        if name.endswith("_bucket"):
            others = tuple(label for label in labels if label[0] != "le")
            series.setdefault((name.removesuffix("_bucket"), others), []).append((float(dict(labels)["le"]), value))
    for (name, labels), buckets in series.items():
        counts = [count for _, count in sorted(buckets)]
        assert counts == sorted(counts)
        assert counts[-1] == page[f"{name}_count", labels]


@given(arguments=servers, seconds=st.floats(0, 20))
@settings(max_examples=20)
def test_the_truth_is_what_the_page_of_v1_shows(arguments: dict[str, object], seconds: float):
    server = SimulatedServer("s", **arguments)
    server.advance(seconds)
    page, truth = server.page(), server.truth()
    assert total(page, "vllm:spec_decode_num_drafts_total") == truth.drafts
    assert total(page, "vllm:spec_decode_num_draft_tokens_total") == truth.draft_tokens
    assert total(page, "vllm:spec_decode_num_accepted_tokens_total") == truth.accepted_tokens
    assert total(page, "vllm:generation_tokens_total") == truth.generated_tokens
    assert total(page, "vllm:inter_token_latency_seconds_count") == truth.decode_steps
    assert total(page, "vllm:iteration_tokens_total_count") == truth.engine_steps
    assert total(page, "vllm:request_success_total") == truth.requests_finished
    assert sum(truth.accepted_per_position) == truth.accepted_tokens


@given(
    arguments=servers,
    eighths=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    release=st.sampled_from(["0.32.0", V0]),
)
@settings(max_examples=20)
def test_many_short_advances_come_to_the_same_as_a_long_one(
    arguments: dict[str, object], eighths: list[int], release: str
):
    script = (Phase(2, running=3), Phase(1.5, traffic=FOREIGN, drafting=False), Phase(running=5, drafting=True))
    arguments = {**arguments, "engines": 1, "release": release, "script": script}
    stepped, at_once = SimulatedServer("s", **arguments), SimulatedServer("s", **arguments)
    for count in eighths:  # eighths of a second add up without rounding
        stepped.advance(count / 8)
    at_once.advance(sum(eighths) / 8)
    assert stepped.page() == at_once.page()


def test_the_same_seed_gives_the_same_page_and_another_seed_another():
    def page(seed: int) -> str:
        server = SimulatedServer("s", seed=seed)
        server.advance(20)
        return server.page()

    assert page(1) == page(1)
    assert page(1) != page(2)


# traffic


def test_the_acceptance_of_each_position_is_the_scripted_one():
    alpha = (0.9, 0.7, 0.5)
    server = SimulatedServer("s", k=3, running=32, traffic=Domain("d", alpha, concentration=math.inf))
    server.advance(120)
    truth = server.truth()
    behind = (truth.drafts, *truth.accepted_per_position)
    measured = [here / before for before, here in itertools.pairwise(behind)]
    # about 80,000 drafts: a standard error of 0.002 at the last position
    assert measured == pytest.approx(alpha, abs=0.01)


def test_requests_of_their_own_acceptance_make_intervals_spread_more_than_independent_tokens():
    def variance_ratio(concentration: float) -> float:
        server = SimulatedServer("s", running=6, traffic=Domain("d", 0.8, concentration))
        rates, drafts = [], []
        for _ in range(100):
            before = server.truth()
            server.advance(5)
            interval = server.truth() - before
            rates.append(interval.accepted_per_position[0] / interval.drafts)
            drafts.append(interval.drafts)
        mean = sum(rates) / len(rates)
        variance = sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1)
        return variance / (mean * (1 - mean) / (sum(drafts) / len(drafts)))

    assert variance_ratio(math.inf) < 2
    assert variance_ratio(10) > 5


def test_a_mixture_lies_between_its_domains():
    def rate(traffic: Traffic) -> float:
        server = SimulatedServer("s", running=16, traffic=traffic)
        server.advance(60)
        return server.truth().acceptance_rate

    assert rate(FOREIGN) < 0.4 < rate({HOME: 0.5, FOREIGN: 0.5}) < 0.75 < rate(HOME)


def test_without_drafting_coverage_falls_and_the_series_stay():
    server = SimulatedServer("s")
    server.advance(10)
    before = server.truth()
    server.drafting = False
    server.advance(10)
    window = server.truth() - before
    assert window.drafts == 0
    assert window.generated_tokens > 0
    assert total(server.page(), "vllm:spec_decode_num_drafts_total") == before.drafts > 0


def test_a_schedule_turns_drafting_off_under_load_as_the_captured_server_did():
    server = SimulatedServer("s", k=4, schedule=[(1, 2, 4), (3, 64, 0)], running=1)
    server.advance(10)
    assert server.truth().coverage == 1
    alone = server.truth()
    server.running = 6
    server.advance(10)
    assert (server.truth() - alone).coverage < 0.01


@pytest.mark.parametrize(("batch_size", "k"), [(1, 3), (16, 3), (17, 1), (40, 1), (64, 0), (700, 0)])
def test_gaps_and_the_tail_of_a_schedule_carry_the_k_before(batch_size: int, k: int):
    assert scheduled_k([(1, 16, 5), (17, 32, 1), (60, 512, 0)], batch_size, 3) == k


def test_waiting_requests_show_and_wait():
    server = SimulatedServer("s", running=4, waiting=8)
    server.advance(30)
    page = server.page()
    assert total(page, "vllm:num_requests_waiting") == 8
    mean_wait = total(page, "vllm:request_queue_time_seconds_sum") / total(
        page, "vllm:request_queue_time_seconds_count"
    )
    # by Little's law: 8 requests wait, and requests leave the line as fast as they finish
    assert mean_wait == pytest.approx(8 / (server.truth().requests_finished / 30), rel=0.3)


def test_load_falls_when_running_requests_have_finished():
    server = SimulatedServer("s", running=8)
    server.advance(10)
    server.running = 0
    server.advance(30)
    page = server.page()
    assert total(page, "vllm:num_requests_running") == 0
    assert total(page, "vllm:kv_cache_usage_perc") == 0
    assert total(page, "vllm:time_to_first_token_seconds_count") == server.truth().requests_finished
    assert total(page, "vllm:request_decode_time_seconds_sum") == pytest.approx(
        total(page, "vllm:inter_token_latency_seconds_sum")
    )


def test_idle_time_moves_no_counter():
    server = SimulatedServer("s", running=0)
    server.advance(3600)
    assert server.truth().engine_steps == 0
    assert server.now == 3600


def test_engines_share_the_load_and_differ():
    server = SimulatedServer("s", engines=2, running=5)
    server.advance(20)
    page = server.page()
    assert total(page, "vllm:num_requests_running", engine="0") == 3
    assert total(page, "vllm:num_requests_running", engine="1") == 2
    first, second = server.truth_by_engine()
    assert first.accepted_tokens != second.accepted_tokens
    assert server.truth() == first + second


def test_step_times_make_speculation_worth_what_the_cost_says():
    cost = StepCost()

    def lived(k: int | None) -> Truth:
        server = SimulatedServer("s", k=k, running=8, traffic=Domain("d", 0.8, prompt_tokens=1))
        server.advance(300)
        return server.truth()

    with_drafts, without_drafts = lived(5), lived(None)
    measured = with_drafts.generated_tokens / without_drafts.generated_tokens
    # tokens past the ends of requests and first tokens take some of it
    assert measured == pytest.approx(cost.speedup(with_drafts.acceptance_length, 8, 5), rel=0.1)


# restarts, redeployments and scripts


def test_a_restart_counts_from_zero_and_the_truth_goes_on():
    server = SimulatedServer("s")
    server.advance(20)
    before = server.truth()
    server.restart()
    assert total(server.page(), "vllm:generation_tokens_total") == 0
    assert total(server.page(), "process_start_time_seconds") == EPOCH + 20
    assert total(server.page(), "vllm:generation_tokens_created") == EPOCH + 20
    assert server.truth() == before
    server.advance(20)
    assert total(server.page(), "vllm:generation_tokens_total") == (server.truth() - before).generated_tokens > 0


def test_a_redeployment_with_another_k_has_other_positions_and_keeps_the_truth():
    server = SimulatedServer("s", k=5)
    server.advance(10)
    before = server.truth()
    server.redeploy(k=2)
    server.advance(10)
    assert 'position="1"' in server.page()
    assert 'position="2"' not in server.page()
    window = server.truth() - before
    assert window.draft_tokens == 2 * window.drafts > 0
    assert window.accepted_per_position[2:] == (0, 0, 0)
    server.redeploy(k=None)
    assert "spec_decode" not in server.page()


def test_a_script_takes_effect_at_its_times():
    server = SimulatedServer(
        "s",
        script=[
            Phase(10, "calm", traffic=HOME, running=2),
            Phase(10, "busy", running=20, waiting=3),
            Phase(10, "redeployed", k=2),
            Phase(10, "restarted", restart=True, running=1),
            Phase(name="plain", k=0),
        ],
    )
    server.advance(9.5)
    assert total(server.page(), "vllm:num_requests_running") == 2
    server.advance(10)
    assert total(server.page(), "vllm:num_requests_running") == 20
    assert total(server.page(), "vllm:num_requests_waiting") == 3
    server.advance(10)
    assert server.k == 2
    assert total(server.page(), "process_start_time_seconds") == EPOCH + 20
    server.advance(10)
    assert total(server.page(), "process_start_time_seconds") == EPOCH + 30
    assert total(server.page(), "vllm:num_requests_running") == 1
    server.advance(1000)
    assert server.k is None
    assert "spec_decode" not in server.page()


def test_a_phase_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(InputError, match=r"no phase 'nowhere'; its phases: foreign, healthy"):
        demo_fleet()[0].enter("nowhere")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"release": "1.0"}, "no simulated page for vLLM '1.0'"),
        ({"engines": 0}, "cannot run 0 engines"),
        ({"release": V0, "engines": 2}, "cannot run 2 engines"),
        ({"k": 0}, "K must be 1 or more"),
    ],
)
def test_a_server_that_cannot_be_is_refused(arguments: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        SimulatedServer("s", **arguments)


# the demo


def rates(servers: list[SimulatedServer]) -> list[float]:
    """Acceptance rates of the next minute."""
    before = [server.truth() for server in servers]
    for server in servers:
        server.advance(60)
    return [(server.truth() - start).acceptance_rate for server, start in zip(servers, before, strict=True)]


def test_the_demo_fleet_is_healthy_drifts_and_recovers():
    servers = demo_fleet()
    assert len(servers) == 3
    assert rates(servers) == pytest.approx([0.85] * 3, abs=0.03)
    for server in servers:
        server.enter("foreign")
    rates(servers)  # requests of the domain before are finishing
    assert rates(servers) == pytest.approx([0.3] * 3, abs=0.05)
    for server in servers:
        server.enter("healthy")
    rates(servers)
    assert rates(servers) == pytest.approx([0.85] * 3, abs=0.03)


def test_one_replica_of_the_demo_fleet_can_drift_alone_and_by_itself():
    servers = demo_fleet(drifting=1, seconds=60)
    assert min(rates(servers)) > 0.8
    healthy, also_healthy, drifted = rates(servers)
    assert drifted < 0.4 < 0.8 < min(healthy, also_healthy)


def test_the_demo_is_worth_it_at_home_and_not_abroad():
    cost = StepCost()
    assert cost.speedup(1 + 5 * 0.85, 32, 5) > 1.5
    assert cost.speedup(1 + 5 * 0.3, 32, 5) < 1


def test_models_are_listed_as_vllm_does():
    models = json.loads(json.dumps(SimulatedServer("s", model_name="target").models()))
    assert models["data"][0]["id"] == "target"
    assert models["data"][0]["max_model_len"] == 1024
