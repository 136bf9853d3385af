"""Bring docs/signals.md up to the signal catalogue: ``python -m tools.signals_page``, as ``make generate`` does."""

from __future__ import annotations

from pathlib import Path

from specwatch.generate.signals_page import filled

PAGE = Path(__file__).parent.parent / "docs" / "signals.md"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
