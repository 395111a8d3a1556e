"""Delivers cuts: asks the brokers for the vector and stores it. A tenant's cuts are delivered in their order.

A repeated cut gives the same offsets.
"""

from django.db import transaction

from billing import period_actions, pipeline, queries
from billing.models import Cut
from control_plane.brokers import client as brokers
from control_plane.outbox import actions as outbox
from control_plane.outbox import wake_ups
from control_plane.outbox.registry import Delivered
from data_plane.contract import admin_pb2 as pb
from penstock.contract.errors import BrokerUnavailable
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.cut import CutEnd
from penstock.rules.timestamps import time_ms

KIND_CUT = period_actions.KIND_CUT
_CUT_S = 15.0
"""Below the lease of a delivery."""
_NAMED_MAX = 5


class CutDeliverer:
    """Delivers a cut: each leader of the tenant's partitions makes one more reading."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        """Raises `BrokerUnavailable` while a partition has no reading, or the tenant's previous cut is not delivered.
        The cut is then delivered again later.
        """
        cut = queries.cut_for_delivery(object_id)
        if cut.delivered_at is None:
            ask(cut)
            # The brokers' readings are in `__usage` now; the pipeline may have hours until its next round.
            pipeline.wake()
        return Delivered(generation=generation)

    def delivered(self, object_id: str, done: Delivered) -> None:
        """The vector is stored already. Deliver the tenant's next cut now, if one waits."""
        after = queries.cut_after(object_id)
        if after is not None and outbox.due_now(KIND_CUT, after.public_id):
            transaction.on_commit(lambda: wake_ups.wake(KIND_CUT, after.public_id))

    def failed(self, object_id: str, reason: str, message: str) -> None:
        period_actions.note_cut_failed(object_id, message)


def ask(cut: Cut) -> None:
    """Ask the brokers for the vector, then store it or compare it with the stored one. No transaction is open.

    Raises as `CutDeliverer.deliver` does, and `InvalidRequest` for an answer that does not agree.
    """
    before = queries.cut_before(cut)
    if before is not None and before.delivered_at is None:
        raise BrokerUnavailable(
            f"{cut.public_id}: waits for the tenant's previous cut {before.public_id}, which is not delivered yet"
        )
    answer = brokers.client().cut(
        cut.public_id,
        cut.tenant.public_id,
        time_ms(cut.period_end),
        previous_end_ms=0 if before is None else time_ms(before.period_end),
        billing=(cut.chain_sequence, cut.chain_hash),
        waived=[
            (bytes.fromhex(topic_id), partition)
            for topic_id, partition in sorted(queries.waived_partitions(cut))
        ],
        timeout_s=_CUT_S,
    )
    failed = [
        f"{reading.topic_id.hex()}-{reading.partition}: {reading.message or reading.error}"
        for reading in answer.readings
        if reading.error
    ]
    if failed:
        raise BrokerUnavailable(
            f"{cut.public_id}: no reading of {len(failed)} partitions: {'; '.join(failed[:_NAMED_MAX])}"
        )
    period_actions.store_vector(
        cut.public_id,
        list(map(cut_end, answer.readings)),
        answer.sha256,
    )


def cut_end(reading: pb.CutReading) -> CutEnd:
    """A partition's end as its leader answered."""
    return CutEnd(
        where=TopicPartition(TopicId(reading.topic_id), reading.partition),
        log_generation=reading.log_generation,
        end_offset=reading.end_offset,
        accepted_ms=reading.accepted_ms,
        messages=reading.messages,
        bytes=reading.stored_bytes,
        last=reading.last,
    )
