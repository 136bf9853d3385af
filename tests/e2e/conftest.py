"""The lab's models, and one real vLLM server for all tests that can share it: a start takes up to a minute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specwatch.lab.models import LabModels, prepare
from tests.support.lab import LabServer, launched


@pytest.fixture(scope="session")
def lab_models() -> LabModels:
    """The lab's two models, trained first where they are not cached."""
    return prepare()


@pytest.fixture(scope="session")
def lab_server(lab_models: LabModels, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A vLLM under ``specwatch launch``, idle between tests; at the end nothing of it may be left."""
    with launched(lab_models, tmp_path_factory.mktemp("lab")) as server:
        yield server
        server.launch.process.terminate()
        assert server.launch.exit_code(seconds=60.0) == 0, server.launch.tail()
        assert server.launch.left_behind() == []
