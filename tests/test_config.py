from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specwatch.config import LARGEST_FILE, SidecarConfig, is_loopback, load, read_yaml
from specwatch.errors import InputError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sidecar.yml"


def refusal(file: Path | None, **flags: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(SidecarConfig, file, flags)
    return str(caught.value)


def test_without_anything_given_the_defaults_hold():
    config = load(SidecarConfig, None, {"target": (), "listen": None, "interval": None})
    assert config == SidecarConfig()


def test_flags_win_over_the_file_and_the_file_over_the_defaults(file):
    file.write_text("interval: 30\ntimeout: 2\ntarget: [http://from-the-file:8000]\n")
    config = load(SidecarConfig, file, {"interval": 10.0, "timeout": None, "target": ()})
    assert (config.interval, config.timeout) == (10, 2)
    assert config.target == ("http://from-the-file:8000",)
    assert load(SidecarConfig, file, {"target": ("http://from-a-flag:8000",)}).target == ("http://from-a-flag:8000",)


def test_an_empty_file_is_a_file_without_entries(file):
    file.write_text("# nothing chosen\n")
    assert load(SidecarConfig, file, {}) == SidecarConfig()


def test_an_unknown_key_is_named_with_its_file_and_the_nearest_key(file):
    file.write_text("intervall: 5\n")
    assert f"intervall in {file}: unknown; did you mean interval?" in refusal(file)


def test_a_key_like_no_other_gets_no_guess(file):
    file.write_text("zzzzzz: 5\n")
    assert refusal(file).endswith(f"zzzzzz in {file}: unknown")


def test_a_key_that_is_no_text_is_unknown_like_any_other(file):
    file.write_text("1: 5\nnull: 6\n")
    said = refusal(file)
    assert f"1 in {file}: unknown" in said
    assert f"None in {file}: unknown" in said


def test_all_bad_entries_are_named_at_once_and_where_each_stands(file):
    file.write_text("interval: soon\nlisten: [1]\ntarget: http://gpu-1:8000\nlisten_on: 1\n")
    said = refusal(file, time_scale=7.0)
    assert said.startswith("5 entries of the configuration cannot be used:\n")
    lines = said.splitlines()[1:]
    assert len(lines) == 5
    for key in ("interval", "listen", "target", "listen_on"):
        assert len([line for line in lines if line.strip().startswith(f"{key} in {file}: ")]) == 1
    assert f"target in {file}: Input should be a list, got 'http://gpu-1:8000'" in said
    assert "time_scale: Input should be less than or equal to 1, got '7.0'" in said


def test_one_bad_entry_is_called_one():
    assert refusal(None, interval=0.0).startswith("1 entry of the configuration cannot be used:\n  interval: ")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0, 1e300])
@pytest.mark.parametrize("key", ["interval", "timeout", "time_scale"])
def test_no_duration_is_endless_negative_or_no_number(key, value):
    assert key in refusal(None, **{key: value})


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("interval: 5\ntarget: [http://a\n", 3, "expected ',' or ']'"),
        ("interval: 5\n\tlisten: x\n", 2, "found character"),
        ("interval: 5\n  listen: x\n", 2, "mapping values are not allowed here"),
        ("when: !!python/object:os.system x\n", 1, "could not determine a constructor"),
    ],
)
def test_yaml_that_cannot_be_read_is_placed_by_file_and_line(file, text, line, problem):
    file.write_text(text)
    said = refusal(file)
    assert said.startswith(f"{file}, line {line}: not valid YAML: ")
    assert problem in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "problem"),
    [("interval: \x00", "U+0000"), ("a: " + "[" * 5000, "nested too deeply"), ("a: 2026-99-99\n", "month must be in")],
)
def test_other_yaml_that_cannot_be_read_is_one_message_too(file, text, problem):
    file.write_text(text)
    said = refusal(file)
    assert said.startswith(f"{file}: not valid YAML: ")
    assert problem in said
    assert "\n" not in said


@pytest.mark.parametrize(("text", "found"), [("- interval\n- 5\n", "list"), ("just words\n", "str"), ("7\n", "int")])
def test_a_file_must_hold_keys_and_values(file, text, found):
    file.write_text(text)
    assert refusal(file) == f"{file}: expected keys and values, found a {found}"


def test_a_file_too_large_for_a_configuration_is_not_parsed(file):
    file.write_text("#" * (LARGEST_FILE + 1))
    assert refusal(file) == f"{file}: larger than 1024 KiB; this is no configuration file"
    file.write_text("#" * LARGEST_FILE)
    assert read_yaml(file) == {}


def test_what_is_no_file_is_named(tmp_path):
    assert refusal(tmp_path / "missing.yml") == f"{tmp_path}/missing.yml: no such file or directory"
    assert refusal(tmp_path) == f"{tmp_path}: is a directory"


def test_a_file_that_is_no_text_is_named(file):
    file.write_bytes(b"\xff\xfe\x00interval")
    assert refusal(file) == f"{file}: not a text file in UTF-8"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_is_what_only_this_machine_reaches(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "", "localhost.example.com", "127.0.0.1.example.com"])
def test_other_addresses_are_reached_from_elsewhere(host):
    assert not is_loopback(host)


def test_variables_win_over_the_file_and_flags_over_them(file, monkeypatch):
    file.write_text("interval: 30\ntimeout: 2\n")
    monkeypatch.setenv("TEST_INTERVAL", "20")
    monkeypatch.setenv("TEST_TIMEOUT", "")
    assert load(SidecarConfig, file, {}).interval == 30
    config = load(SidecarConfig, file, {}, "TEST_")
    assert (config.interval, config.timeout) == (20, 2)
    assert load(SidecarConfig, file, {"interval": 10.0}, "TEST_").interval == 10


def test_a_variable_holds_lists_as_yaml_has_them(monkeypatch):
    monkeypatch.setenv("TEST_TARGET", "[http://a:1, http://b:2]")
    assert load(SidecarConfig, None, {}, "TEST_").target == ("http://a:1", "http://b:2")


@pytest.mark.parametrize("text", ["[http://a", "http://a"])
def test_a_bad_variable_is_named_by_its_own_name(monkeypatch, text):
    monkeypatch.setenv("TEST_TARGET", text)
    with pytest.raises(InputError, match="TEST_TARGET: Input should be a list, got"):
        load(SidecarConfig, None, {}, "TEST_")
