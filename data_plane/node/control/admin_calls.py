"""Admin calls on the internal listener: tenants, topics, keys, and what the cluster looks like."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from data_plane.contract import admin_pb2 as pb
from data_plane.controller import new_topics, recycle_bin, tenants, topics
from data_plane.controller.new_topics import NewTopics, WantedTopic
from data_plane.metadata import broker_records, model
from data_plane.metadata.features import LEVELS
from data_plane.metadata.port import (
    Compare,
    Delete,
    KeyValue,
    MetaStore,
    OutcomeUnknown,
    Put,
    StoreUnavailable,
)
from data_plane.node.config import NodeConfig
from data_plane.node.control import cluster_pages
from data_plane.node.control.declared_losses import describe_loss
from data_plane.node.membership.located import located
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed, Rng
from data_plane.node.requests import parsed
from penstock.contract import limits
from penstock.contract.errors import (
    ErrorCode,
    InvalidRequest,
    PenstockError,
)
from penstock.contract.errors import (
    OutcomeUnknown as OutcomeUnknownError,
)
from penstock.contract.ids import TenantId, TopicId
from penstock.contract.invariant import InvariantBroken
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.access_document import access_list_of
from penstock.rules.budgets import Budget
from penstock.rules.domains import locations, most_together
from penstock.rules.principal_limits import PrincipalLimits

_TRIES = 20


class Change(Protocol):
    """What a decision gives: apply it; no changes = it holds, or a higher generation does (`ignored`)."""

    @property
    def compares(self) -> Sequence[Compare]: ...

    @property
    def changes(self) -> Sequence[Put | Delete]: ...

    @property
    def ignored(self) -> bool: ...


Decide = Callable[[], Change]


class AdminCalls:
    """Any broker takes them: decided from the image, settled by compare-and-set, again when the image was behind."""

    def __init__(self, config: NodeConfig, view: MetadataView, store: MetaStore, rng: Rng) -> None:
        self._config = config
        self._view = view
        self._store = store
        self._rng = rng
        self._one_by_one = asyncio.Lock()
        """Changes that raise a tenant's use of a limit exclude one another; here they wait instead."""

    async def put_tenant(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.PutTenantRequest, request)
        quotas = None
        if wanted.HasField("quotas"):
            quotas = model.TenantQuotas(
                produce_bytes_per_s=wanted.quotas.produce_bytes_per_s,
                partitions_max=wanted.quotas.partitions_max,
                consume_bytes_per_s=wanted.quotas.consume_bytes_per_s,
                connections_max=wanted.quotas.connections_max,
                groups_max=wanted.quotas.groups_max,
                requests_per_s=wanted.quotas.requests_per_s,
                connection_attempts_per_s=wanted.quotas.connection_attempts_per_s,
                rate_burst_ms=wanted.quotas.rate_burst_ms,
                rate_floor_percent=wanted.quotas.rate_floor_percent,
                storage_bytes_max=wanted.quotas.storage_bytes_max,
                kept_bytes_max=wanted.quotas.kept_bytes_max,
                broker_processor_ms_per_s=wanted.quotas.broker_processor_ms_per_s,
            )
        elif wanted.generation:
            quotas = model.TenantQuotas()

        principals = {
            row.principal: PrincipalLimits(
                produce_bytes_per_s=row.produce_bytes_per_s,
                consume_bytes_per_s=row.consume_bytes_per_s,
                requests_per_s=row.requests_per_s,
            )
            for row in wanted.principals
        }

        budgets = _budgets(wanted)

        def decide() -> Change:
            return tenants.put_tenant(
                self._view.image,
                wanted.tenant,
                generation=wanted.generation,
                quotas=quotas,
                suspended=wanted.suspended,
                principals=principals,
                budgets=budgets,
            )

        return (await self.carry_out(decide)).SerializeToString()

    async def create_topic(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.CreateTopicRequest, request)
        topic_id = TopicId(wanted.topic_id or self._rng.random_bytes(16))

        def decide() -> Change:
            return topics.create_topic(
                self._view.image,
                topic_id,
                TenantId(wanted.tenant),
                wanted.name,
                _settings(wanted.settings_json),
                [list(assignment.brokers) for assignment in wanted.assignments],
                generation=wanted.generation,
            )

        async with self._one_by_one:
            outcome = await self.carry_out(decide, applied=lambda: topic_id in self._view.image.topics)
        return pb.CreateTopicResponse(outcome=outcome, topic_id=topic_id).SerializeToString()

    async def create_topics(self, caller: Caller, request: bytes) -> bytes:
        asked = parsed(pb.CreateTopicsRequest, request)
        if len(asked.topics) > limits.TOPICS_PER_CALL_MAX:
            raise CallFailed(
                ErrorCode.INVALID_REQUEST,
                f"topics: {len(asked.topics)} in one call, {limits.TOPICS_PER_CALL_MAX} allowed",
            )
        answers = [pb.CreateTopicResponse(topic_id=topic.topic_id) for topic in asked.topics]
        settings: dict[str, TopicSettings] = {}
        waiting: list[tuple[pb.CreateTopicResponse, WantedTopic]] = []
        for answer, topic in zip(answers, asked.topics, strict=True):
            try:
                waiting.append((answer, _wanted(topic, settings)))
            except PenstockError as refusal:
                answer.outcome.CopyFrom(pb.Outcome(error=refusal.code, message=refusal.message))
        outcome = self._done(self._view.image.revision)
        while waiting and not outcome.error:
            outcome, settled = await self._create_some([topic for _, topic in waiting])
            for (answer, _), said in zip(waiting, settled, strict=False):
                if said.refusal is not None:
                    answer.outcome.error, answer.outcome.message = said.refusal.code, said.refusal.message
                else:
                    answer.outcome.revision, answer.outcome.ignored = outcome.revision, said.ignored
            waiting = waiting[len(settled) :]
        response = pb.CreateTopicsResponse(outcome=outcome, topics=() if outcome.error else answers)
        return response.SerializeToString()

    async def _create_some(
        self, wanted: Sequence[WantedTopic]
    ) -> tuple[pb.Outcome, Sequence[new_topics.Settled]]:
        """The first of them in one transaction, with what became of each. Others may change topics in between."""
        decided: list[NewTopics] = []

        def decide() -> Change:
            decided[:] = [new_topics.create_topics(self._view.image, wanted)]
            return decided[0]

        async with self._one_by_one:
            outcome = await self.carry_out(decide)
        return outcome, () if outcome.error else decided[0].settled

    async def update_topic(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.UpdateTopicRequest, request)
        topic_id = TopicId(wanted.topic_id)
        grown_to: list[int] = []

        def decide() -> Change:
            change = topics.update_topic(
                self._view.image,
                topic_id,
                TenantId(wanted.tenant),
                _settings(wanted.settings_json),
                [list(assignment.brokers) for assignment in wanted.added],
                generation=wanted.generation,
            )
            grown_to[:] = [change.record.partitions]
            return change

        def applied() -> bool:
            """Without a generation only the number tells that the partitions were added."""
            known = self._view.image.topics.get(topic_id)
            return bool(wanted.added) and known is not None and known.partitions in grown_to

        async with self._one_by_one:
            return (await self.carry_out(decide, applied=applied)).SerializeToString()

    async def delete_topic(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.DeleteTopicRequest, request)

        def decide() -> Change:
            return topics.delete_topic(
                self._view.image,
                TenantId(wanted.tenant),
                wanted.name,
                generation=wanted.generation,
                topic_id=TopicId(wanted.topic_id) if wanted.topic_id else None,
                metered=self._config.metering,
            )

        return (await self.carry_out(decide)).SerializeToString()

    async def bin_topic(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.BinTopicRequest, request)

        def decide() -> Change:
            return recycle_bin.bin_topic(
                self._view.image,
                TenantId(wanted.tenant),
                TopicId(wanted.topic_id),
                generation=wanted.generation,
            )

        return (await self.carry_out(decide)).SerializeToString()

    async def restore_topic(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.RestoreTopicRequest, request)

        def decide() -> Change:
            return recycle_bin.restore_topic(
                self._view.image,
                TenantId(wanted.tenant),
                TopicId(wanted.topic_id),
                wanted.name,
                generation=wanted.generation,
            )

        return (await self.carry_out(decide)).SerializeToString()

    async def put_access_list(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.PutAccessListRequest, request)
        try:
            rules = access_list_of(wanted.rules_json)
        except PenstockError as refusal:
            return pb.Outcome(error=refusal.code, message=refusal.message).SerializeToString()

        def decide() -> Change:
            return tenants.put_access_list(
                self._view.image, TenantId(wanted.tenant), rules, generation=wanted.generation
            )

        return (await self.carry_out(decide)).SerializeToString()

    async def put_key(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.PutKeyRequest, request)
        bindings = [
            model.Binding(
                topic_prefix=binding.topic_prefix,
                operations=tuple(binding.operations),
                resource=binding.resource,
                literal=binding.literal,
            )
            for binding in wanted.bindings
        ]
        given: list[model.KeyRecord] = []
        counter: KeyValue | None = None

        def decide() -> Change:
            change = tenants.put_key(
                self._view.image,
                counter,
                key_id=wanted.key_id,
                tenant=TenantId(wanted.tenant),
                name=wanted.name,
                pepper_version=wanted.pepper_version,
                secret_hmac=wanted.secret_hmac.hex(),
                scram=_object("scram_json", wanted.scram_json),
                expires_at_ms=wanted.expires_at_ms,
                generation=wanted.generation,
                bindings=bindings,
                owner=wanted.owner,
            )
            given[:] = [change.record]
            return change

        async def read_counter() -> None:
            nonlocal counter
            items = (await self._store.range(model.NEXT_PRINCIPAL_KEY)).items
            counter = items[0] if items else None

        outcome = await self.carry_out(decide, before=read_counter)
        principal = given[0].principal if given and not outcome.error else 0
        return pb.PutKeyResponse(outcome=outcome, principal=principal).SerializeToString()

    async def revoke_key(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.RevokeKeyRequest, request)

        def decide() -> Change:
            return tenants.revoke_key(self._view.image, wanted.key_id, generation=wanted.generation)

        return (await self.carry_out(decide)).SerializeToString()

    async def carry_out(
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
                        return self._done(self._view.image.revision)
                    change = decide()
                    if not change.changes:
                        return self._done(self._view.image.revision, ignored=change.ignored)
                    result = await self._store.txn(change.compares, change.changes)
                except StoreUnavailable:
                    await asyncio.sleep(self._config.timings.reconnect_ms / 1000)
                    continue
                except OutcomeUnknown:
                    unknown = True
                    listing = await self._store.range(broker_records.CLUSTER_KEY)
                    await self._view.reached(listing.revision, self._config.timings.call_ms)
                    continue
                await self._view.reached(result.revision, self._config.timings.call_ms)
                if result.succeeded:
                    return self._done(result.revision)
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

    def _done(self, revision: int, *, ignored: bool = False) -> pb.Outcome:
        brokers = self._view.image.brokers
        others = [
            brokers[broker].record.internal_address
            for broker in sorted(brokers)
            if brokers[broker].active and broker != self._config.broker_id
        ]
        return pb.Outcome(revision=revision, ignored=ignored, other_brokers=others)

    async def describe_topic(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.DescribeTopicRequest, request)
        image = self._view.image
        topic_id = TopicId(wanted.topic_id) or image.names.get((TenantId(wanted.tenant), wanted.name))
        topic = None if topic_id is None else image.topics.get(topic_id)
        if topic is None:
            what = wanted.topic_id.hex() or f"{wanted.tenant}/{wanted.name}"
            outcome = pb.Outcome(error=ErrorCode.NOT_FOUND, message=f"topic {what} does not exist")
            return pb.DescribeTopicResponse(outcome=outcome).SerializeToString()
        response = pb.DescribeTopicResponse(outcome=pb.Outcome(revision=image.revision))
        cluster_pages.describe_topic(response.topic, topic)
        where = locations(located(image))
        together = most_together(where, (record.replicas for record in image.partitions_of(topic.topic_id)))
        if together is not None:
            response.topic.copies_in_one_zone, response.topic.copies_on_one_host = together
        return response.SerializeToString()

    async def describe_cluster(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.DescribeClusterRequest, request)
        if not await self._view.reached(wanted.min_revision, self._config.timings.catch_up_wait_ms):
            raise CallFailed(
                ErrorCode.BROKER_UNAVAILABLE,
                f"this broker is at revision {self._view.image.revision}, {wanted.min_revision} was asked for",
            )
        image = self._view.image
        response = pb.DescribeClusterResponse(
            cluster_id=image.cluster_id,
            controller=image.controller_id,
            revision=image.revision,
            objects_revision=image.objects_revision,
            feature_level=image.level,
            levels=[
                pb.DescribedLevel(level=known.level, release=known.release, brings=known.brings)
                for known in LEVELS
            ],
        )
        for broker in sorted(image.brokers):
            known, supported = image.brokers[broker], image.supported_by(broker)
            response.brokers.add(
                id=broker,
                state="active" if known.active else "draining" if known.epoch else "fenced",
                broker_epoch=known.epoch,
                client_address=known.record.client_address,
                internal_address=known.record.internal_address,
                zone=known.record.zone,
                host=known.record.host,
                leaders=image.leader_counts[broker],
                replicas=image.replica_counts[broker],
                cordoned=image.cordoned(broker),
                version=supported.version,
                level_min=supported.lowest if supported.version else 0,
                level_max=supported.highest if supported.version else 0,
            )
        if (wanted.partitions or wanted.objects) and not wanted.after:
            for where in sorted(image.losses):
                for generation in sorted(image.losses[where]):
                    describe_loss(response.losses.add(), where, image.losses[where][generation])
        response.next = cluster_pages.add_page(
            response, image, wanted.after, objects=wanted.objects, partitions=wanted.partitions
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


def _wanted(topic: pb.CreateTopicRequest, settings: dict[str, TopicSettings]) -> WantedTopic:
    """`settings` by their text: most topics of a call have the same ones."""
    if topic.settings_json not in settings:
        settings[topic.settings_json] = _settings(topic.settings_json)
    return WantedTopic(
        topic_id=TopicId(topic.topic_id),
        tenant=TenantId(topic.tenant),
        name=topic.name,
        settings=settings[topic.settings_json],
        assignments=[list(assignment.brokers) for assignment in topic.assignments],
        generation=topic.generation,
    )


def _settings(text: str) -> TopicSettings:
    return TopicSettings.from_dict(_object("settings_json", text))


def _budgets(wanted: pb.PutTenantRequest) -> list[Budget]:
    try:
        return [
            Budget(
                budget_id=row.budget_id,
                name=row.name,
                period=row.period,
                amount=row.amount,
                unit=row.unit,
                policy=row.policy,
                slow_bytes_per_s=row.slow_bytes_per_s,
                topic=row.topic,
                principal=row.principal,
                byte_in=row.byte_in,
                message_in=row.message_in,
                byte_out=row.byte_out,
                message_out=row.message_out,
                used_before=row.used_before,
                first_began_ms=row.first_began_ms,
            )
            for row in wanted.budgets
        ]
    except InvariantBroken as broken:
        raise CallFailed(ErrorCode.INVALID_REQUEST, f"budgets: {broken}") from None
