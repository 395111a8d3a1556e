"""How a server's command finds its cluster: `--data`, else the profile's data directory, else the usual
one.
"""

from pathlib import Path

import click

from data_plane.dev.layout import DEFAULT_DIRECTORY, DataDirectory, NoCluster
from data_plane.dev.profile import data_of_profile
from penstock.cli.connection import chosen_profile
from penstock.contract.errors import ConfigurationError

DATA_VARIABLE = "PENSTOCK_DEV_DATA"

data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    envvar=DATA_VARIABLE,
    help=f"Data directory of the dev cluster (default {DEFAULT_DIRECTORY}, or {DATA_VARIABLE}).",
)


def directory_of(data: Path | None) -> DataDirectory:
    """The directory that `penstock dev` works on."""
    return DataDirectory(data or DEFAULT_DIRECTORY)


def directory_for_server_command(data: Path | None) -> DataDirectory:
    """The directory that holds the cluster secret for a command such as `penstock topic create`.

    Raises `NoCluster` when there is none, `ConfigurationError` when the profile names no data directory.
    """
    if data is not None:
        return DataDirectory(data)
    profile = chosen_profile()
    named = data_of_profile(profile)
    if named is not None:
        return DataDirectory(named)
    if profile is not None:
        raise ConfigurationError(
            f"profile {profile!r}: names no data directory, so there is no cluster secret; use --data"
        )
    usual = DataDirectory(DEFAULT_DIRECTORY)
    if not usual.cluster_file.exists():
        raise NoCluster(f"{usual.path}: no dev cluster here, and no profile names one")
    return usual
