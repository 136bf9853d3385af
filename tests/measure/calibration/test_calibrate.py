"""Calibrating servers that stand in for vLLM: what is asked, counted, kept, gone on with and refused."""

from __future__ import annotations

import dataclasses
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from specwatch.errors import InputError
from specwatch.measure import load
from specwatch.measure.calibration import runs as calibration_runs
from specwatch.measure.calibration import servers as calibration_servers
from specwatch.measure.calibration.blocks import Block, Cell, Design
from specwatch.measure.calibration.calibrate import Calibrator, Fixed
from specwatch.measure.calibration.cells import measured_cells
from specwatch.measure.calibration.partial import Partial
from specwatch.measure.calibration.result import Subject, concluded, document
from specwatch.measure.calibration.runs import Run
from specwatch.measure.prompt_sets import PromptSet
from specwatch.vllm.metrics import Counter
from tests.support.calibrated import Standing, served

DESIGN = Design(
    domains=(PromptSet("home", ("home a", "home b", "home c")), PromptSet("away", ("away a", "away b"))),
    ks=(3,),
    max_concurrency=2,
    repetitions=2,
    requests=4,
    max_tokens=64,
)
SUBJECT = Subject("T", "draft_model", "D", "0.32.0", None)


class Interrupted(Exception):
    """Somebody pressed Ctrl-C."""


async def calibrated(folder: Path, *servers: Standing, design: Design = DESIGN, until: int | None = None, key=None):
    """Measure; ``until``: interrupted once so many blocks are measured."""
    partial = Partial(folder / "result.partial", design.description())
    seen = 0

    def progress(_block: Block, run: Run | None) -> None:
        nonlocal seen
        seen += run is not None
        if seen == until:
            raise Interrupted

    async with AsyncExitStack() as stack:
        urls = {server.k: await stack.enter_async_context(served(server)) for server in servers}
        return await Calibrator(design, Fixed(urls), partial, progress, key).run()


async def refusal(folder: Path, *servers: Standing, **options) -> str:
    with pytest.raises(InputError) as caught:
        await calibrated(folder, *servers, **options)
    return str(caught.value)


def content(run: Run) -> Run:
    """A run without what a clock told."""
    answers = tuple(answer and dataclasses.replace(answer, tpot=None) for answer in run.answers)
    return dataclasses.replace(run, seconds=0, decode_seconds=0, gaps={}, answers=answers)


async def test_every_block_is_asked_and_counted(tmp_path):
    runs = await calibrated(tmp_path, Standing(), Standing(k=3))
    assert set(runs) == set(DESIGN.blocks())
    run = runs[Block(0, 3, Cell("home", 0.0, 2))]
    assert (run.tokens, run.decode_tokens, run.errors) == (4 * 64, 4 * 63, 0)
    # 63 tokens in steps of three: 21 steps, each of which drafts 3 tokens and accepts 2.
    assert run.counts[Counter.DRAFTS] == 4 * 21
    assert run.accepted_per_position == (84, 84, 0)
    assert run.batch_size is not None
    assert sum(run.gaps.values()) == 4 * 21


async def test_the_warm_up_is_left_out_of_what_is_counted(tmp_path):
    plain = Standing()
    runs = await calibrated(tmp_path, plain, Standing(k=3))
    warm = [body for body in plain.asked if body["max_tokens"] != DESIGN.max_tokens]
    measured = sum(len(run.answers) for block, run in runs.items() if block.k == 0)
    assert len(warm) == sum(DESIGN.ladder)
    assert len(plain.asked) == len(warm) + measured


async def test_both_servers_get_the_same_prompts_in_full_length(tmp_path):
    plain, drafting = Standing(), Standing(k=3)
    await calibrated(tmp_path, plain, drafting, design=dataclasses.replace(DESIGN, temperatures=(0.0, 0.7)))
    one, other = ([body["prompt"] for body in server.asked] for server in (plain, drafting))
    assert sorted(one) == sorted(other)
    assert {body["temperature"] for body in plain.asked} == {0.0, 0.7}
    assert all(body["ignore_eos"] for body in plain.asked)
    salts = [body["cache_salt"] for body in plain.asked if body["max_tokens"] == 64]
    assert len(salts) == len(set(salts)), "an answer from the prefix cache of another block is no measurement"


async def test_equal_texts_are_found_and_where_others_part(tmp_path):
    runs = await calibrated(tmp_path, Standing(), Standing(k=3))
    assert {cell.texts.equal / cell.texts.compared for cell in measured_cells(DESIGN, runs)} == {1.0}


async def test_a_server_that_writes_something_else_is_found_out(tmp_path):
    runs = await calibrated(tmp_path, Standing(), Standing(k=3, twist="!!"))
    for cell in measured_cells(DESIGN, runs):
        assert cell.texts is not None
        assert (cell.texts.equal, cell.texts.parted_after) == (0, 62)


async def test_an_interrupted_calibration_goes_on_and_equals_one_that_ran_through(tmp_path):
    (tmp_path / "whole").mkdir()
    whole = await calibrated(tmp_path / "whole", Standing(), Standing(k=3))
    for until in (3, 4):
        with pytest.raises(Interrupted):
            await calibrated(tmp_path, Standing(), Standing(k=3), until=until)
    resumed = await calibrated(tmp_path, Standing(), Standing(k=3))
    for block in DESIGN.blocks():
        assert content(resumed[block]) == content(whole[block])


async def test_what_is_measured_is_not_measured_again(tmp_path):
    first = await calibrated(tmp_path, Standing(), Standing(k=3))
    plain = Standing()
    second = await calibrated(tmp_path, plain, Standing(k=3))
    assert second == first
    assert {body["max_tokens"] for body in plain.asked} == {16}, "the warm-up's"


async def test_the_same_runs_give_the_same_document(tmp_path):
    shares = {"home": 0.5, "away": 0.5}
    runs = await calibrated(tmp_path, Standing(), Standing(k=3))
    again = Partial(tmp_path / "result.partial", DESIGN.description()).runs
    one, other = (json.dumps(document(concluded(SUBJECT, DESIGN, shares, each, 0.0))) for each in (runs, again))
    assert one == other


async def test_a_line_that_was_cut_off_is_measured_again(tmp_path):
    whole = await calibrated(tmp_path, Standing(), Standing(k=3))
    path = tmp_path / "result.partial"
    raw = path.read_bytes()
    path.write_bytes(raw[:-100])
    resumed = await calibrated(tmp_path, Standing(), Standing(k=3))
    assert len(path.read_bytes().splitlines()) == len(raw.splitlines())
    last = DESIGN.blocks()[-1]
    assert content(resumed[last]) == content(whole[last])


def test_another_measurement_is_not_gone_on_with(tmp_path):
    path = tmp_path / "result.partial"
    Partial(path, DESIGN.description())
    with pytest.raises(InputError, match="max_tokens 64, not 32; go on with the options it was begun with, remove it"):
        Partial(path, DESIGN.description() | {"max_tokens": 32})


@pytest.mark.parametrize("text", ["{", "[1]\n", '{"format": 1}\n{"block": 3}\n', '{"format": 1}\nnull\n'])
def test_a_file_that_is_no_unfinished_calibration_is_refused_and_kept(tmp_path, text):
    path = tmp_path / "result.partial"
    path.write_text(text + "\n")
    with pytest.raises(InputError, match="remove it, or choose another --output"):
        Partial(path, DESIGN.description())
    assert path.read_text() == text + "\n"


@pytest.mark.parametrize(
    ("plain", "drafting", "problem"),
    [
        (Standing(), Standing(k=3, model="U"), "have model T and U: they must differ by speculation alone"),
        (Standing(), Standing(k=3, tokens=(1, 2)), "tokenizers that split the same text differently"),
        (Standing(), Standing(k=3, release="0.31.0"), "vLLM 0.32.0 and 0.31.0"),
        (Standing(page="up 1\n"), Standing(k=3), "its /metrics is not vLLM's"),
        (Standing(page="vllm:x 1\n"), Standing(k=3), "it exports no statistics"),
        (Standing(page="<html>"), Standing(k=3), "the page ends in the middle of a line"),
        (Standing(), Standing(k=3, foreign_tokens=2), "other traffic during the run: it generated "),
        (Standing(running=2, works=True), Standing(k=3), "2 requests of somebody else run on it"),
        (Standing(status=500), Standing(k=3), "4 of 4 requests failed, the last one with: http"),
        (Standing(key="secret"), Standing(k=3), "/v1/models with HTTP 401; it wants a key: --api-key-file"),
    ],
    ids=lambda value: value.replace("/", "") if isinstance(value, str) else "",
)
async def test_servers_that_cannot_be_compared_are_named(tmp_path, monkeypatch, plain, drafting, problem):
    monkeypatch.setattr(load, "PAUSE_AFTER_ERROR_SECONDS", 0)
    monkeypatch.setattr(calibration_runs, "WATCH_SECONDS", 0)
    said = await refusal(tmp_path, plain, drafting)
    assert problem in said
    assert "\n" not in said


async def test_a_request_that_was_broken_off_and_is_still_in_the_gauge_is_nobody_elses(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration_runs, "WATCH_SECONDS", 0)
    monkeypatch.setattr(calibration_servers, "SETTLE_SECONDS", 0)
    runs = await calibrated(tmp_path, Standing(running=1), Standing(k=3))
    assert len(runs) == len(DESIGN.blocks())


async def test_a_baseline_that_speculates_is_named(tmp_path):
    drafting = Standing(k=3)
    async with served(drafting) as url:
        partial = Partial(tmp_path / "result.partial", {})
        with pytest.raises(InputError, match="the baseline speculates after all, with K 3 by its page"):
            await Calibrator(DESIGN, Fixed({0: url, 3: url}), partial, lambda *_: None).run()


async def test_a_server_that_does_not_speculate_is_named(tmp_path):
    async with served(Standing()) as url:
        partial = Partial(tmp_path / "result.partial", {})
        with pytest.raises(InputError, match="it does not speculate: its page has no counters of drafts"):
            await Calibrator(DESIGN, Fixed({0: url, 3: url}), partial, lambda *_: None).run()


async def test_what_was_measured_before_a_failure_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "PAUSE_AFTER_ERROR_SECONDS", 0)
    warm = sum(DESIGN.ladder)
    said = await refusal(tmp_path, Standing(), Standing(k=3, fail_after=warm + 8))
    assert "out of luck" in said
    kept = Partial(tmp_path / "result.partial", DESIGN.description()).runs
    assert list(kept) == DESIGN.blocks()[: len(kept)]
    assert len(kept) >= 4


async def test_a_failed_request_among_many_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "PAUSE_AFTER_ERROR_SECONDS", 0)
    design = dataclasses.replace(DESIGN, requests=20, max_concurrency=1, domains=DESIGN.domains[:1], repetitions=2)
    drafting = Standing(k=3, fail_after=1 + 39)
    runs = await calibrated(tmp_path, Standing(), drafting, design=design)
    (cell,) = measured_cells(design, runs)
    assert (cell.errors, cell.timeouts, cell.answers) == (1, 0, 39)
    assert cell.texts is not None
    assert (cell.texts.compared, cell.texts.equal) == (39, 39)


async def test_the_key_is_shown_to_servers_that_ask_for_it(tmp_path):
    await calibrated(tmp_path, Standing(key="secret"), Standing(k=3, key="secret"), key="secret")
    assert "secret" not in (tmp_path / "result.partial").read_text()
