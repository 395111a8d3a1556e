"""Writes a bundle with the log: passes on what proving asks for, and keeps each answer in the file.

Everything is asked for once, so the bundle shows one moment, and proving from it asks the same questions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import UNSET

from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicPartition
from penstock.records.seal import Seal, pack_seal
from penstock.verification import bundle_file as records
from penstock.verification.bundle_file import BundleWriter
from penstock.verification.commitments import Commitments
from penstock.verification.proving import Documents, Reads
from penstock.verification.stamped_reads import READ_BYTES, LiveTopic, StampedBatches


class RecordedDocuments:
    """`proving.Documents` that are written as they come."""

    def __init__(self, documents: Documents, writer: BundleWriter) -> None:
        self._documents = documents
        self._writer = writer
        self._shown: Any = None
        self._evidence: dict[str, Any] = {}
        self._chain: Sequence[Mapping[str, Any]] | None = None

    def invoice(self, invoice_id: str) -> Any:
        if self._shown is None:
            self._shown = self._documents.invoice(invoice_id)
            self._writer.add(records.Shown(answer=self._shown))
        return self._shown

    def evidence(self, invoice_id: str) -> Any:
        if invoice_id not in self._evidence:
            answer = self._documents.evidence(invoice_id)
            self._writer.add(records.Evidence(invoice=invoice_id, answer=answer))
            self._evidence[invoice_id] = answer
        return self._evidence[invoice_id]

    def chain(self) -> Sequence[Mapping[str, Any]]:
        if self._chain is None:
            self._chain = self._documents.chain()
            for item in self._chain:
                self._writer.add(records.Link(item=item))
        return self._chain


class RecordedReads:
    """`proving.Reads` whose answers are written as they come."""

    def __init__(self, reads: Reads, writer: BundleWriter) -> None:
        self._reads = reads
        self._writer = writer
        self._topics: dict[bytes, LiveTopic] | None = None
        self._commitments: Commitments | None = None

    def topics(self) -> dict[bytes, LiveTopic]:
        if self._topics is None:
            self._topics = self._reads.topics()
            for topic in self._topics.values():
                self._writer.add(
                    records.Topic(
                        topic_id=topic.topic_id.hex(), name=topic.name, partitions=len(topic.leaders)
                    )
                )
        return self._topics

    def commitments(self) -> Commitments:
        if self._commitments is None:
            self._commitments = self._reads.commitments()
            write_commitments(self._writer, self._commitments)
        return self._commitments

    def seals(self, where: TopicPartition) -> Sequence[Seal]:
        try:
            found = self._reads.seals(where)
        except PenstockError as error:
            self._refused(where, "seals", error)
            raise
        for seal in found:
            write_seal(self._writer, where, pack_seal(seal))
        return found

    def read(
        self, where: TopicPartition, offset: int, end_offset: int, bytes_max: int = READ_BYTES
    ) -> StampedBatches:
        try:
            answer = self._reads.read(where, offset, end_offset, bytes_max)
        except PenstockError as error:
            self._refused(where, "log", error)
            raise
        self._writer.add(
            records.Read(
                topic_id=where.topic_id.hex(),
                partition=where.partition,
                offset=offset,
                end_offset=end_offset,
                bytes_max=bytes_max,
                error=int(answer.error),
                message=answer.message[:1_000],
                stamps=answer.stamps,
                batches=answer.batches,
                log_start_offset=answer.log_start_offset,
                high_watermark=answer.high_watermark,
                headers_only=True if answer.headers_only else UNSET,
            )
        )
        return answer

    def _refused(self, where: TopicPartition, of: Literal["seals", "log"], error: PenstockError) -> None:
        self._writer.add(
            records.Refusal(
                topic_id=where.topic_id.hex(),
                partition=where.partition,
                of=of,
                code=int(error.code),
                message=error.message[:1_000],
            )
        )


def write_commitments(writer: BundleWriter, commitments: Commitments) -> None:
    """What brokers keep of the tenant."""
    for cut in commitments.cuts:
        writer.add(
            records.CutOfBrokers(
                cut_id=cut.cut_id,
                start_ms=cut.start_ms,
                end_ms=cut.end_ms,
                sha256=cut.sha256,
                billing_sequence=0 if cut.billing is None else cut.billing.sequence,
                billing_hash="" if cut.billing is None else cut.billing.hash,
                kept_ms=cut.kept_ms,
            )
        )
    for loss in commitments.losses:
        writer.add(
            records.LossOfBrokers(
                topic_id=loss.where.topic_id.hex(),
                partition=loss.where.partition,
                log_generation=loss.log_generation,
                offset=loss.offset,
            )
        )


def write_seal(writer: BundleWriter, where: TopicPartition, seal: bytes) -> None:
    """A packed seal of the partition."""
    writer.add(records.SealOfBrokers(topic_id=where.topic_id.hex(), partition=where.partition, seal=seal))
