"""What is measured, in which order, with which prompts."""

from __future__ import annotations

import pytest

from specwatch.errors import InputError
from specwatch.measure.calibration.blocks import Cell, Design
from specwatch.measure.prompt_sets import PromptSet

HOME = PromptSet("home", tuple(f"home {number}" for number in range(100)))
AWAY = PromptSet("away", ("away",))


def design(**entries) -> Design:
    return Design(**({"domains": (HOME, AWAY), "ks": (3, 5), "max_concurrency": 4, "repetitions": 2} | entries))


@pytest.mark.parametrize(("most", "ladder"), [(1, (1,)), (2, (1, 2)), (12, (1, 2, 4, 8, 12)), (16, (1, 2, 4, 8, 16))])
def test_the_ladder_doubles_up_to_the_maximum(most, ladder):
    assert design(max_concurrency=most).ladder == ladder


def test_every_server_meets_every_cell_in_every_repetition():
    blocks = design(temperatures=(0.0, 0.7)).blocks()
    assert len(blocks) == len(set(blocks)) == 2 * 3 * (2 * 2 * 3)


def test_servers_take_turns_within_a_cell_and_change_their_order():
    blocks = design().blocks()
    assert [block.k for block in blocks[:6]] == [0, 3, 5, 0, 3, 5]
    assert {block.cell for block in blocks[:3]} == {Cell("home", 0.0, 1)}
    assert [block.k for block in blocks[-3:]] == [5, 3, 0]


def test_where_one_server_fits_each_has_all_cells_and_none_starts_twice_in_a_row():
    blocks = design(in_turn=True).blocks()
    lives = [block.k for place, block in enumerate(blocks) if place == 0 or blocks[place - 1].k != block.k]
    assert lives == [0, 3, 5, 3, 0]
    assert set(blocks) == set(design().blocks())


def test_all_servers_are_asked_the_same_and_every_repetition_something_else():
    plan = design()
    asked = {block: plan.prompts(block) for block in plan.blocks() if block.cell == Cell("home", 0.0, 4)}
    assert len({prompts for block, prompts in asked.items() if block.repetition == 0}) == 1
    first, second = ({p for block, prompts in asked.items() if block.repetition == r for p in prompts} for r in (0, 1))
    assert not first & second


def test_blocks_are_whole_rounds_and_two_at_least():
    plan = design(requests=10, max_concurrency=16)
    assert [plan.size(concurrency) for concurrency in plan.ladder] == [10, 10, 12, 16, 32]


def test_a_small_set_of_prompts_goes_round():
    plan = design()
    (block, *_) = [block for block in plan.blocks() if block.cell.domain == "away"]
    assert plan.prompts(block) == ("away",) * 8


def test_too_few_tokens_are_refused_before_anything_is_measured():
    with pytest.raises(InputError, match=r"too few tokens.*2 repetitions of 8 answers of 4 tokens are 64, and 500"):
        design(max_tokens=4)


def test_a_domain_given_twice_is_refused():
    with pytest.raises(InputError, match="--domain home: given twice"):
        design(domains=(HOME, HOME))
