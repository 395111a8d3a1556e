"""What brokers keep of a tenant's billing, shown to the tenant's keys. No document of the control plane changes it."""

from data_plane.authz.access import Operation, Principal
from data_plane.metadata import model
from data_plane.metadata.losses import LossRecord
from data_plane.metadata.port import MetaStore, StoreUnavailable
from data_plane.node.admission.gate import Gate
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed, Clock
from data_plane.throttling.buckets import TokenBuckets
from penstock.contract import errors
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.ids import TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.contract.v1 import proof_pb2 as pb

CALLS_PER_MINUTE = 600
"""Of one tenant on one broker: each reads the metadata store."""
_CALLS_AT_ONCE = 60


class Commitments:
    """Handler of the client listener's ReadCommitments call."""

    def __init__(self, gate: Gate, view: MetadataView, store: MetaStore, clock: Clock) -> None:
        self._gate = gate
        self._view = view
        self._store = store
        self._clock = clock
        self._budget = TokenBuckets(per_minute=CALLS_PER_MINUTE, burst=_CALLS_AT_ONCE)

    async def read(self, caller: Caller, request: bytes) -> bytes:
        """The cuts that are kept of the key's tenant, and its declared losses."""
        principal = self._gate.admit(caller)
        wait_ms = self._budget.wait_ms(principal.tenant, self._clock.monotonic_ms(), 1)
        if wait_ms:
            raise CallFailed(errors.Throttled.code, f"reading commitments: wait for {wait_ms} ms")
        self._budget.drain(principal.tenant, self._clock.monotonic_ms(), 1)
        try:
            listing = await self._store.range(model.kept_cuts_prefix(principal.tenant))
        except StoreUnavailable as error:
            raise CallFailed(
                ErrorCode.BROKER_UNAVAILABLE, "the metadata store does not answer; ask again"
            ) from error
        response = pb.ReadCommitmentsResponse(tenant=principal.tenant)
        for item in listing.items:
            cut = model.CutRecord.decode(item.value)
            response.cuts.add(
                cut_id=cut.cut_id,
                start_ms=cut.start_ms,
                end_ms=cut.end_ms,
                sha256=cut.sha256,
                billing_sequence=cut.billing_sequence,
                billing_hash=cut.billing_hash,
                kept_ms=cut.kept_ms,
            )
        for where, losses in self._view.image.losses.items():
            for generation, loss in losses.items():
                if loss.tenant == principal.tenant and self._may_see(principal, where.topic_id, loss):
                    response.losses.add(
                        topic_id=where.topic_id,
                        partition=where.partition,
                        log_generation=generation,
                        offset=loss.offset,
                    )
        return response.SerializeToString()

    def _may_see(self, principal: Principal, topic_id: TopicId, loss: LossRecord) -> bool:
        """Also of a topic that is deleted, or in the recycle bin: by the name it had."""
        topic = self._view.image.topics.get(topic_id)
        if topic is None or topic.binned:
            topic = model.TopicRecord(
                topic_id=topic_id,
                tenant=principal.tenant if topic is None else topic.tenant,
                name=loss.topic if topic is None else topic.name,
                partitions=0,
                settings=TopicSettings(),
            )
        try:
            self._gate.authorize(principal, Operation.DESCRIBE, topic)
        except PenstockError:
            return False
        return True
