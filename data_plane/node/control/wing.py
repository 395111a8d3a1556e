"""Composes what moves leadership and replicas: the controller's seat, handing over, losses, and operators' calls."""

from collections.abc import Coroutine
from typing import Any

from data_plane.contract import methods
from data_plane.metadata.port import MetaStore
from data_plane.node.control.admin_calls import AdminCalls
from data_plane.node.control.controller_seat import ControllerSeat
from data_plane.node.control.declared_losses import DeclaredLosses
from data_plane.node.control.handover import Handover
from data_plane.node.control.placement_calls import PlacementCalls
from data_plane.node.environment import Environment
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import CallHandler, Notices
from data_plane.node.replicas.replica_set import ReplicaSet


class Control:
    """`tasks` run as long as the broker does; `internal_calls` and `peer_calls` are offered on those listeners."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        registration: Registration,
        store: MetaStore,
        replicas: ReplicaSet,
        notices: Notices,
    ) -> None:
        config, transport, clock = environment.config, environment.transport, environment.clock
        stats = environment.stats
        self.handover = Handover(config, view, registration, store, transport, clock, stats, replicas)
        self.seat = ControllerSeat(
            config,
            view,
            registration,
            store,
            transport,
            clock,
            environment.rng,
            stats,
            ask_leaders=self.handover.ask_all,
        )
        self.losses = DeclaredLosses(
            config,
            view,
            registration,
            store,
            transport,
            clock,
            stats,
            find=replicas.find,
            seated=lambda: self.seat.seated,
            announce=notices.loss_declared,
        )
        self.admin = AdminCalls(config, view, store, environment.rng)
        self.placement = PlacementCalls(config, view, self.admin, replicas, self.handover, transport, clock)

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return self.seat.run(), self.losses.run(), self.handover.run()

    def internal_calls(self) -> dict[str, CallHandler]:
        admin, placement = self.admin, self.placement
        return {
            methods.DECLARE_LOSS: self.losses.declare_loss,
            methods.PUT_TENANT: admin.put_tenant,
            methods.CREATE_TOPIC: admin.create_topic,
            methods.CREATE_TOPICS: admin.create_topics,
            methods.UPDATE_TOPIC: admin.update_topic,
            methods.DELETE_TOPIC: admin.delete_topic,
            methods.BIN_TOPIC: admin.bin_topic,
            methods.RESTORE_TOPIC: admin.restore_topic,
            methods.PUT_ACCESS_LIST: admin.put_access_list,
            methods.PUT_KEY: admin.put_key,
            methods.REVOKE_KEY: admin.revoke_key,
            methods.DESCRIBE_TOPIC: admin.describe_topic,
            methods.DESCRIBE_CLUSTER: admin.describe_cluster,
            methods.ALTER_REPLICAS: placement.alter_replicas,
            methods.MOVE_LEADER: placement.move_leader,
            methods.CORDON_BROKER: placement.cordon_broker,
            methods.FORGET_BROKER: placement.forget_broker,
            methods.DESCRIBE_MOVES: placement.describe_moves,
            methods.SET_FEATURE_LEVEL: placement.set_feature_level,
        }

    def peer_calls(self) -> dict[str, CallHandler]:
        return {
            methods.REPLICA_ENDS: self.losses.replica_ends,
            methods.HAND_OVER: self.handover.hand_over,
            methods.DESCRIBE_MOVES: self.placement.describe_moves,
        }
