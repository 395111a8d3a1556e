"""Which profile a command uses when none, one or several places name one."""

from pathlib import Path

import click
import pytest

from penstock.cli.connection import chosen_profile, connect
from penstock.cli.invocation import Invocation
from penstock.cli.rest import rest_client, settings
from penstock.contract.errors import ConfigurationError

DEV = '[dev]\nbootstrap = ["127.0.0.1:1"]\n'
DEFAULT = '[default]\nbootstrap = ["127.0.0.1:2"]\n'


@pytest.fixture(autouse=True)
def bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No PENSTOCK_* variable but the one that names a profile file, which does not exist yet."""
    for name in ("PENSTOCK_PROFILE", "PENSTOCK_BOOTSTRAP", "PENSTOCK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "profiles.toml"
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(file))
    return file


def chosen(profile: str | None = None) -> str | None:
    with click.Context(click.Command("penstock"), obj=Invocation(profile=profile)):
        return chosen_profile()


def test_without_anything_nothing_is_chosen() -> None:
    assert chosen() is None


def test_the_dev_profile_serves_a_newcomer(bare_environment: Path) -> None:
    bare_environment.write_text(DEV)
    assert chosen() == "dev"


def test_a_default_profile_goes_before_dev(bare_environment: Path) -> None:
    bare_environment.write_text(DEV + DEFAULT)
    assert chosen() == "default"


def test_the_environment_goes_before_dev(bare_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_environment.write_text(DEV)
    bare_environment.write_text(DEV + 'api_key = "key-of-dev"\n')
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:3")
    assert chosen() == "dev"
    with click.Context(click.Command("penstock"), obj=Invocation()):
        elsewhere = settings(brokers=True)
        assert (elsewhere.bootstrap, elsewhere.api_key) == (("127.0.0.1:3",), None)
    with click.Context(click.Command("penstock"), obj=Invocation(profile="dev")):
        assert settings(brokers=True).api_key == "key-of-dev", "it is named"
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP")
    monkeypatch.setenv("PENSTOCK_PROFILE", "work")
    with pytest.raises(ConfigurationError, match="'work': not in"):
        chosen()


def test_the_option_goes_before_everything(bare_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_environment.write_text(DEV + DEFAULT)
    monkeypatch.setenv("PENSTOCK_PROFILE", "work")
    assert chosen("dev") == "dev"


def test_what_only_calls_rest_needs_no_address_of_a_broker(
    monkeypatch: pytest.MonkeyPatch, bare_environment: Path
) -> None:
    monkeypatch.setenv("PENSTOCK_API_URL", "https://penstock.example")
    monkeypatch.setenv("PENSTOCK_API_KEY", "psk_mine")
    with click.Context(click.Command("penstock"), obj=Invocation()):
        with rest_client() as rest:
            assert rest.api_url == "https://penstock.example"
        with pytest.raises(ConfigurationError, match="no broker address"):
            settings(brokers=True)
        with pytest.raises(ConfigurationError, match="no broker address"):
            connect()
