"""Writes topics: created, changed and deleted as desired state; each change with audit entry and outbox row.

What is only observed of them is in `observed`.
"""

import json
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.ids import new_topic_id
from control_plane.outbox import actions as outbox
from control_plane.outbox import conditions
from control_plane.topics.models import Topic
from control_plane.topics.plan_refusals import above_limits, partitions_reached, topics_reached
from control_plane.topics.queries import cluster_size, cluster_size_now, copies_possible
from penstock.contract import limits
from penstock.contract.errors import (
    AlreadyExists,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    PenstockError,
)
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.topic_settings import FIXED, TopicSettings
from penstock.rules.names import AUDIT_TOPIC, check_topic_name
from quotas import growth
from quotas.partition_changes import ChangesOfHour, no_longer_made, note, spend
from quotas.queries import limits_of
from tenants.actions import check_open
from tenants.models import Tenant

KIND_TOPIC = "topic"
CREATE, UPDATE, UPDATE_REFUSED = "topic.create", "topic.update", "topic.update_refused"
RESTORED = "topic.settings_restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAsked:
    """A topic that is asked for: the settings named, the service's defaults for the rest."""

    name: str
    partitions: int
    settings: Mapping[str, Any]


def create_topic(
    actor: Actor,
    tenant: Tenant,
    *,
    name: str,
    partitions: int,
    settings: Mapping[str, Any],
    within_service: bool = False,
) -> Topic:
    """A topic with the settings named and the service's defaults for the rest. `within_service`: its name may be one of
    those that are kept for the service.

    Raises `InvalidRequest`, `AlreadyExists`, `LimitExceeded` (the tenant's partitions, the cluster's brokers),
    `Throttled` (changes in this hour).
    """
    asked = TopicAsked(name=name, partitions=partitions, settings=settings)
    made = create_topics(actor, tenant, [asked], within_service=within_service)[0]
    if isinstance(made, PenstockError):
        raise made
    return made


def create_topics(
    actor: Actor, tenant: Tenant, asked: Sequence[TopicAsked], *, within_service: bool = False
) -> list[Topic | PenstockError]:
    """Topics in one transaction. Each is made or refused on its own: the topic, or its refusal as `create_topic` raises
    it, in the order of `asked`.

    The tenant's limit is used up in that order. All topics of one name are refused, because none is meant more than the
    others.
    """
    checked = _checked(tenant, asked, within_service)
    found: list[Topic | PenstockError] = []
    made: list[Topic] = []
    with transaction.atomic():
        # Under its lock two requests can neither pass the limit together nor take one name.
        locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        if not within_service:
            check_open(locked)
        allowed, used = _limit(tenant)
        hour = ChangesOfHour(tenant)
        ceiling = growth.refusal(tenant, "another topic") if counts(actor) else None
        plan, topics = limits_of(tenant), Topic.objects.filter(tenant=tenant, deleted_at=None).count()
        there = Topic.objects.filter(
            tenant=tenant, deleted_at=None, binned_at=None, name__in=[topic.name for topic in asked]
        ).values_list("name", flat=True)
        taken = set(there)
        for topic, whole in zip(asked, checked, strict=True):
            if isinstance(whole, PenstockError):
                found.append(whole)
            elif topic.name in taken:
                found.append(AlreadyExists(f"topic {topic.name!r} exists"))
            elif allowed and used + topic.partitions > allowed:
                found.append(partitions_reached(tenant, topic.name, topic.partitions, used, allowed))
            elif plan.topics_max and topics >= plan.topics_max:
                found.append(topics_reached(tenant, topic.name, topics, plan.topics_max))
            elif above := above_limits(plan, topic.name, whole.to_dict()):
                found.append(above)
            elif ceiling is not None:
                found.append(ceiling)
            elif counts(actor) and (too_many := hour.refusal(topic.name, topic.partitions)):
                found.append(too_many)
            else:
                if counts(actor):
                    hour.note(topic.partitions)
                used += topic.partitions
                topics += 1
                made.append(
                    Topic(
                        public_id=new_topic_id(),
                        tenant=tenant,
                        name=topic.name,
                        topic_id=secrets.token_hex(16),
                        partitions=topic.partitions,
                        settings=whole.to_dict(),
                    )
                )
                found.append(made[-1])
        if made:
            _store(actor, tenant, made)
            hour.store()
    return found


def _store(actor: Actor, tenant: Tenant, made: Sequence[Topic]) -> None:
    Topic.objects.bulk_create(made)
    audit.record_all(
        actor,
        tenant=tenant.public_id,
        entries=[
            audit.Entry(
                action=CREATE,
                object_id=topic.public_id,
                after={"name": topic.name, "partitions": topic.partitions, "settings": topic.settings},
            )
            for topic in made
        ],
    )
    outbox.enqueue_all(
        kind=KIND_TOPIC,
        tenant=tenant.public_id,
        generations={topic.public_id: topic.generation for topic in made},
    )


def update_topic(
    actor: Actor,
    tenant: Tenant,
    name: str,
    *,
    partitions: int | None = None,
    settings: Mapping[str, Any] | None = None,
    restores: int | None = None,
) -> Topic:
    """Change the settings named and add partitions; one that is named as None goes back to the service's default.
    Changing nothing is no change. `restores` is the number of the version that the settings come from, for the audit
    log.

    Another replication is reached a copy at a time, by moves. Raises `NotFound`, `InvalidRequest` (partitions are never
    removed, and nothing is demanded of copies that are not there yet), `LimitExceeded`.
    """
    if isinstance(copies := (settings or {}).get("replication"), int):
        _has_brokers_for(copies)
    with transaction.atomic():
        topic = locked_topic(tenant, name)
        check_by_hand(actor, topic)
        before = {"partitions": topic.partitions, "settings": topic.settings}
        named = _with_defaults_of_copies(settings or {}, topic.settings)
        merged = TopicSettings.chosen(named, topic.settings).to_dict()
        for fixed in FIXED:
            if merged[fixed] != topic.settings[fixed]:
                raise InvalidRequest(f"{fixed}: {name} has {topic.settings[fixed]}, and keeps it")
        _not_before_the_copies(topic, merged)
        wanted = topic.partitions if partitions is None else partitions
        checked_partitions(wanted)
        if wanted < topic.partitions:
            raise InvalidRequest(
                f"partitions: {name} has {topic.partitions}, {wanted} would remove some; only more are possible"
            )
        if wanted > topic.partitions:
            _within_limit(tenant, name, wanted - topic.partitions)
        if wanted == topic.partitions and merged == topic.settings:
            return topic
        grows = "more partitions" if wanted > topic.partitions else growth.grows(topic.settings, merged)
        if grows and counts(actor) and (ceiling := growth.refusal(tenant, grows)):
            raise ceiling
        changed = {key: value for key, value in merged.items() if value != topic.settings[key]}
        if above := above_limits(limits_of(tenant), name, changed):
            raise above
        if counts(actor):
            spend(tenant, name, wanted - topic.partitions + bool(changed))
        if merged["replication"] != topic.settings["replication"]:
            topic.copies_due = True
        topic.partitions, topic.settings = wanted, merged
        topic.generation += 1
        topic.save(update_fields=["partitions", "settings", "copies_due", "generation", "updated_at"])
        audit.record(
            actor,
            tenant=tenant.public_id,
            action=UPDATE if restores is None else RESTORED,
            object_id=topic.public_id,
            before=before,
            after={
                "partitions": wanted,
                "settings": merged,
                **({} if restores is None else {"restored_version": restores}),
            },
        )
        deliver_topic(topic)
    return topic


def delete_topic(actor: Actor, tenant: Tenant, name: str) -> Topic:
    """Delete the topic with all of its messages, at once and for good.

    Raises `NotFound`, `InvalidRequest` (an internal topic).
    """
    with transaction.atomic():
        topic = locked_topic(tenant, name)
        check_removable(actor, topic)
        if counts(actor):
            note(tenant, topic.partitions)
        topic.deleted_at = timezone.now()
        topic.generation += 1
        topic.save(update_fields=["deleted_at", "generation", "updated_at"])
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="topic.delete",
            object_id=topic.public_id,
            before={
                "name": name,
                "partitions": topic.partitions,
                "settings": topic.settings,
                "topic_id": topic.topic_id,
            },
        )
        deliver_topic(topic)
    return topic


def withdraw(actor: Actor, topic: Topic, why: str) -> bool:
    """The brokers refused to make the topic: it never existed. False if a process delivers it or it was changed."""
    with transaction.atomic():
        locked = unchanged(topic)
        if locked is None or locked.on_brokers or not outbox.withdraw(KIND_TOPIC, topic.public_id):
            return False
        audit.record(
            actor,
            tenant=locked.tenant.public_id,
            action="topic.refused",
            object_id=locked.public_id,
            before={"name": locked.name, "partitions": locked.partitions},
            after={"why": why},
        )
        if counts(actor):
            no_longer_made(locked.tenant, locked.partitions, topic.created_at)
        locked.delete()
    return True


def take_back(actor: Actor, topic: Topic, before: Topic, why: str) -> bool:
    """The brokers refused the change that made `topic` of `before`: it is as before again. False if a process delivers
    it or has changed it too.

    Its generation is a new one: an attempt whose answer was lost may reach the brokers late, and is outdated then.
    """
    with transaction.atomic():
        locked = unchanged(topic)
        if (
            locked is None
            or topic.generation != before.generation + 1
            or outbox.is_being_delivered(KIND_TOPIC, topic.public_id)
        ):
            return False
        refused = {"partitions": locked.partitions, "settings": locked.settings}
        if counts(actor):
            made = locked.partitions - before.partitions + (locked.settings != before.settings)
            no_longer_made(locked.tenant, made, topic.updated_at)
        locked.partitions, locked.settings = before.partitions, before.settings
        locked.copies_due = before.copies_due
        locked.generation += 1
        locked.conditions = conditions.without(locked.conditions, conditions.DELIVERY)
        locked.save(
            update_fields=["partitions", "settings", "copies_due", "generation", "conditions", "updated_at"]
        )
        tell(
            actor,
            locked,
            UPDATE_REFUSED,
            refused,
            {"partitions": locked.partitions, "settings": locked.settings, "why": why},
        )
        deliver_topic(locked)
    return True


# -- rules ----------------------------------------------------------------------------------------------


def counts(actor: Actor) -> bool:
    """Whether what they do counts against `partition_changes_per_hour`: what the service itself does and operators do,
    does not.
    """
    return actor.kind not in (ActorKind.SYSTEM, ActorKind.OPERATOR)


def complete(settings: Mapping[str, Any]) -> TopicSettings:
    """All settings: three copies, or as many as there are brokers; the rest as the contract says."""
    unnamed = {"replication": None, "min_insync_replicas": None}
    return TopicSettings.chosen(_with_defaults_of_copies({**unnamed, **settings}, {}), {})


def _with_defaults_of_copies(named: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
    """`named`, with the numbers of copies that the service gives a topic where they are named as None: they follow from
    its brokers.
    """
    values = dict(named)
    if "replication" in values and values["replication"] is None:
        values["replication"] = copies_possible()
    copies = {**before, **values}.get("replication")
    if "min_insync_replicas" in values and values["min_insync_replicas"] is None and isinstance(copies, int):
        values["min_insync_replicas"] = max(1, min(limits.MIN_INSYNC_DEFAULT, copies))
    return values


def checked_partitions(partitions: int) -> None:
    """Raises `InvalidRequest` unless a topic can have so many."""
    if not 1 <= partitions <= limits.PARTITIONS_PER_TOPIC_MAX:
        raise InvalidRequest(f"partitions: {partitions} is not within 1 to {limits.PARTITIONS_PER_TOPIC_MAX}")


def check_by_hand(actor: Actor, topic: Topic) -> None:
    """Raise `InvalidRequest` for a change of a topic that only the service itself makes."""
    if actor.kind is ActorKind.SYSTEM:
        return
    if topic.tenant.public_id == SYSTEM_TENANT:
        raise InvalidRequest(f"topic {topic.name!r}: the service changes its own topics itself")
    if topic.name == AUDIT_TOPIC:
        raise InvalidRequest(
            f"topic {topic.name!r}: it is the service's own; PATCH or DELETE /v1/audit-topic, or penstock audit topic"
        )


def check_removable(actor: Actor, topic: Topic) -> None:
    """Raise `InvalidRequest` for a topic that always stays, or that the actor may not change."""
    if topic.tenant.public_id == SYSTEM_TENANT:
        raise InvalidRequest(f"topic {topic.name!r}: the service's own topics stay")
    check_by_hand(actor, topic)


def check_retention(tenant: Tenant, name: str, retention_ms: int) -> None:
    """Raises `InvalidRequest`, `LimitExceeded` unless a topic of the tenant may keep its messages so long."""
    TopicSettings.chosen({"retention_ms": retention_ms, "replication": 1, "min_insync_replicas": 1}, {})
    if above := above_limits(limits_of(tenant), name, {"retention_ms": retention_ms}):
        raise above


def _has_brokers_for(copies: int) -> None:
    """Refuse what no broker's return can make possible. Brokers that are down or drained are waited for instead."""
    if copies > cluster_size() and copies > (there := cluster_size_now()):
        raise LimitExceeded(
            f"replication: {copies} copies need {copies} brokers, the cluster has {there}; at most {there} possible"
        )


def _not_before_the_copies(topic: Topic, merged: Mapping[str, Any]) -> None:
    """Requiring more copies in sync than exist would refuse every write until they do."""
    demanded = merged["min_insync_replicas"]
    if demanded <= topic.settings["min_insync_replicas"]:
        return
    if topic.copies_due or demanded > topic.settings["replication"]:
        raise InvalidRequest(
            f"min_insync_replicas: {topic.name} has not {demanded} copies of every partition yet, and would refuse"
            " every message until then; raise replication first, and this once its copies are there"
        )


def _checked(
    tenant: Tenant, asked: Sequence[TopicAsked], within_service: bool
) -> list[TopicSettings | PenstockError]:
    """All settings of each topic, or why it can never be made as it is asked for."""
    number = Counter(topic.name for topic in asked)
    known: dict[str, TopicSettings | PenstockError] = {}
    found: list[TopicSettings | PenstockError] = []
    for topic in asked:
        try:
            if number[topic.name] > 1:
                raise InvalidRequest(
                    f"name: {topic.name[:64]!r} stands {number[topic.name]} times in the request"
                )
            if not within_service:
                check_topic_name(tenant.public_id, topic.name)
            checked_partitions(topic.partitions)
        except InvalidRequest as refusal:
            found.append(refusal)
            continue
        text = json.dumps(topic.settings, sort_keys=True)  # most topics of a request have the same ones
        if text not in known:
            known[text] = _possible(topic.settings)
        found.append(known[text])
    return found


def _possible(settings: Mapping[str, Any]) -> TopicSettings | PenstockError:
    try:
        whole = complete(settings)
        _has_brokers_for(whole.replication)
    except PenstockError as refusal:
        return refusal
    return whole


def _within_limit(tenant: Tenant, name: str, more: int) -> None:
    """Under the tenant's lock, so that two requests cannot pass the limit together."""
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    allowed, used = _limit(tenant)
    if allowed and used + more > allowed:
        raise partitions_reached(tenant, name, more, used, allowed)


def lock_tenant(pk: int) -> None:
    """Before any of the tenant's topics, keys, service accounts or lists: in another order two requests could wait for
    each other. Part of the caller's transaction.
    """
    Tenant.objects.select_for_update(no_key=True).get(pk=pk)


def _limit(tenant: Tenant) -> tuple[int, int]:
    """How many partitions the tenant may have (0: any number), and how many its topics have."""
    used = Topic.objects.filter(tenant=tenant, deleted_at=None).aggregate(n=Sum("partitions"))["n"] or 0
    return limits_of(tenant).partitions_max, used


def locked_topic(tenant: Tenant, name: str) -> Topic:
    """The live topic under its lock, and its tenant under that of the tenant. Raises `NotFound`."""
    lock_tenant(tenant.pk)
    topic = (
        Topic.objects.select_for_update(no_key=True, of=("self",))
        .select_related("tenant")
        .filter(tenant=tenant, name=name, deleted_at=None, binned_at=None)
        .first()
    )
    if topic is None:
        raise NotFound(f"topic {name[:64]!r} does not exist")
    return topic


def unchanged(topic: Topic) -> Topic | None:
    """The row under its lock, and its tenant's; None if it was changed since `topic` was read and judged."""
    lock_tenant(topic.tenant_id)
    rows = Topic.objects.select_for_update(no_key=True, of=("self",)).select_related("tenant")
    locked = rows.get(pk=topic.pk)
    return locked if locked.generation == topic.generation else None


def tell(actor: Actor, topic: Topic, action: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    audit.record(
        actor,
        tenant=topic.tenant.public_id,
        action=action,
        object_id=topic.public_id,
        before={"name": topic.name, **before},
        after=after,
    )


def deliver_topic(topic: Topic) -> None:
    """Part of the caller's transaction."""
    outbox.enqueue(
        kind=KIND_TOPIC,
        object_id=topic.public_id,
        tenant=topic.tenant.public_id,
        generation=topic.generation,
    )
