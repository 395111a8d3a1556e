"""Creates topics and delivers them in the same request. One that the brokers refuse for good is not left behind."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from control_plane.audit.actor import Actor
from control_plane.outbox import in_request
from control_plane.outbox import queries as outbox
from control_plane.topics import actions, queries
from control_plane.topics.actions import TopicAsked
from control_plane.topics.models import Topic
from penstock.contract.errors import PenstockError
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


def create_topics(actor: Actor, tenant: Tenant, asked: Sequence[TopicAsked]) -> list[Topic | PenstockError]:
    """What became of each topic asked for, in order: the topic as it is now, or its refusal by this service or by the
    brokers. No transaction may be open.

    A topic that the brokers do not have in time is there, as with `create_topic`.
    """
    found = actions.create_topics(actor, tenant, asked)
    generations = {topic.public_id: topic.generation for topic in found if isinstance(topic, Topic)}
    if not generations:
        return found
    in_request.deliver_all_now(actions.KIND_TOPIC, list(generations))
    refused = outbox.refusals(actions.KIND_TOPIC, generations)
    now = queries.topics_for_delivery(list(generations))
    for index, topic in enumerate(found):
        if not isinstance(topic, Topic):
            continue
        refusal = refused.get(topic.public_id)
        if refusal is not None and actions.withdraw(actor, topic, refusal.message):
            found[index] = refusal
        else:
            found[index] = now[topic.public_id]
    return found
