"""``specwatch verify`` for people and for scripts: what it prints, and how it ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import verify_samplers
from specwatch.cli.verify import command
from specwatch.errors import InputError
from tests.support.lab import specwatch
from tests.support.programs import finish
from tests.support.scoring_server import ScoringServer, scoring


async def run(behaviour: ScoringServer, *options: str):
    """The command's result, against a server that behaves so."""
    async with scoring(behaviour) as url:
        return await asyncio.to_thread(CliRunner().invoke, command, [url, *options])


async def test_a_sound_server_ends_with_0_and_says_by_which_figures():
    done = await run(ScoringServer(), "--temperature", "0", "--temperature", "1")
    assert done.exit_code == 0, done.output
    head, *lines = done.stdout.splitlines()
    assert "vLLM 0.32.0 · simulated · scores list 20 tokens" in head
    assert "temperature 0: sound" in lines
    assert "temperature 1: sound" in lines
    assert "1,024 tokens in 16 answers; 1,024 tokens drafted meanwhile, 1,024 accepted" in done.stdout
    assert "every token is the likeliest by the server's own score; at most 0.67% can be off" in done.stdout
    assert "surprise of a token, nats" in done.stdout
    assert "temperature 1: asking for 1000 tokens" in done.stderr


async def test_a_distorted_server_ends_with_1():
    done = await run(ScoringServer(sampler=verify_samplers.garbage(1.0)), "--temperature", "1.0")
    assert done.exit_code == 1, done.output
    assert "temperature 1: DISTORTED" in done.stdout
    assert "times what it takes" in done.stdout


async def test_greedy_distortion_tells_how_far_it_is_off():
    done = await run(ScoringServer(off_every=30), "--temperature", "0")
    assert done.exit_code == 1, done.output
    assert "tokens are not the likeliest by the server's own score, by up to" in done.stdout


async def test_too_few_tokens_end_with_2_and_say_how_many_it_takes():
    done = await run(ScoringServer(), "--temperature", "1", "--tokens", "100")
    assert done.exit_code == 2, done.output
    assert "temperature 1: inconclusive" in done.stdout
    assert "more tokens to exclude one (--tokens)" in done.stdout


async def test_nothing_drafted_ends_with_2():
    done = await run(ScoringServer(drafts=False), "--temperature", "0")
    assert done.exit_code == 2, done.output
    assert "nothing was drafted for this text, so nothing of it was tested" in done.stdout


async def test_a_server_without_speculation_is_called_so():
    done = await run(ScoringServer(speculates=False), "--temperature", "0")
    assert done.exit_code == 0, done.output
    assert "serves without speculation, so this is its plain sampling" in done.stdout


async def test_a_server_that_dies_ends_with_2_after_what_was_found():
    done = await run(ScoringServer(dies_after=60), "--temperature", "0", "--temperature", "1")
    assert done.exit_code == 2, done.output
    assert "temperature 0: sound" in done.stdout
    assert "closed the connection without an answer" in done.stderr


async def test_scripts_get_one_object_with_every_figure():
    done = await run(ScoringServer(), "--json", "--temperature", "0", "--temperature", "0.7")
    found = json.loads(done.stdout)
    assert done.exit_code == 0, done.output
    assert (found["format"], found["verdict"], found["problem"]) == (1, "sound", None)
    greedy, sampled = found["temperatures"]
    assert (greedy["temperature"], greedy["off_tokens"], greedy["speculates"]) == (0, 0, True)
    assert set(sampled["checks"]) == {"surprise", "likeliest", "likeliest_open", "likeliest_sure", "unlikely"}
    assert sampled["checks"]["likeliest"].keys() >= {"observed", "expected", "excluded_beyond", "z"}
    assert sampled["evidence"] < 1


async def test_prompts_come_from_a_file(tmp_path: Path):
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "eins"}\n"zwei"\n')
    behaviour = ScoringServer()
    await run(behaviour, "--prompts", str(file), "--temperature", "0")
    assert {body["prompt"] for body in behaviour.asked if isinstance(body["prompt"], str)} == {"eins", "zwei"}


async def test_a_key_comes_from_a_file(tmp_path: Path):
    (tmp_path / "key").write_text("opensesame\n")
    done = await run(ScoringServer(api_key="opensesame"), "--token-file", str(tmp_path / "key"), "--temperature", "0")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--temperature", "0.001"], "--temperature 0.001: 0 is possible, or from 0.01, vLLM's least, on"),
        (["--temperature", "nan"], "--temperature nan: 0 is possible"),
        (["--prompts", "nowhere.jsonl"], "--prompts nowhere.jsonl: no such file"),
        (["--token-file", "nowhere"], "--token-file nowhere: no such file"),
    ],
)
def test_options_that_cannot_be_used_are_named(options, said):
    with pytest.raises(InputError, match=said):
        CliRunner().invoke(command, ["http://127.0.0.1:9", *options], catch_exceptions=False)


@pytest.mark.parametrize("options", [["--tokens", "5"], ["--temperature", "3"], ["--concurrency", "0"]])
def test_options_out_of_range_end_with_2(options):
    assert CliRunner().invoke(command, ["http://127.0.0.1:9", *options]).exit_code == 2


def test_no_server_is_one_message_and_2():
    done = finish(specwatch("verify", "http://127.0.0.1:9"))
    assert done.returncode == 2
    assert done.stderr.startswith("specwatch: http://127.0.0.1:9 cannot be asked")
    assert "Traceback" not in done.stderr
