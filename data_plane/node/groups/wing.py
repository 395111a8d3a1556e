"""Composes consumer groups: what this broker coordinates, and the calls of members."""

from collections.abc import Callable

from data_plane.node.admission.gate import Gate
from data_plane.node.environment import Environment
from data_plane.node.groups.group_calls import GroupCalls
from data_plane.node.groups.group_coordinators import GroupCoordinators
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
        gate: Gate,
        replicas: ReplicaSet,
        confident: Callable[[], bool],
        advance: Callable[[Replica, int], bool],
    ) -> None:
        """`advance` lets the log of a replica begin at an offset, step by step, and says whether it does."""
        self.coordinators = GroupCoordinators(
            view,
            replicas.find,
            environment.disk,
            environment.clock,
            environment.stats,
            confident,
            retention_ms=environment.config.timings.group_retention_ms,
            advance=advance,
            begin_turn=environment.begin_turn,
        )
        self.calls = GroupCalls(self.coordinators, view, gate, replicas.find, environment.begin_turn)
