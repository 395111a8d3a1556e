"""Delivers cuts: asks the brokers for the vector and stores it. Repeating it gives the same offsets."""

from billing import actions, queries
from control_plane.cluster import brokers
from control_plane.outbox.registry import Delivered
from penstock.contract.errors import BrokerUnavailable
from penstock.rules.usage_folding import time_ms

KIND_CUT = actions.KIND_CUT
_CUT_S = 15.0
"""Below the lease of a delivery."""
_NAMED_MAX = 5


class CutDeliverer:
    """A cut: every leader of the tenant's partitions gives one more reading."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        """Raises `BrokerUnavailable` while a partition has no reading; the same cut is then asked for again."""
        cut = queries.cut_for_delivery(object_id)
        if cut.delivered_at is None:
            readings = brokers.client().cut(
                cut.public_id, cut.tenant.public_id, time_ms(cut.period_end), timeout_s=_CUT_S
            )
            failed = [
                f"{reading.topic_id}-{reading.partition}: {reading.message or reading.error}"
                for reading in readings
                if reading.error
            ]
            if failed:
                raise BrokerUnavailable(
                    f"{cut.public_id}: no reading of {len(failed)} partitions: {'; '.join(failed[:_NAMED_MAX])}"
                )
            actions.store_vector(
                cut.public_id,
                [
                    actions.VectorEntry(
                        topic_id=reading.topic_id,
                        partition=reading.partition,
                        log_generation=reading.log_generation,
                        end_offset=reading.end_offset,
                    )
                    for reading in readings
                ],
            )
        return Delivered(generation=generation)

    def delivered(self, object_id: str, done: Delivered) -> None:
        """The vector is stored already, with the time."""

    def failed(self, object_id: str, reason: str, message: str) -> None:
        actions.note_cut_failed(object_id, message)
