"""Deliveries of tenants, keys and topics: each tells the brokers the newest desired state and may be repeated."""

from datetime import datetime

from control_plane.access import queries as access
from control_plane.cluster import brokers, view
from control_plane.outbox import registry
from control_plane.outbox.conditions import DELIVERY
from control_plane.outbox.registry import Delivered
from control_plane.placement import choice
from control_plane.topics import actions as topic_actions
from control_plane.topics import queries as topics
from control_plane.topics.models import Topic
from penstock.contract.errors import AlreadyExists, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.topic_settings import TopicSettings
from quotas.queries import limits_of
from tenants import actions as tenant_actions
from tenants import queries as tenants
from tenants.models import ApiKey, Tenant


def register_all() -> None:
    registry.register(tenant_actions.KIND_TENANT, TenantDeliverer())
    registry.register(tenant_actions.KIND_KEY, KeyDeliverer())
    registry.register(topic_actions.KIND_TOPIC, TopicDeliverer())


class TenantDeliverer:
    """A tenant with its limits."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        tenant = tenants.tenant_by_id(object_id)
        revision = _put_tenant(tenant)
        brokers.client().wait_until_seen(revision)
        return Delivered(generation=tenant.generation, revision=revision)

    def delivered(self, object_id: str, done: Delivered) -> None:
        tenant_actions.note_delivered(Tenant, object_id, done)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        tenant_actions.put_condition(Tenant, object_id, DELIVERY, reason, message)


class KeyDeliverer:
    """A key with what it is bound to, or its revocation."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        key = tenants.key_for_delivery(object_id)
        _tenant_first(key.tenant)
        if key.revoked_at is None:
            revision = self._put(key)
        else:
            revision = self._revoke(key)
        brokers.client().wait_until_seen(revision)
        return Delivered(generation=key.generation, revision=revision)

    def _put(self, key: ApiKey) -> int:
        bindings = [
            view.BindingSeen(topic_prefix=b.topic_prefix, operations=tuple(b.operations))
            for b in access.bindings(key)
        ]
        return brokers.client().put_key(
            key_id=key.key_id,
            tenant=key.tenant.public_id,
            name=key.name,
            pepper_version=key.pepper_version,
            secret_hmac=key.secret_hmac,
            scram=key.scram,
            expires_at_ms=ms_of(key.expires_at),
            bindings=bindings,
            generation=key.generation,
        )

    def _revoke(self, key: ApiKey) -> int:
        try:
            return brokers.client().revoke_key(key.key_id, key.generation)
        except NotFound:
            return 0  # it never reached them

    def delivered(self, object_id: str, done: Delivered) -> None:
        tenant_actions.note_delivered(ApiKey, object_id, done)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        tenant_actions.put_condition(ApiKey, object_id, DELIVERY, reason, message)


class TopicDeliverer:
    """A topic: made on the brokers that the planner chooses, changed, or deleted."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        topic = topics.topic_for_delivery(object_id)
        if topic.deleted_at is not None:
            revision = self._delete(topic)
        elif topic.on_brokers:
            revision = self._update(topic)
        else:
            _tenant_first(topic.tenant)
            revision = self._create(topic)
        brokers.client().wait_until_seen(revision)
        return Delivered(generation=topic.generation, revision=revision)

    def _create(self, topic: Topic) -> int:
        settings = TopicSettings.from_dict(topic.settings)
        seen = brokers.client().describe()
        chosen = choice.assignments(topic.partitions, settings.replication, seen.brokers)
        try:
            topic_id, revision = brokers.client().create_topic(
                tenant=topic.tenant.public_id,
                name=topic.name,
                topic_id=topic.topic_id,
                settings=settings,
                assignments=chosen,
                generation=topic.generation,
            )
        except AlreadyExists:
            # Made by an attempt whose answer was lost, if it has our id; else the name is taken for now.
            found = _seen_topic(topic)
            if found is None:
                raise
            if found.topic_id != topic.topic_id and topic.tenant.public_id != SYSTEM_TENANT:
                raise
            # Internal topics may have been made by whoever started the brokers; they are never deleted.
            topic.topic_id = found.topic_id
            topic_actions.note_made(topic.public_id, topic.topic_id)
            return self._update(topic)
        topic_actions.note_made(topic.public_id, topic_id)
        return revision

    def _update(self, topic: Topic) -> int:
        settings = TopicSettings.from_dict(topic.settings)
        seen = brokers.client().describe(objects=True)
        found = next((t for t in seen.topics if t.topic_id == topic.topic_id), None)
        if found is None:
            raise NotFound(f"topic {topic.name!r} is not on the brokers; reconciliation makes it again")
        missing = topic.partitions - found.partitions
        added = choice.assignments(missing, settings.replication, seen.brokers) if missing > 0 else ()
        return brokers.client().update_topic(
            tenant=topic.tenant.public_id,
            topic_id=topic.topic_id,
            settings=settings,
            added=added,
            generation=topic.generation,
        )

    def _delete(self, topic: Topic) -> int:
        try:
            return brokers.client().delete_topic(
                tenant=topic.tenant.public_id,
                name=topic.name,
                topic_id=topic.topic_id,
                generation=topic.generation,
            )
        except NotFound:
            return 0  # it never reached them, or an attempt whose answer was lost did it

    def delivered(self, object_id: str, done: Delivered) -> None:
        topic_actions.note_delivered(object_id, done)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        topic_actions.put_condition(object_id, DELIVERY, reason, message)


def ms_of(at: datetime | None) -> int:
    """Wall clock in ms, 0 for never."""
    return 0 if at is None else int(at.timestamp() * 1000)


def _tenant_first(tenant: Tenant) -> None:
    """Its tenant may not have reached the brokers yet: its own delivery may be under way, or be lost."""
    if tenant.delivered_generation == 0:
        _put_tenant(tenant)


def _put_tenant(tenant: Tenant) -> int:
    limits = limits_of(tenant)
    return brokers.client().put_tenant(
        tenant.public_id,
        tenant.generation,
        produce_bytes_per_s=limits.produce_bytes_per_s,
        partitions_max=limits.partitions_max,
        suspended=tenant.suspended,
    )


def _seen_topic(topic: Topic) -> view.TopicSeen | None:
    seen = brokers.client().describe(objects=True)
    tenant = topic.tenant.public_id
    return next((t for t in seen.topics if t.tenant == tenant and t.name == topic.name), None)
