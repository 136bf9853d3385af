from __future__ import annotations

import pytest

from specwatch.vllm.metrics import Counter, Dialect, PageError, read_page
from tests.support.pages import FIXTURES, page, page_text

V1_PAGES = sorted(path.stem for path in FIXTURES.glob("*-v1-*.txt") if "-off" not in path.stem)


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        *((name, Dialect.V1) for name in V1_PAGES),
        ("vllm-0.10.2-v1-off", Dialect.OFF),
        ("vllm-0.32.0-v1-off", Dialect.OFF),
        ("vllm-0.8.5.post2-v0-off", Dialect.OFF),
        ("vllm-0.8.5.post2-v0-draft_model", Dialect.V0),
        ("vllm-0.8.5.post2-v0-draft_model-before", Dialect.NO_STATS),
    ],
)
def test_the_dialect_is_recognised_from_the_page_alone(name: str, dialect: Dialect):
    assert page(name).dialect is dialect


@pytest.mark.parametrize("name", V1_PAGES)
def test_on_every_v1_page_positions_add_up_to_the_accepted_tokens(name: str):
    for engine in page(name).engines.values():
        assert sum(engine.accepted_per_position) == engine.counters[Counter.ACCEPTED_TOKENS]


@pytest.mark.parametrize("name", V1_PAGES)
def test_positions_never_rise(name: str):
    for engine in page(name).engines.values():
        rates = engine.accepted_per_position
        assert list(rates) == sorted(rates, reverse=True)


def test_the_counters_of_a_page_are_what_the_page_says():
    engine = page("vllm-0.32.0-v1-draft_model-es").engines["0"]
    assert engine.counters == {
        Counter.DRAFTS: 1604,
        Counter.DRAFT_TOKENS: 8020,
        Counter.ACCEPTED_TOKENS: 1305,
        Counter.GENERATION_TOKENS: 2906,
        Counter.FIRST_TOKENS: 20,
        Counter.DECODE_STEPS: 1604,
        Counter.DECODE_STEP_SECONDS: pytest.approx(4.1056, abs=1e-4),
        Counter.FINISHED_REQUESTS: 20,
        Counter.FINISHED_TOKENS: 2906,
        Counter.FINISHED_DECODE_SECONDS: pytest.approx(4.1056, abs=1e-4),
    }
    assert engine.accepted_per_position == (359, 260, 259, 228, 199)


def test_created_gauges_are_never_taken_for_counts():
    engine = page("vllm-0.32.0-v1-draft_model-es").engines["0"]
    unix_times = [value for value in engine.counters.values() if value > 1e9]
    assert unix_times == []


def test_the_old_name_of_inter_token_latency_still_counts_decode_steps():
    text = page_text("vllm-0.10.2-v1-ngram")
    only_old = "\n".join(line for line in text.split("\n") if "inter_token_latency" not in line)
    both, old = read_page(text), read_page(only_old)
    assert old.engines["0"].counters[Counter.DECODE_STEPS] == both.engines["0"].counters[Counter.DECODE_STEPS]


def test_v0_counters_are_not_believed_but_its_efficiency_is():
    snapshot = page("vllm-0.8.5.post2-v0-draft_model-json3")
    assert Counter.ACCEPTED_TOKENS not in snapshot.engines["0"].counters
    assert snapshot.since_start is not None
    # The log of that run: 92.0 % accepted at K = 5 on the draft's own domain.
    assert snapshot.since_start.acceptance_rate(k=5) == pytest.approx(0.92, abs=0.01)
    assert snapshot.since_start.acceptance_length(k=5) == pytest.approx(5.59, abs=0.01)


def test_0_8_4_has_rates_but_no_drafts():
    text = (
        "# TYPE vllm:spec_decode_num_draft_tokens_total counter\n"
        'vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 100.0\n'
        'vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 60.0\n'
        'vllm:generation_tokens_total{engine="0",model_name="m"} 80.0\n'
    )
    assert read_page(text).dialect is Dialect.V1_MIN


def test_renamed_series_are_called_mangled():
    text = page_text("vllm-0.32.0-v1-draft_model-es").replace("vllm:", "vllm_")
    assert read_page(text).dialect is Dialect.MANGLED


def test_a_page_of_another_program_is_told_apart():
    assert read_page("# TYPE node_load1 gauge\nnode_load1 0.5\n").dialect is Dialect.NOT_VLLM


def test_a_diffusion_model_is_told_apart():
    text = 'vllm:diffusion_num_denoising_steps_total{engine="0"} 5.0\nvllm:generation_tokens_total{engine="0"} 9.0\n'
    assert read_page(text).dialect is Dialect.DIFFUSION


def test_engines_are_kept_apart():
    one = page_text("vllm-0.32.0-v1-draft_model-es")
    two = one + "".join(
        line.replace('engine="0"', 'engine="1"') + "\n"
        for line in one.splitlines()
        if 'engine="0"' in line and not line.startswith("#")
    )
    engines = read_page(two).engines
    assert set(engines) == {"0", "1"}
    assert engines["0"] == engines["1"]


def test_a_nan_counts_as_absent():
    text = page_text("vllm-0.32.0-v1-draft_model-es").replace(
        'num_accepted_tokens_total{engine="0",model_name="./lab_target"} 1305.0',
        'num_accepted_tokens_total{engine="0",model_name="./lab_target"} NaN',
    )
    assert Counter.ACCEPTED_TOKENS not in read_page(text).engines["0"].counters


def test_a_model_name_with_quotes_and_backslashes_arrives_as_it_was():
    text = page_text("vllm-0.32.0-v1-draft_model-es").replace("./lab_target", r"a\"b\\c")
    assert read_page(text).model_name == 'a"b\\c'


@pytest.mark.parametrize("name", ["a\u2028b", "a\x85b", "a\rb", "a\x0cb"])
def test_a_model_name_may_hold_what_python_takes_for_the_end_of_a_line(name: str):
    text = page_text("vllm-0.32.0-v1-draft_model-es").replace("./lab_target", name)
    assert read_page(text).model_name == name


def test_an_infinite_counter_counts_as_absent():
    text = 'vllm:generation_tokens_total{engine="0"} +Inf\nvllm:num_requests_running{engine="0"} 1\n'
    assert read_page(text).engines["0"].counters == {}


def test_an_error_repeats_little_of_the_page():
    with pytest.raises(PageError) as caught:
        read_page('vllm:generation_tokens_total{engine="0" ' + "x" * 100_000 + "\n")
    assert len(str(caught.value)) < 200


def test_a_page_of_more_series_than_any_server_has_is_refused_before_it_is_parsed():
    with pytest.raises(PageError, match="more than 100000 series"):
        read_page('vllm:num_requests_running{engine="0"} 1\n' * 100_001)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ('vllm:generation_tokens_total{engine="0"} 12', "cut off"),
        ('vllm:generation_tokens_total{engine="0" 12\n', "not in Prometheus' text format"),
        ('vllm:generation_tokens_total{engine="0"} twelve\n', "not in Prometheus' text format"),
        ('vllm:generation_tokens_total{engine="0"} 1\nvllm:generation_tokens_total{engine="0"} 2\n', "two values"),
        ('vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1e9"} 1\n', "position"),
        ('vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="999999"} 1\n', "position"),
        (f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{"9" * 5000}"}} 1\n', "position"),
    ],
)
def test_a_page_that_cannot_be_read_is_refused_with_the_reason(text: str, words: str):
    with pytest.raises(PageError, match=words):
        read_page(text)


def test_a_page_with_more_engines_than_any_server_has_is_refused():
    text = "".join(f'vllm:generation_tokens_total{{engine="{i}"}} 1\n' for i in range(2000))
    with pytest.raises(PageError, match="2000 engines"):
        read_page(text)


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9])
def test_half_a_page_is_noticed_when_cut_within_a_line(cut: float):
    text = page_text("vllm-0.32.0-v1-draft_model-es")
    half = text[: int(len(text) * cut)].rstrip("\n")
    with pytest.raises(PageError, match="cut off"):
        read_page(half)
