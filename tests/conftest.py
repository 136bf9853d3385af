"""What every test shares: heavy tests take turns."""

from __future__ import annotations

import pytest

HEAVY = ("vllm", "services", "browser", "slow")


def _is_heavy(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(marker) for marker in HEAVY)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the heavy tests to one worker, which starts on them at once.

    A vLLM server takes every core it finds: beside another heavy test both would be late. With
    ``-n 2 --dist loadgroup`` one worker runs these one by one while the other runs all the rest.
    """
    for item in items:
        if _is_heavy(item):
            item.add_marker(pytest.mark.xdist_group("heavy"))
    items.sort(key=lambda item: not _is_heavy(item))
