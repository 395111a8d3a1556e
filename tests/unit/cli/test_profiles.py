"""`penstock profile` adds, lists, uses and removes what the profile file has, and changes no other line of it."""

import json
import tomllib
from pathlib import Path

import pytest

from penstock.cli.__main__ import run
from penstock.contract.errors import ConfigurationError
from penstock.profiles import connection_settings, read_profile

TEXT = """# mine
[dev]
bootstrap = ["127.0.0.1:1"]
api_key = "secret-dev"

[staging]  # theirs
bootstrap = "staging.example:443"
api_url = "https://staging.example"
api_key = "secret-staging"

[staging.more]
color = "red"
"""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "profiles.toml"
    path.write_text(TEXT)
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(path))
    for name in ("PENSTOCK_PROFILE", "PENSTOCK_BOOTSTRAP", "PENSTOCK_API_KEY", "PENSTOCK_API_URL"):
        monkeypatch.delenv(name, raising=False)
    return path


def test_profiles_are_listed_without_their_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "list"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines() == ["dev\tused\t127.0.0.1:1\t\t", "staging\t\thttps://staging.example\t\t"]
    assert run(["profile", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["profile"], one["used"]) for one in told["profiles"]] == [("dev", True), ("staging", False)]
    assert "secret" not in out + json.dumps(told)


def test_the_used_profile_counts_for_commands_and_for_the_sdk(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("staging", "dev", "staging"):
        assert run(["profile", "use", name]) == 0
    assert file.read_text() == 'use = "staging"\n' + TEXT
    assert file.stat().st_mode & 0o777 == 0o600
    assert connection_settings().api_key == "secret-staging"
    assert connection_settings(profile="dev").api_key == "secret-dev"
    capsys.readouterr()
    assert run(["profile", "list"]) == 0
    assert "staging\tused" in capsys.readouterr().out
    monkeypatch.setenv("PENSTOCK_PROFILE", "dev")
    assert connection_settings().api_key == "secret-dev"
    assert run(["profile", "use", "staging"]) == 0
    assert "PENSTOCK_PROFILE is set here" in capsys.readouterr().err


def test_an_added_profile_holds_what_was_given_and_changes_nothing_else(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("")
    monkeypatch.setenv("PENSTOCK_API_KEY", "secret-ci")
    monkeypatch.chdir(tmp_path)
    words = [
        "--bootstrap",
        "b1.example:1, b2.example:2",
        "--api-url",
        "https://api.example",
        "--ca-file",
        "ca.pem",
    ]
    assert run(["profile", "add", "ci", *words]) == 0
    assert tomllib.loads(file.read_text()) == {
        **tomllib.loads(TEXT),
        "ci": {
            "bootstrap": ["b1.example:1", "b2.example:2"],
            "api_key": "secret-ci",
            "api_url": "https://api.example",
            "ca_file": str(authority),
        },
    }
    assert file.read_text().startswith(TEXT) and file.stat().st_mode & 0o777 == 0o600
    assert "secret-ci" not in "".join(capsys.readouterr())
    kept = file.read_text()
    assert run(["profile", "add", "ci", "--bootstrap", "b3.example:3"]) != 0
    assert "is there already" in capsys.readouterr().err and file.read_text() == kept


def test_the_first_profile_of_a_machine_is_used_and_a_second_one_is_not(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.unlink()
    monkeypatch.setenv("PENSTOCK_API_KEY", "secret")
    assert run(["profile", "add", "first", "--bootstrap", "127.0.0.1:1"]) == 0
    assert run(["profile", "add", "second", "--bootstrap", "127.0.0.1:2"]) == 0
    assert tomllib.loads(file.read_text())["use"] == "first"


@pytest.mark.parametrize(
    "words",
    [
        ["no name", "--bootstrap", "127.0.0.1:1"],
        ["use", "--bootstrap", "127.0.0.1:1"],
        ["a.b", "--bootstrap", "127.0.0.1:1"],
        ["ci", "--bootstrap", "127.0.0.1:1", "--ca-file", "/nowhere.pem"],
        ["ci"],
    ],
)
def test_a_profile_that_could_not_be_used_is_not_added(
    file: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", "secret")
    assert run(["profile", "add", *words]) == 2
    assert file.read_text() == TEXT


@pytest.mark.parametrize("address", ["https://127.0.0.1:1", "", "127.0.0.1"])
def test_an_address_that_is_none_is_not_added(
    file: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", "secret")
    assert run(["profile", "add", "ci", "--bootstrap", address]) == 5
    assert file.read_text() == TEXT


def test_without_a_terminal_the_key_comes_from_the_environment(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", "add", "ci", "--bootstrap", "127.0.0.1:1"]) == 2
    assert "PENSTOCK_API_KEY" in capsys.readouterr().err and file.read_text() == TEXT


def test_a_removed_profile_is_gone_and_not_used_any_more(file: Path) -> None:
    assert run(["profile", "use", "staging"]) == 0
    assert run(["profile", "remove", "staging", "--yes"]) == 0
    assert tomllib.loads(file.read_text()) == {"dev": tomllib.loads(TEXT)["dev"]}
    assert file.read_text().startswith("# mine")
    assert read_profile(None)["api_key"] == "secret-dev", "the only one that is left"


@pytest.mark.parametrize("words", [["use", "none"], ["remove", "none", "--yes"]])
def test_a_profile_that_is_not_there_is_not_found(file: Path, words: list[str]) -> None:
    assert run(["profile", *words]) == 3
    assert file.read_text() == TEXT


def test_removing_without_a_terminal_needs_yes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "remove", "staging"]) == 2
    assert "--yes" in capsys.readouterr().err and file.read_text() == TEXT


def test_a_used_profile_that_is_missing_is_named(file: Path) -> None:
    file.write_text('use = "gone"\n' + TEXT)
    with pytest.raises(ConfigurationError, match="gone"):
        read_profile(None)


@pytest.mark.parametrize("text", ["not toml", "dev = 3\n", "[[dev]]\na = 1\n"])
def test_a_file_that_cannot_be_changed_safely_is_left_alone(file: Path, text: str) -> None:
    file.write_text(text)
    assert run(["profile", "remove", "dev", "--yes"]) in (2, 3, 5)
    assert file.read_text() == text


def test_a_change_inside_an_inline_table_is_refused(file: Path) -> None:
    text = 'dev = {api_key = "k"}\n'
    file.write_text(text)
    assert run(["profile", "remove", "dev", "--yes"]) != 0
    assert file.read_text() == text
