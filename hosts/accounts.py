"""The accounts that servers run as, which refuse to be root."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from hosts.commands import CommandFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user and its group, by number."""

    user: int
    group: int

    @classmethod
    def of(cls, name: str) -> "Account":
        """The account of that name, which the server's package makes. Raises `CommandFailed`."""
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise CommandFailed(["id", name], "no such account; the server's package makes it") from None
        return cls(user=found.pw_uid, group=found.pw_gid)

    def own(self, *paths: Path) -> None:
        """Give it these files and folders."""
        for path in paths:
            os.chown(path, self.user, self.group)
