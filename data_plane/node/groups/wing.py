"""Composes consumer groups: what this broker coordinates, and the calls of members."""

from collections.abc import Callable

from data_plane.metadata.port import MetaStore
from data_plane.node.admission.gate import Gate
from data_plane.node.environment import Environment
from data_plane.node.groups.group_calls import GroupCalls
from data_plane.node.groups.group_coordinators import GroupCoordinators
from data_plane.node.groups.group_seats import GroupSeats
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet


class Groups:
    """`coordinators.run` runs as long as the broker does; `calls` are offered to clients."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        store: MetaStore,
        gate: Gate,
        replicas: ReplicaSet,
        confident: Callable[[], bool],
        advance: Callable[[Replica, int], bool],
    ) -> None:
        """`advance` lets the log of a replica begin at an offset, step by step, and says whether it does."""
        config, begin_turn = environment.config, environment.begin_turn
        seats = GroupSeats(view, store, config.timings.call_ms, begin_turn)
        self.coordinators = GroupCoordinators(
            view,
            replicas.find,
            environment.disk,
            environment.clock,
            environment.stats,
            confident,
            seats,
            retention_ms=config.timings.group_retention_ms,
            advance=advance,
            begin_turn=begin_turn,
        )
        self.calls = GroupCalls(
            self.coordinators, seats, view, gate, replicas.find, environment.stats.limit_refusals, begin_turn
        )
