"""What can be said of a configuration before its process is started: findings of one line, that show no secret.

Each process's own package says what is to be checked of its file, as a `Kind`; this module has what they share.
"""

import errno
import os
import re
import socket
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol, TypeVar

from daemon import certificates, settings
from daemon.identity import Role
from daemon.logs import without_secrets
from daemon.settings import Settings
from daemon.tls import IdentityConfig, OwnIdentity
from penstock.contract.errors import ConfigurationError
from penstock.rules.addresses import split_address

SettingsT = TypeVar("SettingsT", bound=Settings)
CONNECT_S = 5.0
LINE_MAX = 400
SOON_DAYS = 14
"""A certificate that expires within this time is something to look at."""
_PASSWORD = re.compile(r"(:/+[^\s/@:]*:)[^\s/]*@")
"""What stands between a user's name and the host of an address."""


class State(Enum):
    OK = "ok"
    DOUBTFUL = "doubtful"
    """The process starts, and will not do so for long."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at. `text` is one line; of what is wrong it says what to do."""

    setting: str
    state: State
    text: str


class Kind(Protocol):
    """A process, as `config check` knows it."""

    @property
    def name(self) -> str:
        """As in the command that starts it."""

    def recognizes(self, values: Mapping[str, Any]) -> bool:
        """Whether a file with these values is for this process."""

    def check(self, file: Path, environment: Mapping[str, str], *, connect: bool) -> Iterator[Finding]:
        """All that can be found. `connect`: also by asking the stores that the configuration names."""


def ok(setting: str, text: str) -> Finding:
    return Finding(setting=setting, state=State.OK, text=one_line(text))


def wrong(setting: str, text: str) -> Finding:
    return Finding(setting=setting, state=State.WRONG, text=one_line(text))


def one_line(text: str) -> str:
    """One line without passwords, keys and what could steer a terminal."""
    shown = without_secrets(_PASSWORD.sub(r"\1…@", text))
    shown = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape", "backslashreplace").decode()
        for sign in shown
    )
    return shown if len(shown) <= LINE_MAX else shown[: LINE_MAX - 1] + "…"


def refused(error: ConfigurationError, file: Path) -> Finding:
    """The finding of a configuration that the process itself would refuse."""
    text = error.message.removeprefix(f"{file}: ")
    setting, parted, rest = text.partition(": ")
    return wrong(setting, rest) if parted and " " not in setting else wrong("the file", text)


def read_values(
    file: Path,
    model: type[SettingsT],
    environment: Mapping[str, str],
    *,
    prefix: str,
    others: Collection[str] = (),
    given: Mapping[str, Any] | None = None,
) -> tuple[SettingsT | None, list[Finding]]:
    """The settings in the file, or None and all that its process would refuse; see `settings.read`."""
    try:
        read = settings.read(file, model, given=given, environment=environment, prefix=prefix, others=others)
        return read, []
    except ConfigurationError as error:
        problems = settings.problems(
            file, model, given=given, environment=environment, prefix=prefix, others=others
        )
        return None, [refused(problem, file) for problem in problems or [error]]


def readable(setting: str, file: Path) -> Finding:
    """Whether this user can read the file."""
    try:
        with file.open("rb") as opened:
            opened.read(1)
    except OSError as error:
        return wrong(setting, f"{file}: {error.strerror}; make the file, or let {_user()} read it")
    return ok(setting, f"{file} can be read")


def private(setting: str, file: Path) -> Finding:
    """As `readable`, for a file that no other user may read."""
    found = readable(setting, file)
    if found.state is State.OK and file.stat().st_mode & (stat.S_IRWXG & ~stat.S_IRGRP | stat.S_IRWXO):
        return wrong(setting, f"{file}: it is a secret that others can read or change; chmod o=,g-wx {file}")
    return found


def identity(
    files: IdentityConfig, role: Role, cluster_id: str = "", broker_id: int | None = None
) -> Iterator[Finding]:
    """Whether the certificates of mutual TLS are this process's, fit together, and are good now and for a while."""
    yield readable("identity.ca_file", files.ca_file)
    yield readable("identity.certificate_file", files.certificate_file)
    yield private("identity.key_file", files.key_file)
    try:
        own = OwnIdentity(files, role, cluster_id=cluster_id, broker_id=broker_id)
    except ConfigurationError as error:
        setting, _, text = error.message.partition(": ")
        yield wrong(setting, f"{text}; `penstock cluster certificates` makes and renews them")
        return
    soon = own.warnings()
    for text in soon.values():
        yield Finding(setting="identity", state=State.DOUBTFUL, text=one_line(text))
    if not soon:
        yield ok(
            "identity", f"is {own.current.identity}, for {int(min(own.ends_s().values()) / 86_400)} days"
        )


def valid_now(setting: str, file: Path) -> Iterator[Finding]:
    """Whether the certificate is valid now, and for how long."""
    try:
        found = certificates.described(certificates.load(file)[0])
    except ConfigurationError:
        return  # what is wrong with the file has been said
    now = certificates.utc_now()
    days = found.days_left(now)
    if now < found.not_before or found.not_after <= now:
        when = f"from {found.not_before:%Y-%m-%d %H:%M} to {found.not_after:%Y-%m-%d %H:%M} UTC"
        yield wrong(setting, f"{file} is valid {when}; put one there that is valid now, or set the clock")
    elif days < SOON_DAYS:
        text = one_line(f"{file} expires in {days} days; put a new one there")
        yield Finding(setting=setting, state=State.DOUBTFUL, text=text)
    else:
        yield ok(setting, f"{file} is valid for {days} days")


def is_absent(file: Path) -> bool:
    """Whether there is no such file. False where that cannot be known: who reads it then finds out why."""
    try:
        os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def usable_folder(setting: str, folder: Path) -> Finding:
    """Whether this user can write into the folder, or make it."""
    there = folder
    while is_absent(there) and there != there.parent:
        there = there.parent
    try:
        if not stat.S_ISDIR(os.stat(there).st_mode):
            return wrong(setting, f"{there} is a file; name a folder")
    except OSError as error:
        return wrong(setting, f"{error.strerror}; name another folder than {folder}")
    if not os.access(there, os.W_OK | os.X_OK):
        return wrong(
            setting, f"{there}: {_user()} cannot write there; make {folder} and give it to that user"
        )
    return ok(setting, f"{folder} " + ("can be written to" if there == folder else "can be made"))


def bindable(setting: str, address: str) -> Finding:
    """Whether this host can listen there now."""
    host, port = split_address(address)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = found[0]
        with socket.socket(family, kind, protocol) as bound:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(where)
    except socket.gaierror as error:
        return wrong(
            setting, f"{address}: the name {host} has no address ({error.strerror}); give an address"
        )
    except (OSError, UnicodeError, OverflowError) as error:
        return wrong(setting, f"{address}: {_why_not(error)}")
    return ok(setting, f"{address} can be listened on")


def reachable(setting: str, address: str) -> Finding:
    """Whether something takes connections there."""
    host, port = split_address(address)
    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return wrong(setting, f"{address}: {reason}; start what listens there, or give another address")
    return ok(setting, f"{address} takes connections")


def _why_not(error: Exception) -> str:
    match error:
        case OSError(errno=errno.EADDRINUSE):
            return "a process listens there already; stop it, or give another port"
        case OSError(errno=errno.EADDRNOTAVAIL):
            return "it is no address of this host; give one that `ip address` shows"
        case OSError(errno=errno.EACCES):
            return f"{_user()} may not listen on this port; give one from 1024 on"
        case _:
            return f"{getattr(error, 'strerror', None) or error}; give another address"


def _user() -> str:
    return f"user {os.geteuid()}"
