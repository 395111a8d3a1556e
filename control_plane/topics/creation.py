"""Creates a topic and delivers it in the same request. One that the brokers refuse for good is not left behind."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from control_plane.audit.actor import Actor
from control_plane.outbox import in_request
from control_plane.topics import actions
from control_plane.topics.models import Topic
from tenants.models import Tenant


def create_topic(
    actor: Actor, tenant: Tenant, *, name: str, partitions: int, settings: Mapping[str, Any]
) -> Topic:
    """The topic. When the brokers do not have it in time, its condition says why, and they get it later.

    Raises what `actions.create_topic` raises, and what the brokers refused it with. No transaction may be open.
    """
    topic = actions.create_topic(actor, tenant, name=name, partitions=partitions, settings=settings)
    withdraw = partial(actions.withdraw, actor, topic)
    in_request.deliver_or_take_back(actions.KIND_TOPIC, topic.public_id, topic.generation, withdraw)
    return topic
