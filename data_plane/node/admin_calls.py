"""Admin calls on the internal listener: tenants, topics, keys, and what the cluster looks like."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from data_plane.contract import admin_pb2 as pb
from data_plane.controller import topics
from data_plane.metadata import model
from data_plane.metadata.port import Change, Compare, MetaStore, OutcomeUnknown, StoreUnavailable
from data_plane.node.client_calls import parsed
from data_plane.node.config import NodeConfig
from data_plane.node.metadata_view import MetadataView
from data_plane.node.ports import Caller, Rng
from penstock.contract.errors import (
    ErrorCode,
    InvalidRequest,
    PenstockError,
)
from penstock.contract.errors import (
    OutcomeUnknown as OutcomeUnknownError,
)
from penstock.contract.ids import TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings

_TRIES = 20

Decide = Callable[[], tuple[Sequence[Compare], Sequence[Change]]]


class AdminCalls:
    """Any broker takes them: decided from the image, settled by compare-and-set, again when the image was behind."""

    def __init__(self, config: NodeConfig, view: MetadataView, store: MetaStore, rng: Rng) -> None:
        self._config, self._view, self._store, self._rng = config, view, store, rng

    async def put_tenant(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.PutTenantRequest, request)

        def decide() -> tuple[Sequence[Compare], Sequence[Change]]:
            change = topics.put_tenant(self._view.image, wanted.tenant)
            return change.compares, change.changes

        return (await self._settle(decide)).SerializeToString()

    async def create_topic(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.CreateTopicRequest, request)
        topic_id = TopicId(self._rng.random_bytes(16))

        def decide() -> tuple[Sequence[Compare], Sequence[Change]]:
            change = topics.create_topic(
                self._view.image,
                topic_id,
                TenantId(wanted.tenant),
                wanted.name,
                _settings(wanted.settings_json),
                [list(assignment.brokers) for assignment in wanted.assignments],
            )
            return change.compares, change.changes

        outcome = await self._settle(decide, applied=lambda: topic_id in self._view.image.topics)
        return pb.CreateTopicResponse(outcome=outcome, topic_id=topic_id).SerializeToString()

    async def delete_topic(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.DeleteTopicRequest, request)

        def decide() -> tuple[Sequence[Compare], Sequence[Change]]:
            change = topics.delete_topic(self._view.image, TenantId(wanted.tenant), wanted.name)
            return change.compares, change.changes

        return (await self._settle(decide)).SerializeToString()

    async def put_key(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.PutKeyRequest, request)
        given: list[model.KeyRecord] = []
        counter = None

        def decide() -> tuple[Sequence[Compare], Sequence[Change]]:
            change = topics.put_key(
                self._view.image,
                counter,
                key_id=wanted.key_id,
                tenant=TenantId(wanted.tenant),
                name=wanted.name,
                pepper_version=wanted.pepper_version,
                secret_hmac=wanted.secret_hmac.hex(),
                scram=_object("scram_json", wanted.scram_json),
                expires_at_ms=wanted.expires_at_ms,
            )
            given[:] = [change.record]
            return change.compares, change.changes

        async def read_counter() -> None:
            nonlocal counter
            items = (await self._store.range(model.NEXT_PRINCIPAL_KEY)).items
            counter = items[0] if items else None

        outcome = await self._settle(decide, before=read_counter)
        principal = given[0].principal if given and not outcome.error else 0
        return pb.PutKeyResponse(outcome=outcome, principal=principal).SerializeToString()

    async def revoke_key(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.RevokeKeyRequest, request)

        def decide() -> tuple[Sequence[Compare], Sequence[Change]]:
            change = topics.revoke_key(self._view.image, wanted.key_id)
            return change.compares, change.changes

        return (await self._settle(decide)).SerializeToString()

    async def _settle(
        self,
        decide: Decide,
        *,
        before: Callable[[], Any] | None = None,
        applied: Callable[[], bool] = lambda: False,
    ) -> pb.Outcome:
        """Decide, compare and set; again when the image was behind. A refusal becomes the outcome.

        After an unknown outcome the next decision sees what holds; `applied` tells own success from another's.
        """
        unknown = False
        try:
            for _ in range(_TRIES):
                try:
                    if before is not None:
                        await before()
                    if unknown and applied():
                        return pb.Outcome(revision=self._view.image.revision)
                    compares, changes = decide()
                    if not changes:
                        return pb.Outcome(revision=self._view.image.revision)
                    result = await self._store.txn(compares, changes)
                except StoreUnavailable:
                    await asyncio.sleep(self._config.timings.reconnect_ms / 1000)
                    continue
                except OutcomeUnknown:
                    unknown = True
                    listing = await self._store.range(model.CLUSTER_KEY)
                    await self._view.reached(listing.revision, self._config.timings.call_ms)
                    continue
                await self._view.reached(result.revision, self._config.timings.call_ms)
                if result.succeeded:
                    return pb.Outcome(revision=result.revision)
        except StoreUnavailable:
            pass
        except PenstockError as refusal:
            if not unknown:
                return pb.Outcome(error=refusal.code, message=refusal.message)
        if unknown:
            return pb.Outcome(
                error=OutcomeUnknownError.code, message="the change may or may not have been applied"
            )
        return pb.Outcome(error=ErrorCode.BROKER_UNAVAILABLE, message="the metadata store does not answer")

    async def describe_cluster(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.DescribeClusterRequest, request)
        image = self._view.image
        response = pb.DescribeClusterResponse(
            cluster_id=image.cluster_id, controller=image.controller_id, revision=image.revision
        )
        leaders: Counter[int] = Counter()
        replicas: Counter[int] = Counter()
        for topic_id, topic in image.topics.items():
            for record in image.partitions_of(topic_id):
                leaders[record.leader] += 1
                replicas.update(record.replicas)
                if wanted.partitions:
                    response.partitions.add(
                        tenant=topic.tenant,
                        topic=topic.name,
                        topic_id=topic_id,
                        partition=record.partition,
                        leader=record.leader,
                        leader_epoch=record.leader_epoch,
                        replicas=record.replicas,
                        in_sync=record.in_sync,
                        eligible=record.eligible,
                    )
        for broker in sorted(image.brokers):
            known = image.brokers[broker]
            response.brokers.add(
                id=broker,
                state="active" if known.active else "draining" if known.epoch else "fenced",
                broker_epoch=known.epoch,
                client_address=known.record.client_address,
                internal_address=known.record.internal_address,
                zone=known.record.zone,
                leaders=leaders[broker],
                replicas=replicas[broker],
            )
        return response.SerializeToString()


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        values = json.loads(text) if text else {}
    except ValueError:
        raise InvalidRequest(f"{name}: not JSON") from None
    if not isinstance(values, dict):
        raise InvalidRequest(f"{name}: a JSON object is required")
    return values


def _settings(text: str) -> TopicSettings:
    return TopicSettings.from_dict(_object("settings_json", text))
