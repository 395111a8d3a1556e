"""Where `penstock apply` puts texts of new keys and secrets of new webhooks, each once: a private file or the standard
output.

Beside the file stands, while a key is asked for, what was asked: the text of a key whose answer was lost is nowhere, so
the next run finds that key by its request, revokes it and makes another.
"""

import errno
import json
import os
import stat
import sys
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click

from penstock.cli.output import print_row
from penstock.contract.errors import ConfigurationError
from penstock.private_file import write_private

STANDARD_OUTPUT = "-"
_PRIVATE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A key that was asked for. It holds no secret."""

    name: str
    service_account: str
    body: dict[str, Any]
    idempotency_key: str
    asked_at: str
    """ISO 8601, by the clock of this machine."""


class NewKeys:
    """Takes the texts. Opened before anything is changed, so that an output that cannot be written makes no key.

    In a file each key is one line of JSON behind what is there already; it is on the disk when `keep` returns.
    """

    def __init__(self, to: str) -> None:
        """Raises `ConfigurationError` for a file that others may read, or that cannot be written."""
        self._file = None if to == STANDARD_OUTPUT else Path(to)
        self._descriptor = -1 if self._file is None else _opened(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def begin(self, account: str, body: dict[str, Any]) -> str:
        """The idempotency key to ask for the key with. That it is asked for is on the disk when this returns, if the
        texts go to a file. Raises `OSError`.
        """
        request = Request(
            name=body["name"],
            service_account=account,
            body=body,
            idempotency_key=uuid.uuid4().hex,
            asked_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        if self._file is not None:
            write_private(unanswered_file(self._file), json.dumps(asdict(request)) + "\n")
        return request.idempotency_key

    def end(self) -> None:
        """The text is written down, or there is no such key."""
        if self._file is not None:
            unanswered_file(self._file).unlink(missing_ok=True)

    def keep(self, account: str, made: dict[str, Any]) -> None:
        """Write down a key that REST has made for `account`. Raises `OSError`; the file is then as it was."""
        row = {"name": made["name"], "service_account": account, "id": made["id"], "api_key": made["key"]}
        self._keep(row)

    def keep_secret(self, made: dict[str, Any]) -> None:
        """The same for a webhook and its secret."""
        self._keep({"webhook": made["name"], "id": made["id"], "secret": made["secret"]})

    def _keep(self, row: dict[str, Any]) -> None:
        if self._descriptor < 0:
            print_row(list(row.values()))
            sys.stdout.flush()
            return
        before = os.fstat(self._descriptor).st_size
        line = (json.dumps(row, ensure_ascii=False) + "\n").encode()
        try:
            if os.write(self._descriptor, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, before)
            raise OSError(error.errno, error.strerror, str(self._file)) from error


def _opened(file: Path) -> int:
    try:
        descriptor = os.open(
            file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, _PRIVATE
        )
    except OSError as error:
        raise ConfigurationError(f"--keys-to {file}: {error.strerror or error}") from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode) or stat.S_IMODE(mode) & ~_PRIVATE:
        os.close(descriptor)
        raise ConfigurationError(f"--keys-to {file}: a file that only its owner reads is required: chmod 600")
    return descriptor


def unanswered_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.asked")


def unanswered(to: str | None) -> Request | None:
    """What an earlier run asked for and got no answer to. Raises `ConfigurationError` for a file that is not ours."""
    if to is None or to == STANDARD_OUTPUT:
        return None
    file = unanswered_file(Path(to))
    try:
        row = json.loads(file.read_text())
        request = Request(**row)
        datetime.fromisoformat(request.asked_at).astimezone(UTC)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{file}: it is not what penstock apply writes: {error}") from error
    return request


def output_for(to: str | None, *, as_json: bool) -> NewKeys:
    """Raises `click.UsageError` where no output is named, or that of the JSON document."""
    if to is None:
        raise click.UsageError(
            "The file makes keys or webhooks, and their texts are shown once: say where with --keys-to FILE, or -."
        )
    if to == STANDARD_OUTPUT and as_json:
        raise click.UsageError("With --json give --keys-to a file: the output is one document.")
    return NewKeys(to)
