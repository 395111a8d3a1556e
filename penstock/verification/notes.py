"""What this machine notes of a tenant's billing, in a file beside the profiles: what was seen once must stay.

{"tn_...": {"billing": {"sequence": 12, "hash": "..."}, "invoices": {"1": "...", "2": "..."}}}
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec

from penstock.contract.document_fields import Ordinal, Sha256, Strict
from penstock.contract.documents import plain, read_document
from penstock.contract.errors import ConfigurationError, InvalidRequest
from penstock.private_file import write_private
from penstock.verification.commitments import NOTHING_NOTED, ChainPoint, Notes
from penstock.verification.findings import Report, Verdict

FILE = "billing-notes.json"


class _Point(Strict, frozen=True):
    sequence: Ordinal
    hash: Sha256


class _OfTenant(Strict, frozen=True):
    billing: _Point
    invoices: dict[Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,17}\Z")], Sha256]


def read_notes(file: Path, tenant: str) -> Notes:
    """What was noted of the tenant. A file that cannot be read is an error, never an empty one: it would be lost."""
    noted = _read(file).get(tenant)
    if noted is None:
        return NOTHING_NOTED
    return Notes(
        billing=ChainPoint(sequence=noted.billing.sequence, hash=noted.billing.hash),
        invoices={int(number): sha256 for number, sha256 in noted.invoices.items()},
    )


def note(file: Path, report: Report) -> None:
    """Note what a verification saw; nothing when something was wrong. The chain's newest entry is noted also where a
    part was not shown, the invoice only when all of it was.

    Notes never go back: where a verification beside this one saw more of the chain, that stays. Raises
    `InvalidRequest` when it saw something else instead, and then notes nothing.
    """
    if report.verdict is Verdict.WRONG or report.billing_sequence < 1:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with _alone(file):
            known = _read(file)
            known[report.tenant] = _with(known.get(report.tenant), report, file)
            _replace(file, known)
    except OSError as error:
        raise ConfigurationError(f"{file}: what was verified cannot be noted: {error.strerror}") from None


def _with(mine: _OfTenant | None, report: Report, file: Path) -> _OfTenant:
    """What was noted of the tenant and what this verification saw together."""
    point = _Point(sequence=report.billing_sequence, hash=report.billing_hash)
    invoices = {} if mine is None else dict(mine.invoices)
    if report.proven:
        noted = invoices.setdefault(str(report.number), report.document_sha256)
        if noted != report.document_sha256:
            raise InvalidRequest(f"{file}: of invoice {report.number} another document was noted meanwhile")
    if mine is not None and mine.billing.sequence >= point.sequence:
        if mine.billing.sequence == point.sequence and mine.billing.hash != point.hash:
            raise InvalidRequest(
                f"{file}: of the billing chain another entry {point.sequence} was noted meanwhile"
            )
        point = mine.billing
    # Read as it will be next time: what could not be read then would lose what stands there now.
    return read_document(
        plain(_OfTenant(billing=point, invoices=invoices)), _OfTenant, f"{file}: cannot note"
    )


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """No other process changes the notes meanwhile. The file itself cannot be locked, as it is replaced, nor its
    folder, as NFS locks only what is open for writing.
    """
    descriptor = os.open(file.with_name(f".{file.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(file: Path, known: dict[str, _OfTenant]) -> None:
    content = msgspec.json.format(msgspec.json.encode(dict(sorted(known.items()))), indent=2)
    write_private(file, content.decode())


def _read(file: Path) -> dict[str, _OfTenant]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise InvalidRequest("no object")
        return {tenant: read_document(value, _OfTenant, tenant) for tenant, value in values.items()}
    except FileNotFoundError:
        return {}
    except RecursionError:
        raise ConfigurationError(f"{file}: the notes of invoices cannot be read: nested too deep") from None
    except (OSError, ValueError, InvalidRequest) as error:
        raise ConfigurationError(f"{file}: the notes of invoices cannot be read: {error}") from None
