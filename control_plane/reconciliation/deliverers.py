"""Deliveries of tenants, keys, access lists and topics: each sends the newest desired state and may be repeated."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from billing.unit_rates import unit_rates
from control_plane.access import list_actions as access_actions
from control_plane.access import queries as access
from control_plane.brokers import client as brokers
from control_plane.brokers.view import BrokerSeen, TopicSeen
from control_plane.outbox import registry
from control_plane.outbox.conditions import DELIVERY
from control_plane.outbox.registry import Delivered
from control_plane.placement import cell_actions, choice
from control_plane.placement import queries as placement
from control_plane.topics import actions as topic_actions
from control_plane.topics import observed
from control_plane.topics import queries as topics
from control_plane.topics.models import Topic
from data_plane.contract import admin_pb2 as pb
from data_plane.contract.admin_client import new_topic
from data_plane.contract.broker_calls import is_time_up
from penstock.contract.errors import (
    AlreadyExists,
    BrokerUnavailable,
    ErrorCode,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    PenstockError,
)
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.credentials import Credential
from penstock.rules.timestamps import time_ms
from quotas.account_queries import limits_on_brokers
from quotas.budget_queries import on_brokers as budgets_on_brokers
from quotas.growth import kept_max_by_tenant
from quotas.queries import limits_of
from tenants import actions as tenant_actions
from tenants import observed as observed_tenants
from tenants import queries as tenants
from tenants.models import ApiKey, Tenant

_SEEN_S = 1.0
"""How long a change may wait for a broker that was registered when it was made."""


def register_all() -> None:
    registry.register(tenant_actions.KIND_TENANT, TenantDeliverer())
    registry.register(tenant_actions.KIND_KEY, KeyDeliverer())
    registry.register(access_actions.KIND_ACCESS, AccessListDeliverer())
    registry.register_batch(topic_actions.KIND_TOPIC, TopicDeliverer())


class TenantDeliverer:
    """A tenant with its limits."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        tenant = tenants.tenant_by_id(object_id)
        return _seen(_put_tenant(tenant), tenant.generation)

    def delivered(self, object_id: str, done: Delivered) -> None:
        observed_tenants.note_delivered(Tenant, object_id, done)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        observed_tenants.put_condition(Tenant, object_id, DELIVERY, reason, message)


class KeyDeliverer:
    """A key with what it is bound to, or its revocation."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        key = tenants.key_for_delivery(object_id)
        _tenant_first(key.tenant)
        outcome = self._put(key) if key.revoked_at is None else self._revoke(key)
        return _seen(outcome, key.generation)

    def _put(self, key: ApiKey) -> pb.Outcome:
        credential = Credential(
            key_id=key.key_id,
            pepper_version=key.pepper_version,
            secret_hmac=key.secret_hmac,
            scram=key.scram,
        )
        answer = brokers.client().put_key(
            credential,
            tenant=key.tenant.public_id,
            name=key.name,
            expires_at_ms=ms_of(key.expires_at),
            bindings=[
                pb.Binding(
                    topic_prefix=b.topic_prefix,
                    operations=b.operations,
                    resource=b.resource,
                    literal=b.literal,
                )
                for b in access.bindings(key)
            ],
            owner=access.owner_of(key),
            generation=key.generation,
        )
        observed_tenants.note_number(key, answer.principal)
        return answer.outcome

    def _revoke(self, key: ApiKey) -> pb.Outcome:
        try:
            return brokers.client().revoke_key(key.key_id, generation=key.generation)
        except NotFound:
            return pb.Outcome()  # it never reached them

    def delivered(self, object_id: str, done: Delivered) -> None:
        observed_tenants.note_delivered(ApiKey, object_id, done)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        observed_tenants.put_condition(ApiKey, object_id, DELIVERY, reason, message)


class AccessListDeliverer:
    """A tenant's access list, as a whole."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        row = access.access_for_delivery(object_id)
        _tenant_first(row.tenant)
        outcome = brokers.client().put_access_list(
            row.tenant.public_id, access.access_list(row.tenant), generation=row.generation
        )
        return _seen(outcome, row.generation)

    def delivered(self, object_id: str, done: Delivered) -> None:
        access_actions.note_delivered(object_id, done)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        access_actions.put_condition(object_id, DELIVERY, reason, message)


class TopicDeliverer:
    """A topic: made on the brokers that the planner chooses, changed, or deleted."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        topic = topics.topic_for_delivery(object_id)
        if topic.deleted_at is not None:
            outcome = self._delete(topic)
        elif topic.binned_at is not None:
            outcome = brokers.client().bin_topic(
                topic.tenant.public_id, bytes.fromhex(topic.topic_id), generation=topic.generation
            )
        elif topic.on_brokers:
            outcome = self._update(topic)
        else:
            _tenant_first(topic.tenant)
            outcome = self._create(topic)
        return _seen(outcome, topic.generation)

    def deliver_all(self, object_ids: Sequence[str]) -> dict[str, Delivered | PenstockError]:
        """New topics in one call. What is not new has a call of its own. So has what the brokers refuse for another
        reason than a limit: the cluster may have changed, or an attempt whose answer was lost has made the topic. When
        the time is up the others are left out.
        """
        by_id = topics.topics_for_delivery(object_ids)
        in_order = [by_id[object_id] for object_id in object_ids]
        found = self._make_all(
            [
                topic
                for topic in in_order
                if topic.deleted_at is None and topic.binned_at is None and not topic.on_brokers
            ]
        )
        for topic in in_order:
            if topic.public_id not in found:
                try:
                    found[topic.public_id] = self.deliver(topic.public_id, topic.generation)
                except PenstockError as refusal:
                    found[topic.public_id] = refusal
                if is_time_up():
                    break
        return found

    def _make_all(self, new: Sequence[Topic]) -> dict[str, Delivered | PenstockError]:
        """Those that the brokers have made, once no client can meet a broker that does not know of them, those that are
        over a limit, and those whose tenant the brokers refuse.
        """
        found: dict[str, Delivered | PenstockError] = {}
        for tenant in {topic.tenant_id: topic.tenant for topic in new}.values():
            try:
                _tenant_first(tenant)
            except PenstockError as refusal:
                # Of this tenant alone: the topics of the others go on.
                found |= {topic.public_id: refusal for topic in new if topic.tenant_id == tenant.pk}
        new = [topic for topic in new if topic.public_id not in found]
        if not new:
            return found
        wanted = [TopicSettings.from_dict(topic.settings) for topic in new]
        seen = brokers.brokers_lately() or brokers.describe().brokers
        try:
            cells = {
                tenant: cell_actions.brokers_for(tenant, seen)
                for tenant in dict.fromkeys(topic.tenant.public_id for topic in new)
            }
            placed = choice.assignments_of_all(
                [
                    choice.Wanted(
                        partitions=topic.partitions,
                        replication=each.replication,
                        within=cells[topic.tenant.public_id],
                        draw=bytes.fromhex(topic.topic_id),
                    )
                    for topic, each in zip(new, wanted, strict=True)
                ],
                seen,
                placement.load_sums(),
            )
        except (BrokerUnavailable, InvalidRequest):
            return found  # each topic says by itself what it lacks
        answer = brokers.client().create_topics(
            [
                new_topic(
                    topic.tenant.public_id,
                    topic.name,
                    each,
                    assignments,
                    topic_id=bytes.fromhex(topic.topic_id),
                    generation=topic.generation,
                )
                for topic, each, assignments in zip(new, wanted, placed, strict=True)
            ]
        )
        brokers.client().wait_until_seen(answer.outcome, _SEEN_S)
        for topic, one in zip(new, answer.topics, strict=True):
            if one.outcome.error == ErrorCode.LIMIT_EXCEEDED:
                found[topic.public_id] = LimitExceeded(one.outcome.message)
            elif not one.outcome.error and not one.outcome.ignored:
                found[topic.public_id] = Delivered(
                    generation=topic.generation, revision=answer.outcome.revision
                )
        return found

    def _create(self, topic: Topic) -> pb.Outcome:
        try:
            answer = self._make(topic)
        except AlreadyExists as taken:
            # Made by an attempt whose answer was lost, if it has our id; else the name is taken for now.
            try:
                found = brokers.describe_topic(tenant=topic.tenant.public_id, name=topic.name)
            except NotFound:
                raise taken from None
            if found.topic_id != topic.topic_id and topic.tenant.public_id != SYSTEM_TENANT:
                self._check_given_up(topic, found)
                raise
            # Internal topics may have been created when the brokers were started; they are never deleted.
            topic.topic_id = found.topic_id
            observed.note_found(topic.public_id, topic.topic_id)
            return self._update(topic)
        return answer.outcome

    def _make(self, topic: Topic) -> pb.CreateTopicResponse:
        lately = brokers.brokers_lately()
        if lately:
            try:
                return self._make_on(topic, lately)
            except (BrokerUnavailable, InvalidRequest):
                pass  # the cluster may have changed since
        return self._make_on(topic, brokers.describe().brokers)

    def _make_on(self, topic: Topic, seen: Sequence[BrokerSeen]) -> pb.CreateTopicResponse:
        settings = TopicSettings.from_dict(topic.settings)
        return brokers.client().create_topic(
            topic.tenant.public_id,
            topic.name,
            settings,
            choice.assignments(
                self._wanted(topic, topic.partitions, settings.replication, seen), seen, placement.load_sums()
            ),
            topic_id=bytes.fromhex(topic.topic_id),
            generation=topic.generation,
        )

    def _wanted(
        self, topic: Topic, partitions: int, replication: int, seen: Sequence[BrokerSeen]
    ) -> choice.Wanted:
        return choice.Wanted(
            partitions=partitions,
            replication=replication,
            within=cell_actions.brokers_for(topic.tenant.public_id, seen),
            draw=bytes.fromhex(topic.topic_id),
        )

    def _update(self, topic: Topic) -> pb.Outcome:
        settings = TopicSettings.from_dict(topic.settings)
        try:
            found = brokers.describe_topic(topic_id=topic.topic_id)
        except NotFound:
            raise NotFound(
                f"topic {topic.name!r} is not on the brokers; reconciliation makes it again"
            ) from None
        missing = topic.partitions - found.partitions
        added: Sequence[Sequence[int]] = ()
        if missing > 0:
            seen = brokers.describe().brokers
            added = choice.assignments(
                self._wanted(topic, missing, settings.replication, seen), seen, placement.load_sums()
            )
        outcome = brokers.client().update_topic(
            topic.tenant.public_id,
            bytes.fromhex(topic.topic_id),
            settings,
            added,
            generation=topic.generation,
        )
        return self._restore(topic) if found.binned else outcome

    def _restore(self, topic: Topic) -> pb.Outcome:
        """Last, so that it comes back with the settings that are wanted."""
        tenant = topic.tenant.public_id
        try:
            return brokers.client().restore_topic(
                tenant, bytes.fromhex(topic.topic_id), topic.name, generation=topic.generation
            )
        except AlreadyExists:
            try:
                found = brokers.describe_topic(tenant=tenant, name=topic.name)
            except NotFound:
                raise BrokerUnavailable(f"{topic.name}: the name was given up a moment ago") from None
            self._check_given_up(topic, found)
            raise

    def _check_given_up(self, topic: Topic, found: TopicSeen) -> None:
        if topics.gives_its_name_up(topic.tenant, found.topic_id):
            raise BrokerUnavailable(
                f"{topic.name}: the deletion of the topic that had this name has not reached the brokers yet"
            ) from None

    def _delete(self, topic: Topic) -> pb.Outcome:
        try:
            return brokers.client().delete_topic(
                topic.tenant.public_id,
                topic.name,
                topic_id=bytes.fromhex(topic.topic_id),
                generation=topic.generation,
            )
        except NotFound:
            return pb.Outcome()  # it never reached them, or an attempt whose answer was lost did it

    def delivered(self, object_id: str, done: Delivered) -> None:
        observed.note_delivered({object_id: done})

    def all_delivered(self, done: Mapping[str, Delivered]) -> None:
        observed.note_delivered(done)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        observed.put_condition(object_id, DELIVERY, reason, message)


def ms_of(at: datetime | None) -> int:
    """Wall clock in ms, 0 for never."""
    return 0 if at is None else time_ms(at)


def _tenant_first(tenant: Tenant) -> None:
    """Its tenant may not have reached the brokers yet: its own delivery may be under way, or be lost."""
    if tenant.delivered_generation == 0:
        _put_tenant(tenant)


def _put_tenant(tenant: Tenant) -> pb.Outcome:
    limits = limits_of(tenant)
    return brokers.client().put_tenant(
        tenant.public_id,
        generation=tenant.generation,
        produce_bytes_per_s=limits.produce_bytes_per_s,
        partitions_max=limits.partitions_max,
        consume_bytes_per_s=limits.consume_bytes_per_s,
        connections_max=limits.connections_max,
        groups_max=limits.groups_max,
        requests_per_s=limits.requests_per_s,
        connection_attempts_per_s=limits.connection_attempts_per_s,
        rate_burst_ms=limits.rate_burst_ms,
        rate_floor_percent=limits.rate_floor_percent,
        broker_processor_ms_per_s=limits.broker_processor_ms_per_s,
        storage_bytes_max=limits.storage_bytes_max,
        kept_bytes_max=kept_max_by_tenant(tenant).get(tenant.pk, 0),
        suspended=tenant.stopped,
        principals=limits_on_brokers(tenant),
        budgets=budgets_on_brokers(tenant, unit_rates),
    )


def _seen(outcome: pb.Outcome, generation: int) -> Delivered:
    """Delivered, once no client can meet a broker that does not know of it."""
    brokers.client().wait_until_seen(outcome, _SEEN_S)
    return Delivered(generation=generation, revision=outcome.revision)
