"""Creates a topic and delivers it in the same request. One that the brokers refuse for good is not left behind."""

from collections.abc import Mapping
from typing import Any

from control_plane.audit.actor import Actor
from control_plane.outbox import conditions, in_request
from control_plane.topics import actions
from control_plane.topics.models import Topic
from penstock.contract.errors import AlreadyExists, ErrorCode, InvalidRequest, LimitExceeded, error_class
from tenants.models import Tenant

_REFUSALS = (AlreadyExists, InvalidRequest, LimitExceeded)
"""What is wrong with the topic itself. Anything else is a matter between this service and its brokers."""


def create_topic(
    actor: Actor, tenant: Tenant, *, name: str, partitions: int, settings: Mapping[str, Any]
) -> Topic:
    """The topic. When the brokers do not have it in time, its condition says why, and they get it later.

    Raises what `actions.create_topic` raises, and what the brokers refused it with. No transaction may be open.
    """
    topic = actions.create_topic(actor, tenant, name=name, partitions=partitions, settings=settings)
    if in_request.deliver_now(actions.KIND_TOPIC, topic.public_id, topic.generation):
        return topic
    failed = conditions.find(Topic.objects.get(pk=topic.pk).conditions, conditions.DELIVERY)
    if failed is not None:
        refused = error_class(ErrorCode[failed["reason"].upper()])
        if refused in _REFUSALS and actions.withdraw(actor, topic, why=failed["message"]):
            raise refused(failed["message"])
    return topic
