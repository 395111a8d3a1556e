"""Where a server's command finds the cluster secret."""

from pathlib import Path

import click
import pytest

from data_plane.dev.access import directory_for_server_command
from data_plane.dev.layout import DataDirectory, NoCluster
from data_plane.dev.profile import write_profile
from penstock.cli.invocation import Invocation
from penstock.contract.errors import ConfigurationError


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the working directory, and a profile file that does not exist yet."""
    for name in ("PENSTOCK_PROFILE", "PENSTOCK_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "profiles.toml"
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(file))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return file


def found(data: Path | None = None, profile: str | None = None) -> Path:
    with click.Context(click.Command("penstock"), obj=Invocation(profile=profile)):
        return directory_for_server_command(data).path


def test_the_option_goes_before_the_profile(tmp_path: Path) -> None:
    cluster = DataDirectory(tmp_path / "one")
    write_profile(cluster, cluster.load_or_create(1), "key")
    assert found(data=tmp_path / "two") == tmp_path / "two"


def test_the_profile_that_dev_up_wrote_names_the_directory(tmp_path: Path) -> None:
    cluster = DataDirectory(tmp_path / "one")
    write_profile(cluster, cluster.load_or_create(1), "key")
    assert found() == cluster.path
    assert found(profile="dev") == cluster.path


def test_a_profile_without_a_directory_cannot_give_the_secret(profiles: Path) -> None:
    profiles.write_text('[work]\nbootstrap = ["broker:1"]\n')
    with pytest.raises(ConfigurationError, match="profile 'work': names no data directory"):
        found(profile="work")


def test_without_a_profile_the_usual_directory_is_taken_if_there_is_a_cluster() -> None:
    with pytest.raises(NoCluster):
        found()
    DataDirectory(Path("var/penstock-dev")).load_or_create(1)
    assert found() == Path("var/penstock-dev").absolute()
