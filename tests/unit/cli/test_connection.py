"""Which profile a command uses when none, one or several places name one."""

from pathlib import Path

import click
import pytest

from penstock.cli.connection import chosen_profile
from penstock.cli.invocation import Invocation

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
    assert chosen() is None


def test_the_environment_goes_before_dev(bare_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_environment.write_text(DEV)
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:3")
    assert chosen() is None
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP")
    monkeypatch.setenv("PENSTOCK_PROFILE", "work")
    assert chosen() is None


def test_the_option_goes_before_everything(bare_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_environment.write_text(DEV + DEFAULT)
    monkeypatch.setenv("PENSTOCK_PROFILE", "work")
    assert chosen("dev") == "dev"
