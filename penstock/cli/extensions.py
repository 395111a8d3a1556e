"""Commands of the server, found as entry points of the group `penstock.commands`.

The name of an entry point is the path of its command, parts divided by dots: `dev` is `penstock dev`,
`topic.create` is `penstock topic create`. It leads to a click command in `data_plane`, `control_plane`, `spark_usage`,
`daemon` or `local`, which the wheel does not hold.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from penstock.cli.exit_codes import ServerPartMissing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "penstock.commands"
_SERVER_PACKAGES = ("control_plane", "daemon", "data_plane", "local", "spark_usage")
_OWN_PACKAGES = (*_SERVER_PACKAGES, "penstock")


class Absent(Exception):
    """The entry point is known, what it leads to is not installed."""

    def __init__(self, path: Sequence[str], missing_module: str) -> None:
        super().__init__(f"penstock {' '.join(path)} needs {missing_module}")
        self.path = tuple(path)
        self.missing_module = missing_module

    def refusal(self) -> ServerPartMissing:
        """The message for the user."""
        command = f"penstock {' '.join(self.path)}"
        if self.missing_module.partition(".")[0] in _SERVER_PACKAGES:
            return ServerPartMissing(f"{command} belongs to the server, which is not installed here")
        return ServerPartMissing(
            f"{command} needs the package {self.missing_module}, which is not installed here"
        )


@functools.cache
def _found() -> "dict[tuple[str, ...], EntryPoint]":
    from importlib.metadata import entry_points

    return {tuple(point.name.split(".")): point for point in entry_points(group=GROUP)}


def find_again() -> None:
    """Forget which entry points were found: distributions have changed."""
    _found.cache_clear()


def names_under(path: Sequence[str]) -> list[str]:
    """Names of the server's commands directly under a group's path, sorted."""
    depth = len(path)
    return sorted(name[depth] for name in _found() if len(name) == depth + 1 and name[:depth] == tuple(path))


def load(path: Sequence[str]) -> click.Command:
    """The command at `path`, which must be one of `names_under`. Raises `Absent`."""
    point = _found()[tuple(path)]
    try:
        command = point.load()
    except ModuleNotFoundError as missing:
        name = missing.name or point.module
        # The entry's own module may be what is missing: `local` can be a folder of the user's.
        absent = name in _SERVER_PACKAGES or name == point.module
        if name.partition(".")[0] in _OWN_PACKAGES and not absent:
            raise  # part of what is there: a bug
        raise Absent(path, name) from missing
    if not isinstance(command, click.Command):
        raise TypeError(f"entry point {point.name} leads to {command!r}, which is no click command")
    return command
