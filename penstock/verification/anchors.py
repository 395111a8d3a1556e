"""An anchor: an entry of a tenant's billing chain that someone kept outside of the service, in a file.

{"sequence": 12, "hash": "..."}

The hash covers the tenant, the entry and all before it, so nothing that was issued up to it can be made up afterwards.
It is no secret: sent to others, printed or given a time by a third party, it holds the service to its word. An item of
`GET /v1/billing/chain` is one, too.
"""

from pathlib import Path

import msgspec

from penstock.contract.documents import Ordinal, Sha256
from penstock.contract.errors import InvalidRequest
from penstock.verification.commitments import ChainPoint

_BYTES_MAX = 64 * 1024


class _Anchor(msgspec.Struct, frozen=True):
    """What else stands in the object is for people."""

    sequence: Ordinal
    hash: Sha256


def read_anchor(file: Path) -> ChainPoint:
    """The entry that the file names. Raises `InvalidRequest`."""
    try:
        with file.open("rb") as opened:
            found = msgspec.json.decode(opened.read(_BYTES_MAX), type=_Anchor)
    except OSError as error:
        raise InvalidRequest(f"{file}: cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file}: is no anchor: {error}") from None
    return ChainPoint(sequence=found.sequence, hash=found.hash)
