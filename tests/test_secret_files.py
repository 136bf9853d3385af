"""Secrets from files: what is refused, and that nothing of it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from specwatch.errors import InputError
from specwatch.secret_files import read_secret


def test_a_secret_in_a_file_is_its_one_line(tmp_path: Path):
    (tmp_path / "key").write_text("sk-1\n")
    assert read_secret(tmp_path / "key", "--api-key-file") == "sk-1"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"sk-1\nsk-2\n", "a single line of at most 4096 characters is needed"),
        (b"sk-1" * 2000, "a single line of at most 4096 characters is needed"),
        (b"sk-\x00", "a single line"),
        (b"\xff\xfe", "no text"),
    ],
)
def test_a_file_that_holds_no_secret_is_refused_without_showing_it(tmp_path: Path, content, problem):
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_secret(tmp_path / "key", "--api-key-file")
    assert str(caught.value).startswith(f"--api-key-file {tmp_path}/key: {problem}")
    assert "sk-" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(InputError, match=f"--hf-token-file {tmp_path}/none: no such file or directory"):
        read_secret(tmp_path / "none", "--hf-token-file")
