"""The history of a topic's settings, read from the audit log, and the way back to a version of them."""

from typing import Any

from django.db import transaction

from control_plane.audit.actor import Actor
from control_plane.audit.versions import Changes, Field, Version, differences
from control_plane.topics import actions
from control_plane.topics.models import Topic
from penstock.contract.errors import InvalidRequest, NotFound
from quotas.queries import limits_of
from tenants.models import Tenant


def changes(topic: Topic) -> Changes:
    """The changes of the topic's settings, of whatever name it had then."""
    return Changes(
        tenant=topic.tenant.public_id,
        called=f"topic {topic.name!r}",
        actions=(actions.CREATE, actions.UPDATE, actions.UPDATE_REFUSED, actions.RESTORED),
        object_id=topic.public_id,
    )


def settings_in(version: Version) -> dict[str, Any]:
    """All settings that the topic had in that version. Raises `InvalidRequest` where the log does not say."""
    settings = version.entry.after.get("settings")
    if not isinstance(settings, dict):
        raise InvalidRequest(f"version {version.number}: the audit log does not say the settings of it")
    return settings


def way_back(topic: Topic, version: Version) -> list[Field]:
    """What restoring that version would change now."""
    wanted = {"settings": {**topic.settings, **settings_in(version)}}
    return differences({"settings": topic.settings}, wanted)


def restore_settings(actor: Actor, tenant: Tenant, topic: Topic, number: int) -> Topic:
    """Give the topic the settings of that version again, as a change like any other. Partitions and messages stay.

    A setting that came into the service later keeps its value. Raises `NotFound` (no such version, the topic is gone),
    `LimitExceeded` (it was replaced too long ago; the plan does not allow a value any more), `InvalidRequest` (a value
    is not possible any more).
    """
    known = changes(topic)
    version = known.version(number)
    known.check_restorable(version, limits_of(tenant).bin_days)
    with transaction.atomic():
        # Another topic may have taken the name since `topic` was read.
        if actions.locked_topic(tenant, topic.name).pk != topic.pk:
            raise NotFound(f"version {number} of {known.called} does not exist")
        return actions.update_topic(
            actor, tenant, topic.name, settings=settings_in(version), restores=version.number
        )
