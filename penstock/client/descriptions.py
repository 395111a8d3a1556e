"""What a client describes of topics and brokers."""

import json
from dataclasses import dataclass, field
from typing import Any

from penstock.client.call_arguments import topic_name
from penstock.client.conversations import BrokerCall
from penstock.client.refusals import refusal
from penstock.contract import methods
from penstock.contract.errors import NotFound
from penstock.contract.v1 import log_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition; `leader` -1 = none now. Brokers by id."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    log_generation: int = 1
    """Grows with each declared loss: offsets of an older generation may name other messages now, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic of the key's tenant."""

    name: str
    topic_id: str
    """32 hexadecimal digits."""
    partitions: tuple[PartitionDescription, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    """By name, as in the reference of topic settings; times in ms, sizes in bytes, -1 = unlimited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    """One registered broker: where clients reach it, and its failure domains."""

    broker: int
    address: str
    zone: str
    host: str = ""
    """Empty: no other broker is on its host."""


def metadata_call(names: tuple[str, ...] | None) -> BrokerCall[log_pb2.MetadataResponse]:
    """For some topics, for all (None), or with no names for the brokers alone."""
    topics = [topic_name(name) for name in names or ()]
    request = log_pb2.MetadataRequest(topics=topics, all_topics=names is None)
    return BrokerCall(
        method=methods.METADATA, request=request.SerializeToString(), answer=log_pb2.MetadataResponse
    )


def topics_in(answer: log_pb2.MetadataResponse) -> list[TopicDescription]:
    """All topics of an answer by name; those that are being deleted are left out."""
    return [
        _topic(message)
        for message in sorted(answer.topics, key=lambda topic: topic.name)
        if not message.error
    ]


def topic_in(answer: log_pb2.MetadataResponse, name: str) -> TopicDescription:
    """The one topic asked for. Raises what the broker said of it."""
    for message in answer.topics:
        if message.name == name:
            if message.error:
                raise refusal(message.error, message.message)
            return _topic(message)
    raise NotFound(f"{name}: no such topic")


def brokers_in(answer: log_pb2.MetadataResponse) -> list[BrokerDescription]:
    """All registered brokers by id."""
    return [
        BrokerDescription(broker=broker.id, address=broker.address, zone=broker.zone, host=broker.host)
        for broker in sorted(answer.brokers, key=lambda broker: broker.id)
    ]


def _topic(message: log_pb2.TopicMetadata) -> TopicDescription:
    return TopicDescription(
        name=message.name,
        topic_id=message.topic_id.hex(),
        partitions=tuple(
            PartitionDescription(
                partition=partition.partition,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                replicas=tuple(partition.replicas),
                in_sync=tuple(partition.in_sync),
                log_generation=partition.log_generation or 1,
            )
            for partition in message.partitions
        ),
        settings=json.loads(message.settings_json) if message.settings_json else {},
    )
