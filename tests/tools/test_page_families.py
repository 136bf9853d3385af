from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from tools import page_families

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize(
    ("shipped", "source"),
    [
        ("vllm-0.32.0-v1", "vllm-0.32.0-v1-draft_model-json"),
        ("vllm-0.8.5.post2-v0", "vllm-0.8.5.post2-v0-draft_model"),
    ],
)
def test_the_simulator_s_families_are_those_of_the_captured_page(shipped: str, source: str):
    made = page_families.text(page_families.families((FIXTURES / f"{source}.txt").read_text()))
    assert resources.files("specwatch.lab").joinpath("pages", f"{shipped}.json").read_text() == made


def test_a_line_that_is_no_sample_is_named():
    with pytest.raises(SystemExit, match="not a sample: nonsense"):
        page_families.families("# HELP x What it is.\n# TYPE x gauge\nnonsense\n")
