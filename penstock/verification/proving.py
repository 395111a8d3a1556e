"""Prove one invoice: fetch its evidence, read every offset range from the brokers, compare. The one place with I/O."""

from collections.abc import Callable
from typing import Protocol

from penstock.contract.errors import ErrorCode, NotFound, PenstockError, error_class
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.invariant import invariant
from penstock.records.stamp import STAMP_BYTES, StampCorrupt, stamp_seed, unpack_stamp
from penstock.verification.evidence import Evidence, PartitionClaim
from penstock.verification.findings import Kind, PartitionFinding, Problem, Report
from penstock.verification.invoice_check import (
    check_evidence,
    make_report,
    omitted_partition,
    unknown_partitions,
)
from penstock.verification.losses import seals_that_stand, standing
from penstock.verification.partition_check import PartitionCheck
from penstock.verification.stamped_reads import LiveTopic, StampedBatches

Progress = Callable[[int, int, str], None]
"""(offsets read, offsets in all, what is read now)."""
_NOT_FOR_THIS_KEY = (ErrorCode.NOT_FOUND, ErrorCode.FORBIDDEN)


class Reads(Protocol):
    """What proving needs of the brokers; `StampedReads` is it."""

    def topics(self) -> dict[bytes, LiveTopic]: ...

    def read(
        self, where: TopicPartition, offset: int, end_offset: int, bytes_max: int = ...
    ) -> StampedBatches: ...


def prove(
    evidence: Evidence,
    previous: Evidence | None,
    reads: Reads,
    *,
    price_book_sha256: str | None = None,
    progress: Progress = lambda done, total, what: None,
) -> Report:
    """Read all that the invoice counts and report.

    Raises only when nothing can be said: no broker answers, or the key is refused. What is wrong stands in the report.
    """
    problems = check_evidence(evidence, previous)
    topics = reads.topics()
    standings = [standing(claim, evidence.credits) for claim in evidence.partitions]
    total = sum(one.claim.end_offset - one.claim.start_offset for one in standings)
    done = 0
    findings: list[PartitionFinding] = []
    for one in standings:
        claim = one.claim
        check = PartitionCheck(
            claim,
            seals_that_stand(evidence.seals.get(claim.where, ()), claim, evidence.credits),
            period_start_ms=evidence.period_start_ms,
            period_end_ms=evidence.period_end_ms,
        )
        if claim.where.topic_id not in topics:
            check.log_is_gone()
        else:

            def tell(at: int, claim: PartitionClaim = claim, before: int = done) -> None:
                read = min(max(at - claim.start_offset, 0), claim.end_offset - claim.start_offset)
                progress(before + read, total, claim.name)

            _read_partition(check, claim, reads, tell)
        finding = check.finding
        finding.lost, finding.lost_messages, finding.lost_bytes = one.lost, one.lost_messages, one.lost_bytes
        finding.problems.extend(one.problems)
        findings.append(finding)
        done += claim.end_offset - claim.start_offset
        progress(done, total, claim.name)
    problems.extend(_omitted(evidence, topics, reads))
    return make_report(evidence, problems, findings, price_book_sha256=price_book_sha256)


def _read_partition(
    check: PartitionCheck, claim: PartitionClaim, reads: Reads, tell: Callable[[int], None]
) -> None:
    while not check.done:
        at = check.next_offset
        try:
            answer = reads.read(claim.where, at, check.read_to)
        except NotFound:
            check.log_is_gone()
            return
        except PenstockError as error:
            if error.code not in _NOT_FOR_THIS_KEY:
                raise
            check.refused(error.message)
            return
        if answer.log_start_offset > at and check.log_begins_at(answer.log_start_offset):
            continue
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE and at >= answer.high_watermark:
            check.nothing_more(answer.high_watermark)
        elif answer.error:
            damaged = answer.error == ErrorCode.CORRUPT_LOG
            check.refused(
                f"{answer.message or 'refused'} [{error_class(answer.error).code.name}]",
                Kind.BATCH_ALTERED if damaged else Kind.UNPROVEN,
            )
        elif not answer.stamps:
            check.nothing_more(answer.high_watermark)
        else:
            check.feed(answer.stamps, answer.batches)
        tell(check.next_offset)


def _omitted(evidence: Evidence, topics: dict[bytes, LiveTopic], reads: Reads) -> list[Problem]:
    """Partitions of the tenant's that hold messages of the period and are not in the cut."""
    live = {
        (topic_id.hex(), partition): topic.name
        for topic_id, topic in topics.items()
        for partition in range(len(topic.leaders))
    }
    problems: list[Problem] = []
    for topic_id, partition in unknown_partitions(evidence, live):
        where = TopicPartition(TopicId(bytes.fromhex(topic_id)), partition)
        try:
            answer = reads.read(where, 0, 1, bytes_max=1)
            if answer.log_start_offset > 0:
                answer = reads.read(where, answer.log_start_offset, answer.log_start_offset + 1, bytes_max=1)
        except PenstockError:
            continue  # a topic that came or went in between has nothing in a period that is over
        if answer.error or len(answer.stamps) < STAMP_BYTES:
            continue
        invariant(len(answer.stamps) % STAMP_BYTES == 0, "stamps come whole")
        try:
            stamp = unpack_stamp(answer.stamps, stamp_seed(where))
        except StampCorrupt:
            continue
        if stamp.accepted_ms < evidence.period_end_ms:
            problems.append(omitted_partition(f"{live[topic_id, partition]}-{partition}", stamp.base_offset))
    return problems
