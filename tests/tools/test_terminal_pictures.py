"""The pictures of ``specwatch top``: what is drawn, without drawing it."""

from __future__ import annotations

import html

import pytest

from specwatch.cli.status_source import Look
from tests.support.views import NOW, shown
from tools.terminal_pictures import PICTURES, svg


@pytest.mark.parametrize("view", PICTURES.values(), ids=PICTURES)
def test_a_picture_holds_the_screen_and_loads_nothing(view):
    drawn = html.unescape(svg(Look(NOW, (shown("gpu-1"), shown("gpu-3", speedup=0.9)), ()), view)).replace("\xa0", " ")
    assert "gpu-3" in drawn
    assert "≤ 0.90×" in drawn
    assert "url(" not in drawn.replace("url(#", "")
