"""Which data directory `penstock dev` works on: `--data`, else the environment's, else the usual one."""

from pathlib import Path

import click

from local.layout import DEFAULT_DIRECTORY, DataDirectory

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
