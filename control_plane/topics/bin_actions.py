"""Writes the recycle bin: topics put into it, restored from it, and deleted from it for good.

A topic in the bin keeps its messages, settings, offsets and groups' commits, counts against the tenant's limits and is
billed as storage. Its name is free at once, and clients find nothing under it. Entries of access lists name topics by
their names: they stay, and count for the topic that has the name.
"""

from collections.abc import Callable
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.outbox import actions as outbox
from control_plane.outbox import conditions
from control_plane.topics import actions, queries
from control_plane.topics.models import Topic
from penstock.contract.errors import AlreadyExists, NotFound
from penstock.rules.names import check_topic_name
from quotas.partition_changes import no_longer_made, note, spend
from quotas.queries import limits_of
from tenants.actions import check_open
from tenants.models import Tenant


def remove_topic(actor: Actor, tenant: Tenant, name: str, *, purge: bool = False) -> Topic:
    """Put the topic into the recycle bin, where it has a `purge_at`; or delete it for good, where it has none.

    The latter with `purge`, when the tenant's plan has no bin, when the brokers have none yet (their feature level is
    too low), and when they have never made the topic, so that nothing could be kept. Raises `NotFound`,
    `InvalidRequest` (an internal topic).
    """
    if purge or not queries.bin_possible():
        return actions.delete_topic(actor, tenant, name)
    days = limits_of(tenant).bin_days
    with transaction.atomic():
        topic = actions.locked_topic(tenant, name)
        actions.check_removable(actor, topic)
        if not days or not topic.on_brokers:
            return actions.delete_topic(actor, tenant, name)
        if actions.counts(actor):
            note(tenant, 1)
        topic.binned_at = timezone.now()
        topic.purge_at = topic.binned_at + timedelta(days=days)
        topic.generation += 1
        topic.save(update_fields=["binned_at", "purge_at", "generation", "updated_at"])
        _record(actor, topic, "topic.bin", after={"purge_at": topic.purge_at.isoformat()})
        actions.deliver_topic(topic)
    return topic


def restore_topic(actor: Actor, tenant: Tenant, public_id: str, *, name: str | None = None) -> Topic:
    """Take the topic out of the bin, under the name that it had or another one.

    Raises `NotFound` (it is not in the tenant's bin), `AlreadyExists` (the name is taken), `InvalidRequest` (of the
    name).
    """
    if name is not None:
        check_topic_name(tenant.public_id, name)
    with transaction.atomic():
        # Under the tenant's lock no other request can take the name meanwhile.
        topic = _locked(tenant, public_id)
        check_open(topic.tenant)
        before, wanted = topic.name, topic.name if name is None else name
        if queries.topics(tenant).filter(name=wanted).exists():
            raise AlreadyExists(
                f"topic {wanted!r} exists: give another name to the one in the recycle bin, or delete that one first"
            )
        if actions.counts(actor):
            spend(tenant, wanted, 1)
        topic.name, topic.binned_at, topic.purge_at = wanted, None, None
        topic.generation += 1
        topic.save(update_fields=["name", "binned_at", "purge_at", "generation", "updated_at"])
        _record(actor, topic, "topic.restore", before={"name": before}, after={"name": wanted})
        actions.deliver_topic(topic)
    return topic


def take_back_restore(actor: Actor, topic: Topic, before: Topic, why: str) -> bool:
    """The brokers refused to restore `topic`: it is in the bin again, as `before`. False if a process delivers it or
    has changed it too."""
    with transaction.atomic():
        actions.lock_tenant(topic.tenant_id)
        locked = (
            Topic.objects.select_for_update(no_key=True, of=("self",))
            .select_related("tenant")
            .get(pk=topic.pk)
        )
        if locked.generation != topic.generation or outbox.is_being_delivered(
            actions.KIND_TOPIC, topic.public_id
        ):
            return False
        if actions.counts(actor):
            no_longer_made(locked.tenant, 1, topic.updated_at)
        refused = locked.name
        locked.name, locked.binned_at, locked.purge_at = before.name, before.binned_at, before.purge_at
        locked.generation += 1
        locked.conditions = conditions.without(locked.conditions, conditions.DELIVERY)
        locked.save(update_fields=["name", "binned_at", "purge_at", "generation", "conditions", "updated_at"])
        _record(actor, locked, "topic.restore_refused", before={"name": refused}, after={"why": why})
        actions.deliver_topic(locked)
    return True


def purge_topic(actor: Actor, tenant: Tenant, public_id: str) -> Topic:
    """Delete a topic in the bin for good, with all of its messages. Raises `NotFound`."""
    return _purge(actor, tenant, public_id, lambda topic: True)


def purge_due(actor: Actor, topic: Topic) -> bool:
    """The same, if its time is over. False if it was restored, or deleted, meanwhile."""
    now = timezone.now()
    try:
        _purge(
            actor,
            topic.tenant,
            topic.public_id,
            lambda locked: locked.purge_at is None or locked.purge_at <= now,
        )
    except NotFound:
        return False
    return True


def _purge(actor: Actor, tenant: Tenant, public_id: str, due: Callable[[Topic], bool]) -> Topic:
    with transaction.atomic():
        topic = _locked(tenant, public_id)
        if not due(topic):
            raise _missing(public_id)
        if actions.counts(actor):
            note(tenant, topic.partitions)
        topic.deleted_at = timezone.now()
        topic.generation += 1
        topic.save(update_fields=["deleted_at", "generation", "updated_at"])
        _record(actor, topic, "topic.purge")
        actions.deliver_topic(topic)
    return topic


def _locked(tenant: Tenant, public_id: str) -> Topic:
    actions.lock_tenant(tenant.pk)
    rows = Topic.objects.select_for_update(no_key=True, of=("self",)).select_related("tenant")
    topic = rows.filter(tenant=tenant, public_id=public_id, deleted_at=None, binned_at__isnull=False).first()
    if topic is None:
        raise _missing(public_id)
    return topic


def _missing(public_id: str) -> NotFound:
    return NotFound(f"topic {public_id[:64]!r} is not in the recycle bin")


def _record(
    actor: Actor,
    topic: Topic,
    action: str,
    *,
    before: dict[str, str] | None = None,
    after: dict[str, str] | None = None,
) -> None:
    known = {"name": topic.name, "partitions": topic.partitions, "topic_id": topic.topic_id}
    audit.record(
        actor,
        tenant=topic.tenant.public_id,
        action=action,
        object_id=topic.public_id,
        before=known | (before or {}),
        after=after,
    )
