"""A bundle in the place of service and brokers: documents and reads without a connection.

Without the log in it, every partition answers as one whose log is deleted: seals, and then the brokers' cuts, stand in.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, assert_never

from penstock.contract.errors import ErrorCode, InvalidRequest, NotFound, error_class
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.seal import Seal, SealCorrupt, unpack_seal
from penstock.verification import bundle_file as records
from penstock.verification.commitments import ChainPoint, Commitments, KeptCut, KeptLoss
from penstock.verification.stamped_reads import READ_BYTES, LiveTopic, StampedBatches

_BEYOND = 2**62
"""Above every offset."""
_Asked = tuple[TopicPartition, int, int, int]


class Bundle:
    """Reads the file once and checks each line; keeps all but the batches, which it reads again when they are asked
    for. It is `proving.Documents` and `proving.Reads`.

    Raises `InvalidRequest` for a file that is not as it was written.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.records = 2
        """With the header and the end."""
        self._shown: Any = None
        self._evidence: dict[str, Any] = {}
        self._chain: list[Any] = []
        self._cuts: list[KeptCut] = []
        self._losses: list[KeptLoss] = []
        self._topics: dict[bytes, LiveTopic] = {}
        self._seals: dict[TopicPartition, list[Seal]] = {}
        self._reads: dict[_Asked, int] = {}
        self._refusals: dict[tuple[TopicPartition, str], records.Refusal] = {}
        every = records.read_records(file)
        _, header = next(every)
        if not isinstance(header, records.Header):
            raise InvalidRequest(f"{file}: is no evidence bundle")
        self.header = header
        for at, record in every:
            self.records += 1
            self._take(at, record)
        self.bytes = file.stat().st_size

    def _take(self, at: int, record: records.Record) -> None:
        match record:
            case records.CutOfBrokers():
                point = ChainPoint(sequence=record.billing_sequence, hash=record.billing_hash)
                self._cuts.append(
                    KeptCut(
                        cut_id=record.cut_id,
                        start_ms=record.start_ms,
                        end_ms=record.end_ms,
                        sha256=record.sha256,
                        billing=point if record.billing_sequence else None,
                        kept_ms=record.kept_ms,
                    )
                )
            case records.LossOfBrokers():
                self._losses.append(
                    KeptLoss(where=_where(record), log_generation=record.log_generation, offset=record.offset)
                )
            case records.Topic():
                topic_id = bytes.fromhex(record.topic_id)
                self._once(topic_id not in self._topics, f"topic {record.topic_id}")
                self._topics[topic_id] = LiveTopic(
                    name=record.name, topic_id=topic_id, leaders=(-1,) * record.partitions
                )
            case records.Shown():
                self._once(self._shown is None, "answer of the invoice")
                self._shown = record.answer
            case records.Evidence():
                self._once(record.invoice not in self._evidence, f"document of {record.invoice}")
                self._evidence[record.invoice] = record.answer
            case records.Link():
                self._chain.append(record.item)
            case records.SealOfBrokers():
                self._take_seal(record)
            case records.Read() | records.Refusal() if not self.header.log:
                raise InvalidRequest(
                    f"{self.file}: the bundle is altered: it says that it is without the log, and holds an answer of "
                    f"{_where(record)}"
                )
            case records.Read():
                asked = (_where(record), record.offset, record.end_offset, record.bytes_max)
                self._reads[asked] = at
            case records.Refusal():
                self._refusals[_where(record), record.of] = record
            case records.Header() | records.End():
                raise InvalidRequest(f"{self.file}: the bundle is altered: a second header or end")
            case _ as never:
                assert_never(never)

    def _once(self, is_first: bool, what: str) -> None:
        """Else one would be shown to people, and another one proven."""
        if not is_first:
            raise InvalidRequest(f"{self.file}: the bundle is altered: a second {what}")

    def _take_seal(self, record: records.SealOfBrokers) -> None:
        where = _where(record)
        try:
            seal, end = unpack_seal(record.seal, 0)
            if end != len(record.seal) or seal.where != where:
                raise SealCorrupt(f"it is of {seal.where}")
        except SealCorrupt as error:
            raise InvalidRequest(
                f"{self.file}: the bundle is altered: a seal of {where} cannot be read: {error}"
            ) from None
        self._seals.setdefault(where, []).append(seal)

    # -- what proving asks for ---------------------------------------------------------------------------------

    def invoice(self, invoice_id: str) -> Any:
        """As the service showed it when the bundle was made."""
        if invoice_id != self.header.invoice:
            raise InvalidRequest(f"{self.file}: is of {self.header.invoice}, not of {invoice_id[:64]}")
        return self._shown

    def evidence(self, invoice_id: str) -> Any:
        """Raises `InvalidRequest` for an invoice whose document the bundle does not hold."""
        if invoice_id not in self._evidence:
            raise InvalidRequest(f"{self.file}: lacks the document of {invoice_id[:64]}")
        return self._evidence[invoice_id]

    def chain(self) -> Sequence[Mapping[str, Any]]:
        return self._chain

    def topics(self) -> dict[bytes, LiveTopic]:
        return self._topics

    def commitments(self) -> Commitments:
        return Commitments(tenant=self.header.tenant, cuts=tuple(self._cuts), losses=tuple(self._losses))

    def seals(self, where: TopicPartition) -> Sequence[Seal]:
        """Raises what a leader refused when the bundle was made."""
        self._raise_refused(where, "seals")
        return self._seals.get(where, ())

    def read(
        self, where: TopicPartition, offset: int, end_offset: int, bytes_max: int = READ_BYTES
    ) -> StampedBatches:
        """A leader's answer when the bundle was made; without the log, that it is deleted."""
        if not self.header.log:
            return StampedBatches(
                error=ErrorCode.OFFSET_OUT_OF_RANGE,
                message="",
                stamps=b"",
                batches=b"",
                log_start_offset=_BEYOND,
                high_watermark=_BEYOND,
            )
        self._raise_refused(where, "log")
        at = self._reads.get((where, offset, end_offset, bytes_max))
        if at is None:
            raise InvalidRequest(f"{self.file}: lacks what stands at offset {offset} of {where}")
        record = records.record_at(self.file, at)
        if not isinstance(record, records.Read):
            raise InvalidRequest(f"{self.file}: has changed while it was read")
        return StampedBatches(
            error=record.error,
            message=record.message,
            stamps=record.stamps,
            batches=record.batches,
            log_start_offset=record.log_start_offset,
            high_watermark=record.high_watermark,
            headers_only=record.headers_only is True,
        )

    def _raise_refused(self, where: TopicPartition, of: str) -> None:
        refused = self._refusals.get((where, of))
        if refused is not None:
            kind = NotFound if refused.code == ErrorCode.NOT_FOUND else error_class(refused.code)
            raise kind(refused.message)


def _where(
    record: records.LossOfBrokers | records.SealOfBrokers | records.Read | records.Refusal,
) -> TopicPartition:
    return TopicPartition(TopicId(bytes.fromhex(record.topic_id)), record.partition)
