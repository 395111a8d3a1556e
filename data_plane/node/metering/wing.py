"""Composes metering: readings and increments into `__usage`, and cuts at the end of a billing period."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from data_plane.contract import methods
from data_plane.metadata.model import TopicRecord
from data_plane.metadata.port import MetaStore
from data_plane.metering.connection_time import ConnectionTime
from data_plane.node.environment import Environment
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.metering.cut_calls import CutCalls
from data_plane.node.metering.final_readings import FinalReadings
from data_plane.node.metering.metering import Metering
from data_plane.node.metering.usage_topic import UsageTopic
from data_plane.node.ports import CallHandler
from data_plane.node.replicas.replica_set import ReplicaSet
from penstock.contract.ids import TopicPartition


class Usage:
    """`tasks` run as long as the broker does; `internal_calls` and `peer_calls` are offered on those listeners."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        store: MetaStore,
        replicas: ReplicaSet,
        confident: Callable[[], bool],
        leaderless: Callable[[], Mapping[TopicPartition, TopicRecord]],
        connection_time: ConnectionTime,
    ) -> None:
        """`leaderless`: what the controller sees without a leader; nothing on every other broker."""
        self._config = environment.config
        transport, clock = environment.transport, environment.clock
        self.usage_topic = UsageTopic(
            self._config, view.image, replicas.find, transport, clock, environment.rng, environment.stats
        )
        self.metering = Metering(
            self._config,
            self.usage_topic,
            clock,
            environment.stats,
            replicas,
            leaderless,
            FinalReadings(self._config, view, store),
            connection_time,
        )
        self._cuts = CutCalls(
            self._config, view, store, transport, clock, replicas.find, confident, self.metering
        )

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (self.usage_topic.run(), *self.metering.tasks()) if self._config.metering else ()

    def internal_calls(self) -> dict[str, CallHandler]:
        return {methods.CUT: self._cuts.cut}

    def peer_calls(self) -> dict[str, CallHandler]:
        return {
            methods.APPEND_USAGE: self.usage_topic.append,
            methods.CUT_PARTITIONS: self._cuts.cut_partitions,
        }
