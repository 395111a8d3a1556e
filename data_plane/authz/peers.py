"""Which processes of the cluster may call what: one table for the methods of both listeners within it."""

from collections.abc import Mapping
from dataclasses import dataclass

from daemon.identity import Identity, Role
from data_plane.contract import methods

_BROKERS = frozenset({Role.BROKER})
_OPERATING = frozenset({Role.CONTROL_PLANE, Role.OPERATOR})
_ANY = _BROKERS | _OPERATING

ROLES: Mapping[str, frozenset[Role]] = {
    methods.REPLICATE: _BROKERS,
    methods.COMPARE_SEGMENTS: _BROKERS,
    methods.CONTROL: _BROKERS,
    methods.LEASES: _BROKERS,
    methods.STORAGE: _BROKERS,
    methods.BUDGETS: _BROKERS,
    methods.REPLICA_ENDS: _BROKERS,
    methods.HAND_OVER: _BROKERS,
    methods.APPEND_USAGE: _BROKERS,
    methods.CUT_PARTITIONS: _BROKERS,
    # A broker passes these on to the leader.
    methods.DESCRIBE_MOVES: _ANY,
    methods.DESCRIBE_KEY_USE: _ANY,
    methods.DESCRIBE_TENANT_USE: _ANY,
    methods.TOPIC_DURABILITY: _ANY,
    methods.DESCRIBE_BUDGETS: _OPERATING,
    methods.PUT_TENANT: _OPERATING,
    methods.CREATE_TOPIC: _OPERATING,
    methods.CREATE_TOPICS: _OPERATING,
    methods.UPDATE_TOPIC: _OPERATING,
    methods.DELETE_TOPIC: _OPERATING,
    methods.BIN_TOPIC: _OPERATING,
    methods.RESTORE_TOPIC: _OPERATING,
    methods.PUT_ACCESS_LIST: _OPERATING,
    methods.PUT_KEY: _OPERATING,
    methods.REVOKE_KEY: _OPERATING,
    methods.CUT: _OPERATING,
    methods.DECLARE_LOSS: _OPERATING,
    methods.ALTER_REPLICAS: _OPERATING,
    methods.MOVE_LEADER: _OPERATING,
    methods.CORDON_BROKER: _OPERATING,
    methods.FORGET_BROKER: _OPERATING,
    methods.SET_FEATURE_LEVEL: _OPERATING,
    methods.DESCRIBE_TOPIC: _OPERATING,
    methods.DESCRIBE_CLUSTER: _OPERATING,
    methods.DESCRIBE_LOAD: _OPERATING,
    methods.DESCRIBE_HOT_KEYS: frozenset({Role.CONTROL_PLANE}),
}
"""The roles that may call each method. The usage pipeline's runner calls none: it reads as a tenant does."""

WRONG_CLUSTER, WRONG_ROLE = "wrong_cluster", "wrong_role"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """`reason` is one of a few, to count by."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRules:
    """Whom the brokers of one cluster let in."""

    cluster_id: str
    roles: Mapping[str, frozenset[Role]]

    def refusal(self, caller: Identity, method: str) -> Refusal | None:
        """Why the caller may not call this method; None when it may. A method that is not in the table is for no
        one."""
        if caller.cluster_id != self.cluster_id:
            message = (
                f"{caller} is of another cluster; the certificate of a process of {self.cluster_id} required"
            )
            return Refusal(reason=WRONG_CLUSTER, message=message)
        allowed = self.roles.get(method, frozenset())
        if caller.role not in allowed:
            roles = " or ".join(sorted(role.value for role in allowed)) or "no role"
            message = f"{caller.name} may not call {method}: {roles} required"
            return Refusal(reason=WRONG_ROLE, message=message)
        return None
