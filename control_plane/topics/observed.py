"""Writes what was observed of topics: copies, drift that reconciliation finds, and what became of deliveries."""

import json
import secrets
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from control_plane.audit.actor import Actor
from control_plane.outbox import conditions
from control_plane.outbox.registry import Delivered
from control_plane.topics import actions
from control_plane.topics.models import Topic

COPIES = "copies"
"""Condition of a topic whose number of copies cannot be reached now: why."""


def note_copies(topic: Topic) -> bool:
    """Every partition has as many copies as the topic's replication says. False if it was changed meanwhile."""
    with transaction.atomic():
        locked = actions.unchanged(topic)
        if locked is None:
            return False
        locked.copies_due = False
        locked.conditions = conditions.without(locked.conditions, COPIES)
        locked.save(update_fields=["copies_due", "conditions", "updated_at"])
    return True


# -- what reconciliation finds --------------------------------------------------------------------------
#
# Each returns False, and changes nothing, if the topic was changed since it was read.


def touch(actor: Actor, topic: Topic, action: str, *, at_least: int = 0, why: str) -> bool:
    """Deliver the desired state again. Its generation becomes higher than `at_least`, the brokers' one."""
    with transaction.atomic():
        locked = actions.unchanged(topic)
        if locked is None:
            return False
        locked.generation = max(locked.generation, at_least) + 1
        locked.save(update_fields=["generation", "updated_at"])
        actions.tell(actor, locked, action, {"generation": topic.generation}, {"why": why})
        actions.deliver_topic(locked)
    return True


def recreate(actor: Actor, topic: Topic, *, why: str) -> bool:
    """The brokers have lost the topic: it is made again, empty, under a new topic id, and says so."""
    with transaction.atomic():
        locked = actions.unchanged(topic)
        if locked is None:
            return False
        lost = locked.topic_id
        locked.topic_id = secrets.token_hex(16)
        locked.on_brokers = False
        locked.generation += 1
        # Nothing of the new topic is delivered: until it is, no view of the brokers is judged for it.
        locked.delivered_generation = locked.delivered_revision = 0
        locked.conditions = conditions.put(
            locked.conditions,
            conditions.RECREATED,
            "removed_on_brokers",
            f"{why}; it was made again, empty; the topic id before was {lost}",
            timezone.now(),
        )
        locked.save()
        actions.tell(
            actor, locked, "topic.recreate", {"topic_id": lost}, {"topic_id": locked.topic_id, "why": why}
        )
        actions.deliver_topic(locked)
    return True


def adopt(actor: Actor, topic: Topic, *, topic_id: str, partitions: int, generation: int, why: str) -> bool:
    """The brokers have a topic of this name under another id, or with more partitions: it is taken as it is.

    Nothing is deleted: what was written into it belongs to the tenant.
    """
    with transaction.atomic():
        locked = actions.unchanged(topic)
        if locked is None:
            return False
        before = {"topic_id": locked.topic_id, "partitions": locked.partitions}
        locked.topic_id, locked.on_brokers = topic_id, True
        locked.partitions = max(locked.partitions, partitions)
        locked.generation = max(locked.generation, generation) + 1
        locked.conditions = conditions.put(
            locked.conditions, conditions.ADOPTED, "changed_on_brokers", why, timezone.now()
        )
        locked.save(
            update_fields=["topic_id", "on_brokers", "partitions", "generation", "conditions", "updated_at"]
        )
        after = {"topic_id": locked.topic_id, "partitions": locked.partitions, "why": why}
        actions.tell(actor, locked, "topic.adopt", before, after)
        actions.deliver_topic(locked)
    return True


# -- what became of a delivery --------------------------------------------------------------------------


def note_found(public_id: str, topic_id: str) -> None:
    """The brokers have the topic already, under this id."""
    Topic.objects.filter(public_id=public_id).update(on_brokers=True, topic_id=topic_id)


def note_delivered(done: Mapping[str, Delivered]) -> None:
    """The brokers have these generations of topics, by public id. In a transaction."""
    rows = Topic.objects.select_for_update(no_key=True).filter(public_id__in=list(done))
    alike: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for topic in rows:
        one = done[topic.public_id]
        after: dict[str, Any] = {
            "delivered_generation": max(topic.delivered_generation, one.generation),
            "delivered_revision": max(topic.delivered_revision, one.revision),
            # An older generation may be of another topic id, which the brokers have lost since.
            "on_brokers": topic.on_brokers
            or (one.generation == topic.generation and topic.deleted_at is None and topic.binned_at is None),
            "conditions": conditions.without(topic.conditions, conditions.DELIVERY),
        }
        alike.setdefault(json.dumps(after), (after, []))[1].append(topic.pk)
    for after, pks in alike.values():
        Topic.objects.filter(pk__in=pks).update(**after, updated_at=timezone.now())


def put_condition(public_id: str, kind: str, reason: str, message: str) -> None:
    """Show a condition on the topic."""
    with transaction.atomic():
        topic = Topic.objects.select_for_update(no_key=True).get(public_id=public_id)
        topic.conditions = conditions.put(topic.conditions, kind, reason, message, timezone.now())
        topic.save(update_fields=["conditions", "updated_at"])


def clear_condition(public_id: str, kind: str) -> None:
    """Show it no more."""
    with transaction.atomic():
        topic = Topic.objects.select_for_update(no_key=True).get(public_id=public_id)
        topic.conditions = conditions.without(topic.conditions, kind)
        topic.save(update_fields=["conditions", "updated_at"])
