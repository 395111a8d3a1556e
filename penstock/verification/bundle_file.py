"""An evidence bundle: all that proving one invoice asks for, in one file that is read without any connection.

A text file of records, one a line, each line written once and never gone back to:

    <64 hex digits> <record as JSON>

The digits are SHA-256 over the digest of the line before (32 bytes; zeros before the first) and the record's text, so
the first line that was altered, added or left out is named. The first record is `Header`, the last one `End`.

That shows damage, not honesty: who makes a bundle can hash another one. What is in it is believed as little as what
the service says online; `penstock.verification.proving` compares it.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec

from penstock.contract.document_fields import Ordinal, Partition, Signed, Strict, Time, TopicIdHex
from penstock.contract.errors import InvalidRequest
from penstock.contract.limits import PARTITIONS_PER_TOPIC_MAX

FORMAT: Final = 1
EXTENSION = "evidence"
RECORD_BYTES_MAX = 512 * 1024 * 1024
"""The document of the largest invoice is some hundred megabytes."""
_DIGEST_DIGITS = 64
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Text = Annotated[str, msgspec.Meta(max_length=4_000)]
Hash = Annotated[str, msgspec.Meta(max_length=64)]


class Header(Strict, frozen=True, tag_field="record", tag="header"):
    """What the bundle is of. With `log` it holds the batches too, else seals and cuts stand in for them."""

    format: Literal[1]
    invoice: Name
    tenant: Name
    made_at_ms: Time
    log: bool


class CutOfBrokers(Strict, frozen=True, tag_field="record", tag="cut"):
    """`penstock.verification.commitments.KeptCut`, in the order of its ends."""

    cut_id: Name
    start_ms: Time
    end_ms: Time
    sha256: Hash
    billing_sequence: Annotated[int, msgspec.Meta(ge=0)]
    """0: no entry of the chain was noted."""
    billing_hash: Hash
    kept_ms: Time


class LossOfBrokers(Strict, frozen=True, tag_field="record", tag="loss"):
    """`penstock.verification.commitments.KeptLoss`."""

    topic_id: TopicIdHex
    partition: Partition
    log_generation: Ordinal
    offset: Annotated[int, msgspec.Meta(ge=0)]


class Topic(Strict, frozen=True, tag_field="record", tag="topic"):
    """A topic as the brokers know it; without the log those that the invoice names."""

    topic_id: TopicIdHex
    name: Name
    partitions: Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_PER_TOPIC_MAX)]


class Shown(Strict, frozen=True, tag_field="record", tag="shown"):
    """`GET /v1/invoices/ID` of the invoice."""

    answer: Any


class Evidence(Strict, frozen=True, tag_field="record", tag="evidence"):
    """`GET /v1/invoices/ID/evidence` of the invoice, or of one that it is compared with."""

    invoice: Name
    answer: Any


class Link(Strict, frozen=True, tag_field="record", tag="chain"):
    """The next item of `GET /v1/billing/chain`."""

    item: Any


class SealOfBrokers(Strict, frozen=True, tag_field="record", tag="seal"):
    """A seal of a partition, as `penstock.records.seal` packs it; a partition's are in the order of its offsets."""

    topic_id: TopicIdHex
    partition: Partition
    seal: bytes


class Read(Strict, frozen=True, tag_field="record", tag="read"):
    """A leader's answer to one read of the log; only with the log."""

    topic_id: TopicIdHex
    partition: Partition
    offset: Signed
    end_offset: Signed
    bytes_max: Ordinal
    error: Annotated[int, msgspec.Meta(ge=0)]
    message: Text
    stamps: bytes
    batches: bytes
    log_start_offset: Signed
    high_watermark: Signed
    headers_only: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    """The key that made the bundle may not read records: `batches` are their headers."""


class Refusal(Strict, frozen=True, tag_field="record", tag="refusal"):
    """A leader would not let the key read the seals or the log of a partition; only with the log."""

    topic_id: TopicIdHex
    partition: Partition
    of: Literal["seals", "log"]
    code: Annotated[int, msgspec.Meta(ge=1)]
    message: Text


class End(Strict, frozen=True, tag_field="record", tag="end"):
    """Nothing is missing: so many records stand before it."""

    records: Annotated[int, msgspec.Meta(ge=1)]


Record = (
    Header
    | CutOfBrokers
    | LossOfBrokers
    | Topic
    | Shown
    | Evidence
    | Link
    | SealOfBrokers
    | Read
    | Refusal
    | End
)
_NAMES: dict[type[Any], str] = {kind: str(kind.__struct_config__.tag) for kind in get_args(Record)}
_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


class BundleWriter:
    """Hands each line to `write` as soon as it is made, and keeps none. Close it with `end`."""

    def __init__(self, write: Callable[[bytes], object], header: Header) -> None:
        self._write = write
        self._digest = bytes(32)
        self.records = 0
        self.bytes = 0
        self.add(header)

    def add(self, record: Record) -> None:
        """The next record."""
        text = msgspec.json.encode(record)
        self._digest = hashlib.sha256(self._digest + text).digest()
        line = b"%s %s\n" % (self._digest.hex().encode(), text)
        self._write(line)
        self.records += 1
        self.bytes += len(line)

    def end(self) -> None:
        """Nothing comes any more."""
        self.add(End(records=self.records))


def read_records(file: Path) -> Iterator[tuple[int, Record]]:
    """Each record with where its line begins, in bytes. The header comes first; `End` is checked and left out.

    Raises `InvalidRequest`, which names the file and the first line that is not as it was written.
    """
    digest, number, ended = bytes(32), 0, False
    try:
        with file.open("rb") as lines:
            while True:
                at = lines.tell()
                line = lines.readline(RECORD_BYTES_MAX)
                if not line:
                    break
                number += 1
                if ended:
                    raise _altered(file, number, "stands behind its end")
                digest, record = _checked(file, number, line, digest)
                if isinstance(record, Header) != (number == 1):
                    raise _altered(file, number, "the header must be the first record, and only that")
                if isinstance(record, End):
                    if record.records != number - 1:
                        raise _altered(file, number, f"says that {record.records} records stand before it")
                    ended = True
                    continue
                yield at, record
    except OSError as error:
        raise InvalidRequest(f"{file}: cannot be read: {error.strerror}") from None
    if not ended:
        raise InvalidRequest(f"{file}: ends behind line {number}; the bundle is not whole")


def record_at(file: Path, at: int) -> Record:
    """The record whose line begins there, of a bundle that `read_records` has read to its end."""
    try:
        with file.open("rb") as lines:
            lines.seek(at)
            return _DECODER.decode(lines.readline(RECORD_BYTES_MAX)[_DIGEST_DIGITS + 1 :])
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidRequest(f"{file}: has changed while it was read: {error}") from None


def _checked(file: Path, number: int, line: bytes, before: bytes) -> tuple[bytes, Record]:
    said, space, text = line[:_DIGEST_DIGITS], line[_DIGEST_DIGITS : _DIGEST_DIGITS + 1], line[65:]
    if not text.endswith(b"\n") or space != b" ":
        what = (
            "is no evidence bundle"
            if number == 1
            else f"is not whole: line {number} is truncated, or altered"
        )
        raise InvalidRequest(f"{file}: {what}")
    digest = hashlib.sha256(before + text[:-1]).digest()
    if said != digest.hex().encode():
        raise _altered(file, number, f"is not as it was written{_named(text)}")
    try:
        return digest, _DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _altered(file, number, f"is no record: {error}") from None


def _altered(file: Path, number: int, what: str) -> InvalidRequest:
    return InvalidRequest(f"{file}: the bundle is altered: line {number} {what}")


def _named(text: bytes) -> str:
    """Which record it is, as far as it can be read."""
    try:
        record = _DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    of = getattr(record, "invoice", None) or getattr(record, "topic_id", None)
    return f" ({_NAMES[type(record)]}{'' if of is None else f' of {of}'})"
