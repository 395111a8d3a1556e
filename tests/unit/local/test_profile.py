"""The profile file of a user: one table is replaced, and nothing else of it changes."""

import shutil
import stat
import tomllib
from pathlib import Path

import pytest

from local.layout import DataDirectory
from local.profile import is_written, pointed_elsewhere, read_api_key, write_profile
from penstock.contract.errors import ConfigurationError
from penstock.profile_changes import with_profile
from penstock.profiles import PROFILE_FILE, connection_settings, read_profile

FIELDS: dict[str, str | list[str]] = {"bootstrap": ["127.0.0.1:1", "127.0.0.1:2"], "api_key": 'a"b'}


def test_a_profile_is_added_to_an_empty_file() -> None:
    assert tomllib.loads(with_profile("", "dev", FIELDS)) == {"dev": FIELDS}


def test_other_profiles_and_comments_stay_as_they_are() -> None:
    before = (
        "# mine\n[work]\napi_key = 'x' # keep\n\n[dev]\nold = 1\n[dev.more]\na = 1\n\n[z]\nb = [\n  2,\n]\n"
    )
    after = with_profile(before, "dev", FIELDS)
    assert tomllib.loads(after) == {"work": {"api_key": "x"}, "dev": FIELDS, "z": {"b": [2]}}
    assert "# mine\n[work]\napi_key = 'x' # keep\n" in after
    assert after.endswith("[z]\nb = [\n  2,\n]\n")
    assert with_profile(after, "dev", FIELDS) == after


def test_a_separator_within_a_text_ends_no_line() -> None:
    before = "[work]\nnote = 'one\u2028[dev]\u2028two'\n"
    after = with_profile(before, "dev", FIELDS)
    assert tomllib.loads(after) == {"work": {"note": "one\u2028[dev]\u2028two"}, "dev": FIELDS}


def test_a_profile_of_a_longer_name_is_not_taken_for_it() -> None:
    after = with_profile("[development]\na = 1\n", "dev", FIELDS)
    assert tomllib.loads(after) == {"development": {"a": 1}, "dev": FIELDS}


@pytest.mark.parametrize(
    "text", ["dev = { a = 1 }\n", '["dev"]\na = 1\n', 'a = """\n[dev]\nx = 1\n"""\n', "dev.a = 1\n"]
)
def test_a_file_that_cannot_be_changed_safely_is_left_alone(text: str) -> None:
    with pytest.raises(ConfigurationError, match="by hand"):
        with_profile(text, "dev", FIELDS)


def test_the_profile_is_written_where_the_sdk_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "config" / "profiles.toml"
    monkeypatch.setenv(PROFILE_FILE, str(users))
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP", raising=False)
    monkeypatch.delenv("PENSTOCK_API_KEY", raising=False)
    directory = DataDirectory(tmp_path / "cluster")
    spec = directory.load_or_create(2)
    assert read_api_key(directory) is None
    assert write_profile(directory, spec, "the-key") == users
    settings = connection_settings(profile="dev")
    assert settings.api_key == "the-key"
    assert list(settings.bootstrap) == [broker.client_address for broker in spec.brokers]
    assert read_api_key(directory) == "the-key"
    assert read_profile("dev")["data"] == str(directory.path)
    assert stat.S_IMODE(users.stat().st_mode) == 0o600


def test_a_profile_file_that_is_no_toml_is_named_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "profiles.toml"
    users.write_text("not toml")
    monkeypatch.setenv(PROFILE_FILE, str(users))
    directory = DataDirectory(tmp_path / "cluster")
    with pytest.raises(ConfigurationError, match=r"profiles\.toml"):
        write_profile(directory, directory.load_or_create(1), "the-key")
    assert users.read_text() == "not toml"


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "profiles.toml"
    monkeypatch.setenv(PROFILE_FILE, str(file))
    return file


def test_a_profile_of_another_service_is_left_alone_and_told(tmp_path: Path, users: Path) -> None:
    first, second = DataDirectory(tmp_path / "first"), DataDirectory(tmp_path / "second")
    write_profile(first, first.load_or_create(1), "first-key")
    kept = users.read_text()
    write_profile(second, second.load_or_create(1), "second-key")
    assert users.read_text() == kept
    assert pointed_elsewhere(second) == str(first.path) and pointed_elsewhere(first) is None
    assert read_api_key(second) == "second-key", "its own folder has it"


def test_a_profile_that_was_written_by_hand_is_left_alone(tmp_path: Path, users: Path) -> None:
    users.write_text('[dev]\napi_url = "https://penstock.example"\n')
    directory = DataDirectory(tmp_path / "cluster")
    write_profile(directory, directory.load_or_create(1), "key")
    assert read_profile("dev") == {"api_url": "https://penstock.example"}
    assert pointed_elsewhere(directory) == "https://penstock.example"


def test_a_profile_of_a_service_that_is_gone_is_replaced(tmp_path: Path, users: Path) -> None:
    first, second = DataDirectory(tmp_path / "first"), DataDirectory(tmp_path / "second")
    write_profile(first, first.load_or_create(1), "first-key")
    shutil.rmtree(first.path)
    write_profile(second, second.load_or_create(1), "second-key")
    assert read_profile("dev")["api_key"] == "second-key"
    assert pointed_elsewhere(second) is None


def test_a_home_that_cannot_be_written_to_does_without_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.write_text("no folder can be made here, not even by root")
    monkeypatch.setenv(PROFILE_FILE, str(home / "profiles.toml"))
    directory = DataDirectory(tmp_path / "cluster")
    write_profile(directory, directory.load_or_create(1), "the-key")
    assert not is_written(directory) and pointed_elsewhere(directory) is None
    monkeypatch.setenv(PROFILE_FILE, str(directory.profile_file))
    assert read_profile("dev")["api_key"] == "the-key", "as the command says that it is found"


def test_a_profile_that_was_written_is_told_from_an_older_one(tmp_path: Path, users: Path) -> None:
    directory = DataDirectory(tmp_path / "cluster")
    spec = directory.load_or_create(1)
    assert not is_written(directory)
    write_profile(directory, spec, "the-key")
    assert is_written(directory)
    users.write_text(users.read_text().replace("the-key", "an older key"))
    assert not is_written(directory)
