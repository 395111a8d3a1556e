"""Who may call what within a cluster: the one table, whole and exact."""

import pytest

from daemon.identity import Identity, Role
from data_plane.authz.peers import ROLES, PeerRules
from data_plane.contract import methods

RULES = PeerRules(cluster_id="c1", roles=ROLES)
BROKER = Identity(cluster_id="c1", role=Role.BROKER, broker_id=1)
OTHERS = [Identity(cluster_id="c1", role=role) for role in (Role.CONTROL_PLANE, Role.OPERATOR, Role.RUNNER)]
BETWEEN_BROKERS = {
    methods.REPLICATE,
    methods.COMPARE_SEGMENTS,
    methods.CONTROL,
    methods.LEASES,
    methods.STORAGE,
    methods.BUDGETS,
    methods.REPLICA_ENDS,
    methods.HAND_OVER,
    methods.APPEND_USAGE,
    methods.CUT_PARTITIONS,
}
PASSED_ON = {
    methods.DESCRIBE_MOVES,
    methods.DESCRIBE_KEY_USE,
    methods.DESCRIBE_TENANT_USE,
    methods.TOPIC_DURABILITY,
}

OF_THE_CONTROL_PLANE = {methods.DESCRIBE_HOT_KEYS}
"""They show data of tenants, which operators do not see."""


def test_every_method_of_the_contract_stands_in_the_table() -> None:
    offered = {path for path in vars(methods).values() if str(path).startswith("/penstock.internal.")}
    assert set(ROLES) == offered


def test_brokers_call_what_is_between_brokers_and_nothing_else() -> None:
    allowed = {method for method in ROLES if RULES.refusal(BROKER, method) is None}
    assert allowed == BETWEEN_BROKERS | PASSED_ON


@pytest.mark.parametrize("caller", OTHERS, ids=lambda caller: caller.name)
def test_the_control_plane_and_operators_call_admin_calls_and_the_runner_nothing(caller: Identity) -> None:
    allowed = {method for method in ROLES if RULES.refusal(caller, method) is None}
    admin = set(ROLES) - BETWEEN_BROKERS
    expected = {Role.CONTROL_PLANE: admin, Role.OPERATOR: admin - OF_THE_CONTROL_PLANE}
    assert allowed == expected.get(caller.role, set())


@pytest.mark.parametrize("method", [*ROLES, "/nowhere"])
def test_a_process_of_another_cluster_may_call_nothing(method: str) -> None:
    for role in Role:
        number = 1 if role is Role.BROKER else None
        refusal = RULES.refusal(Identity(cluster_id="c2", role=role, broker_id=number), method)
        assert refusal is not None and refusal.reason == "wrong_cluster"
        assert refusal.message.endswith("is of another cluster; the certificate of a process of c1 required")


@pytest.mark.parametrize("cluster", ["C1", "c", "c1.", "c11"])
def test_a_cluster_of_a_name_that_is_nearly_the_same_is_another_one(cluster: str) -> None:
    refusal = RULES.refusal(Identity(cluster_id=cluster, role=Role.BROKER, broker_id=1), methods.REPLICATE)
    assert refusal is not None and refusal.reason == "wrong_cluster"


def test_a_refusal_says_who_may() -> None:
    refusal = RULES.refusal(BROKER, methods.PUT_TENANT)
    assert refusal is not None and refusal.reason == "wrong_role"
    assert (
        refusal.message == f"broker-1 may not call {methods.PUT_TENANT}: control-plane or operator required"
    )
    nowhere = RULES.refusal(OTHERS[1], "/nowhere")
    assert nowhere is not None and nowhere.message == "operator may not call /nowhere: no role required"
