"""What this machine notes of a tenant's billing, in a file beside the profiles: what was seen once must stay.

{"tn_...": {"billing": {"sequence": 12, "hash": "..."}, "invoices": {"1": "...", "2": "..."}}}
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec

from penstock.contract.documents import Ordinal, Sha256, Strict, read_document
from penstock.contract.errors import ConfigurationError, InvalidRequest
from penstock.verification.commitments import NOTHING_NOTED, ChainPoint, Notes
from penstock.verification.findings import Report, Verdict

FILE = "billing-notes.json"


class _Point(Strict, frozen=True):
    sequence: Ordinal
    hash: Sha256


class _OfTenant(Strict, frozen=True):
    billing: _Point
    invoices: dict[Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,17}$")], Sha256]


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
    """
    if report.verdict is Verdict.WRONG or report.billing_sequence < 1:
        return
    known = _read(file)
    mine = known.get(report.tenant)
    invoices = {} if mine is None else dict(mine.invoices)
    if report.proven:
        invoices[str(report.number)] = report.document_sha256
    known[report.tenant] = _OfTenant(
        billing=_Point(sequence=report.billing_sequence, hash=report.billing_hash), invoices=invoices
    )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(descriptor, "wb") as output:
            output.write(msgspec.json.format(msgspec.json.encode(dict(sorted(known.items()))), indent=2))
            output.flush()
            os.fsync(output.fileno())
        os.replace(name, file)
    except OSError as error:
        raise ConfigurationError(f"{file}: what was verified cannot be noted: {error.strerror}") from None


def _read(file: Path) -> dict[str, _OfTenant]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise InvalidRequest("no object")
        return {tenant: read_document(value, _OfTenant, tenant) for tenant, value in values.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, InvalidRequest) as error:
        raise ConfigurationError(f"{file}: the notes of invoices cannot be read: {error}") from None
