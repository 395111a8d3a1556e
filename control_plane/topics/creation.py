"""Creates a topic and delivers it in the same request. One that the brokers refuse for good is not left behind."""

from collections.abc import Mapping
from typing import Any

from control_plane.audit.actor import Actor
from control_plane.outbox import conditions, in_request
from control_plane.topics import actions
from control_plane.topics.models import Topic
from penstock.contract.errors import ErrorCode, ErrorKind, error_class
from tenants.models import Tenant


def create_topic(
    actor: Actor, tenant: Tenant, *, name: str, partitions: int, settings: Mapping[str, Any]
) -> tuple[Topic, bool]:
    """(the topic, whether the brokers have it). Those that do not answer are told later: its condition says so.

    Raises what `actions.create_topic` raises, and what the brokers refused it with. No transaction may be open.
    """
    topic = actions.create_topic(actor, tenant, name=name, partitions=partitions, settings=settings)
    if in_request.deliver_now(actions.KIND_TOPIC, topic.public_id, topic.generation):
        return topic, True
    failed = conditions.find(Topic.objects.get(pk=topic.pk).conditions, conditions.DELIVERY)
    if failed is not None:
        refused = error_class(ErrorCode[failed["reason"].upper()])
        if refused.kind is ErrorKind.FATAL and actions.withdraw(actor, topic, why=failed["message"]):
            raise refused(failed["message"])
    return topic, False
